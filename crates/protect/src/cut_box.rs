//! The box of an index MP4 that states the cuts of its media: a `uuid` box at the end of the file.
//!
//! The cuts of all video samples are grouped by *region*: the MiB of the media object in which a
//! sample starts. The groups depend neither on tracks nor on the segment grid. The box starts with
//! one entry for each region, so the cuts of a segment take two small reads: the entries of its
//! regions, and their cuts.
//!
//! Each region has a checksum that also covers the digest of the `moov` in the same file. Bytes
//! that are damaged, missing or from another index MP4 are therefore not used. A checksum does not
//! prove that cuts are right, so code that uses them compares them with the media.
//!
//! ```text
//! size u32, 'uuid', user type [16], version and flags u32, number of regions u32
//! for each region: start in the box u32, length u32, checksum u64     (all big-endian)
//! for each region, for each sample in the order of their offsets: distance from the sample before,
//!     number of cuts, clear bytes and data of each cut                (groups of 7 bits)
//! ```

use crate::{
    PackedCuts,
    cuts::Cut,
    packed_cuts::{PackedSamples, put_number},
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
};
use xxhash_rust::xxh3::Xxh3;

/// Size of a region of the media object in bytes.
pub const REGION: u64 = 1 << 20;
/// Changes with the layout, and whenever [`crate::CutReader`] finds other cuts in the same media.
const FORMAT: u32 = 1;
/// Extended type of the box.
const USERTYPE: [u8; 16] =
    [0x5c, 0x1f, 0x83, 0x0a, 0x9e, 0x6d, 0x4b, 0x27, 0xb1, 0x48, 0x7d, 0x02, 0xc6, 0x95, 0x3e, 0xda];
/// Size in bytes of everything before the entries.
const HEAD: u64 = 8 + 16 + 8;
/// Size in bytes of an entry.
const ENTRY: usize = 4 + 4 + 8;
/// Most bytes that the cuts of one region may take. Those of samples of 100 bytes take some 50 kB.
const MOST_BYTES: u32 = 256 << 10;

/// Collects the cuts of an object's samples for a box.
#[derive(Debug)]
pub struct CutBoxWriter {
    moov: u128,
    samples: BTreeMap<u64, PackedCuts>,
}

impl CutBoxWriter {
    /// Creates a writer for an index MP4 whose `moov` has this digest.
    pub fn new(moov: u128) -> Self {
        Self { moov, samples: BTreeMap::new() }
    }

    /// Returns true if the cuts of the sample at an offset of the media object are known.
    pub fn has(&self, offset: u64) -> bool {
        self.samples.contains_key(&offset)
    }

    /// Adds the cuts of the sample at an offset of the media object, unless some are known.
    pub fn add(&mut self, offset: u64, cuts: &[Cut]) {
        if let Entry::Vacant(entry) = self.samples.entry(offset) {
            let mut packed = PackedCuts::default();
            packed.push(cuts);
            entry.insert(packed);
        }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Returns true if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Returns the box, or `None` if it would have 4 GiB or more. The box has no cuts for regions
    /// with too many of them.
    pub fn finish(self) -> Option<Vec<u8>> {
        let regions = self.samples.last_key_value().map_or(0, |(offset, _)| offset / REGION + 1);
        let mut start = u32::try_from(HEAD + regions.checked_mul(ENTRY as u64)?).ok()?;
        let mut entries = Vec::new();
        let mut all = Vec::new();
        let mut samples = self.samples.iter().peekable();
        for number in 0..regions {
            let mut data = Vec::new();
            let mut last = number * REGION;
            while let Some((&offset, cuts)) = samples.next_if(|(offset, _)| *offset / REGION == number) {
                put_number(u32::try_from(offset - last).ok()?, &mut data);
                data.extend_from_slice(cuts.as_bytes());
                last = offset;
            }
            if data.len() > MOST_BYTES as usize {
                data.clear();
            }
            let length = u32::try_from(data.len()).ok()?;
            entries.extend(start.to_be_bytes());
            entries.extend(length.to_be_bytes());
            entries.extend(checksum(self.moov, number, &data).to_be_bytes());
            all.extend(data);
            start = start.checked_add(length)?;
        }
        let mut out = Vec::with_capacity(start as usize);
        out.extend(start.to_be_bytes());
        out.extend(b"uuid");
        out.extend(USERTYPE);
        out.extend(0_u32.to_be_bytes());
        out.extend(u32::try_from(regions).ok()?.to_be_bytes());
        out.extend(entries);
        out.extend(all);
        Some(out)
    }
}

/// Returns the checksum of the cuts of a region, for a `moov` with this digest.
pub fn checksum(moov: u128, region: u64, data: &[u8]) -> u64 {
    let mut digest = Xxh3::new();
    digest.update(&USERTYPE);
    digest.update(&FORMAT.to_le_bytes());
    digest.update(&moov.to_le_bytes());
    digest.update(&region.to_le_bytes());
    digest.update(data);
    digest.digest()
}

/// The regions of a box that hold the cuts of some samples. All ranges are relative to the start of
/// the box.
#[derive(Debug, Clone, Copy)]
pub struct Regions {
    moov: u128,
    first: u64,
    count: u64,
    /// Size of the box in bytes.
    size: u64,
}

impl Regions {
    /// Returns the regions of samples that start between two offsets of the media object. `size` is
    /// the size of the box. Returns `None` if the box has no entries for them.
    pub fn of(moov: u128, size: u64, first_sample: u64, last_sample: u64) -> Option<Self> {
        let first = first_sample / REGION;
        let count = (last_sample / REGION).checked_sub(first)? + 1;
        let this = Self { moov, first, count, size };
        let end = first.checked_add(count)?.checked_mul(ENTRY as u64)?.checked_add(HEAD)?;
        (end <= size).then_some(this)
    }

    /// Returns the number of regions.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the range of their entries.
    pub fn entries(&self) -> Range<u64> {
        let size = ENTRY as u64;
        let start = HEAD + self.first * size;
        start..start + self.count * size
    }

    /// Returns the range of their cuts, which the entries state. Returns `None` for entries that
    /// are not consecutive, state too many bytes, or lie outside of the box.
    pub fn data(&self, entries: &[u8]) -> Option<Range<u64>> {
        let mut all: Option<Range<u64>> = None;
        for (start, length, _) in self.parse(entries) {
            let start = u64::from(start);
            if length > MOST_BYTES || all.as_ref().is_some_and(|all| all.end != start) {
                return None;
            }
            let first = all.map_or(start, |all| all.start);
            all = Some(first..start + u64::from(length));
        }
        all.filter(|all| all.start >= HEAD && all.end <= self.size)
    }

    /// Reads the cuts. Returns `None` if a checksum or the form of the bytes is wrong.
    pub fn cuts<'a>(&self, entries: &[u8], mut data: &'a [u8]) -> Option<StatedCuts<'a>> {
        let mut samples = Vec::new();
        for ((_, length, sum), region) in self.parse(entries).zip(self.first..) {
            let (bytes, rest) = data.split_at_checked(usize::try_from(length).ok()?)?;
            data = rest;
            if checksum(self.moov, region, bytes) != sum {
                return None;
            }
            let mut offset = region * REGION;
            let mut packed = PackedSamples::of(bytes);
            while !packed.rest().is_empty() {
                offset += u64::from(packed.number()?);
                samples.push((offset, packed.rest()));
                packed.skip_sample()?;
            }
        }
        (data.is_empty() && samples.is_sorted_by_key(|(offset, _)| *offset)).then_some(StatedCuts(samples))
    }

    fn parse<'a>(&self, entries: &'a [u8]) -> impl Iterator<Item = (u32, u32, u64)> + use<'a> {
        let (entries, _) = entries.as_chunks::<ENTRY>();
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        entries.iter().take(count).map(|entry| {
            let [a, b, c, d, e, f, g, h, sum @ ..] = *entry;
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]), u64::from_be_bytes(sum))
        })
    }
}

/// Cuts of samples as a box states them: the offset of each sample, and bytes that start with its
/// cuts.
#[derive(Debug, Clone)]
pub struct StatedCuts<'a>(Vec<(u64, &'a [u8])>);

impl StatedCuts<'_> {
    /// Returns the cuts of samples, each given by its offset in the media object and its size.
    /// Returns `None` if the cuts of a sample are not stated, or do not add up to its size.
    pub fn of(&self, samples: impl Iterator<Item = (u64, u32)>) -> Option<PackedCuts> {
        let mut packed = PackedCuts::default();
        let mut cuts = Vec::new();
        for (offset, size) in samples {
            let at = self.0.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
            let (_, bytes) = self.0.get(at)?;
            PackedSamples::of(bytes).next_sample(size, &mut cuts).ok()?;
            packed.push(&cuts);
        }
        Some(packed)
    }
}

#[cfg(test)]
#[path = "cut_box_tests.rs"]
mod tests;
