//! Tests of the storage crate through its public face, against real servers where there are any.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod client;
mod credentials;
mod decorators;
mod folder;
mod memory;
mod misbehaving;
mod nginx;
mod opening;
mod s3;
