//! Running the locator over an object in memory, like storage would, and counting its reads.

use bytes::Bytes;
use latemux_index::{
    IndexError, MediaIndex, Sample, Track,
    locate::fragment_reader::{FragmentReader, FragmentStep},
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::Samples,
    media::fragment_samples::FragmentSamples,
};
use std::{ops::Range, sync::Arc};

/// The index of an object, and the reads it took.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) index: Arc<MediaIndex>,
    pub(crate) round_trips: u32,
    pub(crate) bytes_read: u64,
    /// True if a step announced that every `moof` is read.
    pub(crate) scanned: bool,
}

pub(crate) fn slice(object: &Bytes, range: &Range<u64>) -> Bytes {
    object.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
}

/// Finds the index of an object.
pub(crate) fn locate(object: &Bytes, limits: Limits) -> Result<Located, IndexError> {
    locate_by(object.len() as u64, limits, |range| slice(object, range))
}

/// Finds the index of an object whose size is listed.
pub(crate) fn locate_listed(object: &Bytes, limits: Limits) -> Result<Located, IndexError> {
    let size = object.len() as u64;
    run(&mut Locator::new(limits), Some(size), size, |range| slice(object, range))
}

/// Finds the index of an object of which only the requested bytes need exist. Asserts that quick
/// steps, as far as they are possible, find the same.
pub(crate) fn locate_by(
    size: u64,
    limits: Limits,
    read: impl Fn(&Range<u64>) -> Bytes,
) -> Result<Located, IndexError> {
    let located = run(&mut Locator::new(limits), None, size, &read);
    let quickly = run_by(&mut Locator::new(limits), None, size, &read, |locator, got| {
        match locator.quick_step(size, got)? {
            Some(step) => Ok(step),
            None => locator.step(size, Vec::new()),
        }
    });
    match (&located, &quickly) {
        (Ok(located), Ok(quickly)) => {
            assert_eq!((&located.index, located.round_trips), (&quickly.index, quickly.round_trips));
        }
        (located, quickly) => {
            let error = |result: &Result<Located, IndexError>| result.as_ref().err().map(ToString::to_string);
            assert_eq!(error(located), error(quickly));
        }
    }
    located
}

/// Gives a locator the bytes it asks for. `listed` is the size that is known before the first read.
pub(crate) fn run(
    locator: &mut Locator,
    listed: Option<u64>,
    size: u64,
    read: impl Fn(&Range<u64>) -> Bytes,
) -> Result<Located, IndexError> {
    run_by(locator, listed, size, read, |locator, got| locator.step(size, got))
}

/// Does the same with another way to take a step.
fn run_by(
    locator: &mut Locator,
    listed: Option<u64>,
    size: u64,
    read: impl Fn(&Range<u64>) -> Bytes,
    mut step: impl FnMut(&mut Locator, Vec<ObjectBytes>) -> Result<Step, IndexError>,
) -> Result<Located, IndexError> {
    let first = locator.first_reads(listed);
    let mut wants: Vec<_> = std::iter::once(0..size.min(first.head)).chain(first.tail).collect();
    let mut round_trips = 0;
    let mut bytes_read = 0;
    let mut scanned = false;
    loop {
        round_trips += 1;
        assert!(round_trips < 100_000, "it never ends");
        let got: Vec<ObjectBytes> = wants
            .iter()
            .map(|range| {
                assert!(range.start <= range.end && range.end <= size, "{range:?} of {size}");
                bytes_read += range.end - range.start;
                ObjectBytes { offset: range.start, bytes: read(range) }
            })
            .collect();
        wants = match step(locator, got)? {
            Step::Read(wants) => wants,
            Step::Scan(wants) => {
                scanned = true;
                wants
            }
            Step::Done(index) => {
                return Ok(Located { index: Arc::new(*index), round_trips, bytes_read, scanned });
            }
        };
        assert!(!wants.is_empty());
    }
}

/// Reads a fragment's samples like storage would, `piece` bytes at a time.
pub(crate) fn read_fragment(
    index: &Arc<MediaIndex>,
    object: &Bytes,
    range: Range<u64>,
    piece: u64,
) -> Result<FragmentSamples, IndexError> {
    let mut reader = FragmentReader::new(Arc::clone(index), range.clone());
    let mut step = reader.feed(range.start, &Bytes::new())?;
    let mut have = range.start..range.start;
    loop {
        match step {
            FragmentStep::Done(samples) => return Ok(samples),
            FragmentStep::Need { from, len } => {
                assert!(from >= have.start && from + len <= range.end, "{from} + {len} of {range:?}");
                assert!(from + len > have.end, "{from} + {len} was there: {have:?}");
                have = from..(from + len.max(piece)).min(range.end);
                step = reader.feed(have.start, &slice(object, &have))?;
            }
        }
    }
}

/// Returns all samples of a track, from its table or its fragments.
pub(crate) fn samples_of(index: &Arc<MediaIndex>, object: &Bytes, number: usize) -> Vec<Sample> {
    let track: &Track = &index.tracks[number];
    match &track.samples {
        Samples::Table(table) => table.range(0..u32::MAX).collect(),
        Samples::Fragments(table) => (0..table.len())
            .flat_map(|i| {
                let fragment = table.get(i).unwrap();
                let samples = read_fragment(index, object, fragment.bytes(), 700).unwrap();
                let samples = samples.tracks[number].to_vec();
                let first = samples
                    .iter()
                    .map(|s| track.presentation.time(s.decode_time, s.composition_offset))
                    .min();
                assert_eq!(
                    first,
                    Some(fragment.start),
                    "fragment {i} of track {} starts elsewhere",
                    track.id
                );
                assert!(
                    !fragment.sync || samples[0].sync,
                    "fragment {i} of track {} does not start with a sync sample",
                    track.id
                );
                samples
            })
            .collect(),
    }
}
