//! The resources that a machine uses, from procfs: proc_stat(5), proc_meminfo(5), proc_pid_net(5).

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, path::Path};

/// The name of the loopback interface.
const LOOPBACK: &str = "lo";

/// A reading of a machine's counters, which count from its start. The usage is the difference of
/// two readings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The host name.
    pub name: String,
    /// The uptime in milliseconds.
    pub at: u64,
    /// The number of cores.
    pub cores: u64,
    /// The time of all cores together, in ticks.
    pub ticks: u64,
    /// The ticks in which the cores were neither idle nor waiting for a disk.
    pub busy: u64,
    /// The memory in bytes.
    pub memory: u64,
    /// The memory that is not available, in bytes.
    pub used: u64,
    /// Bytes received over all interfaces but the loopback.
    pub received: u64,
    /// Bytes sent over these.
    pub sent: u64,
    /// Bytes over the loopback.
    pub loopback: u64,
    /// The open TCP sockets.
    #[serde(default)]
    pub sockets: u64,
    /// The TCP connections that were opened, by this machine or by its peers.
    #[serde(default)]
    pub opened: u64,
    /// The TCP segments that were sent again.
    #[serde(default)]
    pub retransmits: u64,
    /// Bytes over each interface.
    #[serde(default)]
    pub interfaces: BTreeMap<String, Traffic>,
}

/// Bytes over an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes received.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
}

/// The usage of a machine between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct HostUse {
    /// The used share of the time of all cores, from 0 to 1.
    pub cpu: f64,
    /// Bytes of memory in use at the end.
    pub memory: u64,
    /// Bytes received per second over all interfaces but the loopback.
    pub received: f64,
    /// Bytes sent per second over these.
    pub sent: f64,
    /// Bytes per second over the loopback.
    pub loopback: f64,
}

/// The text of the files that a reading consists of.
#[derive(Debug, Default)]
struct Files {
    name: String,
    uptime: String,
    stat: String,
    memory: String,
    interfaces: String,
    /// `sockstat` and `sockstat6`.
    sockets: String,
    snmp: String,
}

impl Host {
    /// Reads the counters of this machine; zeros without procfs. The network is that of this
    /// process, which may have a namespace of its own.
    pub fn now() -> Self {
        Self::with_network(Path::new("/proc/net"))
    }

    /// Reads the counters of this machine, but those of the network from a folder such as
    /// `/proc/1/net`, which describes the network namespace of that process.
    pub fn with_network(network: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let of_network = |name: &str| fs::read_to_string(network.join(name)).unwrap_or_default();
        Self::parse(&Files {
            name: read("/proc/sys/kernel/hostname"),
            uptime: read("/proc/uptime"),
            stat: read("/proc/stat"),
            memory: read("/proc/meminfo"),
            interfaces: of_network("dev"),
            sockets: of_network("sockstat") + &of_network("sockstat6"),
            snmp: of_network("snmp"),
        })
    }

    fn parse(files: &Files) -> Self {
        let (ticks, busy) = processors(&files.stat).unwrap_or_default();
        let bytes = |name: &str| super::kib(&files.memory, name).unwrap_or(0) * 1024;
        let total = bytes("MemTotal:");
        let is_core = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        let tcp = |name: &str| tcp_counter(&files.snmp, name).unwrap_or(0);
        let mut host = Self {
            name: files.name.trim().to_owned(),
            at: milliseconds(&files.uptime).unwrap_or(0),
            cores: files.stat.lines().filter(is_core).count() as u64,
            ticks,
            busy,
            memory: total,
            used: total.saturating_sub(bytes("MemAvailable:")),
            sockets: files.sockets.lines().filter_map(open_sockets).sum(),
            opened: tcp("ActiveOpens").saturating_add(tcp("PassiveOpens")),
            retransmits: tcp("RetransSegs"),
            interfaces: files.interfaces.lines().filter_map(interface).collect(),
            ..Self::default()
        };
        for (name, traffic) in &host.interfaces {
            if name == LOOPBACK {
                host.loopback += traffic.received;
            } else {
                host.received += traffic.received;
                host.sent += traffic.sent;
            }
        }
        host
    }

    /// Returns the usage since an earlier reading of the same machine; `None` if the machine has
    /// restarted, or no time has passed.
    pub fn since(&self, before: &Self) -> Option<HostUse> {
        let less = |now: u64, before: u64| now.checked_sub(before);
        let milliseconds = less(self.at, before.at).filter(|passed| *passed > 0)?;
        let busy = less(self.busy, before.busy)?;
        let ticks = less(self.ticks, before.ticks)?;
        // The sum may fall, since the counts of a removed interface are lost.
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 * 1000.0 / milliseconds as f64;
        Some(HostUse {
            cpu: if ticks == 0 { 0.0 } else { busy as f64 / ticks as f64 },
            memory: self.used,
            received: rate(self.received, before.received),
            sent: rate(self.sent, before.sent),
            loopback: rate(self.loopback, before.loopback),
        })
    }
}

/// Returns the ticks of all cores, and the busy ones among them. Time that a hypervisor gave to
/// other machines (`steal`) counts as busy. The time of guests is part of `user`.
fn processors(stat: &str) -> Option<(u64, u64)> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = all.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    let ticks = fields.iter().sum::<u64>();
    let &[_, _, _, idle, waiting, ..] = fields.as_slice() else { return None };
    Some((ticks, ticks - idle - waiting))
}

/// Reads seconds with two decimal places.
fn milliseconds(uptime: &str) -> Option<u64> {
    let (seconds, hundredths) = uptime.split_whitespace().next()?.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1000)?.checked_add(hundredths.get(..2)?.parse::<u64>().ok()? * 10)
}

/// Reads a line of an interface: its name, and the bytes over it.
fn interface(line: &str) -> Option<(String, Traffic)> {
    let (name, counts) = line.split_once(':')?;
    let mut counts = counts.split_whitespace();
    let received = counts.next()?.parse().ok()?;
    Some((name.trim().to_owned(), Traffic { received, sent: counts.nth(7)?.parse().ok()? }))
}

/// Returns the open sockets from the line of TCP, such as `TCP: inuse 3 orphan 0`.
fn open_sockets(line: &str) -> Option<u64> {
    let counts = line.strip_prefix("TCP:").or_else(|| line.strip_prefix("TCP6:"))?;
    counts.trim().strip_prefix("inuse ")?.split_whitespace().next()?.parse().ok()
}

/// Returns a counter of TCP. One line holds the names, the next one the values.
fn tcp_counter(snmp: &str, name: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let names = lines.next()?.split_whitespace();
    let mut pairs = names.zip(lines.next()?.split_whitespace());
    pairs.find(|(known, _)| *known == name)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 5 50 800 20 3 2 10 7 0\ncpu0 50 5 25 400 10 1 1 5 7 0\ncpu1 50 0 25 400 10 2 1 5 0 0\nintr 1\n";
    const MEMORY: &str = "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:    400 kB\n";
    const INTERFACES: &str = "Inter-|   Receive        |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n    \
        lo:  500 1 0 0 0 0 0 0  500 1 0 0 0 0 0 0\n  eth0: 1000 2 0 0 0 0 0 0 3000 4 0 0 0 0 0 0\n  eth1:  100 2 0 0 0 0 0 0 200 4 0 0 0 0 0 0\n";

    const SOCKETS: &str =
        "sockets: used 17\nTCP: inuse 3 orphan 1 tw 9 alloc 4 mem 0\nUDP: inuse 5 mem 0\nTCP6: inuse 2\n";
    const SNMP: &str = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens RetransSegs\nTcp: 1 -1 40 2 7\n";

    fn host(uptime: &str) -> Host {
        let [uptime, stat, memory, interfaces, sockets, snmp] =
            [uptime, STAT, MEMORY, INTERFACES, SOCKETS, SNMP].map(str::to_owned);
        Host::parse(&Files { name: "box\n".to_owned(), uptime, stat, memory, interfaces, sockets, snmp })
    }

    #[test]
    fn files_of_procfs_are_read() {
        let host = host("12.34 20.00\n");
        assert_eq!((host.name.as_str(), host.at, host.cores), ("box", 12_340, 2));
        assert_eq!((host.ticks, host.busy), (990, 170));
        assert_eq!((host.memory, host.used), (1000 << 10, 600 << 10));
        assert_eq!((host.received, host.sent, host.loopback), (1100, 3200, 500));
        assert_eq!((host.sockets, host.opened, host.retransmits), (5, 42, 7));
        let names: Vec<&str> = host.interfaces.keys().map(String::as_str).collect();
        assert_eq!(names, ["eth0", "eth1", "lo"]);
        assert_eq!(host.interfaces["eth0"], Traffic { received: 1000, sent: 3000 });
        assert_eq!(Host::parse(&Files::default()), Host::default());
    }

    #[test]
    fn usage_is_the_difference_of_two_readings() {
        let before = host("10.00 1");
        let mut now = before.clone();
        (now.at, now.ticks, now.busy, now.received) = (12_000, 1390, 270, 5100);
        let used = now.since(&before).unwrap();
        assert_eq!((used.cpu, used.received, used.sent), (0.25, 2000.0, 0.0));
        assert_eq!(before.since(&now), None, "the machine restarted");
        assert_eq!(now.since(&now), None, "no time has passed");
    }

    #[test]
    fn this_machine_is_read() {
        let host = Host::now();
        assert!(host.cores > 0 && host.at > 0 && host.busy > 0 && host.busy <= host.ticks, "{host:?}");
        assert!(host.used > 0 && host.used < host.memory && !host.name.is_empty(), "{host:?}");
        assert!(host.interfaces.contains_key(LOOPBACK), "{host:?}");
        let without = Host::with_network(Path::new("/nowhere"));
        assert!(without.interfaces.is_empty() && without.cores == host.cores, "{without:?}");
    }

    #[test]
    fn readings_of_older_versions_are_read() {
        let mut json = serde_json::to_value(host("10.00 1")).unwrap();
        for name in ["sockets", "opened", "retransmits", "interfaces"] {
            json.as_object_mut().unwrap().remove(name).unwrap();
        }
        let read: Host = serde_json::from_value(json).unwrap();
        assert_eq!((read.received, read.sockets), (1100, 0));
    }
}
