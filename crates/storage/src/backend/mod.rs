//! The places bytes can lie.

pub mod file;
pub mod http;
pub mod memory;
pub mod object;
