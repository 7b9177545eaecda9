//! The version of the binary.

/// Version and, in optimised builds, the commit.
pub(crate) const VERSION: &str = env!("LATEMUX_VERSION");
