//! Work on short titles, which is done at once on the thread of the request. Moving it to the
//! blocking pool and back takes as long as the work itself.

use crate::Error;
use latemux_index::locate::QUICK_SAMPLES;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most segments of all tracks for which a manifest is made at once.
const SEGMENTS: u64 = 1 << 9;

/// Returns true if a title of so many samples, and so many segments in all tracks, takes well below
/// a millisecond of work.
pub(crate) fn is_quick(samples: u64, segments: u64) -> bool {
    samples <= QUICK_SAMPLES && segments <= SEGMENTS
}

/// Does quick work.
///
/// # Errors
/// [`Error::Internal`] if the work panics, as on the blocking pool
pub(crate) fn do_at_once<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Error::Internal("work on a title panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_fails_only_the_work() {
        let panics = || -> u32 { panic!("as a test") };
        assert_eq!(do_at_once(panics).unwrap_err().reason(), "internal");
        assert_eq!(do_at_once(|| 7).unwrap(), 7);
    }
}
