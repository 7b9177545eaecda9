//! Tests of the cache through its public face.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]

mod budget;
mod conformance;
mod faults;
mod flights;
mod model;
mod restart;
mod storages;
