//! The whole origin over real sockets, from storage in memory that counts, waits and fails as told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod caching;
mod changes;
mod client;
mod connections;
mod crowd;
mod early;
mod library;
mod log;
mod metrics;
mod persistence;
mod prefetch;
mod refusals;
mod round_trips;
mod same_bytes;
mod selections;
mod server;
mod sources;
mod sparse;
mod storage_faults;
mod urls;
mod write_index;
