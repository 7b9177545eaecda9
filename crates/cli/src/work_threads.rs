//! Threads for work that takes long, such as making titles. They have a lower priority than those
//! that serve responses.

use std::io;
use tokio::runtime::{Builder, Runtime};

/// Name of the threads, of which the kernel keeps 15 bytes.
const NAME: &str = "latemux-titles";

/// Added to the `nice` value of the process. While responses take all processors, each of these
/// threads gets a tenth of the time of one that serves responses.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Creates a runtime for the blocking threads alone.
pub(crate) fn create() -> io::Result<Runtime> {
    Builder::new_current_thread().thread_name(NAME).on_thread_start(lower_priority).build()
}

/// Lowers the priority of the current thread. Where this is refused, the thread keeps its priority,
/// which slows down responses and does no other harm.
fn lower_priority() {
    // Elsewhere, the call would change the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}
