//! Describing the chunks of several tracks relative to each other.

use crate::table::{
    chunk_block::{ChunkBlock, ChunkReader},
    column::ColumnBuilder,
    layout::{ChunkPositions, MAX_TRACKS},
};

/// Describes the chunks of several tracks relative to each other. Returns `None` if chunks overlap
/// or do not ascend, or if separate offsets would take less memory, by an estimate.
pub(crate) fn interleave(tracks: Vec<impl ChunkReader>) -> Option<Vec<ChunkPositions>> {
    if !(2..=MAX_TRACKS).contains(&tracks.len()) {
        return None;
    }
    let count = tracks.len();
    let tracks = tracks.into_iter().map(|chunks| Interleaved::new(chunks, count)).collect();
    let mut walk = Walk { tracks, passed: [0; MAX_TRACKS], end: 0, separate_bits: 0 };
    while let Some(number) = walk.next_track() {
        walk.describe(number)?;
        walk.describe_alternating(number);
    }
    let Walk { tracks, separate_bits, .. } = walk;
    let positions: Vec<_> = (0..).zip(tracks).map(|(number, track)| track.finish(number)).collect();
    let bytes: usize = positions.iter().map(ChunkPositions::heap_bytes).sum();
    // Some 100 bytes of each packed column are its header, directory and padding.
    let separate = separate_bits / 8 + 100 * count as u64;
    ((bytes as u64) < separate).then_some(positions)
}

/// A walk over the chunks of all tracks in the order of their offsets.
struct Walk<R> {
    tracks: Vec<Interleaved<R>>,
    /// Number of chunks of each track so far.
    passed: [u32; MAX_TRACKS],
    /// End of the last chunk, in bytes from the start of the object.
    end: u64,
    /// Number of bits that separate offsets would take.
    separate_bits: u64,
}

impl<R: ChunkReader> Walk<R> {
    /// Returns the first of the tracks whose next chunk comes first. `None` at the end.
    fn next_track(&self) -> Option<usize> {
        let next = self.tracks.iter().enumerate();
        let next = next.filter_map(|(number, track)| Some((*track.block.starts().get(track.at)?, number)));
        next.min().map(|(_, number)| number)
    }

    /// Describes the next chunk of a track. Fails if it overlaps the one before, or lies too far
    /// behind it.
    fn describe(&mut self, number: usize) -> Option<()> {
        let track = self.tracks.get_mut(number)?;
        let start = *track.block.starts().get(track.at)?;
        let gap = u32::try_from(start.checked_sub(self.end)?).ok()?;
        self.end = *track.block.ends().get(track.at)?;
        self.separate_bits += separate_bits(start, track.end);
        track.end = self.end;
        track.describe(gap, &self.passed);
        track.pass(1);
        *self.passed.get_mut(number)? += 1;
        Some(())
    }

    /// Describes chunks of two tracks as long as these alternate without gaps, as programs write
    /// them. `last` is the track of the last chunk.
    fn describe_alternating(&mut self, last: usize) {
        let [one, other] = self.tracks.as_mut_slice() else { return };
        let (first, second) = if last == 0 { (other, one) } else { (one, other) };
        if first.last != ALTERNATING || second.last != ALTERNATING {
            return;
        }
        let starts = first.block.starts().get(first.at..).unwrap_or_default();
        let ends = first.block.ends().get(first.at..).unwrap_or_default();
        let next_starts = starts.get(1..).unwrap_or_default();
        let second_starts = second.block.starts().get(second.at..).unwrap_or_default();
        let second_ends = second.block.ends().get(second.at..).unwrap_or_default();
        let firsts = starts.iter().zip(ends).zip(next_starts);
        let seconds = second_starts.iter().zip(second_ends);
        let mut end = self.end;
        let mut pairs = 0;
        for (((&start, &until), &next_start), (&second_start, &second_until)) in firsts.zip(seconds) {
            let is_alternating =
                start == end && second_start == until && start < second_start && second_start < next_start;
            if !is_alternating {
                break;
            }
            self.separate_bits += separate_bits(start, first.end) + separate_bits(second_start, second.end);
            (first.end, second.end, end) = (until, second_until, second_until);
            pairs += 1;
        }
        if pairs == 0 {
            return;
        }
        self.end = end;
        let count = u32::try_from(pairs).unwrap_or(0);
        let passed = |of_first: u32, of_second: u32| {
            let mut passed = self.passed;
            let more = if last == 0 { [of_second, of_first] } else { [of_first, of_second] };
            passed.iter_mut().zip(more).for_each(|(passed, more)| *passed += more);
            passed
        };
        // The numbers before the last chunk of each track.
        first.passed = passed(count - 1, count - 1);
        second.passed = passed(count, count - 1);
        self.passed = passed(count, count);
        first.equal += count;
        second.equal += count;
        first.pass(pairs);
        second.pass(pairs);
    }
}

/// Returns the number of bits that the offset of a chunk takes without those of other tracks. A
/// Rice code is some 2 bits longer than log2 of the value.
fn separate_bits(start: u64, end_before: u64) -> u64 {
    u64::from((start - end_before).max(1).ilog2() + 2)
}

/// Positions of one track's chunks while they are described relative to those of other tracks.
struct Interleaved<R> {
    chunks: R,
    /// The chunks that were read last, and the index of the next one.
    block: Box<ChunkBlock>,
    at: usize,
    /// End of the track's last chunk, in bytes from the start of the object.
    end: u64,
    /// For each track, the number of its chunks before this track's last chunk.
    passed: [u32; MAX_TRACKS],
    /// The description that the last chunks of this track share, and how many they are.
    last: Described,
    equal: u32,
    gaps: ColumnBuilder,
    /// For each track, how many of its chunks lie before each chunk of this one.
    others: Vec<ColumnBuilder>,
}

/// The description of a chunk: the bytes before it, and the number of chunks of each track since
/// this track's previous chunk. That of the track itself is 1, except for the first chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Described {
    gap: u32,
    between: [u32; MAX_TRACKS],
}

/// The description of the chunks of two tracks that alternate without gaps.
const ALTERNATING: Described = Described { gap: 0, between: [1, 1, 0, 0, 0, 0, 0, 0] };

impl<R: ChunkReader> Interleaved<R> {
    fn new(chunks: R, tracks: usize) -> Self {
        let mut track = Self {
            chunks,
            block: Box::new(ChunkBlock::new()),
            at: 0,
            end: 0,
            passed: [0; MAX_TRACKS],
            last: Described { gap: 0, between: [0; MAX_TRACKS] },
            equal: 0,
            gaps: ColumnBuilder::default(),
            others: (0..tracks).map(|_| ColumnBuilder::default()).collect(),
        };
        track.pass(0);
        track
    }

    /// Moves on by a number of chunks.
    fn pass(&mut self, chunks: usize) {
        self.at += chunks;
        if self.at >= self.block.starts().len() {
            self.block.clear();
            self.chunks.fill(&mut self.block);
            self.at = 0;
        }
    }

    /// Describes the next chunk. `gap` are the bytes before it, and `passed` the chunks of each
    /// track.
    fn describe(&mut self, gap: u32, passed: &[u32; MAX_TRACKS]) {
        let mut described = Described { gap, between: *passed };
        for (count, before) in described.between.iter_mut().zip(&self.passed) {
            *count -= before;
        }
        self.passed = *passed;
        if described != self.last {
            self.push_last();
            self.last = described;
        }
        self.equal += 1;
    }

    fn push_last(&mut self) {
        let equal = std::mem::take(&mut self.equal);
        self.gaps.push_run(self.last.gap, equal);
        for (column, &count) in self.others.iter_mut().zip(&self.last.between) {
            column.push_run(count, equal);
        }
    }

    fn finish(mut self, number: usize) -> ChunkPositions {
        self.push_last();
        let others = (0..).zip(self.others).filter(|(other, _)| *other != number);
        let mut others: Vec<_> = others.map(|(other, counts)| (other, counts.finish())).collect();
        others.shrink_to_fit();
        ChunkPositions::Interleaved { gaps: self.gaps.finish(), others }
    }
}
