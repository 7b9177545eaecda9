//! The resources that a process and its descendants use.

use super::{Identity, bytes};
use crate::machine::ticks;
use std::fs;

/// A process with its descendants.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Identity,
    /// The processor time of the last reading.
    ticks: u64,
}

/// The resources that processes use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TreeUse {
    /// The processor time from the start, in ticks. It includes descendants that have ended.
    pub(crate) ticks: u64,
    /// The resident memory in bytes.
    pub(crate) memory: u64,
}

impl Tree {
    /// Returns a process with those descendants that each reading finds.
    pub(super) fn of(root: Identity) -> Self {
        Self { root, ticks: 0 }
    }

    /// Reads the resources until now. The processor time never falls: a process that ends between
    /// two looks at procfs, or the root after its end, would be missing in the sum.
    pub(crate) fn read(&mut self) -> TreeUse {
        let now = if self.root.is_alive() { sum(self.root.number()) } else { TreeUse::default() };
        self.ticks = self.ticks.max(now.ticks);
        TreeUse { ticks: self.ticks, memory: now.memory }
    }
}

/// Adds up the resources of a process and its descendants.
fn sum(root: i32) -> TreeUse {
    let mut sum = TreeUse::default();
    let mut unread = vec![root.to_string()];
    while let Some(process) = unread.pop() {
        let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
        sum.ticks += ticks(&read("stat")).unwrap_or(0);
        sum.memory += bytes(&read("status"), "VmRSS:").unwrap_or(0);
        unread.extend(children(&process));
    }
    sum
}

/// Returns the children of all threads of a process.
fn children(process: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Process, command};
    use std::{
        path::Path,
        time::{Duration, Instant},
    };

    #[test]
    fn descendants_count_and_what_was_used_stays() {
        let mut shell = command(Path::new("sh"));
        // The descendant ends by itself, since nobody would kill it.
        let count = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        shell.args(["-c", &format!("sh -c '{count}' & wait; exec sleep 60")]);
        let process = Process::start(&mut shell).unwrap();
        let mut tree = process.tree().unwrap();
        let name = format!("/proc/{}/comm", tree.root.number());
        let has_counted = || fs::read_to_string(&name).unwrap() == "sleep\n";
        let until = Instant::now() + Duration::from_secs(30);
        let mut used = tree.read();
        let mut memory = used.memory;
        while (used.ticks < 5 || !has_counted()) && Instant::now() < until {
            used = tree.read();
            memory = memory.max(used.memory);
        }
        assert!(used.ticks >= 5 && memory > 1 << 16, "{used:?} {memory}");
        drop(process);
        let ended = tree.read();
        assert!(ended.ticks >= used.ticks && ended.memory == 0, "{ended:?}");
    }

    #[test]
    fn a_line_of_the_status_states_kilobytes() {
        assert_eq!(bytes("Name:\tx\nVmHWM:\t    9 kB\nVmRSS:\t    2 kB\n", "VmRSS:"), Some(2048));
        assert_eq!(bytes("Name:\tx\n", "VmRSS:"), None);
    }
}
