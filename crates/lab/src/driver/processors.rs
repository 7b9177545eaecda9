//! The processors of functions. Origins share some, and all other functions share the rest, so that
//! an origin has the same processors whatever the other functions do.

use crate::{function::Function, graph::Graph};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of an origin whose parameters state no number.
const DEFAULT: usize = 1;

/// A division of this machine's processors between origins and all other functions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Division {
    origins: Vec<usize>,
    others: Vec<usize>,
}

impl Division {
    /// Divides the processors that this thread may use. Returns `None` if none of them would remain
    /// for the other functions: all functions then share all of them.
    pub(super) fn of(graph: &Graph) -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        Self::between(graph, (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect())
    }

    fn between(graph: &Graph, mut allowed: Vec<usize>) -> Option<Self> {
        let origins = graph.nodes().iter().filter(|node| node.function == Function::Origin);
        let stated = |cores: &String| cores.parse().ok();
        let cores =
            origins.map(|node| node.parameters.get("cores").and_then(stated).unwrap_or(DEFAULT)).max()?;
        let others = allowed.split_off(cores.min(allowed.len()));
        (!others.is_empty()).then_some(Self { origins: allowed, others })
    }

    /// Returns the processors of a function, if they are not those of the thread that starts it.
    pub(super) fn own(&self, function: Function) -> Option<String> {
        let numbers = self.origins.iter().map(usize::to_string).collect::<Vec<_>>();
        (function == Function::Origin).then(|| numbers.join(","))
    }

    /// Lets this thread, and all threads and processes that it starts, use only the processors of
    /// the other functions, until the returned value is dropped.
    pub(super) fn restrict(&self) -> Restricted {
        let before = sched_getaffinity(None).ok();
        let mut others = CpuSet::new();
        self.others.iter().for_each(|processor| others.set(*processor));
        // Without it, functions only disturb each other.
        let _ = sched_setaffinity(None, &others);
        Restricted { before }
    }
}

/// A thread that may not use all processors. It may again when this value is dropped.
#[derive(Debug)]
pub(super) struct Restricted {
    before: Option<CpuSet>,
}

impl Drop for Restricted {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Connection, Node};

    fn graph(cores: &[(&str, &str)]) -> Graph {
        let node = |id: &str, function, parameters: &[(&str, &str)]| Node {
            id: id.to_owned(),
            function,
            host: Some("a".to_owned()),
            parameters: parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let connect = |from: &str, to: &str| Connection { from: from.to_owned(), port: 0, to: to.to_owned() };
        let mut origin = vec![("config", "x")];
        origin.extend(cores);
        let load = [("kind", "list"), ("format", "dash"), ("title", "t/mp4"), ("connections", "1")];
        let nodes = vec![
            node("storage", Function::Storage, &[("content", "t/mp4")]),
            node("origin", Function::Origin, &origin),
            node("load", Function::Load, &load),
        ];
        Graph::new(nodes, vec![connect("storage", "origin"), connect("origin", "load")]).unwrap()
    }

    #[test]
    fn origins_have_their_processors_for_themselves() {
        let one = Division::between(&graph(&[]), vec![2, 3, 5]).unwrap();
        assert_eq!(one, Division { origins: vec![2], others: vec![3, 5] });
        assert_eq!(one.own(Function::Origin).as_deref(), Some("2"));
        assert_eq!(one.own(Function::Load), None);
        let two = Division::between(&graph(&[("cores", "2")]), vec![2, 3, 5]).unwrap();
        assert_eq!(two, Division { origins: vec![2, 3], others: vec![5] });
        assert_eq!(two.own(Function::Origin).as_deref(), Some("2,3"));
    }

    #[test]
    fn processors_that_would_all_be_those_of_origins_are_shared() {
        assert_eq!(Division::between(&graph(&[("cores", "2")]), vec![0, 1]), None);
        assert_eq!(Division::between(&graph(&[]), vec![0]), None);
    }

    #[test]
    fn a_thread_gets_its_processors_back() {
        let before = sched_getaffinity(None).unwrap();
        let allowed: Vec<usize> =
            (0..CpuSet::MAX_CPU).filter(|processor| before.is_set(*processor)).collect();
        let others = vec![*allowed.last().unwrap()];
        let restricted = Division { origins: Vec::new(), others }.restrict();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(restricted);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
