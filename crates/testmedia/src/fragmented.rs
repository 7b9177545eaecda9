//! The same fragments written in every way that the standard allows (ISO/IEC 14496-12 §8.8 and
//! §8.16.3). They are read from a file of ffmpeg and written by code that shares nothing with the
//! reader under test.

mod index_boxes;

use crate::rewrite::{boxed, boxes, put, u32_at};
use index_boxes::{Plan, random_access};
use std::collections::BTreeMap;

/// Boxes that state where the fragments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// No such box.
    Neither,
    /// A `sidx` for each track before the first fragment.
    Sidx,
    /// A `sidx` for each track, which leads to two more for half of the fragments each.
    SidxTree,
    /// A `sidx` for the first half, which ends with a reference to that of the second half. Only
    /// for files with one track.
    SidxChain,
    /// A `mfra` at the end.
    Mfra,
    /// Both `sidx` and `mfra`.
    Both,
}

/// Way in which a fragment states its decode time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeTime {
    /// `tfdt` with 32 bits.
    Narrow,
    /// `tfdt` with 64 bits.
    Wide,
    /// No `tfdt`: the fragment starts where the one before ends.
    Absent,
}

/// Base of the data offsets in a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetBase {
    /// The fragment's `moof`, by `default-base-is-moof`.
    Moof,
    /// An offset in the file, by `base-data-offset`.
    Stated,
    /// Not stated: the `moof` for the first track, the end of the data before for the others.
    Implied,
}

/// Boxes that hold the durations, sizes and flags of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleValues {
    /// `tfhd` for values that all samples share, and the first-sample-flags for a first sample that
    /// differs.
    Tfhd,
    /// `trex` for values that all samples share, if they equal the values there.
    Trex,
    /// `trun`, with all values for each sample.
    Samples,
    /// Like [`Self::Tfhd`], but in runs of 10 samples. Only the first run has a data offset.
    Runs,
}

/// Options for writing a fragmented file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragmented {
    /// Boxes that state where the fragments are.
    pub index: Index,
    /// Way in which fragments state their decode time.
    pub decode_time: DecodeTime,
    /// Base of the data offsets.
    pub base: OffsetBase,
    /// Boxes that hold the values of samples.
    pub values: SampleValues,
    /// If true, each track has `moof`s of its own.
    pub separate_moofs: bool,
    /// Size in bytes of the lengths before AVC's NAL units: 4, or 2.
    pub nal_lengths: usize,
}

impl Default for Fragmented {
    /// Returns the options that match ffmpeg's own output without any index.
    fn default() -> Self {
        Self {
            index: Index::Neither,
            decode_time: DecodeTime::Wide,
            base: OffsetBase::Moof,
            values: SampleValues::Tfhd,
            separate_moofs: false,
            nal_lengths: 4,
        }
    }
}

#[derive(Debug, Clone)]
struct Sample {
    duration: u32,
    flags: u32,
    composition_offset: i32,
    data: Vec<u8>,
}

/// The samples of one track in one fragment.
#[derive(Debug, Clone)]
struct Run {
    track: u32,
    decode_time: u64,
    samples: Vec<Sample>,
}

/// Default duration, size and flags in each track's `trex`.
type Defaults = BTreeMap<u32, [u32; 3]>;

/// Rewrites a fragmented file that ffmpeg made with `default_base_moof` and `skip_trailer`. Edit
/// lists are kept.
pub fn fragmented(file: &[u8], variant: Fragmented) -> Vec<u8> {
    let start = file.windows(4).position(|w| w == b"moof").expect("fragments") - 4;
    let mut out = file[..start].to_vec();
    let mut fragments = read(file, start);
    if variant.nal_lengths == 2 {
        shorten_lengths(&mut out, &mut fragments);
    }
    let defaults = if variant.values == SampleValues::Trex {
        set_trex_defaults(&mut out, &fragments)
    } else {
        Defaults::new()
    };
    let scales = timescales(file);

    let part_len = |runs: &[Run]| if variant.separate_moofs { 1 } else { runs.len() };
    // The size of a fragment does not depend on its offset, so all sizes are known beforehand.
    let size = |part: &[Run]| fragment(0, 0, part, variant, &defaults).len();
    let sizes: Vec<usize> =
        fragments.iter().map(|runs| runs.chunks(part_len(runs)).map(size).sum()).collect();
    let plan = Plan { fragments: &fragments, sizes: &sizes, scales: &scales };
    let (before, middle) = plan.segment_indexes(variant.index);
    out.extend(before);
    let mut moofs = Vec::new();
    for (number, runs) in fragments.iter().enumerate() {
        for (_, index) in middle.iter().filter(|(before, _)| *before == number) {
            out.extend(index);
        }
        let start = out.len();
        for part in runs.chunks(part_len(runs)) {
            moofs.push((out.len(), part.iter().map(|run| run.track).collect::<Vec<_>>()));
            let sequence = u32::try_from(moofs.len()).expect("few fragments");
            out.extend(fragment(sequence, out.len(), part, variant, &defaults));
        }
        assert_eq!(out.len() - start, sizes[number]);
    }
    if matches!(variant.index, Index::Mfra | Index::Both) {
        random_access(&fragments, &moofs, &mut out);
    }
    out
}

/// Adds seconds to the decode times of a fragmented file, which must be 64 bits wide. Files of
/// recordings begin at the time of day or of the epoch.
pub fn delayed(file: &[u8], seconds: u64) -> Vec<u8> {
    let scales = timescales(file);
    let mut out = file.to_vec();
    for traf in children(file, b"moof").flat_map(|moof| children(moof, b"traf")) {
        let track = u32_at(child(traf, b"tfhd").expect("tfhd"), 4);
        let tfdt = child(traf, b"tfdt").expect("tfdt");
        assert_eq!(tfdt[0], 1, "64 bits");
        let time = u64_at(tfdt, 4) + seconds * u64::from(scales[&track]);
        let at = tfdt.as_ptr() as usize - file.as_ptr() as usize + 4;
        out[at..at + 8].copy_from_slice(&time.to_be_bytes());
    }
    out
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn child<'a>(bytes: &'a [u8], code: &[u8; 4]) -> Option<&'a [u8]> {
    boxes(bytes).into_iter().find(|(kind, _)| kind == code).map(|(_, payload)| payload)
}

fn children<'a>(bytes: &'a [u8], code: &'static [u8; 4]) -> impl Iterator<Item = &'a [u8]> {
    boxes(bytes).into_iter().filter(move |(kind, _)| kind == code).map(|(_, payload)| payload)
}

/// Returns the timescale of every track.
fn timescales(file: &[u8]) -> BTreeMap<u32, u32> {
    let moov = child(file, b"moov").expect("moov");
    let after = |version: u8| if version == 1 { 20 } else { 12 };
    children(moov, b"trak")
        .map(|trak| {
            let tkhd = child(trak, b"tkhd").expect("tkhd");
            let mdhd = child(child(trak, b"mdia").expect("mdia"), b"mdhd").expect("mdhd");
            (u32_at(tkhd, after(tkhd[0])), u32_at(mdhd, after(mdhd[0])))
        })
        .collect()
}

/// Reads all fragments of a file from `start` on: the runs of each fragment.
fn read(file: &[u8], start: usize) -> Vec<Vec<Run>> {
    let mvex = child(child(file, b"moov").expect("moov"), b"mvex").expect("mvex");
    let trex: Defaults =
        children(mvex, b"trex").map(|t| (u32_at(t, 4), [12, 16, 20].map(|at| u32_at(t, at)))).collect();
    let mut fragments = Vec::new();
    for moof in children(&file[start..], b"moof") {
        let at = moof.as_ptr() as usize - file.as_ptr() as usize - 8;
        fragments.push(children(moof, b"traf").map(|traf| read_run(file, at, traf, &trex)).collect());
    }
    fragments
}

fn read_run(file: &[u8], moof: usize, traf: &[u8], trex: &Defaults) -> Run {
    let tfhd = child(traf, b"tfhd").expect("tfhd");
    let track = u32_at(tfhd, 4);
    let mut words = tfhd[8..].chunks_exact(4).map(|w| u32_at(w, 0));
    let flags = u32_at(tfhd, 0);
    assert_eq!(flags & 0x2_0003, 0x2_0000, "default-base-is-moof, without an offset or a description index");
    let mut defaults = trex[&track];
    for (default, flag) in defaults.iter_mut().zip([0x8, 0x10, 0x20]) {
        if flags & flag != 0 {
            *default = words.next().expect("as its flags say");
        }
    }
    let tfdt = child(traf, b"tfdt").expect("tfdt");
    let decode_time = if tfdt[0] == 1 { u64_at(tfdt, 4) } else { u32_at(tfdt, 4).into() };
    let mut samples = Vec::new();
    for trun in children(traf, b"trun") {
        let mut words = trun[4..].chunks_exact(4).map(|w| u32_at(w, 0));
        let mut next = || words.next().expect("as its flags say");
        let flags = u32_at(trun, 0);
        let count = next();
        assert_ne!(flags & 1, 0, "a data offset");
        let mut at = moof + next() as usize;
        let first_flags = (flags & 4 != 0).then(&mut next);
        for n in 0..count {
            let mut field = |flag: u32, default: u32| if flags & flag != 0 { next() } else { default };
            let duration = field(0x100, defaults[0]);
            let size = field(0x200, defaults[1]) as usize;
            let flags = field(0x400, first_flags.filter(|_| n == 0).unwrap_or(defaults[2]));
            let composition_offset = field(0x800, 0).cast_signed();
            samples.push(Sample { duration, flags, composition_offset, data: file[at..at + size].to_vec() });
            at += size;
        }
    }
    Run { track, decode_time, samples }
}

/// Shortens the lengths before all NAL units to two bytes, also in the `avcC` of a file's head.
fn shorten_lengths(head: &mut [u8], fragments: &mut [Vec<Run>]) {
    let at = head.windows(4).position(|w| w == b"avcC").expect("AVC") + 8;
    assert_eq!(head[at] & 3, 3);
    head[at] &= !2;
    // ffmpeg's first track is the video.
    let samples =
        fragments.iter_mut().flatten().filter(|run| run.track == 1).flat_map(|run| &mut run.samples);
    for sample in samples {
        let mut short = Vec::new();
        let mut rest = sample.data.as_slice();
        while !rest.is_empty() {
            let (nal, after) = rest[4..].split_at(u32_at(rest, 0) as usize);
            short.extend(u16::try_from(nal.len()).expect("small pictures").to_be_bytes());
            short.extend(nal);
            rest = after;
        }
        sample.data = short;
    }
}

/// Writes the duration, size and flags of each track's second sample into its `trex`.
fn set_trex_defaults(head: &mut [u8], fragments: &[Vec<Run>]) -> Defaults {
    let trexes: Vec<usize> = (0..head.len()).filter(|&at| head[at..].starts_with(b"trex")).collect();
    let mut defaults = Defaults::new();
    for at in trexes {
        let track = u32_at(head, at + 8);
        let run = fragments.iter().flatten().find(|run| run.track == track).expect("samples");
        let sample = &run.samples[1];
        let values = [sample.duration, length(sample), sample.flags];
        for (n, word) in values.into_iter().enumerate() {
            head[at + 16 + 4 * n..][..4].copy_from_slice(&word.to_be_bytes());
        }
        defaults.insert(track, values);
    }
    defaults
}

fn length(sample: &Sample) -> u32 {
    u32::try_from(sample.data.len()).expect("small test files")
}

/// Writes a `moof` and its `mdat` for the offset `at` in the file.
fn fragment(sequence: u32, at: usize, runs: &[Run], variant: Fragmented, defaults: &Defaults) -> Vec<u8> {
    // An offset takes the same room for any value.
    let moof = |data: usize| {
        let mut payload = Vec::new();
        put(&mut payload, *b"mfhd", &[[0; 4], sequence.to_be_bytes()].concat(), false);
        let mut data = data;
        for (n, run) in runs.iter().enumerate() {
            let (base, offset) = match variant.base {
                OffsetBase::Moof => (0, Some(data)),
                OffsetBase::Stated => (at + data, None),
                OffsetBase::Implied => (0, (n == 0).then_some(data)),
            };
            put(&mut payload, *b"traf", &track_fragment(run, base, offset, variant, defaults), false);
            data += run.samples.iter().map(|s| s.data.len()).sum::<usize>();
        }
        boxed(*b"moof", &payload)
    };
    let mut out = moof(moof(0).len() + 8);
    let media: Vec<u8> = runs.iter().flat_map(|run| &run.samples).flat_map(|s| &s.data).copied().collect();
    put(&mut out, *b"mdat", &media, false);
    out
}

fn track_fragment(
    run: &Run,
    base: usize,
    offset: Option<usize>,
    variant: Fragmented,
    defaults: &Defaults,
) -> Vec<u8> {
    let samples = &run.samples;
    let values = |s: &Sample| [s.duration, length(s), s.flags];
    let trex = defaults.get(&run.track);
    // The values that all samples share; the flags may differ in the first sample.
    let rest = values(samples.get(1).unwrap_or(&samples[0]));
    let shared: Vec<bool> = (0..3)
        .map(|field| {
            let same = samples.iter().skip(usize::from(field == 2)).all(|s| values(s)[field] == rest[field]);
            let is_default = trex.is_none_or(|trex| trex[field] == rest[field]);
            variant.values != SampleValues::Samples && same && is_default
        })
        .collect();
    let mut tfhd = run.track.to_be_bytes().to_vec();
    let mut flags = if variant.base == OffsetBase::Moof { 0x2_0000_u32 } else { 0 };
    if variant.base == OffsetBase::Stated {
        flags |= 1;
        tfhd.extend((base as u64).to_be_bytes());
    }
    for field in (0..3).filter(|&field| shared[field] && trex.is_none()) {
        flags |= 8 << field;
        tfhd.extend(rest[field].to_be_bytes());
    }
    let mut out = boxed(*b"tfhd", &[flags.to_be_bytes().to_vec(), tfhd].concat());
    let [high @ .., _, _, _, _] = run.decode_time.to_be_bytes();
    let low = &run.decode_time.to_be_bytes()[4..];
    match variant.decode_time {
        DecodeTime::Narrow => out.extend(boxed(*b"tfdt", &[&[0; 4], low].concat())),
        DecodeTime::Wide => out.extend(boxed(*b"tfdt", &[&[1, 0, 0, 0], &high, low].concat())),
        DecodeTime::Absent => {}
    }
    let len = if variant.values == SampleValues::Runs { 10 } else { samples.len() };
    for (n, samples) in samples.chunks(len).enumerate() {
        let mut flags = 0_u32;
        let mut trun = u32::try_from(samples.len()).expect("a count").to_be_bytes().to_vec();
        // Data that starts at its base, or follows the run before, needs no offset.
        if let Some(offset) = offset.filter(|_| n == 0) {
            flags |= 1;
            trun.extend(u32::try_from(offset).expect("small").to_be_bytes());
        }
        if n == 0 && shared[2] && values(&samples[0])[2] != rest[2] {
            flags |= 4;
            trun.extend(samples[0].flags.to_be_bytes());
        }
        flags |= (0..3).filter(|&field| !shared[field]).map(|field| 0x100 << field).sum::<u32>();
        let has_offsets =
            variant.values == SampleValues::Samples || samples.iter().any(|s| s.composition_offset != 0);
        flags |= if has_offsets { 0x800 } else { 0 };
        for sample in samples {
            for field in (0..3).filter(|&field| !shared[field]) {
                trun.extend(values(sample)[field].to_be_bytes());
            }
            if has_offsets {
                trun.extend(sample.composition_offset.to_be_bytes());
            }
        }
        let version = u32::from(samples.iter().any(|s| s.composition_offset < 0)) << 24;
        put(&mut out, *b"trun", &[(version | flags).to_be_bytes().to_vec(), trun].concat(), false);
    }
    out
}
