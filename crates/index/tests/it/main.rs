//! Tests of the index crate with real files and independent oracles.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests panic if they cannot continue, and print the reason"
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
mod quick_steps;
mod reach;
mod refused;
mod segment_indexes;
mod shared_media;
