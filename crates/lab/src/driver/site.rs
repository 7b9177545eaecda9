//! The hosts of a cell and the connections between its functions.

use crate::{
    Error, bytes_per_second,
    function::{Function, Parameters, fraction},
    graph::{Graph, Node},
    process::{Process, command},
    task::Carried,
};
use latemux_link::network::{Cable, Congestion, Enclosure, Host, Line, Network};
use latemux_quantity::TimeSpan;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
};

/// The first port of a function on a host of its own, where all ports are free.
const FIRST_PORT: u16 = 8000;

/// The place where the functions of a cell run.
pub(super) struct Site<'a> {
    /// The address of each connection, by the writer's id and the number of its port.
    addresses: BTreeMap<(String, usize), SocketAddr>,
    hosts: Option<Hosts<'a>>,
}

struct Hosts<'a> {
    _network: Network<'a>,
    by_name: BTreeMap<String, Host>,
    links: Vec<Link>,
    /// Cables without properties, between hosts that no link connects.
    _plain: Vec<Cable>,
}

/// A link of the graph.
struct Link {
    id: String,
    cable: Cable,
    /// The bytes that had arrived at the reader's host, at each time when they had grown.
    carried: Vec<Carried>,
}

impl<'a> Site<'a> {
    /// Finds a free port of 127.0.0.1 for each connection. Links are processes.
    pub(super) fn loopback(graph: &Graph) -> Result<Self, Error> {
        let mut held = Vec::new();
        let mut addresses = BTreeMap::new();
        for connection in graph.connections() {
            let lacking = |error: io::Error| Error::Lacking(format!("no free port: {error}"));
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(lacking)?;
            let address = listener.local_addr().map_err(lacking)?;
            addresses.insert((connection.from.clone(), connection.port), address);
            held.push(listener);
        }
        Ok(Self { addresses, hosts: None })
    }

    /// Makes each host that the graph names. Links are cables between them.
    pub(super) fn hosts(graph: &Graph, enclosure: &'a Enclosure) -> Result<Self, Error> {
        let lacking = |error: io::Error| Error::Lacking(format!("hosts: {error}"));
        let mut network = Network::new(enclosure);
        let mut by_name = BTreeMap::new();
        for name in graph.nodes().iter().filter_map(|node| node.host.as_ref()) {
            if let Entry::Vacant(unknown) = by_name.entry(name.clone()) {
                unknown.insert(network.host(name).map_err(lacking)?);
            }
        }
        let mut addresses: BTreeMap<(String, usize), SocketAddr> = BTreeMap::new();
        let mut links = Vec::new();
        let mut plain = BTreeMap::<(&str, &str), Cable>::new();
        // Nodes come in an order in which each follows those that it reads from.
        for (connection, port) in graph.connections().iter().zip(FIRST_PORT..) {
            let writer = node(graph, &connection.from)?;
            let reader = node(graph, &connection.to)?;
            let Some(from) = writer.host.as_deref() else { continue };
            let (to, link) = match reader.function {
                Function::Link => (reader_of(graph, reader)?, Some(reader)),
                _ => (reader.host.as_deref().unwrap_or(from), None),
            };
            let first = &by_name[from];
            let second = &by_name[to];
            let address = match link {
                Some(link) if from == to => {
                    return Err(Error::invalid(format!("'{}' connects the host {from} to itself", link.id)));
                }
                None if from == to => Ipv4Addr::LOCALHOST,
                Some(link) => {
                    let cable = network.connect(first, second, line(&link.parameters)?).map_err(lacking)?;
                    let address = cable.first;
                    links.push(Link { id: link.id.clone(), cable, carried: Vec::new() });
                    address
                }
                None => {
                    // One cable carries all connections in this direction.
                    let cable = match plain.entry((from, to)) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(unknown) => {
                            unknown.insert(network.connect(first, second, Line::default()).map_err(lacking)?)
                        }
                    };
                    cable.first
                }
            };
            let address = SocketAddr::from((address, port));
            addresses.insert((connection.from.clone(), connection.port), address);
            if let Some(link) = link {
                for output in graph.outputs(&link.id) {
                    addresses.insert((link.id.clone(), output.port), address);
                }
            }
        }
        let plain = plain.into_values().collect();
        let hosts = Hosts { _network: network, by_name, links, _plain: plain };
        Ok(Self { addresses, hosts: Some(hosts) })
    }

    /// Returns the address of a connection.
    pub(super) fn address(&self, from: &str, port: usize) -> SocketAddr {
        self.addresses[&(from.to_owned(), port)]
    }

    /// Returns true if a function is a process. A link between hosts is a cable instead.
    pub(super) fn is_process(&self, function: Function) -> bool {
        self.hosts.is_none() || function != Function::Link
    }

    /// Returns the name of each host with the folder of its network's counters, if hosts have
    /// networks of their own.
    pub(super) fn networks(&self) -> Option<Vec<(String, PathBuf)>> {
        let hosts = &self.hosts.as_ref()?.by_name;
        Some(hosts.iter().map(|(name, host)| (name.clone(), host.counters())).collect())
    }

    /// Starts a program on the host of a function.
    pub(super) fn start(
        &self,
        node: &Node,
        program: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Process, Error> {
        let host = self.hosts.as_ref().zip(node.host.as_ref()).map(|(hosts, name)| &hosts.by_name[name]);
        let Some(host) = host else {
            let mut command = command(program);
            prepare(&mut command);
            return Process::start(&mut command);
        };
        // The kernel kills it when this program ends.
        let mut command = Command::new(program);
        prepare(&mut command);
        let child = host.spawn(command);
        child.map(Process::of).map_err(|error| Error::Lacking(format!("{}: {error}", program.display())))
    }

    /// Records the bytes that each link has carried so far.
    pub(super) fn sample(&mut self) {
        for link in self.hosts.iter_mut().flat_map(|hosts| &mut hosts.links) {
            let bytes = link.cable.traffic().map_or(0, |[_, to_reader]| to_reader.bytes);
            if link.carried.last().is_none_or(|last| last.bytes != bytes) {
                link.carried.push(Carried::now(bytes));
            }
        }
    }

    /// Returns the records of the bytes that each link between hosts has carried.
    pub(super) fn carried(self) -> impl Iterator<Item = (String, Vec<Carried>)> {
        self.hosts.into_iter().flat_map(|hosts| hosts.links).map(|link| (link.id, link.carried))
    }
}

fn node<'g>(graph: &'g Graph, id: &str) -> Result<&'g Node, Error> {
    let found = graph.nodes().iter().find(|node| node.id == id);
    found.ok_or_else(|| Error::invalid(format!("no function has the id '{id}'")))
}

/// Returns the host behind a link.
fn reader_of<'g>(graph: &'g Graph, link: &Node) -> Result<&'g str, Error> {
    let mut hosts = Vec::new();
    for output in graph.outputs(&link.id) {
        hosts.push(node(graph, &output.to)?.host.as_deref());
    }
    hosts.dedup();
    match hosts[..] {
        [Some(host)] => Ok(host),
        _ => Err(Error::invalid(format!("'{}' must lead to one host", link.id))),
    }
}

/// Returns the line that the parameters of a link describe, which have been checked.
fn line(parameters: &Parameters) -> Result<Line, Error> {
    let parameter = |name: &str| parameters.get(name);
    let span = |name: &str| parameter(name).and_then(|text| text.parse::<TimeSpan>().ok()).map(|span| span.0);
    let loss = parameter("loss").and_then(|text| fraction(text).ok());
    let congestion = parameter("congestion").map(|name| {
        let found = Congestion::ALL.into_iter().find(|congestion| congestion.name() == name);
        found.ok_or_else(|| Error::invalid(format!("unknown congestion control '{name}'")))
    });
    let base = Line::default();
    Ok(Line {
        rate: parameter("rate").and_then(|text| text.parse().ok()).map(bytes_per_second),
        round_trip: span("rtt").unwrap_or(base.round_trip),
        queue: span("queue").unwrap_or(base.queue),
        loss: loss.unwrap_or(base.loss),
        congestion: congestion.transpose()?,
        ..base
    })
}
