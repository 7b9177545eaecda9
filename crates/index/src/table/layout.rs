//! Positions of the samples of tracks in an object: sizes, chunks, and how the chunks of several
//! tracks alternate.
//!
//! In an interleaved file, the bytes between two chunks of one track are chunks of the other
//! tracks, whose sizes are known already. So a chunk's position is kept as the number of each other
//! track's chunks before it, usually one or two, and the bytes between it and the chunk before it,
//! usually none.

use crate::table::{
    column::{Column, Values},
    positions::{Positions, PositionsIter},
};
use std::ops::Range;

/// Largest number of interleaved tracks. Each pair of tracks needs a column.
pub(crate) const MAX_TRACKS: usize = 8;

/// Tracks and the positions of their samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) tracks: Vec<TrackLayout>,
}

/// The positions of one track's samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrackLayout {
    /// Size of each sample in bytes.
    pub(crate) sizes: Column,
    /// Number of samples in each chunk. The samples of a chunk are contiguous.
    pub(crate) chunk_samples: Column,
    pub(crate) chunks: ChunkPositions,
}

/// The positions of a track's chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChunkPositions {
    /// Offsets of their own.
    Separate(Positions),
    /// Offsets relative to the chunks of other tracks.
    Interleaved {
        /// For each chunk, the bytes between it and the end of the previous chunk of any track.
        gaps: Column,
        /// For each other track: its number and, for each chunk of this track, how many of the
        /// other track's chunks lie between it and this track's previous chunk.
        others: Vec<(usize, Column)>,
    },
}

/// A chunk: samples of one track that lie behind each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Offset in bytes from the start of the object.
    pub(crate) offset: u64,
    /// Sum of the sizes of its samples.
    pub(crate) bytes: u64,
    /// Number of its samples.
    pub(crate) samples: u32,
}

impl TrackLayout {
    /// Returns the chunks in order. `None` if their offsets do not ascend, or are relative to the
    /// chunks of other tracks.
    pub(crate) fn ascending_chunks(&self) -> Option<impl Iterator<Item = Chunk>> {
        let ChunkPositions::Separate(positions) = &self.chunks else { return None };
        let mut offsets = positions.iter_from(0, 0);
        let mut sizes = self.sizes.iter_from(0);
        let mut bytes = 0;
        let chunks = self.chunk_samples.iter_from(0).map_while(move |samples| {
            let offset = offsets.next(bytes)?;
            bytes = sizes.sum_next(samples);
            Some(Chunk { offset, bytes, samples })
        });
        positions.is_ascending().then_some(chunks)
    }

    fn heap_bytes(&self) -> usize {
        self.sizes.heap_bytes() + self.chunk_samples.heap_bytes() + self.chunks.heap_bytes()
    }
}

impl ChunkPositions {
    pub(crate) fn heap_bytes(&self) -> usize {
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
    /// Returns true if these are the offsets of a single track, and do not ascend.
    pub(crate) fn is_unordered_alone(&self) -> bool {
        match self.tracks.as_slice() {
            [TrackLayout { chunks: ChunkPositions::Separate(positions), .. }] => !positions.is_ascending(),
            _ => false,
        }
    }
}

impl Layout {
    pub(crate) fn track(&self, number: usize) -> Option<&TrackLayout> {
        self.tracks.get(number)
    }

    /// Returns the number of bytes of memory that one track's part takes.
    pub(crate) fn heap_bytes(&self, number: usize) -> usize {
        self.track(number).map_or(0, |track| size_of::<TrackLayout>() + track.heap_bytes())
    }

    /// Returns an iterator over the positions of a track's samples from `sample` on.
    pub(crate) fn positions_from(&self, number: usize, sample: u32) -> Option<SamplePositionsIter<'_>> {
        let track = self.track(number)?;
        // Seek to the chunk that holds the sample, past empty chunks.
        let (chunk, first, mut chunk_samples) = track.chunk_samples.seek_sum(sample.into());
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        let chunk_left = chunk_samples.next()?.checked_sub(sample.checked_sub(first)?)?;
        let (bytes_before, sizes) = track.sizes.seek(sample);
        // The bytes of the chunk before the sample count as bytes before the chunk, as ascending
        // positions allow. Only offsets in any order need the chunk's own start.
        let (chunks, chunk_bytes) = match &track.chunks {
            ChunkPositions::Separate(positions) if positions.is_ascending() => {
                (ChunksIter::Separate(positions.iter_from(chunk, bytes_before)), 0)
            }
            ChunkPositions::Separate(positions) => {
                let into_chunk = bytes_before.checked_sub(track.sizes.sum_before(first))?;
                (ChunksIter::Separate(positions.iter_from(chunk, 0)), into_chunk)
            }
            ChunkPositions::Interleaved { gaps, others } => {
                let (gap_bytes, gaps) = gaps.seek(chunk);
                let mut end = bytes_before + gap_bytes;
                let mut readers = Vec::with_capacity(others.len());
                for (other, counts) in others {
                    let track = self.track(*other)?;
                    let (passed, counts) = counts.seek(chunk);
                    let passed = u32::try_from(passed).unwrap_or(u32::MAX);
                    let (sample, chunk_samples) = track.chunk_samples.seek(passed);
                    let (bytes, sizes) = track.sizes.seek(u32::try_from(sample).unwrap_or(u32::MAX));
                    let ChunkPositions::Interleaved { gaps, .. } = &track.chunks else { return None };
                    let (gap_bytes, gaps) = gaps.seek(passed);
                    end += bytes + gap_bytes;
                    readers.push(OtherTrackChunks { counts, gaps, chunk_samples, sizes });
                }
                (ChunksIter::Interleaved { gaps, others: readers, end }, 0)
            }
        };
        let mut positions =
            SamplePositionsIter { sizes, chunk_samples, chunk_left, chunk_bytes: 0, offset: 0, chunks };
        positions.next_offset()?;
        positions.chunk_bytes = chunk_bytes;
        positions.offset += chunk_bytes;
        Some(positions)
    }

    /// Returns the range from the first to the last byte of samples of tracks. For a track whose
    /// samples do not lie in order, only its first and last samples count. `cuts` holds track
    /// numbers and ranges of their samples; empty ranges are ignored. Costs O(log n) for each
    /// track, and less than [`Self::positions_from`] for both ends.
    pub(crate) fn extent(&self, cuts: impl Iterator<Item = (usize, Range<u32>)>) -> Option<Range<u64>> {
        let mut ends: Option<(SampleInChunk, SampleInChunk)> = None;
        let mut extent: Option<Range<u64>> = None;
        for (number, cut) in cuts {
            let Some(last) = cut.end.checked_sub(1).filter(|&last| last >= cut.start) else { continue };
            let first = self.find(number, cut.start)?;
            let last = self.find(number, last)?;
            if let ChunkPositions::Separate(_) = self.track(number)?.chunks {
                let first = self.sample_range(&first)?;
                let last = self.sample_range(&last)?;
                let one = first.start.min(last.start)..first.end.max(last.end);
                extent =
                    Some(extent.map_or(one.clone(), |all| all.start.min(one.start)..all.end.max(one.end)));
                continue;
            }
            // The order of two chunks is known without their offsets.
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
            Some((lowest, highest)) => {
                Some(self.sample_range(&lowest)?.start..self.sample_range(&highest)?.end)
            }
        }
    }

    fn find(&self, number: usize, sample: u32) -> Option<SampleInChunk> {
        // `find` steps over empty chunks to the one that holds the sample.
        Some(SampleInChunk { number, sample, chunk: self.track(number)?.chunk_samples.find(sample.into()) })
    }

    /// Returns true if a sample lies before another one. Their tracks are interleaved.
    fn precedes(&self, one: &SampleInChunk, other: &SampleInChunk) -> Option<bool> {
        if one.number == other.number {
            return Some(one.sample < other.sample);
        }
        let ChunkPositions::Interleaved { others, .. } = &self.track(other.number)?.chunks else {
            return None;
        };
        let (_, counts) = others.iter().find(|(number, _)| *number == one.number)?;
        Some(u64::from(one.chunk) < counts.sum_before(other.chunk + 1))
    }

    fn sample_range(&self, at: &SampleInChunk) -> Option<Range<u64>> {
        let track = self.track(at.number)?;
        let (before, mut sizes) = track.sizes.seek(at.sample);
        let size = sizes.next()?;
        let start = match &track.chunks {
            ChunkPositions::Separate(positions) if positions.is_ascending() => {
                positions.get(at.chunk, before)
            }
            ChunkPositions::Separate(positions) => {
                let first = u32::try_from(track.chunk_samples.sum_before(at.chunk)).unwrap_or(u32::MAX);
                let into_chunk = before.checked_sub(track.sizes.sum_before(first))?;
                positions.get(at.chunk, 0) + into_chunk
            }
            ChunkPositions::Interleaved { gaps, others } => {
                let next = at.chunk + 1;
                let mut start = before + gaps.sum_before(next);
                for (other, counts) in others {
                    let other = self.track(*other)?;
                    let ChunkPositions::Interleaved { gaps, .. } = &other.chunks else { return None };
                    let passed = u32::try_from(counts.sum_before(next)).unwrap_or(u32::MAX);
                    let sample = u32::try_from(other.chunk_samples.sum_before(passed)).unwrap_or(u32::MAX);
                    start += other.sizes.sum_before(sample) + gaps.sum_before(passed);
                }
                start
            }
        };
        Some(start..start + u64::from(size))
    }
}

#[derive(Debug)]
struct SampleInChunk {
    number: usize,
    sample: u32,
    chunk: u32,
}

/// Iterates over offsets and sizes of a track's samples.
#[derive(Debug)]
pub(crate) struct SamplePositionsIter<'a> {
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
        /// End of this track's last chunk. Before the first chunk is read: the sum of all bytes
        /// before it that are accounted for.
        end: u64,
    },
}

/// Reads the chunks of another track that lie between chunks of this one.
#[derive(Debug)]
struct OtherTrackChunks<'a> {
    counts: Values<'a>,
    gaps: Values<'a>,
    chunk_samples: Values<'a>,
    sizes: Values<'a>,
}

impl OtherTrackChunks<'_> {
    /// Returns how many bytes the other track's chunks, and the gaps before them, take between this
    /// track's last chunk and its next one.
    fn between(&mut self) -> Option<u64> {
        let mut bytes: u64 = 0;
        for _ in 0..self.counts.next()? {
            let samples = self.chunk_samples.next()?;
            bytes += u64::from(self.gaps.next()?) + self.sizes.sum_next(samples);
        }
        Some(bytes)
    }
}

impl SamplePositionsIter<'_> {
    /// Moves to the start of the next chunk.
    fn next_offset(&mut self) -> Option<()> {
        self.offset = match &mut self.chunks {
            ChunksIter::Separate(positions) => positions.next(self.chunk_bytes)?,
            ChunksIter::Interleaved { gaps, others, end } => {
                *end += self.chunk_bytes + u64::from(gaps.next()?);
                for other in others {
                    *end += other.between()?;
                }
                *end
            }
        };
        self.chunk_bytes = 0;
        Some(())
    }
}

impl Iterator for SamplePositionsIter<'_> {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        while self.chunk_left == 0 {
            self.chunk_left = self.chunk_samples.next()?;
            self.next_offset()?;
        }
        let size = self.sizes.next()?;
        let offset = self.offset;
        self.chunk_left -= 1;
        self.chunk_bytes += u64::from(size);
        self.offset = offset + u64::from(size);
        Some((offset, size))
    }
}
