//! Processes that end with the one that started them.

mod identity;
mod tree;

pub(crate) use identity::Identity;
pub(crate) use tree::Tree;

use crate::Error;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use std::{
    fs,
    path::Path,
    process::{Child, Command, ExitStatus},
    thread::sleep,
    time::{Duration, Instant},
};

/// The time between two looks at a process.
const POLL: Duration = Duration::from_millis(10);

/// A started process. It is killed when this value is dropped, and by the kernel when the thread
/// that started it ends, even if that thread is killed.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

/// Starts a program, unless the process with this number has ended and so is the parent no longer.
const IF_PARENT_LIVES: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// Returns a command that the kernel kills as soon as its parent has ended. A parent that ended
/// before the kernel was asked for that is noticed by a shell, which then starts nothing.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", IF_PARENT_LIVES]);
    command.arg(std::process::id().to_string()).arg(program);
    command
}

impl Process {
    /// Returns the process of a child, which is killed when this value is dropped.
    pub(crate) fn of(child: Child) -> Self {
        Self { child }
    }

    /// Starts a command that [`command`] has made.
    ///
    /// # Errors
    /// If `setpriv` is not installed, or the system refuses another process.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Error> {
        let child = command
            .spawn()
            .map_err(|error| Error::Lacking(format!("cannot start setpriv (util-linux): {error}")))?;
        Ok(Self { child })
    }

    /// Adds the process to those that the folder of a run's tasks lists.
    pub(crate) fn record(&self, folder: &Path) {
        if let Some(process) = Identity::of_child(&self.child) {
            process.record(folder);
        }
    }

    /// Returns the process with its descendants, unless it has ended.
    pub(crate) fn tree(&self) -> Option<Tree> {
        Identity::of_child(&self.child).map(Tree::of)
    }

    /// Returns how the process has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends SIGINT.
    pub(crate) fn interrupt(&mut self) {
        if self.ended().is_none() {
            // A child that has not been waited for keeps its number, so no other process gets it.
            let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        }
    }

    /// Waits for the end. Returns the status, unless the system cannot tell it.
    pub(crate) fn finish(mut self) -> Option<ExitStatus> {
        self.child.wait().ok()
    }

    /// Waits for the end, for at most `most`, and then kills the process. Returns its status if it
    /// has ended by itself.
    pub(crate) fn wait(mut self, most: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + most;
        while Instant::now() < until {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            sleep(POLL);
        }
        None
    }
}

/// Makes this process the parent of those descendants whose own parent ends. Without this, nobody
/// waits for them, so their processor time is never added to that of the functions.
pub(crate) fn adopt_descendants() {
    // Without it, only the processor time is too low.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Waits until this process has no children any more, for at most `most`. Returns true if it has
/// none. Nothing else in this process may wait for a child at the same time.
pub(crate) fn wait_for_children(most: Duration) -> bool {
    let until = Instant::now() + most;
    while Instant::now() < until {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => sleep(POLL),
            Err(_) => return true,
        }
    }
    false
}

/// Returns the last line of a program's output that is not empty, which states why it ended.
pub(crate) fn last_line(log: &Path) -> Option<String> {
    let log = fs::read_to_string(log).ok()?;
    log.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
}

/// Returns the largest memory so far of a child of this thread in bytes; 0 if it is unknown. The
/// process IDs in procfs are those of the namespace for which it was mounted, which may not be
/// that of this process.
pub(crate) fn memory_of_children() -> u64 {
    let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let largest = |child: &str| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).ok()?;
        bytes(&status, "VmHWM:")
    };
    children.split_whitespace().filter_map(largest).max().unwrap_or(0)
}

/// Returns the bytes in a line of proc_pid_status(5), such as `VmHWM:`.
fn bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes = line.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
