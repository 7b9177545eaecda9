//! The output file: one fragmented MP4. It takes the tracks of fragments, and tracks that arrive as
//! samples from other containers.

use crate::{
    CaptureError,
    sample_entry::TrackEntry,
    samples::{Sample, TrackSamples},
};
use bytes::Bytes;
use latemux_client::failure::Failure;
use latemux_isobmff::{
    Error as BoxError, FourCc, Time, Timescale,
    boxes::mdhd::Language,
    boxes::{ftyp::FileType, trex::Trex},
    cursor::Cursor,
    emit::{EmitSample, FragmentSpec, InitSegment, InitTrack, fragment},
    fragment::{Moof, TrackFragment},
    matrix::Matrix,
    movie, sample_flags,
    time::Round,
};
use std::{io::Write, ops::Range};

/// The timescale of the movie header, which holds no times.
const SCALE: Timescale = Timescale::MILLIS;

/// The output file.
#[derive(Default)]
pub(super) struct Mp4 {
    tracks: Vec<InitTrack>,
    queues: Vec<Queue>,
    sequence: u32,
}

/// A track that arrives as samples. The samples of the last segment wait for the next one, which
/// determines the duration of the last sample.
struct Queue {
    /// The track ID in the output.
    id: u32,
    /// Ticks to add to the stream's times.
    shift: i64,
    entry: TrackEntry,
    samples: Vec<Sample>,
}

/// A track of fragments, and its track in the output.
#[derive(Debug, Clone)]
pub(super) struct SourceTrack {
    /// The track ID in the source; `None` if the source has only this track.
    source: Option<u32>,
    /// The track ID in the output.
    id: u32,
    /// Defaults for fields that fragments omit.
    defaults: Trex,
    timescale: u32,
    /// Ticks to add to the times of its fragments.
    later: i64,
    /// For each sample entry of the source, its 1-based index in the output. `None` if all are the
    /// same.
    entries: Option<Vec<u32>>,
}

impl Mp4 {
    /// Adds the tracks of an init segment.
    pub(super) fn add(&mut self, init: &Bytes) -> Result<Vec<SourceTrack>, BoxError> {
        let moov = Cursor::new(init, 0).find(b"moov")?;
        let parsed = movie::Movie::parse(&moov.raw(), moov.offset)?;
        let mut added = Vec::new();
        for track in parsed.tracks.into_iter().flatten() {
            let id = self.next_id();
            let trexes = parsed.fragments.as_deref().unwrap_or_default();
            let plain = Trex::plain(track.id);
            let defaults = trexes.iter().find(|trex| trex.track_id == track.id).copied().unwrap_or(plain);
            let empty = track.edits.iter().take_while(|edit| edit.media_time.is_none());
            let later = empty.fold(0_i64, |sum, edit| sum.saturating_add_unsigned(edit.duration));
            let later = Time::new(later, parsed.timescale).in_scale(track.timescale, Round::Nearest);
            let edit_media_time = track.edits.iter().find_map(|edit| edit.media_time).unwrap_or(0);
            self.tracks.push(InitTrack {
                track_id: id,
                handler: track.handler,
                timescale: track.timescale,
                language: track.language,
                enabled: track.enabled,
                alternate_group: track.alternate_group,
                matrix: track.matrix,
                display_size: track.display_size,
                sample_entries: track.sample_entries,
                edit_media_time,
                trex: Trex::plain(id),
            });
            let timescale = track.timescale.get();
            added.push(SourceTrack { source: Some(track.id), id, defaults, timescale, later, entries: None });
        }
        Ok(added)
    }

    /// Makes the tracks of another init segment continue `tracks`, in the same order.
    pub(super) fn continue_as(
        &mut self,
        init: &Bytes,
        tracks: &[SourceTrack],
    ) -> Result<Vec<SourceTrack>, CaptureError> {
        let mut other = Self::default();
        let mut added = other.add(init).map_err(Failure::from)?;
        let changes = || CaptureError::unsupported("a track whose kind or timescale changes");
        for (place, added) in added.iter_mut().enumerate() {
            let known = tracks.get(place).ok_or_else(changes)?;
            let ours = self.tracks.iter_mut().find(|track| track.track_id == known.id).ok_or_else(changes)?;
            let theirs = other.tracks.get(place).ok_or_else(changes)?;
            if (ours.handler, ours.timescale) != (theirs.handler, theirs.timescale) {
                return Err(changes());
            }
            let mut entries = Vec::new();
            for entry in &theirs.sample_entries {
                let same = ours.sample_entries.iter().position(|ours| ours.raw == entry.raw);
                let at = same.unwrap_or(ours.sample_entries.len());
                if same.is_none() {
                    ours.sample_entries.push(entry.clone());
                }
                entries.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
            }
            // The output has the edit list of the first init segment.
            let edit = |track: &InitTrack| i64::try_from(track.edit_media_time).unwrap_or(i64::MAX);
            let later = added.later.checked_add(edit(ours)).and_then(|later| later.checked_sub(edit(theirs)));
            added.later = later.ok_or_else(beyond)?;
            (added.id, added.entries) = (known.id, Some(entries));
        }
        Ok(added)
    }

    fn next_id(&self) -> u32 {
        u32::try_from(self.tracks.len() + 1).unwrap_or(u32::MAX)
    }

    fn add_entry(&mut self, entry: &TrackEntry, timescale: Timescale, language: &str) -> u32 {
        let id = self.next_id();
        let (width, height) = entry.size;
        self.tracks.push(InitTrack {
            track_id: id,
            handler: entry.handler,
            timescale,
            language: Language::new(language).unwrap_or_else(Language::unknown),
            enabled: true,
            alternate_group: 0,
            matrix: Matrix::UNITY,
            display_size: (u32::from(width) << 16, u32::from(height) << 16),
            sample_entries: vec![entry.entry.clone()],
            edit_media_time: 0,
            trex: Trex::plain(id),
        });
        id
    }

    /// Adds a track whose fragments have no init segment.
    pub(super) fn add_track(
        &mut self,
        entry: &TrackEntry,
        timescale: Timescale,
        language: &str,
    ) -> SourceTrack {
        let id = self.add_entry(entry, timescale, language);
        let timescale = timescale.get();
        SourceTrack { source: None, id, defaults: Trex::plain(id), timescale, later: 0, entries: None }
    }

    /// Adds a track that arrives as samples, and returns its index among such tracks.
    pub(super) fn add_samples(&mut self, found: &TrackSamples) -> Result<usize, CaptureError> {
        let no_scale = || CaptureError::unsupported("a track without a timescale");
        let timescale = Timescale::new(found.timescale).ok_or_else(no_scale)?;
        let id = self.add_entry(&found.entry, timescale, &found.language);
        self.queues.push(Queue { id, shift: 0, entry: found.entry.clone(), samples: Vec::new() });
        Ok(self.queues.len() - 1)
    }

    /// Aligns the tracks that arrive as samples: the sample presented first is at 0, and an edit
    /// list hides the time before it. `found` holds the first samples of each track.
    pub(super) fn begin(&mut self, found: &[(usize, &TrackSamples)]) {
        let shown = |found: &TrackSamples| {
            let first = found.samples.iter().map(|sample| sample.shown).min()?;
            Some(seconds(first, found.timescale))
        };
        let origin = found.iter().filter_map(|(_, found)| shown(found)).min_by(f64::total_cmp).unwrap_or(0.0);
        for (place, found) in found {
            let Some(queue) = self.queues.get_mut(*place) else { continue };
            let origin = ticks(origin, found.timescale);
            let first = found.samples.first().map_or(origin, |sample| sample.decode);
            let early = (origin - first).max(0);
            queue.shift = early - origin;
            let id = queue.id;
            if let Some(track) = self.tracks.iter_mut().find(|track| track.track_id == id) {
                track.edit_media_time = early.unsigned_abs();
            }
        }
    }

    /// Takes samples of a track, and adds `later` seconds to their times. Writes the samples that
    /// the last call took.
    pub(super) fn samples(
        &mut self,
        place: usize,
        mut found: TrackSamples,
        later: f64,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let Some(queue) = self.queues.get_mut(place) else { return Ok(()) };
        if !queue.entry.can_replace(&found.entry) {
            return Err(CaptureError::unsupported("a track whose coding changes"));
        }
        let later = ticks(later, found.timescale);
        for sample in &mut found.samples {
            sample.decode += later;
            sample.shown += later;
        }
        let before = std::mem::replace(&mut queue.samples, found.samples);
        let next = queue.samples.first().map(|sample| sample.decode);
        let id = queue.id;
        let shift = queue.shift;
        self.write(id, shift, &before, next, out)
    }

    /// Writes the last samples of each track.
    pub(super) fn finish(&mut self, out: &mut (dyn Write + Send)) -> Result<(), CaptureError> {
        for place in 0..self.queues.len() {
            let Some(queue) = self.queues.get_mut(place) else { break };
            let id = queue.id;
            let shift = queue.shift;
            let last = std::mem::take(&mut queue.samples);
            self.write(id, shift, &last, None, out)?;
        }
        Ok(())
    }

    /// Writes a fragment of consecutive samples. `next` is the decode time of the sample after
    /// them.
    fn write(
        &mut self,
        track_id: u32,
        shift: i64,
        samples: &[Sample],
        next: Option<i64>,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let Some(first) = samples.first() else { return Ok(()) };
        let mut emit: Vec<EmitSample> = Vec::with_capacity(samples.len());
        for (place, sample) in samples.iter().enumerate() {
            let behind = samples.get(place + 1).map(|sample| sample.decode);
            let until = |time: Option<i64>| u32::try_from(time?.checked_sub(sample.decode)?).ok();
            let before = || emit.last().map(|sample| sample.duration);
            let stated = sample.duration.filter(|_| behind.is_none());
            emit.push(EmitSample {
                size: u32::try_from(sample.data.len()).unwrap_or(u32::MAX),
                duration: stated.or(until(behind)).or(until(next)).or_else(before).unwrap_or(0),
                flags: if sample.is_sync { sample_flags::SYNC } else { sample_flags::NON_SYNC },
                composition_offset: i32::try_from(sample.shown - sample.decode).unwrap_or(0),
            });
        }
        let decode_time = u64::try_from(first.decode + shift).unwrap_or(0);
        self.write_head(track_id, None, decode_time, &emit, out)?;
        samples.iter().try_for_each(|sample| Ok(out.write_all(&sample.data)?))
    }

    /// Writes the next `moof` and the header of its `mdat`.
    fn write_head(
        &mut self,
        track_id: u32,
        sample_description_index: Option<u32>,
        decode_time: u64,
        samples: &[EmitSample],
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        self.sequence += 1;
        let sequence = self.sequence;
        let spec = FragmentSpec { sequence, track_id, sample_description_index, decode_time, samples };
        let mut head = Vec::new();
        fragment(&spec, &mut head).map_err(Failure::from)?;
        Ok(out.write_all(&head)?)
    }

    /// Returns the number of tracks.
    pub(super) const fn tracks(&self) -> usize {
        self.tracks.len()
    }

    /// Returns the head of the file: `ftyp` and `moov`.
    pub(super) fn head(&self) -> Bytes {
        let iso6 = FourCc(*b"iso6");
        let brands = FileType { major: iso6, minor_version: 0, compatible: vec![iso6], is_segment: false };
        InitSegment {
            brands,
            timescale: SCALE,
            duration: None,
            tracks: self.tracks.clone(),
            pssh: Vec::new(),
        }
        .to_bytes()
    }

    /// Writes the samples of a segment whose fragments have been checked, each track of each
    /// fragment as a fragment of its own. `time` is the decode time, in ticks, of fragments that
    /// state none; `later` is added to all times, in seconds.
    pub(super) fn fragments(
        &mut self,
        segment: &Bytes,
        tracks: &[SourceTrack],
        (time, later): (u64, f64),
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        for found in Cursor::new(segment, 0).boxes() {
            let found = found.map_err(Failure::from)?;
            if found.kind() != b"moof" {
                continue;
            }
            let moof = Moof::parse(&found.raw(), found.offset).map_err(Failure::from)?;
            let end = found.offset + found.raw().len() as u64;
            for fragment in &moof.tracks {
                if let Some(track) =
                    tracks.iter().find(|track| track.source.is_none_or(|id| id == fragment.track_id))
                {
                    self.track_fragment(segment, found.offset..end, fragment, (track, time, later), out)?;
                }
            }
        }
        Ok(())
    }

    fn track_fragment(
        &mut self,
        segment: &Bytes,
        moof: Range<u64>,
        source: &TrackFragment,
        (track, time, later): (&SourceTrack, u64, f64),
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let default_duration = source.default_duration.unwrap_or(track.defaults.duration);
        let default_size = source.default_size.unwrap_or(track.defaults.size);
        let default_flags = source.default_flags.unwrap_or(track.defaults.flags);
        let mut samples = Vec::new();
        let mut media: Vec<&[u8]> = Vec::new();
        for (place, run) in source.placed_runs(moof, default_size) {
            samples.extend(run.iter().map(|sample| EmitSample {
                size: sample.size.unwrap_or(default_size),
                duration: sample.duration.unwrap_or(default_duration),
                flags: sample.flags.unwrap_or(default_flags),
                composition_offset: sample.composition_offset,
            }));
            let bytes = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let missing = BoxError::Truncated { path: Cursor::new(segment, 0).path(), offset: place.start };
            let run = segment.get(bytes(place.start)..bytes(place.end));
            media.push(run.ok_or_else(|| Failure::from(missing))?);
        }
        if samples.is_empty() {
            return Ok(());
        }
        let stated = source.decode_time.or(source.tfxd.map(|(time, _)| time)).unwrap_or(time);
        let later = track.later.checked_add(ticks(later, track.timescale)).ok_or_else(beyond)?;
        let description = source.sample_description_index.filter(|_| track.source.is_some());
        let mapped = track.entries.as_ref().map(|entries| {
            let index = description.unwrap_or(track.defaults.sample_description_index);
            let place = usize::try_from(index.saturating_sub(1)).unwrap_or(usize::MAX);
            entries.get(place).copied().unwrap_or(1)
        });
        // Samples before 0 prepare the decoder, and start at 0.
        let decode_time = match later {
            ..0 => stated.saturating_add_signed(later),
            _ => stated.checked_add_signed(later).ok_or_else(beyond)?,
        };
        self.write_head(track.id, mapped.or(description), decode_time, &samples, out)?;
        media.into_iter().try_for_each(|run| Ok(out.write_all(run)?))
    }
}

fn seconds(ticks: i64, timescale: u32) -> f64 {
    ticks as f64 / f64::from(timescale)
}

fn beyond() -> CaptureError {
    CaptureError::unsupported("a time beyond 2^63 ticks")
}

/// Returns seconds in ticks, at most [`Time::MAX_TICKS`] on either side of zero.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn ticks(seconds: f64, timescale: u32) -> i64 {
    let ticks = (seconds * f64::from(timescale)).round() as i64;
    ticks.clamp(-Time::MAX_TICKS, Time::MAX_TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_entry::ttml_entry;
    use latemux_isobmff::boxes::trun::TrackRun;

    fn sample(decode: i64, shown: i64, data: &[u8]) -> Sample {
        Sample { decode, shown, duration: None, is_sync: decode == 0, data: data.to_vec() }
    }

    fn track(timescale: u32, samples: Vec<Sample>) -> TrackSamples {
        TrackSamples { source: 1, timescale, entry: ttml_entry(), language: "eng".to_owned(), samples }
    }

    /// Returns track, decode time, durations and offsets of each fragment.
    fn fragments(file: &[u8]) -> Vec<(u32, u64, Vec<u32>, Vec<i32>)> {
        let file = Bytes::copy_from_slice(file);
        let mut found = Vec::new();
        for child in Cursor::new(&file, 0).boxes() {
            let child = child.unwrap();
            if child.kind() == b"moof" {
                let moof = Moof::parse(&child.raw(), child.offset).unwrap();
                for track in &moof.tracks {
                    let samples = || track.runs.iter().flat_map(TrackRun::iter);
                    let durations =
                        samples().map(|sample| sample.duration.or(track.default_duration).unwrap());
                    let offsets = samples().map(|sample| sample.composition_offset);
                    let time = track.decode_time.unwrap();
                    found.push((track.track_id, time, durations.collect(), offsets.collect()));
                }
            }
        }
        found
    }

    #[test]
    fn the_next_segment_determines_the_last_duration() {
        let mut file = Mp4::default();
        let mut out = Vec::new();
        let first = track(1000, vec![sample(0, 0, b"a"), sample(40, 40, b"b")]);
        let queue = file.add_samples(&first).unwrap();
        file.samples(queue, first, 0.0, &mut out).unwrap();
        assert!(out.is_empty(), "the last duration is not known yet");
        file.samples(queue, track(1000, vec![sample(100, 120, b"c"), sample(150, 150, b"d")]), 0.0, &mut out)
            .unwrap();
        assert_eq!(fragments(&out), [(1, 0, vec![40, 60], vec![0, 0])]);
        out.clear();
        // The last sample of all repeats the duration before it.
        file.finish(&mut out).unwrap();
        assert_eq!(fragments(&out), [(1, 100, vec![50, 50], vec![20, 0])]);
        out.clear();
        file.finish(&mut out).unwrap();
        assert!(out.is_empty(), "all samples have been written");
    }

    #[test]
    fn tracks_begin_together_and_an_edit_hides_earlier_samples() {
        let mut file = Mp4::default();
        // Video is presented at 1.08 s, but decoded from 1 s on; audio starts at 1.1 s.
        let video = track(1000, vec![sample(1000, 1080, b"v")]);
        let audio = track(48_000, vec![sample(52_800, 52_800, b"a")]);
        let queues = [file.add_samples(&video).unwrap(), file.add_samples(&audio).unwrap()];
        file.begin(&[(queues[0], &video), (queues[1], &audio)]);
        let edits: Vec<u64> = file.tracks.iter().map(|track| track.edit_media_time).collect();
        assert_eq!(edits, [80, 0]);
        let mut out = Vec::new();
        file.samples(queues[0], video, 0.0, &mut out).unwrap();
        file.samples(queues[1], audio, 0.0, &mut out).unwrap();
        file.finish(&mut out).unwrap();
        let starts: Vec<(u32, u64)> = fragments(&out).iter().map(|found| (found.0, found.1)).collect();
        // 1.1 - 1.08 s at 48 kHz.
        assert_eq!(starts, [(1, 0), (2, 960)]);
        assert_eq!(file.tracks(), 2);
    }

    #[test]
    fn times_are_moved_to_the_timeline_of_the_output() {
        let mut file = Mp4::default();
        let mut out = Vec::new();
        let first = track(1000, vec![sample(0, 0, b"a")]);
        let queue = file.add_samples(&first).unwrap();
        file.samples(queue, first, 0.0, &mut out).unwrap();
        file.samples(queue, track(1000, vec![sample(5000, 5000, b"b")]), -3.0, &mut out).unwrap();
        file.finish(&mut out).unwrap();
        let found = fragments(&out);
        assert_eq!((found[0].2.as_slice(), found[1].1), (&[2000][..], 2000));
    }

    #[test]
    fn a_track_keeps_its_sample_entry() {
        let mut file = Mp4::default();
        let first = track(1000, vec![sample(0, 0, b"a")]);
        let queue = file.add_samples(&first).unwrap();
        let mut other = track(1000, vec![sample(40, 40, b"b")]);
        other.entry.size = (1, 1);
        let error = file.samples(queue, other, 0.0, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "a track whose coding changes cannot be captured");
        let no_scale = Mp4::default().add_samples(&track(0, Vec::new())).unwrap_err();
        assert_eq!(no_scale.to_string(), "a track without a timescale cannot be captured");
    }

    /// A file with one track, as an init segment and a fragment of another file.
    fn source(timescale: u32, entry: u8) -> (Bytes, Bytes) {
        let mut file = Mp4::default();
        let mut first = track(timescale, vec![sample(0, 0, b"abc"), sample(40, 60, b"de")]);
        let mut raw = first.entry.entry.raw.to_vec();
        raw[20] = entry;
        first.entry.entry.raw = raw.into();
        let queue = file.add_samples(&first).unwrap();
        let mut out = Vec::new();
        file.samples(queue, first, 0.0, &mut out).unwrap();
        file.finish(&mut out).unwrap();
        (file.head(), out.into())
    }

    #[test]
    fn fragments_are_copied_with_other_track_ids() {
        let (head, segment) = source(1000, 1);
        let mut file = Mp4::default();
        file.add_samples(&track(90_000, Vec::new())).unwrap();
        let tracks = file.add(&head).unwrap();
        let mut out = Vec::new();
        file.fragments(&segment, &tracks, (0, 1.5), &mut out).unwrap();
        assert_eq!(fragments(&out), [(2, 1500, vec![40, 40], vec![0, 20])]);
        assert!(out.ends_with(b"abcde"), "the media is unchanged");
        let cut = segment.slice(..segment.len() - 1);
        assert!(file.fragments(&cut, &tracks, (0, 0.0), &mut out).is_err(), "media is missing");
    }

    #[test]
    fn times_that_no_file_holds_are_refused() {
        let (init, segment) = source(1000, 1);
        let mut file = Mp4::default();
        let mut tracks = file.add(&init).unwrap();
        tracks[0].later = i64::MAX;
        let error = file.fragments(&segment, &tracks, (0, 1.0), &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "a time beyond 2^63 ticks cannot be captured");
    }

    #[test]
    fn another_init_segment_continues_the_same_tracks() {
        let (first, _) = source(1000, 1);
        let (second, segment) = source(1000, 2);
        let mut file = Mp4::default();
        let tracks = file.add(&first).unwrap();
        let same = file.continue_as(&first, &tracks).unwrap();
        assert_eq!((same[0].id, same[0].entries.as_deref()), (1, Some(&[1][..])), "the same entry");
        let other = file.continue_as(&second, &tracks).unwrap();
        assert_eq!((other[0].id, other[0].entries.as_deref()), (1, Some(&[2][..])));
        assert_eq!((file.tracks(), file.tracks[0].sample_entries.len()), (1, 2));
        let mut out = Vec::new();
        file.fragments(&segment, &other, (0, 0.0), &mut out).unwrap();
        let bytes = Bytes::from(out);
        let found = Cursor::new(&bytes, 0).find(b"moof").unwrap();
        let moof = Moof::parse(&found.raw(), found.offset).unwrap();
        assert_eq!(moof.tracks[0].sample_description_index, Some(2));
        let (faster, _) = source(2000, 1);
        let error = file.continue_as(&faster, &tracks).unwrap_err();
        assert_eq!(error.to_string(), "a track whose kind or timescale changes cannot be captured");
    }
}
