//! Packed columns of numbers: what a sample table's entries become in memory.

/// A column of `u32` values: constant, runs, or blocks of 64 Rice-coded values, whichever is smallest.
/// Reading one value costs O(log n), reading on from there O(1).
#[derive(Debug, Clone)]
pub struct Column {
    len: u32,
}

impl Column {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
