//! Finding an object's index: which bytes to read next, without reading them.

use crate::{
    IndexError,
    error::TrackProblem,
    external::MediaStamp,
    fragmented,
    index_file::FullTables,
    media::{IndexSource, MediaIndex, Samples, Track},
    object_reader::{ObjectReader, Pause},
    pieces::Pieces,
    samples::SampleTable,
    scan::Scan,
    track::{TrackHead, malformed},
};
use bytes::Bytes;
use latemux_isobmff::movie::Movie;
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// Limits of index reading.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes read from the start of an object before anything is known of it.
    pub head: u64,
    /// Bytes read from its end where the head shows that `moov` or `mfra` may be there.
    pub tail: u64,
    /// Most bytes read from the start, and from the end, of an object whose size is known beforehand ([`Locator::first_of`]).
    pub ahead: u64,
    /// Largest `moov`, `sidx` chain or `mfra` accepted, in bytes.
    pub max_index: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: 64 << 10, tail: 64 << 10, ahead: 2 << 20, max_index: 256 << 20 }
    }
}

/// A read the locator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The first bytes, fewer where the object is shorter.
    Head(u64),
    /// Exactly these bytes.
    Range(Range<u64>),
}

/// Bytes that were read.
#[derive(Debug, Clone)]
pub struct Got {
    /// Where they lie in the object.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// What the locator wants next.
#[derive(Debug)]
pub enum Step {
    /// Read these, all at once if possible: one round trip. Then call [`Locator::step`] with all of them.
    Read(Vec<Want>),
    /// As `Read`, but every `moof` of the object will be read one way or another: worth a line in the log, once.
    Scan(Vec<Want>),
    /// Done.
    Done(Box<MediaIndex>),
}

/// Finds the index of one object. A round trip more than needed is a bug: progressive files take at most two (one
/// where `moov` is within the head), `sidx` two, `mfra` three.
#[derive(Debug)]
pub struct Locator {
    limits: Limits,
    pieces: Pieces,
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

/// A `moov` and what can be served of it.
#[derive(Debug)]
pub(crate) struct FoundMovie {
    pub(crate) range: Range<u64>,
    pub(crate) bytes: Bytes,
    pub(crate) movie: Movie,
    /// Tracks whose codec and structure can be served, each with its number in [`Movie::tracks`].
    pub(crate) heads: Vec<(usize, TrackHead)>,
    pub(crate) left_out: Vec<TrackProblem>,
}

/// Bytes of the object's start that go into its fingerprint.
const FINGERPRINT_HEAD: u64 = 64 << 10;

/// The share of an object, as a divisor, that its `moov` rarely exceeds: it grows with the duration, by 200 to 700 bytes a second, the media by a
/// hundred times that and more.
const USUAL_SHARE: u64 = 64;

/// The most boxes looked at before `moov`.
const MAX_BOXES_BEFORE_MOOV: u32 = 1 << 12;

/// The most round trips for one object: a fragmented file without an index takes one for each fragment.
const MAX_ROUND_TRIPS: u32 = 1 << 18;

impl Locator {
    /// Starts; the first read is the head.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            pieces: Pieces::default(),
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

    /// The first read.
    #[must_use]
    pub fn first(&self) -> Want {
        Want::Head(self.limits.head)
    }

    /// The first reads of an object that a listing says has `listed` bytes, in place of [`Self::first`]: from either end as much as an index
    /// takes in most objects that large, so that one round trip is enough wherever `moov` is. Small objects are read whole. The first one
    /// is the head, which [`Self::step`] must be given; the other one is a guess, to be given only where it is of the same version.
    #[must_use]
    pub fn first_of(&self, listed: u64) -> Vec<Want> {
        let Limits { head, tail, ahead, .. } = self.limits;
        let usual = (listed / USUAL_SHARE).min(ahead);
        let (head, tail) = (head.max(usual), tail.max(usual));
        match listed.checked_sub(tail) {
            Some(start) if start > head => vec![Want::Head(head), Want::Range(start..listed)],
            _ => vec![Want::Head(head.max(listed))],
        }
    }

    /// Takes what was read and says what next: all that was asked for, or more. `object_size` in bytes.
    ///
    /// # Errors
    /// Where the object is no MP4, lies about sizes, or passes a limit.
    pub fn step(&mut self, object_size: u64, got: Vec<Got>) -> Result<Step, IndexError> {
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
        got.into_iter().for_each(|piece| self.pieces.insert(piece));
        self.round_trips += 1;
        if self.round_trips == 1 {
            let len = FINGERPRINT_HEAD.min(self.limits.head).min(object_size);
            self.head = self.pieces.get(&(0..len)).unwrap_or_default();
        }
        match self.run(object_size) {
            Ok(index) => Ok(Step::Done(Box::new(index))),
            Err(Pause::Fail(error)) => Err(error),
            Err(Pause::Read(ranges)) => {
                let asked = self.still_missing(ranges);
                if asked.is_empty() || self.round_trips > MAX_ROUND_TRIPS {
                    return Err(IndexError::Malformed("an index that does not end".to_owned()));
                }
                let wants = asked.iter().cloned().map(Want::Range).collect();
                self.asked = Some(asked);
                Ok(if self.scan.is_some() { Step::Scan(wants) } else { Step::Read(wants) })
            }
        }
    }

    /// What has not been read of some ranges, ascending, each byte once.
    fn still_missing(&self, mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        ranges.sort_by_key(|range| range.start);
        let mut asked: Vec<Range<u64>> = Vec::new();
        for range in ranges.iter().flat_map(|range| self.pieces.missing(range)) {
            match asked.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => asked.push(range),
            }
        }
        asked
    }

    fn run(&mut self, object_size: u64) -> Result<MediaIndex, Pause> {
        let reader = ObjectReader { pieces: &self.pieces, object_size, limits: self.limits };
        let found = match self.movie.take() {
            Some(found) => found,
            None => find_movie(&reader)?,
        };
        let found = self.movie.insert(found);
        let outcome = if let Some(scan) = &mut self.scan {
            scan.run(&reader)
        } else if found.movie.fragments.is_none() {
            Ok(fragmented::Found::Tables)
        } else if self.full {
            fragmented::find_all(&reader, found)
        } else {
            fragmented::find(&reader, found)
        };
        let outcome = match outcome {
            Ok(fragmented::Found::Scan(scan)) => {
                let scan = self.scan.insert(*scan);
                scan.run(&reader)
            }
            other => other,
        };
        if let Some(scan) = &self.scan {
            self.pieces.forget_before(scan.position());
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

/// Walks to `moov` and reads it.
fn find_movie(reader: &ObjectReader<'_>) -> Result<FoundMovie, Pause> {
    let size = reader.object_size;
    let mut at = 0;
    let mut cut_short = false;
    for number in 0..MAX_BOXES_BEFORE_MOOV {
        let rest = size.saturating_sub(at);
        // What follows the media is `moov` and little else: all of it in one read, unless it is too much for one.
        let usual = (size >> 4).clamp(1 << 20, reader.limits.max_index.max(1 << 20));
        let ahead = if rest <= usual { at..size } else { reader.window(at) };
        let Some(found) = reader.top_box(at, ahead)? else { break };
        if number == 0 && !starts_a_file(&found.kind.0) {
            return Err(IndexError::NotMp4(format!("it starts with a box '{}'", found.kind)).into());
        }
        if found.kind == b"moov" {
            let bytes = reader.whole(&found, "moov")?;
            return Ok(FoundMovie::parse(found.range, bytes)?);
        }
        cut_short = found.range.end > size;
        at = found.range.end;
        if at >= size {
            break;
        }
    }
    Err(if size < 8 {
        IndexError::NotMp4(format!("an object of {size} bytes"))
    } else if cut_short {
        IndexError::Truncated("the last box ends beyond the object, and there is no moov".to_owned())
    } else {
        IndexError::Malformed("no moov".to_owned())
    }
    .into())
}

/// Boxes that files start with: ISO/IEC 14496-12, QuickTime, segments.
fn starts_a_file(kind: &[u8; 4]) -> bool {
    let known = [
        b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"uuid", b"sidx", b"moof",
        b"pdin", b"emsg", b"prft", b"meta",
    ];
    known.contains(&kind)
}

impl FoundMovie {
    fn parse(range: Range<u64>, bytes: Bytes) -> Result<Self, IndexError> {
        let movie = Movie::parse(&bytes, range.start)?;
        let mut heads = Vec::new();
        let mut left_out = Vec::new();
        for (number, track) in movie.tracks.iter().enumerate() {
            match track {
                Ok(track) => match TrackHead::read(track, &movie) {
                    Ok(head) => heads.push((number, head)),
                    Err(problem) => left_out.push(problem),
                },
                Err(error) => left_out.push(malformed(error.id.unwrap_or(0), error.error.to_string())),
            }
        }
        Ok(Self { range, bytes, movie, heads, left_out })
    }
}

/// Puts the index together.
fn finish(
    object_size: u64,
    head: &Bytes,
    found: FoundMovie,
    outcome: fragmented::Found,
    scan: Option<&Scan>,
) -> MediaIndex {
    let FoundMovie { range, bytes, movie, heads, mut left_out } = found;
    let stamp = MediaStamp::find(&bytes);
    let mut index_boxes = vec![(range.start, bytes)];
    let mut scanned = (0, None);
    let (source, tracks): (_, Vec<Result<Track, TrackProblem>>) = match outcome {
        fragmented::Found::Tables | fragmented::Found::Scan(_) => {
            let read = |(number, head): (usize, TrackHead)| match movie.tracks.get(number) {
                Some(Ok(track)) => {
                    let table = head.read_tables(track, object_size)?;
                    head.with_table(table)
                }
                _ => Err(malformed(head.id, "not read")),
            };
            (IndexSource::SampleTables, heads.into_iter().map(read).collect())
        }
        fragmented::Found::Fragments { source, boxes, tables } => {
            index_boxes.extend(boxes);
            let tracks = heads.into_iter().zip(tables);
            (source, tracks.map(|((_, head), (table, rate))| head.with_fragments(table, rate)).collect())
        }
        fragmented::Found::Scanned(tables) => {
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
