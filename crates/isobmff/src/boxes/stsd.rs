//! `stsd`: sample entries (ISO/IEC 14496-12 §8.5.2). What is in one is read by [`crate::codec`].

use crate::FourCc;
use bytes::Bytes;

/// One sample entry, unread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleEntry {
    /// The coding name: `avc1`, `mp4a`, `encv`, …
    pub format: FourCc,
    /// 1-based index into `dref`.
    pub data_reference_index: u16,
    /// The whole box, header included, as it stands in the file: an init segment repeats it untouched.
    pub raw: Bytes,
}
