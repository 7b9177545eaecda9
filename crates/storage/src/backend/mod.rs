//! The places bytes can lie.

pub mod file;
pub mod memory;
