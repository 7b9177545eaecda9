//! Functions and the connections between them.

use crate::{
    Error,
    function::{Function, Parameters},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of functions in a graph.
pub const MAX_NODES: usize = 64;

/// The longest label of a DNS name (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// One function of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The name within the graph, a DNS label.
    pub id: String,
    /// The function.
    pub function: Function,
    /// The host on which it runs; none for a link, and where the engine chooses.
    pub host: Option<String>,
    /// The parameters by name.
    pub parameters: Parameters,
}

/// A connection: the reader requests over it what the writer serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Connection {
    /// The function that serves.
    pub from: String,
    /// The number of the port at which it serves. A port serves one reader.
    pub port: usize,
    /// The function that requests.
    pub to: String,
}

/// Functions, in an order in which each one follows those that it reads from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Graph {
    nodes: Vec<Node>,
    connections: Vec<Connection>,
}

impl Graph {
    /// Makes a graph of functions and connections in any order.
    ///
    /// # Errors
    /// If a name is not a DNS label or used twice, a function gets parameters that it does not
    /// take, a connection begins or ends nowhere, two connections share a port, a function has too
    /// few or too many inputs, nothing reads from a function, or connections form a loop.
    pub fn new(nodes: Vec<Node>, mut connections: Vec<Connection>) -> Result<Self, Error> {
        if nodes.len() > MAX_NODES {
            return Err(Error::invalid(format!("more than {MAX_NODES} functions")));
        }
        let mut ids = BTreeSet::new();
        for node in &nodes {
            if !is_label(&node.id) {
                return Err(Error::invalid(format!(
                    "the id '{}' is not a DNS label: 1 to {MAX_LABEL} characters of a-z, 0-9 and '-', without '-' at an end",
                    node.id
                )));
            }
            if !ids.insert(node.id.as_str()) {
                return Err(Error::invalid(format!("the id '{}' is used twice", node.id)));
            }
            node.function.check(&node.parameters).map_err(|error| error.within(&node.id))?;
        }
        connections.sort();
        let mut ports = BTreeSet::new();
        let mut pairs = BTreeSet::new();
        for Connection { from, port, to } in &connections {
            if let Some(unknown) = [from, to].into_iter().find(|id| !ids.contains(id.as_str())) {
                return Err(Error::invalid(format!("no function has the id '{unknown}'")));
            }
            if !ports.insert((from, port)) {
                return Err(Error::invalid(format!("two connections share port out.{port} of '{from}'")));
            }
            if !pairs.insert((from, to)) {
                return Err(Error::invalid(format!("'{from}' and '{to}' are connected twice")));
            }
        }
        check_degrees(&nodes, &connections)?;
        Ok(Self { nodes: sorted(nodes, &connections)?, connections })
    }

    /// Returns the functions, each one behind those that it reads from.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the client: the load or player at the end of the chain. Each graph has exactly one.
    pub(crate) fn client(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.function.is_client())
    }

    /// Returns the connections.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Returns the connections over which a function reads, in the order of its writers' names.
    pub fn inputs(&self, id: &str) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter(move |connection| connection.to == id)
    }

    /// Returns the connections at which a function serves, in the order of ports.
    pub fn outputs(&self, id: &str) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter(move |connection| connection.from == id)
    }
}

/// Checks how many connections each function has.
fn check_degrees(nodes: &[Node], connections: &[Connection]) -> Result<(), Error> {
    for Node { id, function, .. } in nodes {
        let inputs = connections.iter().filter(|connection| connection.to == *id).count();
        let (least, most) = function.inputs();
        if inputs < least {
            return Err(Error::invalid(format!("'{id}' reads from nothing")));
        }
        if inputs > most {
            return Err(Error::invalid(format!(
                "'{id}' reads from {inputs} functions; {function} reads from at most {most}"
            )));
        }
        let is_read = connections.iter().any(|connection| connection.from == *id);
        match (function, is_read) {
            (client, true) if client.is_client() => {
                return Err(Error::invalid(format!("'{id}' is a {client}: nothing can read from it")));
            }
            (client, false) if client.is_client() => {}
            (_, true) => {}
            (_, false) => return Err(Error::invalid(format!("nothing reads from '{id}'"))),
        }
    }
    match nodes.iter().filter(|node| node.function.is_client()).count() {
        1 => Ok(()),
        clients => Err(Error::invalid(format!(
            "{clients} functions are loads or players: there must be exactly one"
        ))),
    }
}

/// Sorts functions so that each follows those that it reads from, and otherwise keeps their order.
fn sorted(mut rest: Vec<Node>, connections: &[Connection]) -> Result<Vec<Node>, Error> {
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for connection in connections {
        *missing.entry(&connection.to).or_default() += 1;
    }
    let mut sorted: Vec<Node> = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let Some(next) = rest.iter().position(|node| missing.get(&*node.id).is_none_or(|left| *left == 0))
        else {
            let ids: Vec<&str> = rest.iter().map(|node| node.id.as_str()).collect();
            return Err(Error::invalid(format!("the connections of {} form a loop", ids.join(", "))));
        };
        let node = rest.remove(next);
        for connection in connections.iter().filter(|connection| connection.from == node.id) {
            if let Some(left) = missing.get_mut(&*connection.to) {
                *left -= 1;
            }
        }
        sorted.push(node);
    }
    Ok(sorted)
}

/// Returns true if a text is a label of a DNS name, in lower case.
pub(crate) fn is_label(text: &str) -> bool {
    let characters = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=MAX_LABEL).contains(&text.len())
        && text.bytes().all(characters)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, function: Function) -> Node {
        let parameters: &[(&str, &str)] = match function {
            Function::Storage => &[("content", "t/mp4")],
            Function::Origin => &[("config", "[cache]")],
            Function::Cache => &[("mode", "off")],
            Function::Balance => &[("mode", "hash")],
            Function::Link => &[],
            Function::Load => &[("kind", "list"), ("format", "hls"), ("title", "t"), ("connections", "1")],
            Function::Player => &[("format", "dash"), ("title", "t")],
        };
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Node { id: id.to_owned(), function, host: None, parameters: parameters.collect() }
    }

    fn connection(from: &str, port: usize, to: &str) -> Connection {
        Connection { from: from.to_owned(), port, to: to.to_owned() }
    }

    fn graph(nodes: &[(&str, Function)], connections: &[(&str, usize, &str)]) -> Result<Graph, String> {
        let nodes = nodes.iter().map(|(id, function)| node(id, *function)).collect();
        let connections = connections.iter().map(|(from, port, to)| connection(from, *port, to)).collect();
        Graph::new(nodes, connections).map_err(|error| error.to_string())
    }

    const CHAIN: [(&str, Function); 3] =
        [("storage", Function::Storage), ("origin", Function::Origin), ("load", Function::Load)];

    #[test]
    fn functions_follow_those_that_they_read_from() {
        let reversed: Vec<_> = CHAIN.into_iter().rev().collect();
        let graph = graph(&reversed, &[("origin", 0, "load"), ("storage", 0, "origin")]).unwrap();
        let ids: Vec<_> = graph.nodes().iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["storage", "origin", "load"]);
        assert_eq!(graph.inputs("origin").map(|c| c.from.as_str()).collect::<Vec<_>>(), ["storage"]);
        assert_eq!(graph.outputs("origin").map(|c| c.to.as_str()).collect::<Vec<_>>(), ["load"]);
    }

    #[test]
    fn a_loop_is_refused() {
        let nodes = [("a", Function::Cache), ("b", Function::Cache), ("load", Function::Load)];
        let error = graph(&nodes, &[("a", 0, "b"), ("b", 0, "a"), ("b", 1, "load")]).unwrap_err();
        assert_eq!(error, "the connections of a, b, load form a loop");
    }

    #[test]
    fn two_connections_of_one_port_are_refused() {
        let nodes = [
            ("storage", Function::Storage),
            ("one", Function::Origin),
            ("two", Function::Origin),
            ("balance", Function::Balance),
            ("load", Function::Load),
        ];
        let edges = |second| {
            [
                ("storage", 0, "one"),
                ("storage", second, "two"),
                ("one", 0, "balance"),
                ("two", 0, "balance"),
                ("balance", 0, "load"),
            ]
        };
        assert_eq!(graph(&nodes, &edges(1)).map(|graph| graph.connections().len()), Ok(5));
        assert_eq!(graph(&nodes, &edges(0)).unwrap_err(), "two connections share port out.0 of 'storage'");
    }

    #[test]
    fn connections_that_cannot_work_are_refused() {
        let refused = |nodes: &[_], edges: &[_], why: &str| {
            assert_eq!(graph(nodes, edges).unwrap_err(), why);
        };
        let right = [("storage", 0, "origin"), ("origin", 0, "load")];
        assert!(graph(&CHAIN, &right).is_ok());
        refused(&CHAIN[1..], &right[1..], "'origin' reads from nothing");
        refused(&CHAIN, &[right[0], right[1], ("cache", 0, "load")], "no function has the id 'cache'");
        refused(
            &CHAIN,
            &[right[0], right[1], ("storage", 1, "origin")],
            "'storage' and 'origin' are connected twice",
        );
        let fed = [right[0], right[1], ("origin", 1, "storage")];
        refused(&CHAIN, &fed, "'storage' reads from 1 functions; storage reads from at most 0");
        let two = [right[0], right[1], ("storage", 1, "load")];
        refused(&CHAIN, &two, "'load' reads from 2 functions; load reads from at most 1");
        let more = [CHAIN[0], CHAIN[1], CHAIN[2], ("cache", Function::Cache)];
        refused(&more, &[right[0], right[1], ("origin", 1, "cache")], "nothing reads from 'cache'");
        let read = [("storage", 0, "load"), ("load", 0, "origin"), ("origin", 0, "load")];
        refused(&CHAIN, &read, "'load' reads from 2 functions; load reads from at most 1");
        let read = [right[0], right[1], ("load", 0, "origin")];
        refused(&CHAIN, &read, "'load' is a load: nothing can read from it");
        let players = [CHAIN[0], CHAIN[1], ("load", Function::Player)];
        assert!(graph(&players, &right).is_ok());
        refused(&players, &read, "'load' is a player: nothing can read from it");
        let both = [CHAIN[0], CHAIN[1], CHAIN[2], ("player", Function::Player)];
        let edges = [right[0], right[1], ("origin", 1, "player")];
        refused(&both, &edges, "2 functions are loads or players: there must be exactly one");
        let storages = [CHAIN[0], CHAIN[1], CHAIN[2], ("second", CHAIN[0].1), ("third", CHAIN[0].1)];
        let edges = [right[0], right[1], ("second", 0, "origin"), ("third", 0, "origin")];
        assert!(graph(&storages[..4], &edges[..3]).is_ok());
        refused(&storages, &edges, "'origin' reads from 3 functions; origin reads from at most 2");
        refused(&CHAIN[..2], &right[..1], "nothing reads from 'origin'");
        let twice = [CHAIN[0], CHAIN[1], CHAIN[2], CHAIN[1]];
        refused(&twice, &right, "the id 'origin' is used twice");
        let loads = [CHAIN[0], CHAIN[1], CHAIN[2], ("more", Function::Load)];
        refused(
            &loads,
            &[right[0], right[1], ("origin", 1, "more")],
            "2 functions are loads or players: there must be exactly one",
        );
        let named = [("Storage", Function::Storage)];
        refused(
            &named,
            &[],
            "the id 'Storage' is not a DNS label: 1 to 63 characters of a-z, 0-9 and '-', without '-' at an end",
        );
        let many: Vec<_> = (0..=MAX_NODES).map(|_| CHAIN[0]).collect();
        refused(&many, &[], "more than 64 functions");
    }
}
