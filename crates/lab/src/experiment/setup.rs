//! Set-ups: chains of functions from storage to client.

use super::{Scalar, from_toml, text};
use crate::{
    Error,
    function::{Function, Parameters},
    graph::{Connection, Node},
};
use serde::Deserialize;
use std::{collections::BTreeMap, path::Path};

/// A chain of functions, each of which reads from the one before it unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The set-up in one sentence.
    pub description: String,
    /// True if there are as many copies of the title as connections of the load, unless the
    /// experiment states the copies. Where nothing is kept, an origin would otherwise read once for
    /// several requests.
    #[serde(default)]
    pub copy_per_connection: bool,
    /// The functions, from storage to client.
    pub chain: Vec<Entry>,
}

/// One function of a set-up.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// The name in the set-up.
    pub id: String,
    /// The function [default: the one that is called like the id].
    pub function: Option<String>,
    /// The host on which it runs. A link has none.
    pub host: Option<String>,
    /// The functions that it reads from [default: the one before it].
    pub from: Option<Vec<String>>,
    /// The number of origins that this entry stands for. With several, they are called `ID-1`,
    /// `ID-2` and so on, and whoever reads from the entry reads from all of them.
    pub count: Option<usize>,
    /// The parameters.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, Scalar>,
}

impl Setup {
    /// Reads a set-up.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a set-up.
    pub fn read(path: &Path) -> Result<Self, Error> {
        from_toml(&text(path)?).map_err(|error| error.within(&path.display().to_string()))
    }

    /// Returns the functions, with parameters as stated, and their connections. A writer's ports
    /// are numbered in the order of its readers.
    ///
    /// # Errors
    /// If a function is unknown, has no host, is a link with a host, or has a `count` that it does
    /// not take.
    pub fn functions(&self) -> Result<(Vec<Node>, Vec<Connection>), Error> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut connections: Vec<Connection> = Vec::new();
        // The functions that each entry stands for.
        let mut all: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (index, entry) in self.chain.iter().enumerate() {
            let id = &entry.id;
            let name = entry.function.as_ref().unwrap_or(id);
            let function = Function::named(name).map_err(|error| error.within(id))?;
            let ids = entry.ids(function)?;
            match (&entry.host, function.has_host()) {
                (None, true) => return Err(Error::invalid(format!("'{id}' needs a host"))),
                (Some(_), false) => {
                    return Err(Error::invalid(format!("'{id}' is a link: it must have no host")));
                }
                _ => {}
            }
            let before = || self.chain[..index].last().map(|entry| entry.id.clone()).into_iter().collect();
            let stated = entry.from.clone().unwrap_or_else(before);
            let parameters: Parameters =
                entry.parameters.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
            for to in &ids {
                // An unknown name is refused with the whole graph.
                let from = stated.iter().flat_map(|id| all.get(&**id).cloned().unwrap_or(vec![id.clone()]));
                for from in from {
                    let port = connections.iter().filter(|connection| connection.from == from).count();
                    connections.push(Connection { from, port, to: to.clone() });
                }
                let host = entry.host.clone();
                nodes.push(Node { id: to.clone(), function, host, parameters: parameters.clone() });
            }
            all.insert(id, ids);
        }
        Ok((nodes, connections))
    }
}

impl Entry {
    /// Returns the names of the functions that the entry stands for.
    fn ids(&self, function: Function) -> Result<Vec<String>, Error> {
        let id = &self.id;
        let (_, most) = Function::Balance.inputs();
        match self.count {
            None | Some(1) => Ok(vec![id.clone()]),
            Some(_) if function != Function::Origin => {
                Err(Error::invalid(format!("'{id}' has a count, which only origins take")))
            }
            Some(count) if (2..=most).contains(&count) => {
                Ok((1..=count).map(|number| format!("{id}-{number}")).collect())
            }
            Some(_) => Err(Error::invalid(format!("'{id}': count must be from 1 to {most}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(chain: &str) -> Result<(Vec<Node>, Vec<Connection>), String> {
        let text = format!("description = 'x'\nchain = [ {chain} ]");
        from_toml::<Setup>(&text).and_then(|setup| setup.functions()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_function_reads_from_the_one_before_it() {
        let (nodes, connections) = functions(
            "{ id = 'storage', host = 'store' }, { id = 'wan', function = 'link' },
             { id = 'origin', host = 'edge', config = 'ipp' }, { id = 'load', host = 'client' }",
        )
        .unwrap();
        assert_eq!(nodes[1].function, Function::Link);
        assert_eq!(nodes[2].parameters["config"], "ipp");
        let pairs: Vec<_> = connections.iter().map(|c| (c.from.as_str(), c.port, c.to.as_str())).collect();
        assert_eq!(pairs, [("storage", 0, "wan"), ("wan", 0, "origin"), ("origin", 0, "load")]);
    }

    #[test]
    fn several_readers_get_ports_of_their_own() {
        let (_, connections) = functions(
            "{ id = 'storage', host = 'a' }, { id = 'one', function = 'origin', host = 'b' },
             { id = 'two', function = 'origin', host = 'c', from = ['storage'] },
             { id = 'balance', host = 'd', from = ['one', 'two'] }",
        )
        .unwrap();
        let ports: Vec<_> = connections.iter().map(|c| (c.from.as_str(), c.port)).collect();
        assert_eq!(ports, [("storage", 0), ("storage", 1), ("one", 0), ("two", 0)]);
    }

    #[test]
    fn one_entry_can_stand_for_several_origins() {
        let (nodes, connections) = functions(
            "{ id = 'storage', host = 'a' }, { id = 'origin', host = 'b', count = 2, config = 'ipp' },
             { id = 'balance', host = 'b', mode = 'hash' }, { id = 'load', host = 'c' }",
        )
        .unwrap();
        let ids: Vec<_> = nodes.iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["storage", "origin-1", "origin-2", "balance", "load"]);
        assert!(nodes[1..3].iter().all(|node| node.parameters["config"] == "ipp"));
        assert!(!nodes[1].parameters.contains_key("count"));
        let pairs: Vec<_> = connections.iter().map(|c| (c.from.as_str(), c.port, c.to.as_str())).collect();
        let to_origins = [("storage", 0, "origin-1"), ("storage", 1, "origin-2")];
        let others = [("origin-1", 0, "balance"), ("origin-2", 0, "balance"), ("balance", 0, "load")];
        assert_eq!(pairs, [&to_origins[..], &others].concat());
        let error = functions("{ id = 'origin', host = 'b', count = 17 }").unwrap_err();
        assert_eq!(error, "'origin': count must be from 1 to 16");
        let error = functions("{ id = 'cache', host = 'b', count = 2 }").unwrap_err();
        assert_eq!(error, "'cache' has a count, which only origins take");
        assert!(functions("{ id = 'origin', host = 'b', count = 0 }").is_err());
    }

    #[test]
    fn setups_with_mistakes_are_refused() {
        let error = functions("{ id = 'proxy', host = 'a' }").unwrap_err();
        assert!(error.starts_with("proxy: unknown function 'proxy'"), "{error}");
        assert_eq!(functions("{ id = 'storage' }").unwrap_err(), "'storage' needs a host");
        let error = functions("{ id = 'link', host = 'a' }").unwrap_err();
        assert_eq!(error, "'link' is a link: it must have no host");
        let error = from_toml::<Setup>("description = ''\nchain = []\nname = ''").unwrap_err().to_string();
        assert!(error.starts_with("line 3: unknown field `name`"), "{error}");
        assert!(functions("{ id = 'load', host = 'a', connections = [1] }").is_err());
    }
}
