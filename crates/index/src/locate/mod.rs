//! Finding an object's index: which bytes to read next, without reading them.

mod edits;
mod fragment_index;
pub mod fragment_reader;
mod fragmented;
pub mod full_tables;
pub mod limits;
mod moof_samples;
mod moov_tables;
mod movie;
mod object_reader;
mod random_access;
pub mod read_buffer;
mod scan;
mod segment_index;
mod track_head;

use crate::{
    error::{IndexError, TrackProblem},
    locate::{
        fragmented::FoundSamples,
        full_tables::FullTables,
        limits::Limits,
        movie::FoundMovie,
        object_reader::{ObjectReader, Pause},
        read_buffer::{ObjectBytes, ReadBuffer},
        scan::Scan,
        track_head::{TrackHead, malformed},
    },
    media::{IndexSource, MediaIndex, Samples, Track, stamp::MediaStamp},
    table::samples::SampleTable,
};
use bytes::Bytes;
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// The reads an index begins with, in one round trip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstReads {
    /// Number of bytes to read from the start of the object, fewer if the object is shorter.
    /// [`Locator::step`] must be given them.
    pub head: u64,
    /// A range to read along with the head, if the size of the object was listed. It is a guess:
    /// give it to [`Locator::step`] only if the read succeeds and returns the head's version.
    pub tail: Option<Range<u64>>,
}

/// What the locator wants next.
#[derive(Debug)]
pub enum Step {
    /// Read these, all at once if possible: one round trip. Then call [`Locator::step`] with all of them.
    Read(Vec<Range<u64>>),
    /// As `Read`, but every `moof` of the object will be read one way or another: worth a line in the log, once.
    Scan(Vec<Range<u64>>),
    /// Done.
    Done(Box<MediaIndex>),
}

/// Finds the index of one object. A round trip more than needed is a bug: progressive files take at most two (one
/// where `moov` is within the head), `sidx` two, `mfra` three.
#[derive(Debug)]
pub struct Locator {
    limits: Limits,
    read: ReadBuffer,
    /// What was asked for; `None` before the head has been read.
    asked: Option<Vec<Range<u64>>>,
    round_trips: u32,
    /// The object's first bytes, as far as they go into the fingerprint.
    head: Bytes,
    movie: Option<FoundMovie>,
    scan: Option<Scan>,
    /// Every sample is wanted, also of files whose own index names fragments only.
    full: bool,
    tables: Option<FullTables>,
}

/// Bytes of the object's start that go into its fingerprint.
const FINGERPRINT_HEAD: u64 = 64 << 10;

/// The share of an object, as a divisor, that its `moov` rarely exceeds: it grows with the duration, by 200 to 700 bytes a second, the media by a
/// hundred times that and more.
const USUAL_SHARE: u64 = 64;

/// The most round trips for one object: a fragmented file without an index takes one for each fragment.
const MAX_ROUND_TRIPS: u32 = 1 << 18;

impl Locator {
    /// Starts; the first read is the head.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            read: ReadBuffer::default(),
            asked: None,
            round_trips: 0,
            head: Bytes::new(),
            movie: None,
            scan: None,
            full: false,
            tables: None,
        }
    }

    /// Reads every `moof` of a fragmented file, whatever its own index says, so that all samples are known:
    /// [`Self::full_tables`] are for writing an index MP4.
    #[must_use]
    pub fn for_full_tables(limits: Limits) -> Self {
        Self { full: true, ..Self::new(limits) }
    }

    /// Whether it was made by [`Self::for_full_tables`].
    #[must_use]
    pub fn is_for_full_tables(&self) -> bool {
        self.full
    }

    /// All sample tables, once [`Step::Done`] was given, of a locator made by [`Self::for_full_tables`].
    #[must_use]
    pub fn full_tables(&self) -> Option<&FullTables> {
        self.tables.as_ref()
    }

    /// How far a scan of all fragments has come, in bytes from the start of the object; 0 where there is none.
    #[must_use]
    pub fn scanned(&self) -> u64 {
        self.scan.as_ref().map_or(0, Scan::position)
    }

    /// Returns the first reads. `listed` is the object's size in bytes as a listing states it, if one does.
    ///
    /// With a listed size, each end of the object is read as far as the index of most objects that
    /// large reaches, so that one round trip is enough wherever `moov` is. Small objects are read whole.
    #[must_use]
    pub fn first_reads(&self, listed: Option<u64>) -> FirstReads {
        let Limits { head, tail, ahead, .. } = self.limits;
        let Some(size) = listed else { return FirstReads { head, tail: None } };
        let usual = (size / USUAL_SHARE).min(ahead);
        let (head, tail) = (head.max(usual), tail.max(usual));
        match size.checked_sub(tail) {
            Some(start) if start > head => FirstReads { head, tail: Some(start..size) },
            _ => FirstReads { head: head.max(size), tail: None },
        }
    }

    /// Takes what was read and says what next: all that was asked for, or more. `object_size` in bytes.
    ///
    /// # Errors
    /// Where the object is no MP4, lies about sizes, or passes a limit.
    pub fn step(&mut self, object_size: u64, got: Vec<ObjectBytes>) -> Result<Step, IndexError> {
        let head = 0..self.limits.head.min(object_size);
        let asked = self.asked.take().unwrap_or_else(|| vec![head]);
        for range in &asked {
            let expected = range.end - range.start;
            let read = got.iter().any(|g| g.offset == range.start && g.bytes.len() as u64 >= expected);
            if !read && expected > 0 {
                let what = format!("bytes {}..{} were not to be had", range.start, range.end);
                return Err(IndexError::Truncated(what));
            }
        }
        got.into_iter().for_each(|piece| self.read.insert(piece));
        self.round_trips += 1;
        if self.round_trips == 1 {
            let len = FINGERPRINT_HEAD.min(self.limits.head).min(object_size);
            self.head = self.read.get(&(0..len)).unwrap_or_default();
        }
        match self.run(object_size) {
            Ok(index) => Ok(Step::Done(Box::new(index))),
            Err(Pause::Fail(error)) => Err(error),
            Err(Pause::Read(ranges)) => {
                let asked = self.still_missing(ranges);
                if asked.is_empty() || self.round_trips > MAX_ROUND_TRIPS {
                    return Err(IndexError::Malformed("an index that does not end".to_owned()));
                }
                self.asked = Some(asked.clone());
                Ok(if self.scan.is_some() { Step::Scan(asked) } else { Step::Read(asked) })
            }
        }
    }

    /// What has not been read of some ranges, ascending, each byte once.
    fn still_missing(&self, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        ranges.sort_by_key(|range| range.start);
        let mut asked: Vec<Range<u64>> = Vec::new();
        for range in ranges.iter().flat_map(|range| self.read.missing(range)) {
            match asked.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => asked.push(range),
            }
        }
        asked
    }

    fn run(&mut self, object_size: u64) -> Result<MediaIndex, Pause> {
        let reader = ObjectReader { read: &self.read, object_size, limits: self.limits };
        let found = match self.movie.take() {
            Some(found) => found,
            None => movie::find(&reader)?,
        };
        let found = self.movie.insert(found);
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
            self.read.forget_before(scan.position());
        }
        let outcome = outcome?;
        // Nothing pauses from here on.
        let Some(found) = self.movie.take() else {
            return Err(IndexError::Malformed("no moov".to_owned()).into());
        };
        if self.full {
            self.tables = Some(FullTables::new(object_size, &self.head, &found, &outcome));
        }
        Ok(finish(object_size, &self.head, found, outcome, self.scan.as_ref()))
    }
}

/// Puts the index together.
fn finish(
    object_size: u64,
    head: &Bytes,
    found: FoundMovie,
    outcome: FoundSamples,
    scan: Option<&Scan>,
) -> MediaIndex {
    let FoundMovie { range, bytes, movie, heads, mut left_out } = found;
    let stamp = MediaStamp::find(&bytes);
    let mut index_boxes = vec![(range.start, bytes)];
    let mut scanned = (0, None);
    let (source, tracks): (_, Vec<Result<Track, TrackProblem>>) = match outcome {
        FoundSamples::Tables | FoundSamples::Scan(_) => {
            let read = |(number, head): (usize, TrackHead)| match movie.tracks.get(number) {
                Some(Ok(track)) => {
                    let table = head.read_tables(track, object_size)?;
                    head.with_table(table)
                }
                _ => Err(malformed(head.id, "not read")),
            };
            (IndexSource::SampleTables, heads.into_iter().map(read).collect())
        }
        FoundSamples::Fragments { source, boxes, tables } => {
            index_boxes.extend(boxes);
            let tracks = heads.into_iter().zip(tables);
            (source, tracks.map(|((_, head), (table, rate))| head.with_fragments(table, rate)).collect())
        }
        FoundSamples::Scanned(tables) => {
            if let Some(scan) = scan {
                scanned = (scan.moof_bytes(), Some(scan.digest()));
            }
            let tracks = heads.into_iter().zip(tables);
            (IndexSource::Scan, tracks.map(|((_, head), table)| head.with_table(table?)).collect())
        }
    };
    let mut served = Vec::new();
    for track in tracks {
        match track {
            Ok(track) => served.push(track),
            Err(problem) => left_out.push(problem),
        }
    }

    let tables = served.iter_mut().filter_map(|track| match &mut track.samples {
        Samples::Table(table) => Some(table),
        Samples::Fragments(_) => None,
    });
    SampleTable::interleave(&mut tables.collect::<Vec<_>>());

    index_boxes.sort_by_key(|(offset, _)| *offset);
    let mut digest = Xxh3::new();
    digest.update(&object_size.to_le_bytes());
    digest.update(head);
    index_boxes.iter().for_each(|(_, bytes)| digest.update(bytes));
    if let Some(moofs) = scanned.1 {
        digest.update(&moofs.to_le_bytes());
    }
    MediaIndex {
        object_size,
        fingerprint: digest.digest128(),
        tracks: served,
        left_out,
        source,
        source_bytes: index_boxes.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>() + scanned.0,
        fragment_defaults: movie.fragments.unwrap_or_default().into_boxed_slice(),
        stamp,
    }
}
