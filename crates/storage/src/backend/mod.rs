//! Back ends: the places where bytes are stored.

pub(crate) mod container;
pub mod file;
mod frames;
pub mod http;
pub mod memory;
pub mod object;
