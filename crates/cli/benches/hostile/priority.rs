//! Lets attackers run only while nothing else does. In the world they have processors of their own.
//!
//! A higher `nice` value may not suffice: once such a thread has a processor, a thread that wakes
//! up can wait for the next tick of the kernel's clock, up to 4 ms. The row `spinning` measures it.

use std::{
    fs,
    process::{Command, Stdio},
};

/// Gives way to all other threads from now on. Threads that this one starts do so too.
pub(crate) fn give_way() {
    // The link is PID/task/TID.
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let id = thread.file_name().unwrap().to_str().unwrap().to_owned();
    let given = schedule_idle(&id);
    assert!(given, "chrt cannot change the priority of thread {id}");
}

/// Makes a process give way.
pub(crate) fn make_give_way(process: u32) {
    assert!(schedule_idle(&process.to_string()), "chrt cannot change the priority of process {process}");
}

fn schedule_idle(id: &str) -> bool {
    let chrt = Command::new("chrt").args(["--idle", "--pid", "0", id]).stdout(Stdio::null()).status();
    chrt.expect("chrt of util-linux").success()
}
