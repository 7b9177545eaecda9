//! The number of processors.

use std::{num::NonZero, sync::LazyLock, thread::available_parallelism};

/// Returns the number of processors that this process may use, as counted by the first call. The
/// kernel is asked only once, because counting opens and reads three of its files.
pub fn processors() -> usize {
    static COUNTED: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, NonZero::get));
    *COUNTED
}
