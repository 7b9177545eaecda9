//! Tests of the storage crate through its public face, against real servers where there are any.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod decorators;
mod folder;
mod memory;
