//! The samples of a `moof`, with defaults, positions and times resolved (ISO/IEC 14496-12 §8.8).

use crate::{
    error::{IndexError, TrackProblem, TrackProblemKind},
    media::TrackKind,
    table::samples::Sample,
};
use latemux_isobmff::{
    Time, Timescale,
    boxes::{trex::Trex, trun::TrackRun},
    codec::{Codec, Config},
    fragment::{Moof, TrackFragment},
    sample_flags,
};
use std::collections::BTreeMap;

/// The properties of a track that its fragments depend on.
#[derive(Debug, Clone)]
pub(crate) struct FragmentedTrack {
    pub(crate) id: u32,
    pub(crate) timescale: Timescale,
    /// 1-based index of the sample entry its fragments must name.
    pub(crate) sample_description: u32,
    /// True if sample flags are ignored and all samples are sync samples.
    pub(crate) all_sync: bool,
    /// Ticks added to the source's decode times.
    pub(crate) shift: i64,
    /// Decode time after the last sample seen, on the output timeline.
    pub(crate) next: Option<i64>,
    /// Composition time of the first sample on the output timeline, for fragments without a time.
    pub(crate) expected_composition: Option<i64>,
    /// Composition time of the track's first sample on the output timeline, as an index box states
    /// it. It decides whether a `tfxd` holds decode or presentation times.
    pub(crate) listed: Option<i64>,
}

/// The tracks whose samples are wanted.
#[derive(Debug)]
pub(crate) struct FragmentedTracks {
    tracks: Vec<FragmentedTrack>,
    /// Index of each track by its ID. Hostile fragments name tracks a million times.
    numbers: BTreeMap<u32, usize>,
}

impl FragmentedTracks {
    pub(crate) fn new(tracks: Vec<FragmentedTrack>) -> Self {
        // Of several tracks with one ID, the first counts.
        let numbers = tracks.iter().enumerate().rev().map(|(number, track)| (track.id, number)).collect();
        Self { tracks, numbers }
    }

    /// Makes a track be walked like one that is not wanted.
    pub(crate) fn leave_out(&mut self, number: usize) {
        self.numbers.retain(|_, other| *other != number);
    }

    fn number(&self, id: u32) -> Option<usize> {
        self.numbers.get(&id).copied()
    }
}

/// The fragment defaults of all tracks, by track ID.
#[derive(Debug, Clone, Default)]
pub(crate) struct FragmentDefaults(BTreeMap<u32, Trex>);

impl FragmentDefaults {
    /// Of several defaults for one track, the first count.
    pub(crate) fn new(defaults: &[Trex]) -> Self {
        Self(defaults.iter().rev().map(|trex| (trex.track_id, *trex)).collect())
    }
}

#[derive(Debug, Clone)]
pub(crate) enum FragmentError {
    /// Samples end beyond the object.
    Truncated(String),
    /// The object has more samples than this limit.
    OverLimit(u64),
    Track(TrackProblem),
}

impl From<FragmentError> for IndexError {
    fn from(error: FragmentError) -> Self {
        match error {
            FragmentError::Truncated(what) => Self::Truncated(what),
            FragmentError::OverLimit(limit) => {
                Self::OverLimit { what: "samples for an object of this size", limit }
            }
            FragmentError::Track(problem) => Self::Track(problem),
        }
    }
}

/// Largest number of samples of one track in a fragment: fragments of hours stay below it.
const MAX_SAMPLES: u32 = 1 << 20;

/// The answer of a receiver of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It takes further samples of the track.
    Yes,
    /// It leaves the track out.
    No,
}

/// Passes every sample of `tracks` in a `moof` at `offset` to `found`, with the track's index. If
/// a track cannot be read, passes its problem instead. A track that is left out is walked like
/// tracks that are not wanted: their sample sizes may determine the positions of these samples.
pub(crate) fn resolve(
    moof: &Moof,
    offset: u64,
    object_size: u64,
    defaults: &FragmentDefaults,
    tracks: &mut FragmentedTracks,
    mut found: impl FnMut(usize, Result<Sample, TrackProblem>) -> Result<Wanted, FragmentError>,
) -> Result<(), FragmentError> {
    let mut end_of_data = offset;
    for traf in &moof.tracks {
        let trex = defaults.0.get(&traf.track_id);
        let base = match traf.base_data_offset {
            Some(base) => base,
            // §8.8.7.1: the `moof` for the first track, else the end of the previous track's data.
            None if traf.default_base_is_moof => offset,
            None => end_of_data,
        };
        let next = tracks.first_sample(traf, trex, &mut found)?;
        let defaults = SampleDefaults::new(traf, trex);
        let mut walk = RunWalk { track: traf.track_id, object_size, defaults, at: base, next };
        let mut count = 0_u32;
        for run in &traf.runs {
            if let Some(from_base) = run.data_offset {
                walk.at = base.checked_add_signed(from_base.into()).ok_or_else(|| {
                    malformed(traf.track_id, "a run of samples starts before the start of the object")
                })?;
            }
            count = count.saturating_add(run.count);
            if let Some(next) = walk.next.take_if(|_| count > MAX_SAMPLES) {
                let what = format!("a fragment of more than {MAX_SAMPLES} samples");
                found(next.number, Err(TrackProblemKind::TooLarge(what).of(traf.track_id)))?;
                tracks.leave_out(next.number);
            }
            walk.run(run, tracks, &mut found)?;
        }
        end_of_data = walk.at;
        if let Some(next) = walk.next
            && let Some(track) = tracks.tracks.get_mut(next.number)
        {
            track.next = Some(next.time);
        }
    }
    Ok(())
}

/// The next sample of a wanted track.
#[derive(Debug, Clone, Copy)]
struct NextSample {
    /// Index of the track.
    number: usize,
    all_sync: bool,
    /// Its decode time on the output timeline.
    time: i64,
}

impl FragmentedTracks {
    /// Returns the first sample of a track in a fragment, or `None` if the track is not wanted, or
    /// cannot be read, which `found` is told.
    fn first_sample(
        &mut self,
        traf: &TrackFragment,
        trex: Option<&Trex>,
        found: &mut impl FnMut(usize, Result<Sample, TrackProblem>) -> Result<Wanted, FragmentError>,
    ) -> Result<Option<NextSample>, FragmentError> {
        let Some(number) = self.number(traf.track_id) else { return Ok(None) };
        let Some(track) = self.tracks.get(number) else { return Ok(None) };
        match check_description(traf, trex, track).and_then(|()| decode_time(traf, track)) {
            Ok(time) => Ok(Some(NextSample { number, all_sync: track.all_sync, time })),
            Err(kind) => {
                found(number, Err(kind.of(traf.track_id)))?;
                self.leave_out(number);
                Ok(None)
            }
        }
    }
}

/// A walk over the runs of one track in a fragment.
struct RunWalk {
    /// ID of the track.
    track: u32,
    object_size: u64,
    defaults: SampleDefaults,
    /// Position of the next sample in the object.
    at: u64,
    /// `None` if the track is not wanted, or not any more.
    next: Option<NextSample>,
}

impl RunWalk {
    /// Passes the samples of a run to `found`, or steps over them if they are not wanted.
    fn run(
        &mut self,
        run: &TrackRun,
        tracks: &mut FragmentedTracks,
        found: &mut impl FnMut(usize, Result<Sample, TrackProblem>) -> Result<Wanted, FragmentError>,
    ) -> Result<(), FragmentError> {
        let track = self.track;
        let beyond = || malformed(track, "a sample ends beyond byte 2^64");
        if self.next.is_none() {
            self.at = self.at.checked_add(run.bytes(self.defaults.size)).ok_or_else(beyond)?;
            return Ok(());
        }
        for entry in run.iter() {
            let size = entry.size.unwrap_or(self.defaults.size);
            let offset = self.at;
            self.at = offset.checked_add(size.into()).ok_or_else(beyond)?;
            let Some(next) = &mut self.next else { continue };
            if self.at > self.object_size {
                return Err(self.truncated());
            }
            let duration = entry.duration.unwrap_or(self.defaults.duration);
            let flags = entry.flags.unwrap_or(self.defaults.flags);
            let sample = Sample {
                offset,
                size,
                decode_time: next.time,
                duration,
                composition_offset: entry.composition_offset,
                sync: next.all_sync || sample_flags::is_sync(flags),
            };
            next.time += i64::from(duration);
            if found(next.number, Ok(sample))? == Wanted::No {
                tracks.leave_out(next.number);
                self.next = None;
            }
        }
        Ok(())
    }

    fn truncated(&self) -> FragmentError {
        let Self { track, at: end, object_size, .. } = self;
        FragmentError::Truncated(format!(
            "a sample of track {track} ends at byte {end}, but the object ends at {object_size}"
        ))
    }
}

fn malformed(track: u32, what: &str) -> FragmentError {
    FragmentError::Track(TrackProblemKind::malformed(what).of(track))
}

fn check_description(
    traf: &TrackFragment,
    trex: Option<&Trex>,
    track: &FragmentedTrack,
) -> Result<(), TrackProblemKind> {
    let named = traf.sample_description_index.or(trex.map(|trex| trex.sample_description_index));
    // 0 is not a valid index, but some writers of files with one sample entry put it into `trex`.
    match named {
        None | Some(0) => Ok(()),
        Some(index) if index == track.sample_description => Ok(()),
        Some(_) => Err(TrackProblemKind::Unsupported("a track with several sample entries in use".into())),
    }
}

/// Returns the decode time of the first sample on the output timeline, never negative. It is the
/// time of `tfdt`, else the end of the last fragment (as in ffmpeg, unless `tfxd` states a gap),
/// else the time of `tfxd`, else the time the index expects.
fn decode_time(traf: &TrackFragment, track: &FragmentedTrack) -> Result<i64, TrackProblemKind> {
    let time = match traf.decode_time {
        Some(time) => i64::try_from(time).ok().and_then(|time| time.checked_add(track.shift)),
        None => Some(expected_decode_time(traf, track)),
    };
    time.filter(|time| *time <= Time::MAX_TICKS)
        .ok_or_else(|| TrackProblemKind::malformed("a decode time beyond 2^61"))
}

/// Returns the decode time of a fragment without `tfdt`.
fn expected_decode_time(traf: &TrackFragment, track: &FragmentedTrack) -> i64 {
    let first_offset = traf.runs.iter().find_map(|run| run.iter().next());
    let first_offset = i64::from(first_offset.map_or(0, |first| first.composition_offset));
    // Depending on the writer, `tfxd` holds the first sample's presentation time or its decode
    // time, and some writers make it negative for priming. It is the decode time if the
    // presentation time that this implies equals the one in the index.
    let listed = track.expected_composition.or(track.listed.filter(|_| track.next.is_none()));
    let composed = |time: i64| time + track.shift + first_offset;
    let before = |time: i64| if listed == Some(composed(time)) { 0 } else { first_offset };
    let stated = traf
        .tfxd
        .map(|(time, _)| time.cast_signed())
        .filter(|time| (0..Time::MAX_TICKS).contains(time))
        .map(|time| (time - before(time)).max(0) + track.shift);
    let expected = track.expected_composition.map(|time| (time - first_offset).max(0));
    match (track.next, stated) {
        (Some(next), Some(stated)) if stated - next > i64::from(track.timescale.get()) => stated,
        (Some(next), _) => next,
        (None, Some(stated)) => stated,
        (None, None) => expected.unwrap_or(track.shift),
    }
}

/// The values of samples that their run does not state (§8.8.3, §8.8.7).
struct SampleDefaults {
    duration: u32,
    size: u32,
    flags: u32,
}

impl SampleDefaults {
    fn new(traf: &TrackFragment, trex: Option<&Trex>) -> Self {
        Self {
            duration: traf.default_duration.or(trex.map(|trex| trex.duration)).unwrap_or(0),
            size: traf.default_size.or(trex.map(|trex| trex.size)).unwrap_or(0),
            flags: traf.default_flags.or(trex.map(|trex| trex.flags)).unwrap_or(0),
        }
    }
}

/// Returns true if sample flags can be ignored: every sample of the codec can be decoded by itself.
/// xHE-AAC is an exception (ISO/IEC 23003-3: immediate play-out frames).
pub(crate) fn every_sample_is_sync(kind: TrackKind, codec: &Codec) -> bool {
    match &codec.config {
        Config::Aac(aac) => aac.core_object_type != 42 && aac.object_type != 42,
        _ => kind != TrackKind::Video,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latemux_isobmff::emit::{EmitSample, FragmentSpec, smooth_fragment};

    #[test]
    fn decode_times_that_grow_from_fragment_to_fragment_do_not_overflow() {
        let samples = [EmitSample { size: 1, duration: u32::MAX, ..EmitSample::default() }];
        let spec = FragmentSpec {
            sequence: 1,
            track_id: 1,
            sample_description_index: None,
            decode_time: 0,
            samples: &samples,
        };
        let mut moof = Vec::new();
        smooth_fragment(&spec, 1, None, &mut moof).unwrap();
        let moof = Moof::parse(&moof.into(), 0).unwrap();
        let mut tracks = FragmentedTracks::new(vec![FragmentedTrack {
            id: 1,
            timescale: Timescale::MILLIS,
            sample_description: 1,
            all_sync: true,
            shift: 0,
            next: Some(Time::MAX_TICKS),
            expected_composition: None,
            listed: None,
        }]);
        let mut problem = None;
        let mut read = || {
            let none = FragmentDefaults::default();
            resolve(&moof, 0, 1 << 20, &none, &mut tracks, |_, found| {
                problem = found.err();
                Ok(Wanted::Yes)
            })
        };
        read().unwrap();
        read().unwrap();
        assert_eq!(problem.unwrap().kind, TrackProblemKind::malformed("a decode time beyond 2^61"));
    }
}
