//! The resources that a machine uses, from procfs: proc_stat(5), proc_meminfo(5), proc_pid_net(5).

use serde::{Deserialize, Serialize};
use std::fs;

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

impl Host {
    /// Reads the counters of this machine; zeros without procfs.
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::parse(
            read("/proc/sys/kernel/hostname").trim(),
            &read("/proc/uptime"),
            &read("/proc/stat"),
            &read("/proc/meminfo"),
            &read("/proc/net/dev"),
        )
    }

    fn parse(name: &str, uptime: &str, stat: &str, memory: &str, interfaces: &str) -> Self {
        let (ticks, busy) = processors(stat).unwrap_or_default();
        let bytes = |name: &str| super::kib(memory, name).unwrap_or(0) * 1024;
        let total = bytes("MemTotal:");
        let cores = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count();
        let mut host = Self {
            name: name.to_owned(),
            at: milliseconds(uptime).unwrap_or(0),
            cores: cores as u64,
            ticks,
            busy,
            memory: total,
            used: total.saturating_sub(bytes("MemAvailable:")),
            ..Self::default()
        };
        for (name, received, sent) in interfaces.lines().filter_map(interface) {
            if name == "lo" {
                host.loopback += received;
            } else {
                host.received += received;
                host.sent += sent;
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

/// Reads a line of an interface: its name, bytes received and bytes sent.
fn interface(line: &str) -> Option<(&str, u64, u64)> {
    let (name, counts) = line.split_once(':')?;
    let mut counts = counts.split_whitespace();
    let received = counts.next()?.parse().ok()?;
    Some((name.trim(), received, counts.nth(7)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 5 50 800 20 3 2 10 7 0\ncpu0 50 5 25 400 10 1 1 5 7 0\ncpu1 50 0 25 400 10 2 1 5 0 0\nintr 1\n";
    const MEMORY: &str = "MemTotal:        1000 kB\nMemFree:          100 kB\nMemAvailable:    400 kB\n";
    const INTERFACES: &str = "Inter-|   Receive        |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n    \
        lo:  500 1 0 0 0 0 0 0  500 1 0 0 0 0 0 0\n  eth0: 1000 2 0 0 0 0 0 0 3000 4 0 0 0 0 0 0\n  eth1:  100 2 0 0 0 0 0 0 200 4 0 0 0 0 0 0\n";

    #[test]
    fn files_of_procfs_are_read() {
        let host = Host::parse("box", "12.34 20.00\n", STAT, MEMORY, INTERFACES);
        assert_eq!((host.name.as_str(), host.at, host.cores), ("box", 12_340, 2));
        assert_eq!((host.ticks, host.busy), (990, 170));
        assert_eq!((host.memory, host.used), (1000 << 10, 600 << 10));
        assert_eq!((host.received, host.sent, host.loopback), (1100, 3200, 500));
        assert_eq!(Host::parse("", "", "", "", "nothing"), Host::default());
    }

    #[test]
    fn usage_is_the_difference_of_two_readings() {
        let before = Host::parse("box", "10.00 1", STAT, MEMORY, INTERFACES);
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
    }
}
