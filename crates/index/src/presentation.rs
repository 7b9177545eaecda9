//! Edit lists (ISO/IEC 14496-12 §8.6.6): which samples play, and when.

/// How a track's media timeline maps to presentation time, after edits that begin later than the media (an initial
/// empty edit) have been folded into the decode times.
///
/// The *output* media timeline is what every segment's decode times are on: source decode time + a shift ≥ 0.
/// `presentation time = decode_time + composition_offset - media_time`. An init segment carries `media_time` as an
/// offset edit list (ISO/IEC 23000-19 §7.5.13), so dts and pts are those of the source with its edits applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Presentation {
    /// Media time of presentation time 0, in track ticks of the output timeline; ≥ 0.
    pub media_time: i64,
    /// What was added to the source's decode times, in track ticks; ≥ 0.
    pub shift: i64,
}
