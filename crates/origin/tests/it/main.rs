//! The whole origin over real sockets, with in-memory storage that counts requests and injects
//! delays and faults.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot go on fails with a message"
)]

mod admin;
mod bad_text;
mod cache_disk;
mod caching;
mod changes;
mod clear_lead;
mod client;
mod clients;
mod clocks;
mod connections;
mod connections_ahead;
mod cost;
mod crowd;
mod cut_boxes;
mod cut_records;
mod decryptors;
mod early;
mod encrypted_iframes;
mod encryption;
mod fairplay;
mod first_second;
mod folders;
mod http_faults;
mod incomplete;
mod key_servers;
mod library;
mod log;
mod long_reads;
mod metrics;
mod mirrored;
mod never_clear;
mod persistence;
mod prefetch;
mod refusals;
mod replaced;
mod responses;
mod rig;
mod round_trips;
mod same_bytes;
mod sample_encryption;
mod selections;
mod server;
mod slow_clients;
mod sources;
mod sparse;
mod stale;
mod storage_faults;
mod storms;
mod text_files;
mod urls;
mod waits;
mod write_index;
