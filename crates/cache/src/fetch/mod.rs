//! The way of a read through the cache: the plan, the fetches, and the body that the reader gets.

pub(crate) mod body;
mod filler;
mod plan;
mod ranges;
