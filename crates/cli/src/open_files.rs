//! The limit of open files, which include connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to `wanted`, or as far as the system permits. Returns how many of
/// the wanted files are allowed. Most systems start a process with a limit far below the maximum.
pub(crate) fn raise_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return wanted };
    let allowed = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum: limit.maximum }) {
        Ok(()) => allowed,
        Err(_) => current,
    }
}
