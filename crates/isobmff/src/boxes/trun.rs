//! `trun`: the samples of a fragment (ISO/IEC 14496-12 §8.8.8).

use bytes::Bytes;

/// A run of samples that lie one behind the other; a view of the box's entries.
#[derive(Debug, Clone)]
pub struct TrackRun {
    /// Bytes from the track fragment's base to the first sample; `None`: right behind the previous run.
    pub data_offset: Option<i32>,
    /// Flags of the first sample, in place of the default.
    pub first_sample_flags: Option<u32>,
    /// Number of samples; bounded by the entries' bytes, or by [`TrackRun::MAX_BARE`] where entries are empty.
    pub count: u32,
    flags: u32,
    entries: Bytes,
}

/// One sample of a run: what the run says, the rest is default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrunSample {
    /// Duration in track ticks.
    pub duration: Option<u32>,
    /// Size in bytes.
    pub size: Option<u32>,
    /// Flags (§8.8.3.1).
    pub flags: Option<u32>,
    /// Composition offset in track ticks, signed in both versions as players read it; 0 where absent.
    pub composition_offset: i32,
}

impl TrackRun {
    /// The most samples a run without per-sample fields may claim: there are no bytes to check it against.
    pub const MAX_BARE: u32 = 1 << 16;

    /// Samples in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TrunSample> + '_ {
        let _ = (self.flags, &self.entries);
        (0..self.count as usize).map(|_| todo!())
    }
}
