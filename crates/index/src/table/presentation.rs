//! The mapping of a track's media timeline to presentation time (ISO/IEC 14496-12 §8.6.6).

/// The mapping of a track's media timeline to presentation time. A delay at the start of the edit
/// list (an initial empty edit) is part of the decode times already.
///
/// The *output* media timeline is that of the decode times in every segment: source decode time + a
/// shift. It begins with the first sample that plays, unless that is presented later than its
/// offset from decoding. A presentation time is decode time + composition offset − `media_time`. An
/// init segment carries `media_time` as an offset edit list (ISO/IEC 23000-19 §7.5.13), so decode
/// and presentation times are those of the source with its edits applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Presentation {
    /// Media time of presentation time 0, in track ticks of the output timeline; ≥ 0. If a sample
    /// table has negative composition offsets, all of its offsets are raised to 0 and above, and
    /// `media_time` with them.
    pub media_time: i64,
    /// Ticks that were added to the source's decode times. Negative if an edit list starts inside
    /// the media: the time of the media before the first sample that plays is subtracted.
    pub shift: i64,
}

impl Presentation {
    /// Returns the presentation time in track ticks of a sample on the output timeline.
    pub fn time(&self, decode_time: i64, composition_offset: i32) -> i64 {
        decode_time + i64::from(composition_offset) - self.media_time
    }
}
