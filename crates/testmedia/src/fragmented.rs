//! The same fragments written in every way the standard allows (ISO/IEC 14496-12 §8.8 and §8.16.3): read from a file ffmpeg made, written
//! anew by code that shares nothing with the reader under test.

use crate::rewrite::{boxes, put, u32_at};
use std::{collections::BTreeMap, ops::Range};

/// What tells where the fragments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// Nothing.
    Neither,
    /// A `sidx` for each track, before the first fragment.
    Sidx,
    /// The same, each leading to two more, of half of the fragments each.
    SidxTree,
    /// A `sidx` of the first half that ends with a reference to that of the second. For files with one track.
    SidxChain,
    /// A `mfra` at the end.
    Mfra,
    /// `sidx` and `mfra`.
    Both,
}

/// How a fragment says when it is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeTime {
    /// `tfdt` with 32 bits.
    Narrow,
    /// `tfdt` with 64 bits.
    Wide,
    /// Not at all: it begins where the one before ends.
    Absent,
}

/// What the offsets of a fragment's data count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// Its `moof`, by `default-base-is-moof`.
    Moof,
    /// A place in the file that is written down.
    Stated,
    /// Nothing said: the `moof` for the first track, the end of the data before for others.
    Implied,
}

/// Where what is true of a fragment's samples is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// What all share in `tfhd`, what the first has otherwise in its first-sample-flags.
    Tfhd,
    /// What all share in `trex`, as long as it is what that says.
    Trex,
    /// Everything at every sample.
    Samples,
    /// As [`Self::Tfhd`], in runs of 10 samples, with the offset of the first run's data only.
    Runs,
}

/// How to write a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragmented {
    /// What tells where the fragments are.
    pub index: Index,
    /// How they say when they are decoded.
    pub decode_time: DecodeTime,
    /// What their data's offsets count from.
    pub base: Base,
    /// Where what samples share is said.
    pub fields: Fields,
    /// Whether each track has `moof`s of its own.
    pub separate: bool,
    /// Bytes of the lengths of AVC's NAL units: 4, or 2.
    pub nal_lengths: usize,
}

impl Default for Fragmented {
    /// As ffmpeg writes them, with neither index.
    fn default() -> Self {
        Self {
            index: Index::Neither,
            decode_time: DecodeTime::Wide,
            base: Base::Moof,
            fields: Fields::Tfhd,
            separate: false,
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

/// One track's samples in one fragment.
#[derive(Debug, Clone)]
struct Run {
    track: u32,
    decode_time: u64,
    samples: Vec<Sample>,
}

/// What `trex` says of every sample's duration, size and flags.
type Defaults = BTreeMap<u32, [u32; 3]>;

/// Writes a fragmented file anew. It is as ffmpeg makes it with `default_base_moof` and `skip_trailer`; edit lists stay.
///
/// # Panics
/// Where the file is not of that shape.
#[must_use]
pub fn fragmented(file: &[u8], variant: Fragmented) -> Vec<u8> {
    let start = file.windows(4).position(|w| w == b"moof").expect("fragments") - 4;
    let mut out = file[..start].to_vec();
    let mut fragments = read(file, start);
    if variant.nal_lengths == 2 {
        shorten_lengths(&mut out, &mut fragments);
    }
    let defaults =
        if variant.fields == Fields::Trex { say_in_trex(&mut out, &fragments) } else { Defaults::new() };
    let scales = timescales(file);

    // Sizes of fragments and indexes do not depend on where they are, so a first pass tells where everything goes.
    let mut sequence = 0;
    let mut write = |at: usize, runs: &[Run]| {
        sequence += 1;
        fragment(sequence, at, runs, variant, &defaults)
    };
    let group = |runs: &[Run], at: usize, write: &mut dyn FnMut(usize, &[Run]) -> Vec<u8>| {
        let mut bytes = Vec::new();
        for part in runs.chunks(if variant.separate { 1 } else { runs.len() }) {
            let more = write(at + bytes.len(), part);
            bytes.extend(more);
        }
        bytes
    };
    let sizes: Vec<usize> = fragments.iter().map(|runs| group(runs, 0, &mut write).len()).collect();
    let plan = Plan { fragments: &fragments, sizes: &sizes, scales: &scales };
    let (before, middle) = plan.segment_indexes(variant.index);
    out.extend(before);
    let mut places = Vec::new();
    sequence = 0;
    let mut write = |at: usize, runs: &[Run]| {
        sequence += 1;
        places.push((at, runs.iter().map(|run| run.track).collect::<Vec<_>>()));
        fragment(sequence, at, runs, variant, &defaults)
    };
    for (number, runs) in fragments.iter().enumerate() {
        for (_, index) in middle.iter().filter(|(before, _)| *before == number) {
            out.extend(index);
        }
        let bytes = group(runs, out.len(), &mut write);
        assert_eq!(bytes.len(), sizes[number]);
        out.extend(bytes);
    }
    if matches!(variant.index, Index::Mfra | Index::Both) {
        random_access(&fragments, &places, &mut out);
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

/// Ticks per second of every track.
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

/// All fragments of a file from a place on: the runs of each.
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
    assert_eq!(flags & 0x2_0003, 0x2_0000, "default-base-is-moof and no more of the kind");
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
        let (flags, count) = (u32_at(trun, 0), next());
        assert_ne!(flags & 1, 0, "a data offset");
        let mut at = moof + next() as usize;
        let first_flags = (flags & 4 != 0).then(&mut next);
        for n in 0..count {
            let mut field = |flag: u32, default: u32| if flags & flag != 0 { next() } else { default };
            let (duration, size) = (field(0x100, defaults[0]), field(0x200, defaults[1]) as usize);
            let flags = field(0x400, first_flags.filter(|_| n == 0).unwrap_or(defaults[2]));
            let composition_offset = field(0x800, 0).cast_signed();
            samples.push(Sample { duration, flags, composition_offset, data: file[at..at + size].to_vec() });
            at += size;
        }
    }
    Run { track, decode_time, samples }
}

/// Two bytes instead of four for the length of every NAL unit, also in the `avcC` of a file's head.
fn shorten_lengths(head: &mut [u8], fragments: &mut [Vec<Run>]) {
    let at = head.windows(4).position(|w| w == b"avcC").expect("AVC") + 8;
    assert_eq!(head[at] & 3, 3);
    head[at] &= !2;
    // ffmpeg's first track is the video.
    let samples =
        fragments.iter_mut().flatten().filter(|run| run.track == 1).flat_map(|run| &mut run.samples);
    for sample in samples {
        let (mut short, mut rest) = (Vec::new(), sample.data.as_slice());
        while !rest.is_empty() {
            let (nal, after) = rest[4..].split_at(u32_at(rest, 0) as usize);
            short.extend(u16::try_from(nal.len()).expect("small pictures").to_be_bytes());
            short.extend(nal);
            rest = after;
        }
        sample.data = short;
    }
}

/// Writes the durations, sizes and flags of each track's second sample into its `trex`.
fn say_in_trex(head: &mut [u8], fragments: &[Vec<Run>]) -> Defaults {
    let places: Vec<usize> = (0..head.len()).filter(|&at| head[at..].starts_with(b"trex")).collect();
    let mut defaults = Defaults::new();
    for at in places {
        let track = u32_at(head, at + 8);
        let run = fragments.iter().flatten().find(|run| run.track == track).expect("samples");
        let sample = &run.samples[1];
        let said = [sample.duration, length(sample), sample.flags];
        for (n, word) in said.into_iter().enumerate() {
            head[at + 16 + 4 * n..][..4].copy_from_slice(&word.to_be_bytes());
        }
        defaults.insert(track, said);
    }
    defaults
}

fn length(sample: &Sample) -> u32 {
    u32::try_from(sample.data.len()).expect("small test files")
}

/// A `moof` and its `mdat`, for a place in the file.
fn fragment(sequence: u32, at: usize, runs: &[Run], variant: Fragmented, defaults: &Defaults) -> Vec<u8> {
    // The offsets take as much room whatever they are.
    let moof = |data: usize| {
        let mut payload = Vec::new();
        put(&mut payload, *b"mfhd", &[[0; 4], sequence.to_be_bytes()].concat(), false);
        let mut data = data;
        for (n, run) in runs.iter().enumerate() {
            let (base, offset) = match variant.base {
                Base::Moof => (0, Some(data)),
                Base::Stated => (at + data, None),
                Base::Implied => (0, (n == 0).then_some(data)),
            };
            put(&mut payload, *b"traf", &track_fragment(run, base, offset, variant, defaults), false);
            data += run.samples.iter().map(|s| s.data.len()).sum::<usize>();
        }
        let mut boxed = Vec::new();
        put(&mut boxed, *b"moof", &payload, false);
        boxed
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
    let said = |s: &Sample| [s.duration, length(s), s.flags];
    let trex = defaults.get(&run.track);
    // What all samples share; of the flags, all but the first.
    let rest = said(samples.get(1).unwrap_or(&samples[0]));
    let shared: Vec<bool> = (0..3)
        .map(|field| {
            let same = samples.iter().skip(usize::from(field == 2)).all(|s| said(s)[field] == rest[field]);
            variant.fields != Fields::Samples && same && trex.is_none_or(|trex| trex[field] == rest[field])
        })
        .collect();
    let mut tfhd = run.track.to_be_bytes().to_vec();
    let mut flags = if variant.base == Base::Moof { 0x2_0000_u32 } else { 0 };
    if variant.base == Base::Stated {
        flags |= 1;
        tfhd.extend((base as u64).to_be_bytes());
    }
    for field in (0..3).filter(|&field| shared[field] && trex.is_none()) {
        flags |= 8 << field;
        tfhd.extend(rest[field].to_be_bytes());
    }
    let mut out = Vec::new();
    put(&mut out, *b"tfhd", &[flags.to_be_bytes().to_vec(), tfhd].concat(), false);
    match variant.decode_time {
        DecodeTime::Narrow => {
            let time = u32::try_from(run.decode_time).expect("short test files");
            put(&mut out, *b"tfdt", &[[0; 4], time.to_be_bytes()].concat(), false);
        }
        DecodeTime::Wide => {
            put(&mut out, *b"tfdt", &[&[1, 0, 0, 0][..], &run.decode_time.to_be_bytes()].concat(), false);
        }
        DecodeTime::Absent => {}
    }
    let len = if variant.fields == Fields::Runs { 10 } else { samples.len() };
    for (n, samples) in samples.chunks(len).enumerate() {
        let mut flags = 0_u32;
        let mut trun = u32::try_from(samples.len()).expect("a count").to_be_bytes().to_vec();
        // Data at its base, or behind the run before, needs none.
        if let Some(offset) = offset.filter(|_| n == 0) {
            flags |= 1;
            trun.extend(u32::try_from(offset).expect("small").to_be_bytes());
        }
        if n == 0 && shared[2] && said(&samples[0])[2] != rest[2] {
            flags |= 4;
            trun.extend(samples[0].flags.to_be_bytes());
        }
        flags |= (0..3).filter(|&field| !shared[field]).map(|field| 0x100 << field).sum::<u32>();
        let composed = variant.fields == Fields::Samples || samples.iter().any(|s| s.composition_offset != 0);
        flags |= if composed { 0x800 } else { 0 };
        for sample in samples {
            for field in (0..3).filter(|&field| !shared[field]) {
                trun.extend(said(sample)[field].to_be_bytes());
            }
            if composed {
                trun.extend(sample.composition_offset.to_be_bytes());
            }
        }
        let version = u32::from(samples.iter().any(|s| s.composition_offset < 0)) << 24;
        put(&mut out, *b"trun", &[(version | flags).to_be_bytes().to_vec(), trun].concat(), false);
    }
    out
}

/// What indexes are made from.
struct Plan<'a> {
    fragments: &'a [Vec<Run>],
    /// Bytes of each fragment.
    sizes: &'a [usize],
    scales: &'a BTreeMap<u32, u32>,
}

/// Composition times of a run's first sample in presentation order, and of what follows its last one.
fn composition(run: &Run) -> Range<u64> {
    let mut at = run.decode_time;
    let times: Vec<Range<u64>> = run
        .samples
        .iter()
        .map(|s| {
            let start = at.checked_add_signed(s.composition_offset.into()).expect("not before 0");
            at += u64::from(s.duration);
            start..start + u64::from(s.duration)
        })
        .collect();
    let start = times.iter().map(|t| t.start).min().expect("samples");
    start..times.iter().map(|t| t.end).max().expect("samples")
}

impl Plan<'_> {
    /// What goes before the first fragment, and what before others.
    fn segment_indexes(&self, index: Index) -> (Vec<u8>, Vec<(usize, Vec<u8>)>) {
        let all = 0..self.fragments.len();
        let (first, second) = (all.start..all.end / 2, all.end / 2..all.end);
        match index {
            Index::Neither | Index::Mfra => (Vec::new(), Vec::new()),
            Index::Sidx | Index::Both => (self.of_all_tracks(&all), Vec::new()),
            Index::SidxTree => {
                let halves = [&first, &second].map(|half| self.of_all_tracks(half));
                let count = self.scales.len();
                let one = [0, 1].map(|half: usize| halves[half].len() / count);
                let media = |half: &Range<usize>| self.sizes[half.clone()].iter().sum::<usize>();
                let mut roots = Vec::new();
                for (n, &track) in self.scales.keys().enumerate() {
                    // From this track's index of the first half to that of the second, and from there to the end.
                    let one_to_other = (count - n) * one[0] + media(&first) + n * one[1];
                    let to_end = (count - n) * one[1] + media(&second);
                    let references = [
                        (true, one_to_other, self.lasts(track, &first)),
                        (true, to_end, self.lasts(track, &second)),
                    ];
                    // Over the roots of other tracks and, from there, to the first index of this one.
                    let root = self.sidx(track, 0, 0, &references).len();
                    roots.extend(self.sidx(track, 0, (count - 1 - n) * root + n * one[0], &references));
                }
                roots.extend(&halves[0]);
                (roots, vec![(second.start, halves[1].clone())])
            }
            Index::SidxChain => {
                let [(&track, _)] = self.scales.iter().collect::<Vec<_>>()[..] else { panic!("one track") };
                let last = self.of_all_tracks(&second);
                let mut references = self.media(track, &first);
                references.push((true, last.len(), self.lasts(track, &second)));
                (self.sidx(track, 0, 0, &references), vec![(second.start, last)])
            }
        }
    }

    /// A `sidx` for each track, one behind the other, of the fragments that follow.
    fn of_all_tracks(&self, range: &Range<usize>) -> Vec<u8> {
        let one = |track, skipped| self.sidx(track, range.start, skipped, &self.media(track, range));
        let last = self.scales.len() - 1;
        let size = |track| one(track, 0).len();
        let indexes = self.scales.keys().enumerate();
        indexes.flat_map(|(n, &track)| one(track, (last - n) * size(track))).collect()
    }

    fn media(&self, track: u32, range: &Range<usize>) -> Vec<(bool, usize, u64)> {
        range.clone().map(|n| (false, self.sizes[n], self.lasts(track, &(n..n + 1)))).collect()
    }

    fn starts(&self, track: u32, number: usize) -> u64 {
        let run = |runs: &Vec<Run>| runs.iter().find(|run| run.track == track).map(composition);
        let times: Vec<_> = self.fragments.iter().map(|runs| run(runs).expect("of every track")).collect();
        times.get(number).map_or(times[times.len() - 1].end, |times| times.start)
    }

    fn lasts(&self, track: u32, range: &Range<usize>) -> u64 {
        self.starts(track, range.end) - self.starts(track, range.start)
    }

    fn sidx(&self, track: u32, first: usize, skipped: usize, references: &[(bool, usize, u64)]) -> Vec<u8> {
        let word = |n: u64| u32::try_from(n).expect("small test files").to_be_bytes();
        let mut payload = vec![1, 0, 0, 0];
        payload.extend(track.to_be_bytes());
        payload.extend(self.scales[&track].to_be_bytes());
        payload.extend(self.starts(track, first).to_be_bytes());
        payload.extend((skipped as u64).to_be_bytes());
        payload.extend(word(references.len() as u64));
        for &(is_index, size, duration) in references {
            payload.extend(word(u64::from(is_index) << 31 | size as u64));
            payload.extend(word(duration));
            // Starts with a sync sample.
            payload.extend([0x90, 0, 0, 0]);
        }
        let mut out = Vec::new();
        put(&mut out, *b"sidx", &payload, false);
        out
    }
}

/// Appends a `mfra` with the first sample of every fragment. `places`: of each `moof`, and the tracks in it.
fn random_access(fragments: &[Vec<Run>], places: &[(usize, Vec<u32>)], out: &mut Vec<u8>) {
    let mut mfra = Vec::new();
    let tracks: std::collections::BTreeSet<u32> = fragments.iter().flatten().map(|run| run.track).collect();
    for track in tracks {
        let runs = fragments.iter().flatten().filter(|run| run.track == track);
        let holds =
            |(at, tracks): &(usize, Vec<u32>)| tracks.iter().position(|t| *t == track).map(|n| (*at, n));
        let mut entries = Vec::new();
        for (run, (at, traf)) in runs.zip(places.iter().filter_map(holds)) {
            entries.extend(composition(run).start.to_be_bytes());
            entries.extend((at as u64).to_be_bytes());
            entries.extend([u8::try_from(traf + 1).expect("few tracks"), 1, 1]);
        }
        let count = u32::try_from(entries.len() / 19).expect("a count");
        let head = [[1, 0, 0, 0], track.to_be_bytes(), [0; 4], count.to_be_bytes()].concat();
        put(&mut mfra, *b"tfra", &[head, entries].concat(), false);
    }
    let size = u32::try_from(mfra.len() + 8 + 16).expect("small");
    put(&mut mfra, *b"mfro", &[[0; 4], size.to_be_bytes()].concat(), false);
    put(out, *b"mfra", &mfra, false);
}
