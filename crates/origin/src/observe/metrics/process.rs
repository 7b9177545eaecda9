//! Figures of this process from `/proc`. On systems without it, there are none.

use std::fs::read_to_string;

/// Figures of this process at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Process {
    /// CPU time that all threads have used, in seconds.
    pub(crate) cpu: f64,
    /// Memory in RAM in bytes.
    pub(crate) resident: u64,
    /// Largest amount of memory in RAM so far, in bytes.
    pub(crate) resident_max: u64,
    pub(crate) threads: u64,
    pub(crate) open_fds: u64,
    pub(crate) max_fds: u64,
    /// Start of the process, in seconds since 1970.
    pub(crate) started: f64,
}

/// Ticks per second in `/proc` (USER_HZ). Linux reports 100 to programs, even if the kernel itself
/// counts in another unit (proc(5), time(7)).
const TICKS: f64 = 100.0;

impl Process {
    /// Reads the figures. Returns `None` if any of them is missing.
    pub(crate) fn read() -> Option<Self> {
        let stat = read_to_string("/proc/self/stat").ok()?;
        let status = read_to_string("/proc/self/status").ok()?;
        let booted = read_to_string("/proc/stat").ok()?;
        let limits = read_to_string("/proc/self/limits").ok()?;
        let open_fds = std::fs::read_dir("/proc/self/fd").ok()?.count();
        // The second field is the program's name in parentheses, which may itself hold any
        // character.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        // proc(5) counts fields from 1. The field after the name is the third.
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let word = |text: &str, key: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
        };
        let booted: u32 = u32::try_from(word(&booted, "btime ")?).ok()?;
        Some(Self {
            cpu: (ticks(14)? + ticks(15)?) / TICKS,
            resident: word(&status, "VmRSS:")? << 10,
            resident_max: word(&status, "VmHWM:")? << 10,
            threads: word(&status, "Threads:")?,
            open_fds: open_fds as u64,
            // The text may be `unlimited`.
            max_fds: word(&limits, "Max open files").unwrap_or(u64::MAX),
            started: f64::from(booted) + ticks(22)? / TICKS,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the start of the process is a date")]
    fn figures_follow_the_use_of_memory_and_processor() {
        let before = Process::read().unwrap();
        let held = vec![1_u8; 64 << 20];
        // On a busy machine it takes long until a tick of processor time has been used.
        let after = loop {
            let after = Process::read().unwrap();
            if after.cpu > before.cpu {
                break after;
            }
        };
        assert!(after.resident >= before.resident + (60 << 20), "{before:?} {after:?}");
        assert!(after.cpu < before.cpu + 60.0, "{before:?} {after:?}");
        assert!(after.resident_max >= after.resident && after.threads >= 1 && after.open_fds >= 3);
        assert!(after.max_fds >= after.open_fds, "{after:?}");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(after.started < now + 2.0 && after.started > now - 3600.0, "{after:?} {now}");
        drop(held);
    }
}
