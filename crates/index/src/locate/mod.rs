//! Finding an object's index: the locator returns which bytes to read next, without reading them.

mod chunks;
mod edits;
mod fragment_index;
pub mod fragment_reader;
mod fragmented;
pub mod full_tables;
mod hidden_frames;
pub mod limits;
mod moof_samples;
mod moov_tables;
mod movie;
mod object_reader;
mod placement;
mod random_access;
pub mod read_buffer;
mod repeated_frames;
mod scan;
mod segment_index;
mod thumbnails;
mod track_description;

use crate::{
    error::{IndexError, TrackProblem, TrackProblemKind},
    locate::{
        chunks::Chunks,
        fragmented::FoundSamples,
        full_tables::FullTables,
        limits::Limits,
        movie::FoundMovie,
        object_reader::{ObjectReader, Pause},
        placement::UnplacedTrack,
        read_buffer::{ObjectBytes, ReadBuffer},
        scan::Scan,
        track_description::TrackDescription,
    },
    media::{IndexSource, MediaIndex, Track, cut_box::CutBoxPlace, stamp::MediaStamp},
    table::column::unpacked::UnpackedValues,
};
use bytes::Bytes;
use latemux_isobmff::movie::Movie;
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// The first reads of an index, made in one round trip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstReads {
    /// Number of bytes to read from the start of the object, fewer if the object is shorter.
    /// [`Locator::step`] must be given them.
    pub head: u64,
    /// A range to read along with the head, if the size of the object was listed. It is a guess:
    /// give it to [`Locator::step`] only if the read succeeds and returns the head's version.
    pub tail: Option<Range<u64>>,
}

/// The next step of a [`Locator`].
#[derive(Debug)]
pub enum Step {
    /// These ranges must be read, all at once if possible: one round trip. Then call
    /// [`Locator::step`] with all of them.
    Read(Vec<Range<u64>>),
    /// Like `Read`, but every `moof` will have to be read. Callers should log that once.
    Scan(Vec<Range<u64>>),
    /// The index is complete.
    Done(Box<MediaIndex>),
}

/// Finds the index of one object. It must not take more round trips than needed: progressive files
/// take at most two (one if `moov` is within the head), `sidx` two, `mfra` three.
#[derive(Debug, Default)]
pub struct Locator {
    limits: Limits,
    read: ReadBuffer,
    /// The ranges requested by the last step. `None` before the head has been read.
    requested: Option<Vec<Range<u64>>>,
    round_trips: u32,
    /// The object's first bytes, as far as they go into the fingerprint.
    head: Bytes,
    movie: Option<FoundMovie>,
    scan: Option<Scan>,
    /// True if every sample is needed, even if the file's own index lists fragments.
    full: bool,
    tables: Option<FullTables>,
    /// Owner of the unpacked copies of columns, if these are kept.
    unpacked: Option<UnpackedValues>,
}

/// Most samples of a title or an index that take well below a millisecond of work: three minutes of
/// video with audio.
pub const QUICK_SAMPLES: u64 = 1 << 14;

/// Most bytes that [`Locator::quick_step`] parses.
const QUICK_BYTES: usize = 256 << 10;

/// Number of bytes of the object's start that go into its fingerprint.
const FINGERPRINT_HEAD: u64 = 64 << 10;

/// The size of an object divided by the size that its `moov` rarely exceeds. A `moov` grows by 200
/// to 700 bytes a second, and the media grows at least a hundred times as fast.
const USUAL_SHARE: u64 = 64;

/// Largest number of round trips, except for scans. Each repeats the walk over the boxes read so
/// far. Trees of `sidx` take one for each level, seldom more.
const MAX_ROUND_TRIPS: u32 = 128;

/// Largest number of round trips of a scan. A fragmented file without an index takes one for each
/// fragment.
const MAX_SCAN_ROUND_TRIPS: u32 = 1 << 18;

impl Locator {
    /// Returns a locator whose first read is the head.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns a locator that reads every `moof` of a fragmented file, even if the file has an
    /// index of its own, so that all samples are known. An index MP4 is written from its
    /// [`Self::full_tables`].
    pub fn for_full_tables(limits: Limits) -> Self {
        Self { full: true, ..Self::new(limits) }
    }

    /// Makes the index own unpacked copies of its columns, see [`MediaIndex::take_unpacked`].
    /// Until they are dropped, manifests are made without decoding the columns.
    #[must_use]
    pub fn keeping_values(self) -> Self {
        Self { unpacked: Some(UnpackedValues::default()), ..self }
    }

    /// Returns true for a locator made by [`Self::for_full_tables`].
    pub fn is_for_full_tables(&self) -> bool {
        self.full
    }

    /// Returns all sample tables after [`Step::Done`] of a [`Self::for_full_tables`] locator.
    pub fn full_tables(&self) -> Option<&FullTables> {
        self.tables.as_ref()
    }

    /// Returns the position of a scan of all fragments in bytes, or 0 if there is none.
    pub fn scanned(&self) -> u64 {
        self.scan.as_ref().map_or(0, |scan| scan.at)
    }

    /// Returns the first reads. `listed` is the object's size in bytes, if a listing states it.
    ///
    /// With a listed size, each end of the object is read as far as the index of most objects of
    /// that size extends: one round trip is then enough, wherever `moov` is. Small objects are read
    /// whole.
    pub fn first_reads(&self, listed: Option<u64>) -> FirstReads {
        let Limits { head, tail, ahead, .. } = self.limits;
        let Some(size) = listed else { return FirstReads { head, tail: None } };
        let usual = (size / USUAL_SHARE).min(ahead);
        let head = head.max(usual);
        let tail = tail.max(usual);
        match size.checked_sub(tail) {
            Some(start) if start > head => FirstReads { head, tail: Some(start..size) },
            _ => FirstReads { head: head.max(size), tail: None },
        }
    }

    /// Takes the bytes that were read, at least those requested, and returns the next step.
    ///
    /// # Errors
    ///
    /// - [`IndexError::NotMp4`] if the object is no MP4
    /// - [`IndexError::Truncated`] if requested bytes are missing, or a box ends beyond the object
    /// - [`IndexError::TooLarge`] and [`IndexError::OverLimit`] if the index exceeds a limit
    /// - [`IndexError::Malformed`] and [`IndexError::Box`] if boxes are missing, contradictory or
    ///   cannot be parsed
    pub fn step(&mut self, object_size: u64, got: Vec<ObjectBytes>) -> Result<Step, IndexError> {
        match self.advance(object_size, got, false)? {
            Some(step) => Ok(step),
            None => Err(IndexError::Malformed("reading the index does not terminate".to_owned())),
        }
    }

    /// Takes the bytes that were read like [`Self::step`], if the step takes well below a
    /// millisecond. Otherwise keeps them and returns `None`: [`Self::step`] must then be called
    /// without any, on a thread that may be busy for long.
    ///
    /// # Errors
    ///
    /// The same as those of [`Self::step`].
    pub fn quick_step(
        &mut self,
        object_size: u64,
        got: Vec<ObjectBytes>,
    ) -> Result<Option<Step>, IndexError> {
        self.advance(object_size, got, true)
    }

    /// Takes a step, or returns `None` if it `must_be_quick` and would not be.
    fn advance(
        &mut self,
        object_size: u64,
        got: Vec<ObjectBytes>,
        must_be_quick: bool,
    ) -> Result<Option<Step>, IndexError> {
        let head = 0..self.limits.head.min(object_size);
        let requested = self.requested.take().unwrap_or_else(|| vec![head]);
        for range in &requested {
            let expected = range.end - range.start;
            let read = got.iter().any(|g| g.offset == range.start && g.bytes.len() as u64 >= expected);
            if !read && expected > 0 {
                let what = format!("bytes {}..{} could not be read", range.start, range.end);
                return Err(IndexError::Truncated(what));
            }
        }
        let is_quick = !must_be_quick || got.iter().map(|g| g.bytes.len()).sum::<usize>() <= QUICK_BYTES;
        got.into_iter().for_each(|piece| self.read.insert(piece));
        if !is_quick {
            self.requested = Some(Vec::new());
            return Ok(None);
        }
        self.round_trips += 1;
        if self.round_trips == 1 {
            let len = FINGERPRINT_HEAD.min(self.limits.head).min(object_size);
            self.head = self.read.get(&(0..len)).unwrap_or_default();
        }
        match self.run(object_size, must_be_quick) {
            Ok(index) => Ok(Some(Step::Done(Box::new(index)))),
            Err(Pause::Fail(error)) => Err(error),
            Err(Pause::Long) => {
                self.round_trips -= 1;
                self.requested = Some(Vec::new());
                Ok(None)
            }
            Err(Pause::Read(ranges)) => {
                let requested = self.still_missing(ranges);
                let limit = if self.scan.is_some() { MAX_SCAN_ROUND_TRIPS } else { MAX_ROUND_TRIPS };
                if self.round_trips > limit {
                    let limit = limit.into();
                    return Err(IndexError::OverLimit { what: "reads to index the object", limit });
                }
                if requested.is_empty() {
                    return Err(IndexError::Malformed("reading the index does not terminate".to_owned()));
                }
                self.requested = Some(requested.clone());
                Ok(Some(if self.scan.is_some() { Step::Scan(requested) } else { Step::Read(requested) }))
            }
        }
    }

    /// Returns the bytes of some ranges that have not been read, ascending, each byte once.
    fn still_missing(&self, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        ranges.sort_by_key(|range| range.start);
        let mut requested: Vec<Range<u64>> = Vec::new();
        for range in ranges.iter().flat_map(|range| self.read.missing(range)) {
            match requested.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => requested.push(range),
            }
        }
        requested
    }

    fn run(&mut self, object_size: u64, must_be_quick: bool) -> Result<MediaIndex, Pause> {
        let reader = ObjectReader { read: &self.read, object_size, limits: self.limits };
        let found = match self.movie.take() {
            Some(found) => found,
            None => movie::find(&reader)?,
        };
        let found = self.movie.insert(found);
        if must_be_quick && !(found.samples <= QUICK_SAMPLES && found.movie.fragments.is_none()) {
            return Err(Pause::Long);
        }
        let outcome = if let Some(scan) = &mut self.scan {
            scan.run(&reader).map(FoundSamples::Scanned)
        } else if found.movie.fragments.is_none() {
            Ok(FoundSamples::Tables)
        } else if self.full {
            fragmented::find_all(&reader, found)
        } else {
            fragmented::find(&reader, found)
        };
        let outcome = match outcome {
            Ok(FoundSamples::Scan(scan)) => {
                let scan = self.scan.insert(*scan);
                scan.run(&reader).map(FoundSamples::Scanned)
            }
            other => other,
        };
        if let Some(scan) = &self.scan {
            self.read.forget_before(scan.at);
        }
        let outcome = outcome?;
        let reader = ObjectReader { read: &self.read, object_size, limits: self.limits };
        reader.need_all(thumbnails::first_bytes(found, object_size))?;
        // Nothing after this pauses.
        let Some(found) = self.movie.take() else {
            return Err(IndexError::Malformed("no moov".to_owned()).into());
        };
        if self.full {
            self.tables = Some(FullTables::new(object_size, &self.head, &found, &outcome));
        }
        Ok(finish(&reader, &self.head, found, outcome, self.scan.as_ref(), self.unpacked.take()))
    }
}

fn finish(
    reader: &ObjectReader<'_>,
    head: &Bytes,
    mut found: FoundMovie,
    outcome: FoundSamples,
    scan: Option<&Scan>,
    mut unpacked: Option<UnpackedValues>,
) -> MediaIndex {
    let object_size = reader.object_size;
    let mut problems = Vec::new();
    let thumbnails = thumbnails::read(&found, reader, &mut problems);
    found.left_out.extend(problems);
    let FoundMovie { range, bytes, movie, descriptions, mut left_out, .. } = found;
    // Stand-ins for problems that are found below.
    let named = |(_, track): &(usize, TrackDescription)| track.problem(TrackProblemKind::Empty);
    let names: Vec<TrackProblem> = descriptions.iter().map(named).collect();
    let numbers: Vec<usize> = descriptions.iter().map(|(number, _)| *number).collect();
    let scan = scan.filter(|_| matches!(outcome, FoundSamples::Scanned(_)));
    let ReadTracks { source, tracks, boxes } =
        read_tracks(outcome, descriptions, &movie, object_size, unpacked.as_mut());
    let described = numbers.iter().map(|&number| Some(&movie.tracks.get(number)?.as_ref().ok()?.tables));
    let mut tracks: Vec<UnplacedTrack<'_>> = tracks.into_iter().zip(described).collect();
    match source {
        IndexSource::SampleTables => placement::place(&mut tracks, object_size),
        _ => placement::interleave(&mut tracks),
    }
    let mut served = Vec::new();
    let mut room = repeated_frames::MOST_SAMPLES;
    for (name, (track, _)) in names.into_iter().zip(tracks) {
        match track {
            Ok(track) => served.push(repeated_frames::repeated(track, &mut room)),
            Err(kind) => left_out.push(TrackProblem { kind, ..name }),
        }
    }

    // What lies behind the `moov` of an index MP4 of this program changes no response.
    let stamp = MediaStamp::find(&bytes);
    let pictures = thumbnails.iter().map(|of| &of.track);
    let is_own_index =
        stamp.is_some() && !served.is_empty() && served.iter().chain(pictures).all(|t| t.location.is_some());
    let end = if is_own_index { range.end.min(object_size) } else { object_size };
    let head = head.get(..usize::try_from(end).unwrap_or(usize::MAX).min(head.len())).unwrap_or_default();
    let cut_box = is_own_index.then(|| CutBoxPlace::behind(&bytes, end, object_size)).flatten().map(Box::new);

    let mut index_boxes = vec![(range.start, bytes)];
    index_boxes.extend(boxes);
    index_boxes.sort_by_key(|(offset, _)| *offset);
    let scanned_bytes = scan.map_or(0, |scan| scan.moof_bytes);
    MediaIndex {
        object_size,
        fingerprint: fingerprint(end, head, &index_boxes, scan),
        tracks: served,
        thumbnails,
        left_out,
        source,
        source_bytes: index_boxes.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>() + scanned_bytes,
        fragment_defaults: movie.fragments.unwrap_or_default().into_boxed_slice(),
        stamp,
        cut_box,
        inline: None,
        unpacked: unpacked.unwrap_or_default(),
    }
}

/// The described tracks of a file, each with its samples or the reason why it is left out.
struct ReadTracks {
    source: IndexSource,
    tracks: Vec<Result<Track, TrackProblemKind>>,
    /// The boxes behind `moov` that the tracks were made from, with their offsets in the object.
    boxes: Vec<(u64, Bytes)>,
}

/// Joins the described tracks with their samples.
fn read_tracks(
    outcome: FoundSamples,
    descriptions: Vec<(usize, TrackDescription)>,
    movie: &Movie,
    object_size: u64,
    mut unpacked: Option<&mut UnpackedValues>,
) -> ReadTracks {
    let descriptions = descriptions.into_iter();
    let mut boxes = Vec::new();
    let (source, tracks) = match outcome {
        FoundSamples::Tables | FoundSamples::Scan(_) => {
            let read = |(number, description): (usize, TrackDescription)| match movie.tracks.get(number) {
                Some(Ok(track)) => {
                    let media_size = description.size_of_media(object_size);
                    let read = description.read_tables(track, object_size, unpacked.as_deref_mut());
                    // Chunks are checked later, but their problem is the one to report.
                    let problem = |kind| Chunks::new(&track.tables, media_size).check().unwrap_or(kind);
                    description.with_table(read?).map_err(problem)
                }
                _ => Err(TrackProblemKind::malformed("not read")),
            };
            (IndexSource::SampleTables, descriptions.map(read).collect())
        }
        FoundSamples::Fragments { source, boxes: read, tables } => {
            boxes = read;
            let tracks = descriptions.zip(tables);
            (source, tracks.map(|((_, track), (table, rate))| track.with_fragments(table, rate)).collect())
        }
        FoundSamples::Scanned(tables) => {
            let tracks = descriptions.zip(tables);
            (IndexSource::Scan, tracks.map(|((_, track), table)| track.with_table(table?)).collect())
        }
    };
    ReadTracks { source, tracks, boxes }
}

/// Returns a hash of everything the index was made from, in an object that is read up to `end`.
/// `boxes` are in the order of the object.
fn fingerprint(end: u64, head: &[u8], boxes: &[(u64, Bytes)], scan: Option<&Scan>) -> u128 {
    let mut digest = Xxh3::new();
    digest.update(&end.to_le_bytes());
    digest.update(head);
    boxes.iter().for_each(|(_, bytes)| digest.update(bytes));
    if let Some(scan) = scan {
        digest.update(&scan.digest.to_le_bytes());
    }
    digest.digest128()
}
