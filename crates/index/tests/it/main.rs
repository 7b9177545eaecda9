//! Tests of the index crate with real files and independent oracles.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail where they cannot go on, and say what they saw"
)]

mod generated;
mod hostile;
mod index_files;
mod index_times;
mod locating;
mod memory;
mod moov;
mod oracle;
mod packets;
mod persist;
mod reach;
mod segment_indexes;
mod shared_media;
