//! The resources that the load generator used.

use serde::{Deserialize, Serialize};

/// The resources that the load generator used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// The processor time in milliseconds.
    pub cpu: u64,
    /// The number of cores it could use.
    pub cores: u64,
    /// The maximum memory in bytes.
    pub memory: u64,
    /// The time that runnable threads waited for a core, in milliseconds.
    #[serde(default)]
    pub waited: u64,
    /// The time in which threads used or waited for more than nine tenths of the cores, in
    /// milliseconds. For several machines, this is the maximum.
    #[serde(default)]
    pub saturated: u64,
}
