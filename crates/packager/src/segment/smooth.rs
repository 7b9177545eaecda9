//! Smooth Streaming fragments ([MS-SSTR] 2.2.4): `moof` from the index, `mdat` from untouched
//! slices of the source.
//!
//! A fragment has one run of one track. Times are in 100 ns. Both a `tfxd` box and the URL state
//! its start, see [`Clock`]. There is no `tfrf`, which announces fragments of a live presentation.

use super::{
    Clock, SampleTiming,
    cmaf::{emit_sample, spec},
};
use crate::{PackError, carry::Protocol, part::Part};
use latemux_index::{Sample, Title, title::Segment};
use latemux_isobmff::{
    Time, Timescale,
    boxes::senc::SampleEncryption,
    emit::{EmitSample, FragmentSpec, smooth_fragment, smooth_fragment_size},
    sample_flags,
    time::Round,
};

/// 100 ns: `TimeScale` of manifests and fragments.
pub const SCALE: Timescale = match Timescale::new(10_000_000) {
    Some(scale) => scale,
    None => Timescale::MILLIS,
};

/// Returns the clock of a title's fragments.
pub fn clock(title: &Title) -> Clock<'_> {
    Clock::new(title, Protocol::Smooth, SCALE)
}

/// Returns `track_ID` of a track (an index into [`Title::tracks`]) in its fragments.
///
/// It is the ID in the track's source if the IDs of all tracks of the title are different and not
/// 0. Otherwise it is the 1-based position among all tracks of all objects, selected or not.
/// Manifests do not state it, but a file of the fragments does.
pub(crate) fn track_id(title: &Title, track: usize) -> u32 {
    let mut ids: Vec<u32> = title.whole_tracks().map(|t| title.track(t).id).collect();
    ids.sort_unstable();
    let Some(title_track) = title.tracks().get(track) else { return 0 };
    if !ids.contains(&0) && ids.is_sorted_by(|a, b| a < b) {
        return title.track(title_track).id;
    }
    let indexes = (title_track.object, title_track.track);
    let before = title.whole_tracks().filter(|other| (other.object, other.track) < indexes).count();
    u32::try_from(before + 1).unwrap_or(u32::MAX)
}

/// Returns the parts of a segment's fragment, for a track and its object, by their indexes. With an
/// `encryption`, the samples are yet to be encrypted, and the first part is the clear head. Fails
/// with [`PackError::TooLarge`] for more samples than one fragment takes.
pub(crate) fn media(
    clock: &Clock<'_>,
    (track, object): (usize, usize),
    segment: &Segment,
    samples: &[Sample],
    encryption: Option<&SampleEncryption<'_>>,
) -> Result<Vec<Part>, PackError> {
    let emitted = emitted(clock, track, segment, samples);
    let boundary = |number: u32| clock.boundary(track, number).unwrap_or(0);
    let start = boundary(segment.number);
    let duration = boundary(segment.number + 1) - start;
    // Wrong times of a source are no error here.
    let decode_time = u64::try_from(start).unwrap_or(0);
    let spec = FragmentSpec {
        track_id: track_id(clock.title(), track),
        ..spec(segment.number + 1, decode_time, &emitted)
    };
    let mut head = Vec::new();
    smooth_fragment(&spec, u64::try_from(duration).unwrap_or(0), encryption, &mut head)
        .map_err(|_| PackError::TooLarge("more samples than one fragment takes"))?;
    let mut parts = vec![Part::Inline(head.into())];
    Part::push_samples(&mut parts, object, samples);
    Ok(parts)
}

/// A fragment of text in one TTML document. All times are in units of 100 ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextFragment {
    track_id: u32,
    /// Number of the fragment, 1-based.
    number: u32,
    start: i64,
    duration: i64,
    /// Milliseconds from its start to presentation time 0, which usually is earlier. Times of a
    /// document count from the start of its fragment.
    pub(crate) offset: i64,
}

impl TextFragment {
    /// Describes the fragment of a segment of a track (an index into [`Title::tracks`]).
    pub(crate) fn new(clock: &Clock<'_>, track: usize, segment: &Segment) -> Self {
        let title = clock.title();
        let boundary = |number: u32| clock.boundary(track, number).unwrap_or(0);
        let start = boundary(segment.number);
        let presented = Time::new(segment.start, title.track(&title.tracks()[track]).timescale);
        Self {
            track_id: track_id(title, track),
            number: segment.number + 1,
            start,
            duration: boundary(segment.number + 1) - start,
            offset: -presented.in_scale(Timescale::MILLIS, Round::Nearest),
        }
    }

    /// Returns the fragment with a document.
    pub(crate) fn write(&self, document: &[u8]) -> Vec<u8> {
        let sample = EmitSample {
            size: u32::try_from(document.len()).unwrap_or(u32::MAX),
            duration: u32::try_from(self.duration).unwrap_or(u32::MAX),
            flags: sample_flags::SYNC,
            composition_offset: 0,
        };
        let samples = [sample];
        let decode_time = u64::try_from(self.start).unwrap_or(0);
        let spec = FragmentSpec { track_id: self.track_id, ..spec(self.number, decode_time, &samples) };
        let mut out = Vec::new();
        // One sample is not too many.
        let _ = smooth_fragment(&spec, u64::try_from(self.duration).unwrap_or(0), None, &mut out);
        out.extend_from_slice(document);
        out
    }
}

/// Returns the size in bytes of the fragment of these samples, by the arithmetic of [`media`].
pub(crate) fn fragment_bytes(clock: &Clock<'_>, track: usize, segment: &Segment, samples: &[Sample]) -> u64 {
    let emitted = emitted(clock, track, segment, samples);
    smooth_fragment_size(&spec(1, 0, &emitted)).map_or(0, |size| size.total())
}

fn emitted(clock: &Clock<'_>, track: usize, segment: &Segment, samples: &[Sample]) -> Vec<EmitSample> {
    let timings = clock.timings(track, segment, samples);
    let emit = |(sample, timing): (&Sample, SampleTiming)| EmitSample {
        duration: timing.duration,
        composition_offset: timing.composition_offset,
        ..emit_sample(sample)
    };
    samples.iter().zip(timings).map(emit).collect()
}
