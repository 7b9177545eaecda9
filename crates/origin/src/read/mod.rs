//! Reads from storage, and the response bodies made of them.

pub(crate) mod body;
pub(crate) mod charge;
pub(crate) mod cuts;
pub(crate) mod fetch;
pub(crate) mod first_byte_wait;
pub(crate) mod fragments;
pub(crate) mod prefetch;
pub(crate) mod reader;
pub(crate) mod room;
pub(crate) mod segment;
mod stated_cuts;
mod transfer;
