//! Limits of manifests. The memory of a manifest grows with its counts.

use crate::manifest_error::ManifestError;

pub use crate::presentation::deferred::MAX_BYTES;

/// The maximum number of segments of a rendition.
pub const MAX_SEGMENTS: usize = 1 << 18;

/// The maximum number of renditions of a set.
pub(crate) const MAX_RENDITIONS: usize = 512;

/// The maximum number of segments of all renditions together.
pub(crate) const MAX_ALL_SEGMENTS: usize = 1 << 20;

/// The number of segments that a presentation may still have.
#[derive(Debug)]
pub(super) struct SegmentBudget(usize);

impl Default for SegmentBudget {
    fn default() -> Self {
        Self(MAX_ALL_SEGMENTS)
    }
}

impl SegmentBudget {
    /// Subtracts `count` segments of one rendition. Fails if a limit is exceeded.
    pub(super) fn take(&mut self, count: u64) -> Result<usize, ManifestError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > MAX_SEGMENTS {
            return Err(ManifestError::TooMuch { what: "segments of a rendition", limit: MAX_SEGMENTS });
        }
        let left = self.0.checked_sub(count);
        self.0 = left.ok_or(ManifestError::TooMuch { what: "segments", limit: MAX_ALL_SEGMENTS })?;
        Ok(count)
    }
}
