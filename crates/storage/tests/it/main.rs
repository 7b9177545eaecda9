//! Integration tests of the storage crate, against real servers where they are installed.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod chunks;
mod client;
mod credentials;
mod decorators;
mod far_storage;
mod folder;
mod memory;
mod mirrors;
mod misbehaving;
mod nginx;
mod opening;
mod s3;
