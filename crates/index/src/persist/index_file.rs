//! Writing an index MP4: `ftyp` and a `moov` with full sample tables, whose `dref` states the
//! location of the media.
//!
//! The boxes of a progressive file's `moov` are copied, except those with the location of its media
//! (`dref`, `stco`). For a fragmented file, the sample tables are written from its fragments, and
//! so are the boxes that depend on them: durations and edit lists.
//!
//! A title has the same bytes whether it is served from the media or from its index MP4. Sample
//! tables begin at 0, so if the first fragment decodes later, the edit list has another form.

use crate::{
    error::IndexError,
    locate::full_tables::{FullTables, FullTrack},
};
use bytes::{BufMut, Bytes};
use latemux_isobmff::{
    Error as BoxError, FourCc, Time, Timescale,
    boxes::{
        ctts::{self, CompositionOffsets},
        dref::{self, DataReference, External, MAX_LOCATION},
        elst::{Edit, EditList},
        ftyp::FileType,
        stco::ChunkOffsets,
        stsc::{self, SamplesToChunks},
        stss::SyncSamples,
        stsz::SampleSizes,
        stts::{self, TimeToSamples},
    },
    cursor::Cursor,
    emit::{Container, WriteBox, put_header},
    header::BoxHeader,
    time::{Round, gcd},
};
use std::collections::BTreeMap;

impl FullTables {
    /// Returns the index MP4. `location` is the URL of the media, absolute or relative to the index
    /// MP4. `path` is a relative location as a plain path, for readers that do not parse URLs.
    ///
    /// # Errors
    ///
    /// - [`IndexError::Malformed`] if the object is an index MP4 itself, or the location is empty,
    ///   too long or contains a null character
    /// - [`IndexError::Box`] if a box of the source cannot be parsed
    pub fn index_file(&self, location: &str, path: Option<&str>) -> Result<Bytes, IndexError> {
        if location.is_empty() || location.len() > MAX_LOCATION || location.contains('\0') {
            let what = format!("the location must have 1 to {MAX_LOCATION} bytes and no null character");
            return Err(IndexError::Malformed(what));
        }
        let mut out = Vec::with_capacity(self.moov.len() + (64 << 10));
        match (&self.file_type, &self.fragmented) {
            (Some(file_type), None) => out.put_slice(file_type),
            // The brands of fragmented files promise fragments.
            _ => plain_file_type().write(&mut out),
        }
        let writer = IndexFileWriter { location, path, tables: self };
        let payload = writer.moov()?;
        put_header(&mut out, FourCc(*b"moov"), payload.len() as u64);
        out.put_slice(&payload);
        Ok(out.into())
    }
}

/// Returns an `ftyp` for sample tables. Version 1 of `ctts` (negative offsets) requires `iso4`.
fn plain_file_type() -> FileType {
    let brands = [*b"isom", *b"iso4", *b"mp41"].map(FourCc);
    FileType { major: FourCc(*b"isom"), minor_version: 0, compatible: brands.to_vec(), is_segment: false }
}

/// Writes the boxes of one index MP4.
struct IndexFileWriter<'a> {
    location: &'a str,
    path: Option<&'a str>,
    tables: &'a FullTables,
}

/// The properties of a fragmented track that depend on its samples.
struct TrackTiming {
    /// Edit list, in movie ticks.
    edits: Vec<Edit>,
    /// Duration of the presentation, in movie ticks.
    presented: u64,
    /// Duration of the media, in track ticks.
    media: u64,
}

fn put(out: &mut Vec<u8>, kind: FourCc, payload: &[u8]) {
    put_header(out, kind, payload.len() as u64);
    out.put_slice(payload);
}

impl IndexFileWriter<'_> {
    /// Returns the payload of the `moov`.
    fn moov(&self) -> Result<Vec<u8>, IndexError> {
        let header =
            BoxHeader::read(&self.tables.moov, 0)?.map_or(8, |header| usize::from(header.header_len));
        let payload = self.tables.moov.slice(header.min(self.tables.moov.len())..);
        let scale = self.movie_scale();
        let timing: Option<BTreeMap<usize, TrackTiming>> = self
            .tables
            .fragmented
            .as_ref()
            .map(|tracks| tracks.iter().map(|(&number, track)| (number, track.timing(scale))).collect());
        let mut out = Vec::new();
        let mut number = 0;
        for child in Cursor::new(&payload, 0).boxes() {
            let child = child?;
            match &child.kind().0 {
                b"trak" => {
                    let fragmented = match (&self.tables.fragmented, &timing) {
                        (Some(tracks), Some(timing)) => tracks.get(&number).zip(timing.get(&number)),
                        _ => None,
                    };
                    // Tracks of a fragmented file that are left out have no samples to point to.
                    if self.tables.fragmented.is_none() || fragmented.is_some() {
                        let trak = self.trak(&child.payload, fragmented)?;
                        put(&mut out, child.kind(), &trak);
                    }
                    number += 1;
                }
                b"mvex" => {}
                b"mvhd" if timing.is_some() => {
                    let longest = timing.iter().flat_map(BTreeMap::values).map(|t| t.presented).max();
                    let scaled = with_scale(&child.payload.clone().rest(), scale);
                    put(&mut out, child.kind(), &with_duration(scaled, 16, longest.unwrap_or(0)));
                }
                _ => out.put_slice(&child.raw()),
            }
        }
        self.tables.stamp.write(&mut out);
        Ok(out)
    }

    /// Returns the timescale of the movie: the source's, unless a track's delay needs a finer one.
    fn movie_scale(&self) -> Timescale {
        let scale = self.tables.timescale;
        let Some(tracks) = &self.tables.fragmented else { return scale };
        let exact = |scale: Timescale, track: &FullTrack| {
            let (delay, _) = track.delay_and_start();
            delay.checked_mul(scale.get().into()).is_some_and(|d| d % i64::from(track.timescale.get()) == 0)
        };
        if tracks.values().all(|track| exact(scale, track)) {
            return scale;
        }
        let common = tracks.values().map(|track| track.timescale.get()).try_fold(1, common_multiple);
        common.and_then(Timescale::new).unwrap_or(scale)
    }

    fn trak(
        &self,
        trak: &Cursor<'_>,
        fragmented: Option<(&FullTrack, &TrackTiming)>,
    ) -> Result<Vec<u8>, IndexError> {
        let mut out = Vec::new();
        for child in trak.boxes() {
            let child = child?;
            match (&child.kind().0, fragmented) {
                (b"mdia", _) => put(&mut out, child.kind(), &self.mdia(&child.payload, fragmented)?),
                (b"edts", Some(_)) => {}
                (b"tkhd", Some((_, timing))) => {
                    let payload = child.payload.clone().rest();
                    put(&mut out, child.kind(), &with_duration(payload.to_vec(), 20, timing.presented));
                    if !timing.edits.is_empty() {
                        let list = EditList(&timing.edits);
                        Container(b"edts", &[&list]).write(&mut out);
                    }
                }
                _ => out.put_slice(&child.raw()),
            }
        }
        Ok(out)
    }

    fn mdia(
        &self,
        mdia: &Cursor<'_>,
        fragmented: Option<(&FullTrack, &TrackTiming)>,
    ) -> Result<Vec<u8>, IndexError> {
        let mut out = Vec::new();
        for child in mdia.boxes() {
            let child = child?;
            match (&child.kind().0, fragmented) {
                (b"minf", _) => {
                    let minf = self.minf(&child.payload, fragmented.map(|(track, _)| track))?;
                    put(&mut out, child.kind(), &minf);
                }
                (b"mdhd", Some((_, timing))) => {
                    let payload = child.payload.clone().rest();
                    put(&mut out, child.kind(), &with_duration(payload.to_vec(), 16, timing.media));
                }
                _ => out.put_slice(&child.raw()),
            }
        }
        Ok(out)
    }

    fn minf(&self, minf: &Cursor<'_>, fragmented: Option<&FullTrack>) -> Result<Vec<u8>, IndexError> {
        let mut out = Vec::new();
        let mut entries = 1;
        for child in minf.boxes() {
            let child = child?;
            match &child.kind().0 {
                b"dinf" => entries = entries.max(self_contained(&child.payload)?),
                b"stbl" => {
                    let dref = External { location: self.location, path: self.path, entries };
                    Container(b"dinf", &[&dref]).write(&mut out);
                    match fragmented {
                        Some(track) => track.stbl(&child.payload, &mut out)?,
                        None => put(&mut out, child.kind(), &wide_offsets(&child.payload)?),
                    }
                }
                _ => out.put_slice(&child.raw()),
            }
        }
        Ok(out)
    }
}

/// Returns the number of entries of a `dinf`, all of which must mean the file itself.
fn self_contained(dinf: &Cursor<'_>) -> Result<u16, IndexError> {
    let dref = match dinf.find(b"dref") {
        Ok(dref) => dref::parse(dref.payload)?,
        Err(BoxError::Missing { .. }) => return Ok(1),
        Err(error) => return Err(error.into()),
    };
    if dref.iter().any(|entry| *entry != DataReference::SelfContained) {
        return Err(IndexError::Malformed("the object is an index MP4 itself".to_owned()));
    }
    u16::try_from(dref.len()).map_err(|_| IndexError::Malformed("too many data references".to_owned()))
}

/// Returns the payload of a `stbl` with all chunk offsets in 64 bits.
fn wide_offsets(stbl: &Cursor<'_>) -> Result<Vec<u8>, IndexError> {
    let mut out = Vec::new();
    for child in stbl.boxes() {
        let child = child?;
        if child.kind() == b"stco" {
            let offsets = ChunkOffsets::parse(child.payload, false)?;
            put_offsets(offsets.iter(), &mut out);
        } else {
            out.put_slice(&child.raw());
        }
    }
    Ok(out)
}

/// Appends a `co64`, even if 32 bits would be enough: the media may have any size.
fn put_offsets(offsets: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
    put_header(out, FourCc(*b"co64"), 8 + 8 * offsets.len() as u64);
    out.put_u32(0);
    out.put_u32(u32::try_from(offsets.len()).unwrap_or(u32::MAX));
    offsets.for_each(|offset| out.put_u64(offset));
}

impl FullTrack {
    fn timing(&self, movie: Timescale) -> TrackTiming {
        let movie_ticks = |ticks: i64, round| {
            u64::try_from(Time::new(ticks, self.timescale).in_scale(movie, round)).unwrap_or(0)
        };
        let first = self.table.decode_time(0);
        let ends = self
            .table
            .range(0..u32::MAX)
            .map(|s| s.decode_time + i64::from(s.composition_offset) + i64::from(s.duration) - first);
        let end = ends.max().unwrap_or(0);
        let media = self.table.decode_time(u32::MAX) - first;
        let (delay, start) = self.delay_and_start();
        let played = movie_ticks(end - start, Round::Up);
        let delay = movie_ticks(delay, Round::Nearest);
        let mut edits = Vec::new();
        if delay > 0 {
            edits.push(Edit { duration: delay, media_time: None, rate: Edit::NORMAL_RATE });
        }
        if delay > 0 || self.edits.media_start().is_some() {
            let media_time = Some(u64::try_from(start).unwrap_or(0));
            edits.push(Edit { duration: played, media_time, rate: Edit::NORMAL_RATE });
        }
        TrackTiming { edits, presented: delay + played, media: u64::try_from(media).unwrap_or(0) }
    }

    /// Appends the `stbl`: the source's sample entries, and all samples of all fragments.
    fn stbl(&self, source: &Cursor<'_>, out: &mut Vec<u8>) -> Result<(), IndexError> {
        let mut durations: Vec<(u32, u32)> = Vec::new();
        let mut compositions: Vec<(i32, u32)> = Vec::new();
        let mut sizes = Vec::new();
        let mut sync = Vec::new();
        let mut chunks: Vec<(u64, u32)> = Vec::new();
        let mut reached = None;
        for (number, sample) in (1_u32..).zip(self.table.range(0..u32::MAX)) {
            push_run(&mut durations, sample.duration);
            push_run(&mut compositions, sample.composition_offset);
            sizes.push(sample.size);
            if sample.sync {
                sync.push(number);
            }
            match chunks.last_mut() {
                Some((_, samples)) if reached == Some(sample.offset) => *samples += 1,
                _ => chunks.push((sample.offset, 1)),
            }
            reached = Some(sample.offset + u64::from(sample.size));
        }
        let stts: TimeToSamples =
            durations.iter().map(|&(delta, count)| stts::Run { count, delta }).collect();
        let ctts: CompositionOffsets =
            compositions.iter().map(|&(offset, count)| ctts::Run { count, offset }).collect();
        let stsz: SampleSizes = sizes.into_iter().collect();
        let stss: SyncSamples = sync.into_iter().collect();
        let mut per_chunk: Vec<stsc::Run> = Vec::new();
        for (first_chunk, &(_, samples_per_chunk)) in (1..).zip(&chunks) {
            if per_chunk.last().is_none_or(|run| run.samples_per_chunk != samples_per_chunk) {
                let sample_description_index = self.sample_description;
                per_chunk.push(stsc::Run { first_chunk, samples_per_chunk, sample_description_index });
            }
        }
        let stsc: SamplesToChunks = per_chunk.into_iter().collect();

        let mut payload = Vec::new();
        payload.put_slice(&source.find(b"stsd")?.raw());
        stts.write(&mut payload);
        if compositions.iter().any(|&(offset, _)| offset != 0) {
            ctts.write(&mut payload);
        }
        if !self.table.all_sync() {
            stss.write(&mut payload);
        }
        stsc.write(&mut payload);
        stsz.write(&mut payload);
        put_offsets(chunks.iter().map(|&(offset, _)| offset), &mut payload);
        put(out, FourCc(*b"stbl"), &payload);
        Ok(())
    }
}

/// Appends a value to runs of equal values with their counts.
fn push_run<T: PartialEq>(runs: &mut Vec<(T, u32)>, value: T) {
    match runs.last_mut() {
        Some((last, count)) if *last == value => *count += 1,
        _ => runs.push((value, 1)),
    }
}

/// Sets the duration of a `mvhd`, `mdhd` or `tkhd`. It lies `at` bytes into the payload in version
/// 0, and 8 bytes later in version 1, after two 64-bit times. A duration that does not fit is
/// written as unknown (all ones).
fn with_duration(mut payload: Vec<u8>, at: usize, duration: u64) -> Vec<u8> {
    if payload.first() == Some(&1) {
        let field = payload.get_mut(at + 8..).and_then(|rest| rest.first_chunk_mut::<8>());
        if let Some(field) = field {
            *field = duration.to_be_bytes();
        }
    } else if let Some(field) = payload.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *field = u32::try_from(duration).unwrap_or(u32::MAX).to_be_bytes();
    }
    payload
}

/// Sets the timescale of a `mvhd`.
fn with_scale(payload: &[u8], scale: Timescale) -> Vec<u8> {
    let mut payload = payload.to_vec();
    let at = if payload.first() == Some(&1) { 20 } else { 12 };
    if let Some(field) = payload.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *field = scale.get().to_be_bytes();
    }
    payload
}

fn common_multiple(a: u32, b: u32) -> Option<u32> {
    (a / gcd(a, b).max(1)).checked_mul(b)
}
