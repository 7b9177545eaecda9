//! The mapping of a track's media timeline to presentation time (ISO/IEC 14496-12 §8.6.6).

/// How a track's media timeline maps to presentation time, after edits that begin later than the media (an initial
/// empty edit) have been folded into the decode times.
///
/// The *output* media timeline is what every segment's decode times are on: source decode time + a shift ≥ 0.
/// `presentation time = decode_time + composition_offset - media_time`. An init segment carries `media_time` as an
/// offset edit list (ISO/IEC 23000-19 §7.5.13), so dts and pts are those of the source with its edits applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Presentation {
    /// Media time of presentation time 0, in track ticks of the output timeline; ≥ 0. Where a sample table has negative
    /// composition offsets, all of them are raised to 0 and above, and this with them.
    pub media_time: i64,
    /// What was added to the source's decode times, in track ticks; ≥ 0.
    pub shift: i64,
}

impl Presentation {
    /// Presentation time in track ticks of a sample whose decode time is on the output timeline.
    #[must_use]
    pub fn time(&self, decode_time: i64, composition_offset: i32) -> i64 {
        decode_time.saturating_add(composition_offset.into()).saturating_sub(self.media_time)
    }
}
