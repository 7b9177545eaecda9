//! Processes in a file, so that another program can end them.

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use std::{fmt, fs, io::Write as _, path::Path, process::Child, str::FromStr};

/// The name of the file with the processes of a run, in the folder of its tasks.
pub(crate) const PROCESSES: &str = "pids";

/// A process: its number, and the time at which it started. The kernel uses numbers again, but not
/// with the same start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    id: i32,
    /// The clock ticks from the start of the machine to that of the process.
    started: u64,
}

impl Identity {
    /// Returns the process with a number, unless it has ended.
    fn of(id: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let started = start_time(&stat)?;
        Some(Self { id, started })
    }

    /// Returns this process.
    pub(crate) fn own() -> Option<Self> {
        let own = fs::read_link("/proc/self").ok()?;
        Self::of(own.to_str()?.parse().ok()?)
    }

    /// Returns the process of a child. In a PID namespace, its number differs from that in procfs,
    /// which then lists both.
    pub(super) fn of_child(child: &Child) -> Option<Self> {
        let inner = |id: i32| -> Option<i32> {
            let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
            numbers.split_whitespace().next_back()?.parse().ok()
        };
        let number = i32::try_from(child.id()).ok()?;
        let own = fs::read_link("/proc/self").ok()?;
        if own.to_str()?.parse() == Ok(getpid().as_raw_nonzero().get()) {
            return Self::of(number);
        }
        let children = fs::read_to_string("/proc/thread-self/children").ok()?;
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        children.into_iter().find(|child| inner(*child) == Some(number)).and_then(Self::of)
    }

    /// Returns the number of the process in procfs.
    pub(super) fn number(self) -> i32 {
        self.id
    }

    /// Returns true if the process has not ended.
    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.id) == Some(self)
    }

    /// Kills the process. Returns false if it has ended, even if another one has its number now.
    pub(crate) fn kill(self) -> bool {
        let Some(process) = Pid::from_raw(self.id) else { return false };
        // The descriptor keeps naming the process that was compared.
        pidfd_open(process, PidfdFlags::empty())
            .is_ok_and(|process| self.is_alive() && pidfd_send_signal(process, Signal::KILL).is_ok())
    }

    /// Adds the process to the file in a folder. Errors are ignored: the kernel ends a process with
    /// the one that started it, and the file is needed only if that fails.
    pub(crate) fn record(self, folder: &Path) {
        let file = fs::OpenOptions::new().create(true).append(true).open(folder.join(PROCESSES));
        let _ = file.and_then(|mut file| file.write_all(format!("{self}\n").as_bytes()));
    }

    /// Returns the processes in the file of a folder. Lines of another form are left out.
    pub(crate) fn recorded(folder: &Path) -> Vec<Self> {
        let text = fs::read_to_string(folder.join(PROCESSES)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.id, self.started)
    }
}

impl FromStr for Identity {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (id, started) = text.split_once('-').ok_or(())?;
        Ok(Self { id: id.parse().map_err(drop)?, started: started.parse().map_err(drop)? })
    }
}

/// Returns field 22 of proc_pid_stat(5), the start time, unless the process has ended and only its
/// parent has not noticed. Field 2 may hold spaces and brackets.
fn start_time(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_the_process_with_the_recorded_start_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Identity::of_child(&child).unwrap();
        let earlier = Identity { started: process.started - 1, ..process };
        earlier.record(folder.path());
        process.record(folder.path());
        assert_eq!(Identity::recorded(folder.path()), [earlier, process]);
        assert!(!earlier.kill() && process.is_alive(), "a process with another start was killed");
        assert!(process.kill());
        // An ended process stays in procfs until its parent waits for it.
        while process.is_alive() {
            std::thread::yield_now();
        }
        assert!(!process.kill());
        child.wait().unwrap();
    }

    #[test]
    fn names_with_brackets_do_not_shift_fields() {
        let stat = "42 (a ) S 1) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 1 0 99 5";
        assert_eq!(start_time(stat), Some(99));
        assert_eq!(start_time(&stat.replace(") S 1 42", ") Z 1 42")), None);
        assert_eq!(start_time("42 (a) S 1"), None);
    }
}
