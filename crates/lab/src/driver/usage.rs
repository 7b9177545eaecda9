//! The usage of each host of a cell, second by second.

use crate::{
    function::Function,
    graph::Node,
    process::{Process, Tree},
    task::wall_clock,
};
use latemux_load::usage::{Host, HostRecorder, HostSample};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::PathBuf,
    time::{Duration, Instant},
};

/// The time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);

/// The name in the file of the only host of functions that share this machine's network.
const SHARED: &str = "loopback";

/// Clock ticks per second in procfs (`USER_HZ`), which is 100 on every Linux.
const TICKS: f64 = 100.0;

/// The usage of each host of a cell.
#[derive(Debug)]
pub(super) struct Usage {
    began: Instant,
    /// The time of the start in seconds since 1970.
    began_at: f64,
    next: Instant,
    hosts: Vec<HostUsage>,
}

/// The usage of one host: the network's counters, and what the processes of its functions use.
#[derive(Debug)]
struct HostUsage {
    /// The name, unless all functions share this machine's network.
    name: Option<String>,
    /// The folder of the network's counters.
    network: PathBuf,
    functions: Vec<Tree>,
    recorder: HostRecorder,
}

/// Counters of TCP on a host, from the second in which the measured load began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tcp {
    /// The connections that the host or its peers opened.
    pub opened: u64,
    /// The segments that the host sent again.
    pub retransmitted: u64,
}

impl Usage {
    /// Starts with a first reading of each host, or of this machine if they share its network.
    pub(super) fn begin(networks: Option<Vec<(String, PathBuf)>>) -> Self {
        let host = |name, network| HostUsage {
            name,
            network,
            functions: Vec::new(),
            recorder: HostRecorder::default(),
        };
        let hosts = match networks {
            Some(networks) => networks.into_iter().map(|(name, network)| host(Some(name), network)).collect(),
            None => vec![host(None, PathBuf::from("/proc/net"))],
        };
        let began = Instant::now();
        let mut usage = Self { began, began_at: wall_clock(), next: began, hosts };
        usage.read();
        usage
    }

    /// Adds the process of a function, which runs on a host.
    pub(super) fn add(&mut self, host: Option<&str>, process: &Process) {
        let own = self.hosts.iter_mut().find(|known| known.name.is_none() || known.name.as_deref() == host);
        if let Some(own) = own {
            own.functions.extend(process.tree());
        }
    }

    /// Reads the usage of each host if it is time to do so.
    pub(super) fn read_when_due(&mut self) {
        if self.next <= Instant::now() {
            self.read();
        }
    }

    /// Reads the usage of each host.
    pub(super) fn read(&mut self) {
        let now = Instant::now();
        self.next = now + INTERVAL;
        let at = u64::try_from(now.duration_since(self.began).as_millis()).unwrap_or(u64::MAX);
        self.hosts.iter_mut().for_each(|host| host.read(at));
    }

    /// Adds up the counters of the hosts of some functions, from the second that contains a time
    /// since 1970. Returns `None` if hosts have no networks of their own.
    pub(super) fn tcp_of(&self, nodes: &[Node], from: f64, is_of: impl Fn(Function) -> bool) -> Option<Tcp> {
        let nodes = nodes.iter().filter(|node| is_of(node.function));
        // Several functions may share a host.
        let hosts: BTreeSet<&str> = nodes.filter_map(|node| node.host.as_deref()).collect();
        let counters = hosts.into_iter().filter_map(|host| self.tcp_since(host, from));
        counters.reduce(|all, next| Tcp {
            opened: all.opened + next.opened,
            retransmitted: all.retransmitted + next.retransmitted,
        })
    }

    /// Returns the counters of a host.
    fn tcp_since(&self, host: &str, from: f64) -> Option<Tcp> {
        let host = self.hosts.iter().find(|known| known.name.as_deref() == Some(host))?;
        let samples = host.samples().iter();
        let counted = samples.filter(|sample| self.began_at + seconds(sample) >= from);
        Some(counted.fold(Tcp::default(), |sum, sample| Tcp {
            opened: sum.opened + sample.opened,
            retransmitted: sum.retransmitted + sample.retransmits,
        }))
    }

    /// Returns the usage as CSV (RFC 4180), with a line for each host and second. All but memory
    /// and sockets is the growth since the line before.
    pub(super) fn to_csv(&self) -> String {
        let samples = self.hosts.iter().flat_map(HostUsage::samples);
        let interfaces: BTreeSet<&str> =
            samples.flat_map(|sample| sample.interfaces.keys()).map(String::as_str).collect();
        let mut text = "host,seconds,cpu_seconds,memory_bytes,sockets,opened,retransmitted".to_owned();
        for name in &interfaces {
            let _ = write!(text, ",{name}_received,{name}_sent");
        }
        text.push('\n');
        for host in &self.hosts {
            let name = host.name.as_deref().unwrap_or(SHARED);
            host.samples().iter().for_each(|sample| line(&mut text, name, sample, &interfaces));
        }
        text
    }
}

impl HostUsage {
    fn samples(&self) -> &[HostSample] {
        &self.recorder.record().samples
    }

    /// Adds a reading that is made `at` milliseconds after the start.
    fn read(&mut self, at: u64) {
        // Memory and processor time are those of the functions, not of the machine.
        let mut now = Host { busy: 0, used: 0, ..Host::with_network(&self.network) };
        for function in &mut self.functions {
            let used = function.read();
            now.busy += used.ticks;
            now.used += used.memory;
        }
        self.recorder.add(at, &now);
    }
}

/// Returns the time from the start to the end of a sample.
fn seconds(sample: &HostSample) -> f64 {
    sample.at as f64 / 1000.0
}

/// Writes a line of CSV. An interface that carried nothing has zeros.
fn line(text: &mut String, host: &str, sample: &HostSample, interfaces: &BTreeSet<&str>) {
    let HostSample { memory, sockets, opened, retransmits, .. } = sample;
    let processor = sample.busy as f64 / TICKS;
    let at = seconds(sample);
    let _ = write!(text, "{host},{at:.3},{processor:.2},{memory},{sockets},{opened},{retransmits}");
    for name in interfaces {
        let traffic = sample.interfaces.get(*name).copied().unwrap_or_default();
        let _ = write!(text, ",{},{}", traffic.received, traffic.sent);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{function::Parameters, process::command};
    use std::{fs, path::Path, thread::sleep};

    /// Writes the counters of a network to a folder, as procfs states them.
    fn write_counters(folder: &Path, opened: u64, bytes: u64) {
        fs::create_dir_all(folder).unwrap();
        let zeros = " 0 0 0 0 0 0 0";
        fs::write(folder.join("dev"), format!("head\n line0: {bytes}{zeros} {bytes}0{zeros}\n")).unwrap();
        let tcp = format!("Tcp: ActiveOpens PassiveOpens RetransSegs\nTcp: {opened} 1 {}\n", opened / 2);
        fs::write(folder.join("snmp"), tcp).unwrap();
        fs::write(folder.join("sockstat"), "TCP: inuse 3 orphan 0 tw 0 alloc 3 mem 0\n").unwrap();
    }

    /// Waits until the uptime of the machine has grown.
    fn pass() {
        sleep(Duration::from_millis(20));
    }

    #[test]
    fn each_host_has_a_line_for_each_reading_and_counters_from_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let [store, client] = ["store", "client"].map(|name| folder.path().join(name));
        write_counters(&store, 4, 100);
        write_counters(&client, 0, 0);
        let networks = vec![("store".to_owned(), store.clone()), ("client".to_owned(), client)];
        let mut usage = Usage::begin(Some(networks));
        pass();
        write_counters(&store, 10, 150);
        usage.read();
        let between = wall_clock();
        pass();
        write_counters(&store, 11, 150);
        usage.read();
        usage.read_when_due();
        let text = usage.to_csv();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(",sockets,opened,retransmitted,line0_received,line0_sent"), "{text}");
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[1].starts_with("store,0.0") && lines[1].ends_with(",0.00,0,3,6,3,50,500"), "{text}");
        assert!(lines[2].ends_with(",0.00,0,3,1,0,0,0") && lines[3].starts_with("client,0.0"), "{text}");
        let tcp = |opened, retransmitted| Some(Tcp { opened, retransmitted });
        assert_eq!(usage.tcp_since("store", 0.0), tcp(7, 3));
        assert_eq!(usage.tcp_since("store", between), tcp(1, 0));
        assert_eq!((usage.tcp_since("client", 0.0), usage.tcp_since("x", 0.0)), (tcp(0, 0), None));
        let node = |id: &str, function, host: &str| Node {
            id: id.to_owned(),
            function,
            host: Some(host.to_owned()),
            parameters: Parameters::new(),
        };
        let nodes = [
            node("a", Function::Storage, "store"),
            node("b", Function::Storage, "store"),
            node("c", Function::Load, "client"),
        ];
        assert_eq!(usage.tcp_of(&nodes, 0.0, |function| function == Function::Storage), tcp(7, 3));
        assert_eq!(usage.tcp_of(&nodes, 0.0, |_| true), tcp(7, 3));
        assert_eq!(usage.tcp_of(&nodes, 0.0, |_| false), None);
    }

    #[test]
    fn functions_that_share_a_network_are_one_host() {
        let mut usage = Usage::begin(None);
        let mut sleeper = command(Path::new("sleep"));
        let process = Process::start(sleeper.arg("60")).unwrap();
        usage.add(Some("client"), &process);
        pass();
        usage.read();
        let [host] = usage.hosts.as_slice() else { panic!("{usage:?}") };
        assert!(host.samples()[0].memory > 0, "{host:?}");
        assert!(usage.to_csv().contains("\nloopback,0.0"), "{}", usage.to_csv());
        assert_eq!(usage.tcp_since("client", 0.0), None);
    }

    #[test]
    fn a_network_that_cannot_be_read_has_zeros() {
        let mut usage = Usage::begin(Some(vec![("a".to_owned(), PathBuf::from("/nowhere"))]));
        pass();
        usage.read();
        assert!(usage.to_csv().ends_with(",0.00,0,0,0,0\n"), "{}", usage.to_csv());
    }
}
