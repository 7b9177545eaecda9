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
    run("chrt", &["--idle", "--pid", "0", &id]);
}

/// Gives a process the lowest `nice` priority: it gives way to normal threads, but not to
/// attackers. Storage would otherwise wait for hundreds of them, and the viewer for storage.
pub(crate) fn make_nice(process: u32) {
    run("renice", &["-n", "19", "-p", &process.to_string()]);
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?} failed");
}
