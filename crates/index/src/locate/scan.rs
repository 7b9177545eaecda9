//! Reading every `moof` of a fragmented file that has no index of all its tracks.

use crate::{
    error::{IndexError, TrackProblemKind},
    locate::{
        limits::{MOOF_READ, most_samples},
        moof_samples::{self, FragmentDefaults, FragmentError, FragmentedTrack, FragmentedTracks, Wanted},
        object_reader::{ObjectReader, Pause},
    },
    table::sample_builder::SampleTableBuilder,
    table::samples::{MAX_SAMPLES, Sample, SampleTable},
};
use latemux_isobmff::fragment::Moof;
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// Number of fragments read at once if their offsets are known in advance.
pub(crate) const PARALLEL_READS: usize = 128;

/// Bytes read beside a `moof`: boxes before it, such as `styp`, and the header of the next box.
const BESIDE_MOOF: u64 = 1 << 10;

/// Most bytes that are read at once.
const MOST_READ: u64 = 2 << 20;

/// A scan in progress. Samples are on the source timeline.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Offset of the next box. Bytes before it are not needed again.
    pub(crate) at: u64,
    /// Offsets of fragments that an incomplete index lists, ascending.
    known: Vec<u64>,
    defaults: FragmentDefaults,
    /// One entry for each of `collected`.
    tracks: FragmentedTracks,
    collected: Vec<Result<ScannedTable, TrackProblemKind>>,
    /// Digest of all `moof`s read.
    pub(crate) digest: u128,
    pub(crate) moof_bytes: u64,
    /// Size of the largest `moof` so far in bytes.
    largest: u64,
    /// Number of samples of all tracks so far.
    samples: u64,
}

impl Scan {
    /// Starts a scan at a byte offset. Each track comes with its samples in `moov`, if any.
    pub(crate) fn new(
        at: u64,
        known: Vec<u64>,
        defaults: FragmentDefaults,
        tracks: Vec<(FragmentedTrack, Option<SampleTable>)>,
    ) -> Self {
        let (mut tracks, before): (Vec<_>, Vec<_>) = tracks.into_iter().unzip();
        let collected = tracks
            .iter_mut()
            .zip(before)
            .map(|(track, table)| {
                let mut collected = ScannedTable::default();
                for sample in table.iter().flat_map(|table| table.range(0..u32::MAX)) {
                    track.next = Some(sample.decode_time + i64::from(sample.duration));
                    collected.push(&sample)?;
                }
                Ok(collected)
            })
            .collect();
        let tracks = FragmentedTracks::new(tracks);
        Self { at, known, defaults, tracks, collected, digest: 0, moof_bytes: 0, largest: 0, samples: 0 }
    }

    /// Continues from box to box as far as bytes have been read.
    pub(crate) fn run(
        &mut self,
        reader: &ObjectReader<'_>,
    ) -> Result<Vec<Result<SampleTable, TrackProblemKind>>, Pause> {
        while self.at < reader.object_size {
            let found = match reader.top_box(self.at, reader.window(self.at)) {
                Ok(found) => found,
                Err(Pause::Read(_)) => return Err(Pause::Read(self.reads(reader))),
                // Garbage after the last fragment is ignored.
                Err(Pause::Fail(_)) if self.moof_bytes > 0 => None,
                Err(fail) => return Err(fail),
            };
            let Some(found) = found else { break };
            if found.kind == b"moof" {
                self.largest = self.largest.max(found.size());
                let bytes = reader.whole(&found, "moof").map_err(|pause| match pause {
                    // Other fragments may be as large.
                    Pause::Read(mut ranges) => {
                        ranges.extend(self.later_reads(reader));
                        Pause::Read(ranges)
                    }
                    other => other,
                })?;
                self.moof_bytes += found.size();
                if self.moof_bytes > reader.limits.max_index {
                    let value = self.moof_bytes;
                    let limit = reader.limits.max_index;
                    return Err(IndexError::TooLarge { what: "all moof boxes together", value, limit }.into());
                }
                let mut digest = Xxh3::new();
                digest.update(&self.digest.to_le_bytes());
                digest.update(&found.range.start.to_le_bytes());
                digest.update(&bytes);
                self.digest = digest.digest128();
                let moof = Moof::parse(&bytes, found.range.start)?;
                self.collect(&moof, found.range.start, reader.object_size)?;
            }
            self.at = found.range.end;
        }
        let collected = std::mem::take(&mut self.collected);
        Ok(collected.into_iter().map(|c| c.map(ScannedTable::finish)).collect())
    }

    /// Returns the read at the current position, and those at known fragments further on.
    fn reads(&self, reader: &ObjectReader<'_>) -> Vec<Range<u64>> {
        let is_known = self.known.binary_search(&self.at).is_ok();
        let first = if is_known { self.moof_read(reader, self.at) } else { reader.window(self.at) };
        std::iter::once(first).chain(self.later_reads(reader)).collect()
    }

    /// Returns the reads at known fragments behind the current position.
    fn later_reads(&self, reader: &ObjectReader<'_>) -> impl Iterator<Item = Range<u64>> {
        let later = self.known.partition_point(|&offset| offset <= self.at);
        let later = self.known.get(later..).unwrap_or_default();
        let first = later.first().map_or(0..0, |&offset| self.moof_read(reader, offset));
        let most = MOST_READ / (first.end - first.start).max(1);
        let count = PARALLEL_READS.min(usize::try_from(most).unwrap_or(usize::MAX));
        later.iter().take(count.saturating_sub(1)).map(|&offset| self.moof_read(reader, offset))
    }

    /// Returns the read of the `moof` of a known fragment. Media follows it, so no more is read
    /// than the largest `moof` so far, or than most have.
    fn moof_read(&self, reader: &ObjectReader<'_>, offset: u64) -> Range<u64> {
        let window = reader.window(offset);
        let len = self.largest.saturating_add(BESIDE_MOOF).max(MOOF_READ);
        window.start..window.end.min(window.start.saturating_add(len))
    }

    /// Collects the samples of a `moof`. A track that cannot be read is left out, and the others
    /// still play.
    fn collect(&mut self, moof: &Moof, offset: u64, object_size: u64) -> Result<(), Pause> {
        let limit = most_samples(object_size);
        let Self { collected, defaults, tracks, samples, .. } = self;
        moof_samples::resolve(moof, offset, object_size, defaults, tracks, |number, sample| {
            *samples += 1;
            if *samples > limit {
                return Err(FragmentError::OverLimit(limit));
            }
            if let Some(track) = collected.get_mut(number)
                && let Ok(table) = track
                && let Err(kind) = sample.map_err(|problem| problem.kind).and_then(|s| table.push(&s))
            {
                *track = Err(kind);
                return Ok(Wanted::No);
            }
            Ok(Wanted::Yes)
        })?;
        Ok(())
    }
}

/// A sample table that grows sample by sample.
#[derive(Debug, Default)]
pub(crate) struct ScannedTable {
    builder: SampleTableBuilder,
    first_decode_time: Option<i64>,
    /// Decode time and duration of the last sample. Its step to the next sample is not known yet.
    last: (i64, u32),
    /// Offset, number of samples and bytes of the last run of contiguous samples.
    chunk: (u64, u32, u64),
    count: u32,
}

impl ScannedTable {
    /// Appends a sample. A sample lasts until the next one is decoded, regardless of its own
    /// duration. This closes gaps between fragments, as players do.
    pub(crate) fn push(&mut self, sample: &Sample) -> Result<(), TrackProblemKind> {
        if self.count >= MAX_SAMPLES {
            return Err(TrackProblemKind::TooLarge(format!("more than {MAX_SAMPLES} samples")));
        }
        match self.first_decode_time {
            None => self.first_decode_time = Some(sample.decode_time),
            Some(_) => {
                let step = sample.decode_time.checked_sub(self.last.0).and_then(|s| u32::try_from(s).ok());
                let Some(step) = step else {
                    let from = self.last.0;
                    let to = sample.decode_time;
                    let what = format!("the decode time jumps from {from} to {to}");
                    return Err(TrackProblemKind::malformed(what));
                };
                self.builder.durations.push(step);
            }
        }
        self.last = (sample.decode_time, sample.duration);
        self.builder.sizes.push(sample.size);
        self.builder.push_compositions(sample.composition_offset, 1);
        if sample.sync {
            self.builder.push_sync(self.count);
        }
        self.count += 1;
        let (start, samples, bytes) = self.chunk;
        if samples > 0 && start + bytes == sample.offset {
            self.chunk = (start, samples + 1, bytes + u64::from(sample.size));
        } else {
            self.end_chunk();
            self.chunk = (sample.offset, 1, sample.size.into());
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        let (offset, samples, bytes) = self.chunk;
        if samples > 0 {
            self.builder.push_chunk(offset, samples, bytes);
        }
    }

    pub(crate) fn finish(mut self) -> SampleTable {
        self.end_chunk();
        if self.count > 0 {
            self.builder.durations.push(self.last.1);
        }
        self.builder.finish(self.first_decode_time.unwrap_or(0))
    }
}
