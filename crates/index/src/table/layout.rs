//! Where the samples of tracks lie in the object: sizes, chunks, and how the chunks of several tracks alternate.
//!
//! In an interleaved file the bytes between two chunks of one track are chunks of the others, whose sizes are known
//! already. So what is kept of a chunk is how many of each other track's chunks stand before it, one or two as a rule, and the
//! bytes between it and the chunk before it, none as a rule.

use crate::table::{
    column::{Column, ColumnBuilder, Values},
    positions::{Positions, PositionsIter},
};
use std::ops::Range;

/// The most tracks whose chunks are described by each other: for each pair there is a column.
const MAX_TRACKS: usize = 8;

/// Tracks and where their samples lie.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) tracks: Vec<TrackLayout>,
}

/// One track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrackLayout {
    /// Bytes of each sample.
    pub(crate) sizes: Column,
    /// Samples in each chunk: samples that lie one behind the other.
    pub(crate) chunk_samples: Column,
    pub(crate) chunks: ChunkPositions,
}

/// Where the chunks of a track lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChunkPositions {
    /// By themselves.
    Separate(Positions),
    /// Between those of other tracks.
    Interleaved {
        /// Bytes between the end of the chunk before it in the object, whichever track's, and each chunk.
        gaps: Column,
        /// For each other track its number, and how many of its chunks lie between each chunk and this track's one before.
        others: Vec<(usize, Column)>,
    },
}

impl TrackLayout {
    fn heap_bytes(&self) -> usize {
        self.sizes.heap_bytes() + self.chunk_samples.heap_bytes() + self.chunks.heap_bytes()
    }
}

impl ChunkPositions {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Separate(positions) => positions.heap_bytes(),
            Self::Interleaved { gaps, others } => {
                let counts: usize = others.iter().map(|(_, counts)| counts.heap_bytes()).sum();
                gaps.heap_bytes() + counts + size_of_val::<[(usize, Column)]>(others)
            }
        }
    }
}

impl Layout {
    /// One track by itself.
    pub(crate) fn alone(track: TrackLayout) -> Self {
        Self { tracks: vec![track] }
    }

    /// Several tracks, each by itself so far: describes their chunks by each other where that is smaller. `None`, where not, or where
    /// chunks overlap or go back.
    pub(crate) fn interleaved(tracks: &[&TrackLayout]) -> Option<Self> {
        if !(2..=MAX_TRACKS).contains(&tracks.len()) {
            return None;
        }
        let mut readers: Vec<ChunkReader<'_>> =
            tracks.iter().map(|t| ChunkReader::new(t)).collect::<Option<_>>()?;
        let mut gaps: Vec<ColumnBuilder> = tracks.iter().map(|_| ColumnBuilder::default()).collect();
        let mut counts: Vec<Vec<ColumnBuilder>> =
            tracks.iter().map(|_| tracks.iter().map(|_| ColumnBuilder::default()).collect()).collect();
        // For each track, chunks of each other one since its own last.
        let mut since = vec![vec![0_u32; tracks.len()]; tracks.len()];
        let mut end = 0;
        loop {
            let waiting = readers.iter().enumerate().filter_map(|(i, reader)| Some((reader.next?, i)));
            let Some(((offset, bytes), number)) = waiting.min_by_key(|((offset, _), i)| (*offset, *i)) else {
                break;
            };
            gaps.get_mut(number)?.push(u32::try_from(offset.checked_sub(end)?).ok()?);
            end = offset.checked_add(bytes)?;
            for (counts, count) in counts.get_mut(number)?.iter_mut().zip(since.get_mut(number)?) {
                counts.push(*count);
                *count = 0;
            }
            since.iter_mut().filter_map(|counts| counts.get_mut(number)).for_each(|count| *count += 1);
            readers.get_mut(number)?.advance();
        }
        let columns = gaps.into_iter().zip(counts).enumerate().map(|(number, (gaps, counts))| {
            let others = counts.into_iter().enumerate().filter(|(other, _)| *other != number);
            let others = others.map(|(other, counts)| (other, counts.finish())).collect();
            ChunkPositions::Interleaved { gaps: gaps.finish(), others }
        });
        let laid = tracks.iter().zip(columns).map(|(track, chunks)| TrackLayout {
            sizes: track.sizes.clone(),
            chunk_samples: track.chunk_samples.clone(),
            chunks,
        });
        let layout = Self { tracks: laid.collect() };
        let bytes = |tracks: &mut dyn Iterator<Item = &TrackLayout>| {
            tracks.map(TrackLayout::heap_bytes).sum::<usize>()
        };
        let (now, before) = (bytes(&mut layout.tracks.iter()), bytes(&mut tracks.iter().copied()));
        (now < before).then_some(layout)
    }

    /// A track by number.
    pub(crate) fn track(&self, number: usize) -> Option<&TrackLayout> {
        self.tracks.get(number)
    }

    /// Bytes of memory one track's share takes.
    pub(crate) fn heap_bytes(&self, number: usize) -> usize {
        self.track(number).map_or(0, |track| size_of::<TrackLayout>() + track.heap_bytes())
    }

    /// SamplePlacesIter of a track's samples from one on.
    pub(crate) fn places(&self, number: usize, sample: u32) -> Option<SamplePlacesIter<'_>> {
        let track = self.track(number)?;
        // To the chunk that holds the sample, over empty ones.
        let (chunk, first, mut chunk_samples) = track.chunk_samples.seek_sum(sample.into());
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        let chunk_left = chunk_samples.next()?.saturating_sub(sample.saturating_sub(first));
        let (bytes_before, sizes) = track.sizes.seek(sample);
        // What is in the chunk before the sample lies, for what follows, before the chunk: only positions that may go back need to know.
        let (chunks, chunk_bytes) = match &track.chunks {
            ChunkPositions::Separate(positions) if positions.ascend() => {
                (ChunksIter::Separate(positions.iter_from(chunk, bytes_before)), 0)
            }
            ChunkPositions::Separate(positions) => {
                let into_chunk = bytes_before.saturating_sub(track.sizes.sum_before(first));
                (ChunksIter::Separate(positions.iter_from(chunk, 0)), into_chunk)
            }
            ChunkPositions::Interleaved { gaps, others } => {
                let (gap_bytes, gaps) = gaps.seek(chunk);
                let mut end = bytes_before.saturating_add(gap_bytes);
                let mut readers = Vec::with_capacity(others.len());
                for (other, counts) in others {
                    let track = self.track(*other)?;
                    let (passed, counts) = counts.seek(chunk);
                    let passed = u32::try_from(passed).unwrap_or(u32::MAX);
                    let (sample, chunk_samples) = track.chunk_samples.seek(passed);
                    let (bytes, sizes) = track.sizes.seek(u32::try_from(sample).unwrap_or(u32::MAX));
                    let ChunkPositions::Interleaved { gaps, .. } = &track.chunks else { return None };
                    let (gap_bytes, gaps) = gaps.seek(passed);
                    end = end.saturating_add(bytes).saturating_add(gap_bytes);
                    readers.push(OtherTrackChunks { counts, gaps, chunk_samples, sizes });
                }
                (ChunksIter::Interleaved { gaps, others: readers, end }, 0)
            }
        };
        let mut places =
            SamplePlacesIter { sizes, chunk_samples, chunk_left, chunk_bytes: 0, offset: 0, chunks };
        places.next_offset()?;
        places.chunk_bytes = chunk_bytes;
        places.offset = places.offset.saturating_add(chunk_bytes);
        Some(places)
    }

    /// From the first to the last byte of samples of tracks: of the first and the last of each, where a track's samples do not lie in
    /// order. `cuts` are tracks by number and samples of theirs; empty ones count as none. O(log n) for each track, and less than
    /// [`Self::places`] of each end.
    pub(crate) fn extent(&self, cuts: impl Iterator<Item = (usize, Range<u32>)>) -> Option<Range<u64>> {
        let mut ends: Option<(SampleInChunk, SampleInChunk)> = None;
        let mut extent: Option<Range<u64>> = None;
        for (number, cut) in cuts {
            let Some(last) = cut.end.checked_sub(1).filter(|&last| last >= cut.start) else { continue };
            let (first, last) = (self.at(number, cut.start)?, self.at(number, last)?);
            if let ChunkPositions::Separate(_) = self.track(number)?.chunks {
                let (first, last) = (self.place(&first)?, self.place(&last)?);
                let one = first.start.min(last.start)..first.end.max(last.end);
                extent =
                    Some(extent.map_or(one.clone(), |all| all.start.min(one.start)..all.end.max(one.end)));
                continue;
            }
            // Which of two chunks is first is known without where they are.
            ends = Some(match ends {
                None => (first, last),
                Some((lowest, highest)) => (
                    if self.precedes(&first, &lowest)? { first } else { lowest },
                    if self.precedes(&highest, &last)? { last } else { highest },
                ),
            });
        }
        match ends {
            None => extent,
            Some((lowest, highest)) => Some(self.place(&lowest)?.start..self.place(&highest)?.end),
        }
    }

    fn at(&self, number: usize, sample: u32) -> Option<SampleInChunk> {
        // `find` steps over empty chunks to the one that holds the sample.
        Some(SampleInChunk { number, sample, chunk: self.track(number)?.chunk_samples.find(sample.into()) })
    }

    /// Whether a sample lies before another, both in tracks that are described by each other.
    fn precedes(&self, one: &SampleInChunk, other: &SampleInChunk) -> Option<bool> {
        if one.number == other.number {
            return Some(one.sample < other.sample);
        }
        let ChunkPositions::Interleaved { others, .. } = &self.track(other.number)?.chunks else {
            return None;
        };
        let (_, counts) = others.iter().find(|(number, _)| *number == one.number)?;
        Some(u64::from(one.chunk) < counts.sum_before(other.chunk.saturating_add(1)))
    }

    /// The bytes of one sample.
    fn place(&self, at: &SampleInChunk) -> Option<Range<u64>> {
        let track = self.track(at.number)?;
        let (before, mut sizes) = track.sizes.seek(at.sample);
        let size = sizes.next()?;
        let start = match &track.chunks {
            ChunkPositions::Separate(positions) if positions.ascend() => positions.get(at.chunk, before),
            ChunkPositions::Separate(positions) => {
                let first = u32::try_from(track.chunk_samples.sum_before(at.chunk)).unwrap_or(u32::MAX);
                let into_chunk = before.saturating_sub(track.sizes.sum_before(first));
                positions.get(at.chunk, 0).saturating_add(into_chunk)
            }
            ChunkPositions::Interleaved { gaps, others } => {
                let next = at.chunk.saturating_add(1);
                let mut start = before.saturating_add(gaps.sum_before(next));
                for (other, counts) in others {
                    let other = self.track(*other)?;
                    let ChunkPositions::Interleaved { gaps, .. } = &other.chunks else { return None };
                    let passed = u32::try_from(counts.sum_before(next)).unwrap_or(u32::MAX);
                    let sample = u32::try_from(other.chunk_samples.sum_before(passed)).unwrap_or(u32::MAX);
                    start = start.saturating_add(other.sizes.sum_before(sample));
                    start = start.saturating_add(gaps.sum_before(passed));
                }
                start
            }
        };
        Some(start..start.saturating_add(size.into()))
    }
}

/// A sample, and the chunk that holds it.
#[derive(Debug)]
struct SampleInChunk {
    number: usize,
    sample: u32,
    chunk: u32,
}

/// Reads offset and size of a track's samples in order.
#[derive(Debug)]
pub(crate) struct SamplePlacesIter<'a> {
    sizes: Values<'a>,
    chunk_samples: Values<'a>,
    chunk_left: u32,
    /// Bytes of the chunk before `offset`.
    chunk_bytes: u64,
    offset: u64,
    chunks: ChunksIter<'a>,
}

#[derive(Debug)]
enum ChunksIter<'a> {
    Separate(PositionsIter<'a>),
    Interleaved {
        gaps: Values<'a>,
        others: Vec<OtherTrackChunks<'a>>,
        /// End of this track's last chunk, or where the object's bytes before all of these start.
        end: u64,
    },
}

/// Another track's chunks, as far as they lie between.
#[derive(Debug)]
struct OtherTrackChunks<'a> {
    counts: Values<'a>,
    gaps: Values<'a>,
    chunk_samples: Values<'a>,
    sizes: Values<'a>,
}

impl OtherTrackChunks<'_> {
    /// Bytes from the end of this track's last chunk to its next one that the other track's chunks, and gaps before them, take.
    fn between(&mut self) -> Option<u64> {
        let mut bytes: u64 = 0;
        for _ in 0..self.counts.next()? {
            let samples = self.chunk_samples.next()?;
            bytes =
                bytes.saturating_add(self.gaps.next()?.into()).saturating_add(self.sizes.sum_next(samples));
        }
        Some(bytes)
    }
}

impl SamplePlacesIter<'_> {
    fn next_chunk(&mut self) -> Option<()> {
        self.chunk_left = self.chunk_samples.next()?;
        self.next_offset()
    }

    /// To where the next chunk starts.
    fn next_offset(&mut self) -> Option<()> {
        self.offset = match &mut self.chunks {
            ChunksIter::Separate(positions) => positions.next(self.chunk_bytes)?,
            ChunksIter::Interleaved { gaps, others, end } => {
                *end = end.saturating_add(self.chunk_bytes).saturating_add(gaps.next()?.into());
                for other in others {
                    *end = end.saturating_add(other.between()?);
                }
                *end
            }
        };
        self.chunk_bytes = 0;
        Some(())
    }
}

impl Iterator for SamplePlacesIter<'_> {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        while self.chunk_left == 0 {
            self.next_chunk()?;
        }
        let size = self.sizes.next()?;
        let offset = self.offset;
        self.chunk_left -= 1;
        self.chunk_bytes += u64::from(size);
        self.offset = offset.saturating_add(size.into());
        Some((offset, size))
    }
}

/// Reads offset and bytes of the chunks of a track that lies by itself and ascends.
struct ChunkReader<'a> {
    positions: PositionsIter<'a>,
    chunk_samples: Values<'a>,
    sizes: Values<'a>,
    next: Option<(u64, u64)>,
}

impl<'a> ChunkReader<'a> {
    fn new(track: &'a TrackLayout) -> Option<Self> {
        let ChunkPositions::Separate(positions) = &track.chunks else { return None };
        let mut reader = Self {
            positions: positions.iter_from(0, 0),
            chunk_samples: track.chunk_samples.iter_from(0),
            sizes: track.sizes.iter_from(0),
            next: Some((0, 0)),
        };
        reader.advance();
        positions.ascend().then_some(reader)
    }

    fn advance(&mut self) {
        let last = self.next.map_or(0, |(_, bytes)| bytes);
        self.next = self.chunk_samples.next().and_then(|samples| {
            let offset = self.positions.next(last)?;
            Some((offset, self.sizes.sum_next(samples)))
        });
    }
}
