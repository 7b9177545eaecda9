//! What this process takes of its machine, from procfs.

use crate::results::Generator;
use std::fs;

/// Clock ticks per second in procfs: 100 on every Linux there is (`USER_HZ`).
const TICKS: u64 = 100;

/// What this process has taken since it started; zeros where there is no procfs.
#[must_use]
pub fn own() -> Generator {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Generator {
        cpu: processor_ticks(&stat).unwrap_or(0).saturating_mul(1000 / TICKS),
        cores: u64::try_from(cores).unwrap_or(1),
        memory: peak_kib(&status).unwrap_or(0).saturating_mul(1024),
    }
}

/// User and system time, fields 14 and 15 of proc_pid_stat(5); the second one may hold spaces and brackets.
fn processor_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system)
}

/// `VmHWM` of proc_pid_status(5).
fn peak_kib(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_kernel_writes_them() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 1 0 99";
        assert_eq!(processor_ticks(stat), Some(200));
        assert_eq!(peak_kib("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2048));
        let own = own();
        assert!(own.cores > 0 && own.memory > 1 << 20, "{own:?}");
    }
}
