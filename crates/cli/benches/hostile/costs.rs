//! Samples what an origin takes: its memory, and that of its sockets in the kernel.

use crate::origin::Origin;
use std::{
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};

/// Largest values seen, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Peaks {
    /// Resident memory of the process.
    pub(crate) resident: AtomicU64,
    /// Memory of its sockets in the kernel.
    pub(crate) sockets: AtomicU64,
}

impl Peaks {
    /// Samples until `over` is set. Sockets are not sampled while the viewer `plays`: listing
    /// thousands of them occupies a processor for many milliseconds, and holds locks that
    /// connections need.
    pub(crate) fn watch(&self, origin: &Origin, plays: &AtomicBool, over: &AtomicBool) {
        while !over.load(Relaxed) {
            if !plays.load(Relaxed) {
                self.sockets.fetch_max(socket_memory(origin.address.port()), Relaxed);
            }
            self.resident.fetch_max(origin.status("VmRSS"), Relaxed);
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the bytes that the kernel holds for the connections of a listener: received, queued for
/// sending, and allocated ahead. The clients' ends of the connections are not counted.
fn socket_memory(port: u16) -> u64 {
    let output = Command::new("ss").args(["-tnmH", "sport", "=", &format!(":{port}")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // skmem:(r0,rb131072,t0,tb2626560,f4096,w0,o0,bl0,d0)
    let sockets = text.lines().filter_map(|line| line.split_once("skmem:(")?.1.split_once(')'));
    sockets.map(|(fields, _)| fields.split(',').filter_map(held).sum::<u64>()).sum()
}

/// Returns the bytes of a field of `skmem` that counts held memory: `r`, `f`, `w`.
fn held(field: &str) -> Option<u64> {
    field.strip_prefix(['r', 'f', 'w'])?.parse().ok()
}
