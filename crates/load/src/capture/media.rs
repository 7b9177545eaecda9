//! One fragmented MP4 of the tracks of several.

use bytes::Bytes;
use latemux_isobmff::{
    Error as BoxError, FourCc, Time, Timescale,
    boxes::{ftyp::FileType, trex::Trex},
    cursor::Cursor,
    emit::{EmitSample, FragmentSpec, InitSegment, InitTrack, fragment},
    fragment::{Moof, TrackFragment},
    movie,
    time::Round,
};
use std::io::{self, Write};

/// Scale of the movie's own times, of which it has none.
const SCALE: Timescale = Timescale::MILLIS;

/// Why a fragment could not be taken over.
#[derive(Debug)]
pub(super) enum Error {
    Boxes(BoxError),
    Write(io::Error),
}

impl From<BoxError> for Error {
    fn from(error: BoxError) -> Self {
        Self::Boxes(error)
    }
}

/// The file that is made.
#[derive(Default)]
pub(super) struct Movie {
    tracks: Vec<InitTrack>,
    sequence: u32,
}

/// A track of a source, and what it is in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Track {
    /// Its ID in the source.
    source: u32,
    /// And in the file.
    id: u32,
    /// What fragments leave out.
    defaults: Trex,
    /// Ticks by which its edits present it later.
    later: u64,
}

impl Movie {
    /// Adds the tracks of an init segment.
    pub(super) fn add(&mut self, init: &Bytes) -> Result<Vec<Track>, BoxError> {
        let moov = Cursor::new(init, 0).find(b"moov")?;
        let parsed = movie::Movie::parse(&moov.raw(), moov.offset)?;
        let mut added = Vec::new();
        for track in parsed.tracks.into_iter().flatten() {
            let id = u32::try_from(self.tracks.len()).unwrap_or(u32::MAX).saturating_add(1);
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
                display_size: track.display_size,
                sample_entries: track.sample_entries,
                edit_media_time,
                trex: Trex::plain(id),
            });
            added.push(Track { source: track.id, id, defaults, later: u64::try_from(later).unwrap_or(0) });
        }
        Ok(added)
    }

    /// How many there are.
    pub(super) const fn tracks(&self) -> usize {
        self.tracks.len()
    }

    /// What the file begins with.
    pub(super) fn head(&self) -> Bytes {
        let iso6 = FourCc(*b"iso6");
        let brands = FileType { major: iso6, minor_version: 0, compatible: vec![iso6], of_segment: false };
        InitSegment { brands, timescale: SCALE, duration: None, tracks: self.tracks.clone() }.to_bytes()
    }

    /// Writes the fragments of a checked segment: its samples, and for each track of each fragment a head of its own.
    pub(super) fn fragments(
        &mut self,
        segment: &Bytes,
        tracks: &[Track],
        out: &mut (dyn Write + Send),
    ) -> Result<(), Error> {
        for found in Cursor::new(segment, 0).boxes() {
            let found = found?;
            if found.kind() != b"moof" {
                continue;
            }
            let moof = Moof::parse(&found.raw(), found.offset)?;
            let end = found.offset.saturating_add(u64::try_from(found.raw().len()).unwrap_or(u64::MAX));
            for fragment in &moof.tracks {
                if let Some(track) = tracks.iter().find(|track| track.source == fragment.track_id) {
                    self.track_fragment(segment, (found.offset, end), fragment, track, out)?;
                }
            }
        }
        Ok(())
    }

    fn track_fragment(
        &mut self,
        segment: &Bytes,
        (moof, end): (u64, u64),
        source: &TrackFragment,
        track: &Track,
        out: &mut (dyn Write + Send),
    ) -> Result<(), Error> {
        let default_duration = source.default_duration.unwrap_or(track.defaults.duration);
        let default_size = source.default_size.unwrap_or(track.defaults.size);
        let default_flags = source.default_flags.unwrap_or(track.defaults.flags);
        let mut samples = Vec::new();
        let mut media: Vec<&[u8]> = Vec::new();
        let mut next = end.saturating_add(8);
        for run in &source.runs {
            if let Some(offset) = run.data_offset {
                next = moof.saturating_add_signed(i64::from(offset));
            }
            let start = next;
            for sample in run.iter() {
                let size = sample.size.unwrap_or(default_size);
                samples.push(EmitSample {
                    size,
                    duration: sample.duration.unwrap_or(default_duration),
                    flags: sample.flags.unwrap_or(default_flags),
                    composition_offset: sample.composition_offset,
                });
                next = next.saturating_add(u64::from(size));
            }
            let bytes = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let missing = BoxError::Truncated { path: Cursor::new(segment, 0).path(), offset: start };
            media.push(segment.get(bytes(start)..bytes(next)).ok_or(missing)?);
        }
        if samples.is_empty() {
            return Ok(());
        }
        self.sequence = self.sequence.saturating_add(1);
        let spec = FragmentSpec {
            sequence: self.sequence,
            track_id: track.id,
            sample_description_index: source.sample_description_index,
            decode_time: source.decode_time.unwrap_or(0).saturating_add(track.later),
            samples: &samples,
        };
        let mut head = Vec::new();
        fragment(&spec, &mut head)?;
        let mut write = |bytes: &[u8]| out.write_all(bytes).map_err(Error::Write);
        write(&head)?;
        media.into_iter().try_for_each(write)
    }
}
