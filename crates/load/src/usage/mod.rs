//! The resources that this process, its machine and others use, and the counters of servers.

mod counters;
mod generator;
mod host;
mod host_record;

use crate::micros::micros;
pub use counters::{Counters, Readings, read_metrics};
pub use generator::Generator;
pub use host::{Host, HostUse, Traffic};
pub use host_record::{HostRecord, HostRecorder, HostSample, HostTotals};
use std::{collections::BTreeMap, fs, time::Duration};
use tokio::time::Instant;

/// Clock ticks per second in procfs (`USER_HZ`), which is 100 on every Linux.
const TICKS: u64 = 100;

/// The share of the cores' time, used or waited for, above which the process counts as saturated.
pub(crate) const LIMIT: f64 = 0.9;

/// Measures the resources of this process. Callers should take a sample about once a second.
#[derive(Debug)]
pub struct Meter {
    cores: u64,
    at: Instant,
    /// Milliseconds of processor time until the last sample.
    cpu: u64,
    /// Milliseconds in which threads waited for a core, in total.
    waited: u64,
    /// The waiting time of each current thread until the last sample, in nanoseconds.
    threads: BTreeMap<String, u64>,
    /// The time in which the process was saturated.
    saturated: Duration,
}

impl Default for Meter {
    /// Starts to measure waiting times.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            cores: cores as u64,
            at: Instant::now(),
            cpu: cpu(),
            waited: 0,
            threads: waits(),
            saturated: Duration::ZERO,
        }
    }
}

impl Meter {
    /// Takes a sample. Returns the share of the cores' time that this process used since the last
    /// sample, from 0 to 1.
    pub fn sample(&mut self) -> f64 {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.at);
        let threads = waits();
        let grown = threads.iter().map(|(thread, waited)| {
            waited.saturating_sub(self.threads.get(thread).copied().unwrap_or_default())
        });
        let waited = grown.sum::<u64>() / 1_000_000;
        let cpu = cpu();
        let used = cpu.saturating_sub(self.cpu);
        let whole = micros(passed) * self.cores / 1000;
        let part = |milliseconds: u64| milliseconds as f64 / whole.max(1) as f64;
        if part(used + waited) > LIMIT {
            self.saturated += passed;
        }
        self.waited += waited;
        (self.at, self.cpu, self.threads) = (now, cpu, threads);
        part(used)
    }

    /// Returns the usage until the last sample; zeros without procfs.
    pub fn generator(&self) -> Generator {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Generator {
            cpu: self.cpu,
            cores: self.cores,
            memory: kib(&status, "VmHWM:").unwrap_or(0) * 1024,
            waited: self.waited,
            saturated: u64::try_from(self.saturated.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Returns the memory of this process in bytes.
pub fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib(&status, "VmRSS:").unwrap_or(0) * 1024
}

/// Returns the processor time since this process started, in milliseconds.
fn cpu() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    processor_ticks(&stat).unwrap_or(0) * (1000 / TICKS)
}

/// Returns the nanoseconds for which each thread was runnable but waited for a core, from the
/// second number of schedstat. Empty if the kernel does not count them.
fn waits() -> BTreeMap<String, u64> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let waited = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let waited = text.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread.file_name().into_string().ok()?, waited))
    };
    threads.filter_map(|thread| waited(thread.ok()?)).collect()
}

/// Returns user and system time, fields 14 and 15 of proc_pid_stat(5). Field 2 may hold spaces and
/// brackets.
fn processor_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system)
}

/// Returns the number in a line of proc_pid_status(5) or proc_meminfo(5). `name` includes the
/// colon.
fn kib(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn files_of_procfs_are_read() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 1 0 99";
        assert_eq!(processor_ticks(stat), Some(200));
        assert_eq!(kib("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n", "VmHWM:"), Some(2048));
        let own = Meter::default().generator();
        assert!(own.cores > 0 && own.memory > 1 << 20 && memory() > 1 << 20, "{own:?}");
    }

    /// This also holds on a busy machine, since waiting for a core counts.
    #[test]
    fn a_process_of_busy_threads_is_saturated() {
        let mut meter = Meter::default();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..meter.cores {
                scope.spawn(|| {
                    while !stop.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let start = Instant::now();
            while meter.saturated.is_zero() && start.elapsed() < Duration::from_secs(20) {
                std::thread::park_timeout(Duration::from_millis(200));
                meter.sample();
            }
            stop.store(true, Relaxed);
        });
        let generator = meter.generator();
        assert!(generator.saturated > 0 && generator.cpu > 0, "{meter:?}");
    }
}
