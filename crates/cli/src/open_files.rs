//! How many files and connections this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asks the system for as many as are wanted; how many of these there may be now. Most systems start a process with far fewer than it may
/// ask for.
pub(crate) fn allow(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return wanted };
    let most = limit.maximum.map_or(wanted, |most| most.min(wanted));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }) {
        Ok(()) => most,
        Err(_) => current,
    }
}
