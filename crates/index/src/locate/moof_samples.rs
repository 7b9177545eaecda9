//! From a `moof` to its samples: defaults, places and times resolved (ISO/IEC 14496-12 §8.8).

use crate::{
    error::{IndexError, TrackProblem},
    media::TrackKind,
    table::samples::Sample,
};
use latemux_isobmff::{
    Timescale,
    boxes::{trex::Trex, trun::TrunSample},
    codec::{Codec, Config},
    fragment::{Moof, TrackFragment},
    sample_flags,
};

/// A served track, as its fragments need to know it.
#[derive(Debug, Clone)]
pub(crate) struct FragmentedTrack {
    pub(crate) id: u32,
    pub(crate) timescale: Timescale,
    /// 1-based index of the sample entry its fragments must name.
    pub(crate) sample_description: u32,
    /// Sample flags say nothing: all are sync samples.
    pub(crate) all_sync: bool,
    /// Added to the source's decode times, in track ticks.
    pub(crate) shift: i64,
    /// Decode time after the last sample seen, output timeline.
    pub(crate) next: Option<i64>,
    /// Where nothing else tells: composition time of the first sample, output timeline.
    pub(crate) expected_composition: Option<i64>,
    /// Composition time of the track's first sample as an index box has it, output timeline: tells what a `tfxd` means.
    pub(crate) listed: Option<i64>,
}

impl FragmentedTrack {
    pub(crate) fn new(
        id: u32,
        timescale: Timescale,
        sample_description: u32,
        all_sync: bool,
        shift: i64,
    ) -> Self {
        Self {
            id,
            timescale,
            sample_description,
            all_sync,
            shift,
            next: None,
            expected_composition: None,
            listed: None,
        }
    }
}

/// What is wrong with a fragment.
#[derive(Debug, Clone)]
pub(crate) enum FragmentError {
    /// Samples beyond the end of the object.
    Truncated(String),
    /// One track is at fault.
    Track(TrackProblem),
}

impl From<FragmentError> for IndexError {
    fn from(error: FragmentError) -> Self {
        match error {
            FragmentError::Truncated(what) => Self::Truncated(what),
            FragmentError::Track(problem) => Self::Malformed(problem.to_string()),
        }
    }
}

/// The most samples of one track in a fragment: what a fragment of hours would have.
const MAX_SAMPLES: u32 = 1 << 20;

/// Gives every sample of the served tracks in a `moof` that lies at `offset` to `sample`, with the track's number in `tracks`.
/// Left-out tracks are followed too: their sizes may tell where another's samples lie.
pub(crate) fn resolve(
    moof: &Moof,
    offset: u64,
    object_size: u64,
    defaults: &[Trex],
    tracks: &mut [FragmentedTrack],
    mut sample: impl FnMut(usize, Sample) -> Result<(), FragmentError>,
) -> Result<(), FragmentError> {
    let mut end_of_data = offset;
    for traf in &moof.tracks {
        let number = tracks.iter().position(|track| track.id == traf.track_id);
        let mut track = number.and_then(|number| tracks.get_mut(number));
        if let Some(track) = track.as_deref_mut() {
            check_description(traf, defaults, track)?;
        }
        let mut time = track.as_deref().map(|track| decode_time(traf, track)).transpose()?;
        let base = match traf.base_data_offset {
            Some(base) => base,
            // §8.8.7.1: the `moof` for the first, else where the previous track's data ends.
            None if traf.default_base_is_moof => offset,
            None => end_of_data,
        };
        let resolve = SampleDefaults::new(traf, defaults);
        let mut at = base;
        let mut count = 0;
        for run in &traf.runs {
            if let Some(from_base) = run.data_offset {
                at = base.checked_add_signed(from_base.into()).ok_or_else(|| {
                    malformed(traf.track_id, "a run of samples before the start of the object")
                })?;
            }
            for entry in run.iter() {
                let size = resolve.size(&entry);
                let end = at.saturating_add(size.into());
                if let (Some(track), Some(number), Some(decode_time)) = (track.as_deref(), number, time) {
                    count += 1;
                    if count > MAX_SAMPLES {
                        return Err(malformed(track.id, "too many samples in a fragment"));
                    }
                    if end > object_size {
                        return Err(FragmentError::Truncated(format!(
                            "a sample of track {} at byte {at} ends at {end}, the object at {object_size}",
                            track.id
                        )));
                    }
                    let duration = resolve.duration(&entry);
                    sample(
                        number,
                        Sample {
                            offset: at,
                            size,
                            decode_time,
                            duration,
                            composition_offset: entry.composition_offset,
                            sync: track.all_sync || resolve.is_sync(&entry),
                        },
                    )?;
                    time = Some(decode_time.saturating_add(duration.into()));
                }
                at = end;
            }
        }
        end_of_data = at;
        if let (Some(track), Some(time)) = (track, time) {
            track.next = Some(time);
        }
    }
    Ok(())
}

fn malformed(track: u32, what: &str) -> FragmentError {
    FragmentError::Track(TrackProblem::Malformed { track, what: what.to_owned() })
}

fn check_description(
    traf: &TrackFragment,
    defaults: &[Trex],
    track: &FragmentedTrack,
) -> Result<(), FragmentError> {
    let trex = defaults.iter().find(|trex| trex.track_id == traf.track_id);
    let named = traf.sample_description_index.or(trex.map(|trex| trex.sample_description_index));
    // 0 is no index, and yet what some writers of single-entry files put in `trex`.
    match named {
        None | Some(0) => Ok(()),
        Some(index) if index == track.sample_description => Ok(()),
        Some(_) => Err(FragmentError::Track(TrackProblem::Unsupported {
            track: track.id,
            what: "a track with several sample entries in use".into(),
        })),
    }
}

/// Decode time of the first sample, output timeline, never negative: what `tfdt` says, else where the last fragment ended (as
/// ffmpeg has it, unless `tfxd` says there is a gap), else what `tfxd` says, else what the index expects.
fn decode_time(traf: &TrackFragment, track: &FragmentedTrack) -> Result<i64, FragmentError> {
    if let Some(time) = traf.decode_time {
        return i64::try_from(time)
            .ok()
            .and_then(|time| time.checked_add(track.shift))
            // Leaves room for offsets and durations on either side.
            .filter(|time| *time < i64::MAX / 2)
            .ok_or_else(|| malformed(track.id, "a decode time beyond 2^62"));
    }
    let first_offset = traf.runs.iter().find_map(|run| run.iter().next());
    let first_offset = i64::from(first_offset.map_or(0, |first| first.composition_offset));
    // The presentation time of the first sample, or its decode time, as writers have it; and some write negative ones, of priming. It is
    // the decode time where an index has the presentation time that follows from that.
    let listed = track.expected_composition.or(track.listed.filter(|_| track.next.is_none()));
    let composed = |time: i64| time.saturating_add(track.shift).saturating_add(first_offset);
    let before = |time: i64| if listed == Some(composed(time)) { 0 } else { first_offset };
    let stated = traf
        .tfxd
        .map(|(time, _)| time.cast_signed())
        .filter(|time| (0..i64::MAX / 4).contains(time))
        .map(|time| time.saturating_sub(before(time)).max(0).saturating_add(track.shift));
    let expected = track.expected_composition.map(|time| time.saturating_sub(first_offset).max(0));
    Ok(match (track.next, stated) {
        (Some(next), Some(stated)) if stated.saturating_sub(next) > i64::from(track.timescale.get()) => {
            stated
        }
        (Some(next), _) => next,
        (None, Some(stated)) => stated,
        (None, None) => expected.unwrap_or(track.shift),
    })
}

/// Where a sample of a track fragment takes what its run does not say (§8.8.3, §8.8.7).
struct SampleDefaults {
    duration: u32,
    size: u32,
    flags: u32,
}

impl SampleDefaults {
    fn new(traf: &TrackFragment, defaults: &[Trex]) -> Self {
        let trex = defaults.iter().find(|trex| trex.track_id == traf.track_id);
        Self {
            duration: traf.default_duration.or(trex.map(|trex| trex.duration)).unwrap_or(0),
            size: traf.default_size.or(trex.map(|trex| trex.size)).unwrap_or(0),
            flags: traf.default_flags.or(trex.map(|trex| trex.flags)).unwrap_or(0),
        }
    }

    fn duration(&self, entry: &TrunSample) -> u32 {
        entry.duration.unwrap_or(self.duration)
    }

    fn size(&self, entry: &TrunSample) -> u32 {
        entry.size.unwrap_or(self.size)
    }

    fn is_sync(&self, entry: &TrunSample) -> bool {
        sample_flags::is_sync(entry.flags.unwrap_or(self.flags))
    }
}

/// Whether sample flags say nothing: every sample can be decoded by itself, whatever writers put there.
/// xHE-AAC is the exception (ISO/IEC 23003-3: immediate play-out frames).
pub(crate) fn every_sample_is_sync(kind: TrackKind, codec: &Codec) -> bool {
    match &codec.config {
        Config::Aac(aac) => aac.core_object_type != 42 && aac.object_type != 42,
        _ => kind != TrackKind::Video,
    }
}
