//! The way of a read through the cache: plan, fetches, and the body that its reader gets.

pub(crate) mod body;
mod filler;
mod plan;
mod ranges;
