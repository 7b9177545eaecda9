//! The places bytes can lie.

pub(crate) mod container;
pub mod file;
pub mod http;
pub mod memory;
pub mod object;
