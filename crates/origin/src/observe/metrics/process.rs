//! What the kernel knows of this process; nothing where there is no `/proc`.

use std::fs::read_to_string;

/// A look at this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Process {
    /// CPU time used, all threads, in seconds.
    pub(crate) cpu: f64,
    /// Memory in use that is in RAM, in bytes.
    pub(crate) resident: u64,
    /// Memory in RAM at its largest, in bytes.
    pub(crate) resident_max: u64,
    /// Threads.
    pub(crate) threads: u64,
    /// Open file descriptors.
    pub(crate) open_fds: u64,
    /// As many of them as there may be.
    pub(crate) max_fds: u64,
    /// When it started, in seconds since 1970.
    pub(crate) started: f64,
}

/// Ticks per second in `/proc`: USER_HZ, which Linux fixes at 100 for programs whatever the kernel counts in (proc(5), time(7)).
const TICKS: f64 = 100.0;

impl Process {
    pub(crate) fn look() -> Option<Self> {
        let stat = read_to_string("/proc/self/stat").ok()?;
        let status = read_to_string("/proc/self/status").ok()?;
        let booted = read_to_string("/proc/stat").ok()?;
        let limits = read_to_string("/proc/self/limits").ok()?;
        let open_fds = std::fs::read_dir("/proc/self/fd").ok()?.count();
        // The second field is the program's name in parentheses, which may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        // Fields as proc(5) counts them; what follows the name is the third.
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
            open_fds: u64::try_from(open_fds).unwrap_or(u64::MAX),
            // `unlimited` is none that could be reached.
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
    #[expect(clippy::disallowed_methods, reason = "what it is compared with")]
    fn it_is_this_process() {
        let before = Process::look().unwrap();
        let held = vec![1_u8; 64 << 20];
        // However long it takes to be given as much of a processor.
        let after = loop {
            let after = Process::look().unwrap();
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
