//! Integration tests of the cache.

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some with one element")]

mod budget;
mod conformance;
mod faults;
mod flights;
mod model;
mod restart;
mod rights;
mod storages;
