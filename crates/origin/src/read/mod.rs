//! From a plan to bytes: the reads from storage that a response needs.

pub(crate) mod body;
pub(crate) mod fetch;
pub(crate) mod fragments;
pub(crate) mod offline;
pub(crate) mod patience;
pub(crate) mod prefetch;
pub(crate) mod reader;
