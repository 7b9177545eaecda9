//! Tests of the cache through its public face.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod budget;
mod conformance;
mod faults;
mod flights;
mod model;
mod restart;
mod storages;
