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
    /// If a function is unknown, has no host, or is a link with a host.
    pub fn functions(&self) -> Result<(Vec<Node>, Vec<Connection>), Error> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut connections: Vec<Connection> = Vec::new();
        for entry in &self.chain {
            let id = &entry.id;
            let name = entry.function.as_ref().unwrap_or(id);
            let function = Function::named(name).map_err(|error| error.within(id))?;
            match (&entry.host, function.has_host()) {
                (None, true) => return Err(Error::invalid(format!("'{id}' needs a host"))),
                (Some(_), false) => {
                    return Err(Error::invalid(format!("'{id}' is a link: it must have no host")));
                }
                _ => {}
            }
            let before = || nodes.last().map(|node| node.id.clone()).into_iter().collect();
            for from in entry.from.clone().unwrap_or_else(before) {
                let port = connections.iter().filter(|connection| connection.from == from).count();
                connections.push(Connection { from, port, to: id.clone() });
            }
            let parameters: Parameters =
                entry.parameters.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
            nodes.push(Node { id: id.clone(), function, host: entry.host.clone(), parameters });
        }
        Ok((nodes, connections))
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
