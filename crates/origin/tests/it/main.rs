//! The whole origin over real sockets, from storage in memory that counts, waits and fails as told.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on fails, and says what it was doing"
)]

mod answers;
mod cache_disk;
mod caching;
mod changes;
mod client;
mod clocks;
mod connections;
mod crowd;
mod early;
mod http_faults;
mod library;
mod log;
mod metrics;
mod persistence;
mod prefetch;
mod refusals;
mod replaced;
mod rig;
mod round_trips;
mod same_bytes;
mod selections;
mod server;
mod sources;
mod sparse;
mod storage_faults;
mod storms;
mod urls;
mod waits;
mod write_index;
