//! The places bytes can lie.

pub(crate) mod container;
pub mod file;
mod frames;
pub mod http;
pub mod memory;
pub mod object;
