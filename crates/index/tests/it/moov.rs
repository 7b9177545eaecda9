//! Progressive files that consist of tables alone: the `moov` of a two-hour title, without media.

use crate::{
    generated::{encode, folder},
    locating::{Located, locate, locate_by},
};
use bytes::{BufMut, Bytes, BytesMut};
use latemux_index::{IndexError, locate::limits::Limits};
use std::ops::Range;

/// One track to be written.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrackTables {
    pub(crate) handler: [u8; 4],
    pub(crate) sample_entry: Bytes,
    pub(crate) timescale: u32,
    /// Runs of (count, ticks).
    pub(crate) stts: Vec<(u32, u32)>,
    /// One offset for each sample, or none.
    pub(crate) compositions: Vec<u32>,
    pub(crate) sizes: Vec<u32>,
    /// Number of samples in each chunk.
    pub(crate) chunks: Vec<u32>,
    pub(crate) offsets: Vec<u64>,
    pub(crate) sync: Option<Vec<u32>>,
}

fn boxed(kind: &[u8; 4], payload: &[&[u8]]) -> Vec<u8> {
    let len = 8 + payload.iter().map(|p| p.len()).sum::<usize>();
    let mut out = Vec::with_capacity(len);
    out.put_u32(u32::try_from(len).unwrap());
    out.put_slice(kind);
    payload.iter().for_each(|p| out.put_slice(p));
    out
}

/// Returns a table box: version and flags, a count, entries of 32-bit numbers.
fn table(kind: &[u8; 4], entries: usize, numbers: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.put_u32(0);
    payload.put_u32(u32::try_from(entries).unwrap());
    numbers.into_iter().for_each(|n| payload.put_u32(n));
    boxed(kind, &[&payload])
}

/// Returns runs of equal values as (count, value).
fn runs(values: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &value in values {
        match runs.last_mut() {
            Some(run) if run.1 == value => run.0 += 1,
            _ => runs.push((1, value)),
        }
    }
    runs
}

fn trak(number: u32, track: &TrackTables) -> Vec<u8> {
    let pairs = |runs: &[(u32, u32)]| runs.iter().flat_map(|&(a, b)| [a, b]).collect::<Vec<_>>();
    let mut stbl = boxed(b"stsd", &[&[0, 0, 0, 0, 0, 0, 0, 1], &track.sample_entry]);
    stbl.extend(table(b"stts", track.stts.len(), pairs(&track.stts)));
    if !track.compositions.is_empty() {
        let runs = runs(&track.compositions);
        stbl.extend(table(b"ctts", runs.len(), pairs(&runs)));
    }
    let mut stsz = vec![0; 8];
    stsz.put_u32(u32::try_from(track.sizes.len()).unwrap());
    track.sizes.iter().for_each(|&size| stsz.put_u32(size));
    stbl.extend(boxed(b"stsz", &[&stsz]));
    let mut stsc: Vec<[u32; 3]> = Vec::new();
    for (chunk, &samples) in (1..).zip(&track.chunks) {
        if stsc.last().is_none_or(|&[_, last, _]| last != samples) {
            stsc.push([chunk, samples, 1]);
        }
    }
    stbl.extend(table(b"stsc", stsc.len(), stsc.concat()));
    if track.offsets.iter().all(|&offset| u32::try_from(offset).is_ok()) {
        let offsets = track.offsets.iter().map(|&offset| u32::try_from(offset).unwrap());
        stbl.extend(table(b"stco", track.offsets.len(), offsets));
    } else {
        let halves = track.offsets.iter().flat_map(|&o| [o >> 32, o & 0xffff_ffff]);
        stbl.extend(table(b"co64", track.offsets.len(), halves.map(|half| u32::try_from(half).unwrap())));
    }
    if let Some(sync) = &track.sync {
        stbl.extend(table(b"stss", sync.len(), sync.iter().copied()));
    }
    let mut tkhd = vec![0; 84];
    tkhd[3] = 3;
    tkhd[12..16].copy_from_slice(&number.to_be_bytes());
    let mut mdhd = vec![0; 24];
    mdhd[12..16].copy_from_slice(&track.timescale.to_be_bytes());
    mdhd[20..22].copy_from_slice(&[0x55, 0xc4]);
    let mut hdlr = vec![0; 25];
    hdlr[8..12].copy_from_slice(&track.handler);
    let minf = boxed(b"minf", &[&boxed(b"stbl", &[&stbl])]);
    let mdia = boxed(b"mdia", &[&boxed(b"mdhd", &[&mdhd]), &boxed(b"hdlr", &[&hdlr]), &minf]);
    boxed(b"trak", &[&boxed(b"tkhd", &[&tkhd]), &mdia])
}

/// A file of `ftyp`, `moov` and the header of an `mdat` that has room for all samples.
#[derive(Debug)]
pub(crate) struct Sparse {
    /// Bytes of `moov`.
    pub(crate) moov: usize,
    start: Bytes,
    pub(crate) size: u64,
}

impl Sparse {
    /// Writes the file. Chunks lie after `moov`, their offsets moved by `further` bytes more.
    pub(crate) fn new(mut tracks: Vec<TrackTables>, further: u64) -> Self {
        let write = |tracks: &[TrackTables]| {
            let mut mvhd = vec![0; 100];
            mvhd[12..16].copy_from_slice(&1000_u32.to_be_bytes());
            let mut all = boxed(b"mvhd", &[&mvhd]);
            (1..).zip(tracks).for_each(|(number, track)| all.extend(trak(number, track)));
            boxed(b"moov", &[&all])
        };
        // Large enough that moving the offsets does not change their width.
        tracks.iter_mut().flat_map(|t| &mut t.offsets).for_each(|offset| *offset += further);
        let before = 20 + write(&tracks).len() as u64 + 16;
        tracks.iter_mut().flat_map(|t| &mut t.offsets).for_each(|offset| *offset += before);
        let moov = write(&tracks);
        let end = tracks.iter().map(|track| {
            let mut sizes = track.sizes.iter();
            let chunks = track.chunks.iter().zip(&track.offsets);
            let ends = chunks.map(|(&n, &offset)| {
                offset + sizes.by_ref().take(n as usize).map(|&s| u64::from(s)).sum::<u64>()
            });
            ends.max().unwrap_or(0)
        });
        let size = end.max().unwrap_or(0);
        let mut start = BytesMut::from(&boxed(b"ftyp", &[b"isom\0\0\0\0isom"])[..]);
        start.put_slice(&moov);
        let media = size - start.len() as u64;
        start.put_slice(b"\0\0\0\x01mdat");
        start.put_u64(media);
        Self { moov: moov.len(), start: start.freeze(), size }
    }

    pub(crate) fn locate(&self) -> Result<Located, IndexError> {
        locate_by(self.size, Limits::default(), |range| self.read(range))
    }

    /// Returns the bytes of a range. Those of the media are 0.
    pub(crate) fn read(&self, range: &Range<u64>) -> Bytes {
        let len = self.start.len() as u64;
        let place = |at: u64| usize::try_from(at.min(len)).unwrap();
        let mut bytes = BytesMut::from(&self.start[place(range.start)..place(range.end)]);
        bytes.resize(usize::try_from(range.end - range.start).unwrap(), 0);
        bytes.freeze()
    }
}

/// Returns sample entries of AVC video and AAC audio, from a file ffmpeg made.
pub(crate) fn sample_entries(test: &str) -> (Bytes, Bytes) {
    let path = encode(&folder(test), "short.mp4", &["-t", "0.2", "-c:v", "libx264", "-c:a", "aac"]);
    let object = Bytes::from(std::fs::read(path).unwrap());
    let index = locate(&object, Limits::default()).unwrap().index;
    (index.tracks[0].sample_entry.raw.clone(), index.tracks[1].sample_entry.raw.clone())
}

/// Pseudo-random numbers with a fixed seed.
#[derive(Debug)]
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX)
    }

    /// Returns a normally distributed number: the sum of twelve.
    pub(crate) fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.next()).sum();
        mean + (sum - 6.0) * deviation
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes of samples are small")]
    pub(crate) fn size(&mut self, mean: f64, deviation: f64) -> u32 {
        self.normal(mean, deviation).max(8.0) as u32
    }

    /// Returns sizes whose logarithm is normally distributed, like those of video frames.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes of samples are small")]
    pub(crate) fn frame_size(&mut self, median: f64, spread: f64) -> u32 {
        (self.normal(0.0, spread).exp() * median) as u32
    }
}

/// Returns AAC, 48 kHz, of about 128 kb/s.
pub(crate) fn audio(sample_entry: &Bytes, seconds: u32) -> TrackTables {
    let mut noise = Noise(1);
    let count = seconds * 48_000 / 1024;
    TrackTables {
        handler: *b"soun",
        sample_entry: sample_entry.clone(),
        timescale: 48_000,
        stts: vec![(count, 1024)],
        sizes: (0..count).map(|_| noise.size(341.0, 30.0)).collect(),
        ..TrackTables::default()
    }
}

/// Returns AVC, 25 frames a second, a GOP of 2 s with a pyramid of B-frames.
pub(crate) fn video(sample_entry: &Bytes, seconds: u32) -> TrackTables {
    let mut noise = Noise(2);
    let count = seconds * 25;
    let size = |i: u32| match i % 50 {
        0 => noise.frame_size(60_000.0, 0.3),
        n if n % 4 == 1 => noise.frame_size(14_000.0, 0.6),
        _ => noise.frame_size(4_000.0, 0.7),
    };
    TrackTables {
        handler: *b"vide",
        sample_entry: sample_entry.clone(),
        timescale: 12_800,
        stts: vec![(count, 512)],
        compositions: (0..count)
            .map(|i| match i % 50 {
                0 => 1024,
                n => [2560, 1024, 0, 512][(n as usize - 1) % 4],
            })
            .collect(),
        sizes: (0..count).map(size).collect(),
        sync: Some((0..count).step_by(50).map(|i| i + 1).collect()),
        ..TrackTables::default()
    }
}

/// Lays tracks out like ffmpeg: samples in order of decode time, and successive samples of one
/// track in a chunk of at most 1 MiB.
pub(crate) fn interleave(tracks: &mut [TrackTables]) {
    let mut next: Vec<(usize, u64)> = vec![(0, 0); tracks.len()];
    let mut offset = 0;
    let mut last = usize::MAX;
    let mut chunk = 0;
    loop {
        let scaled = |i: usize, t: &TrackTables| next[i].1 * 1_000_000 / u64::from(t.timescale);
        let waiting = tracks.iter().enumerate().filter(|(i, t)| next[*i].0 < t.sizes.len());
        let Some(number) = waiting.min_by_key(|(i, t)| scaled(*i, t)).map(|(i, _)| i) else { break };
        let track = &mut tracks[number];
        let size = track.sizes[next[number].0];
        if number == last && chunk + size < 1 << 20 {
            *track.chunks.last_mut().unwrap() += 1;
            chunk += size;
        } else {
            track.chunks.push(1);
            track.offsets.push(offset);
            chunk = size;
        }
        last = number;
        offset += u64::from(size);
        next[number].0 += 1;
        next[number].1 += u64::from(track.stts[0].1);
    }
}
