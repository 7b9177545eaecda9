//! Small files that are made to cost as much work and memory as possible. They need no tool.
//!
//! [`HostileFile::from_bytes`] makes such a file of any bytes, so that a fuzzer can look for the
//! worst one: numbers are written as floating point, and parts are repeated.

#![allow(clippy::cast_possible_truncation, reason = "sizes below 1 MB, and numbers that may wrap")]

pub mod costly;

/// Largest file that is made, in bytes.
pub const MAX_SIZE: usize = 1_000_000;

/// A file with tracks in `moov`, and fragments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostileFile {
    /// Tracks. Each may be repeated.
    pub tracks: Vec<HostileTrack>,
    /// Boxes after `moov`, in order.
    pub fragments: Vec<HostileBox>,
    /// True if `mvex` makes the file fragmented.
    pub is_fragmented: bool,
    /// Size of the file in bytes, at least. An `mdat` fills it.
    pub size: usize,
    /// Samples that each repetition of a video track has fewer than the one before.
    pub shorter_by: u32,
}

/// A track, repeated with IDs that ascend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostileTrack {
    /// Number of such tracks.
    pub repeat: u32,
    /// Codec: AVC, AAC, WebVTT, AC-3 for 0 to 3.
    pub codec: u8,
    /// Ticks per second.
    pub timescale: u32,
    /// Number of samples.
    pub samples: u32,
    /// Bits of an entry of the size table. 0 writes one constant size.
    pub size_bits: u8,
    /// Size of each sample in bytes.
    pub sample_size: u32,
    /// Runs of durations as (samples, ticks), repeated until all samples have one.
    pub durations: Vec<(u32, u32)>,
    /// Runs of composition offsets as (samples, ticks), like `durations`.
    pub compositions: Vec<(u32, u32)>,
    /// Every so many samples is a sync sample. 0 writes no table, which means all are.
    pub sync_every: u32,
    /// Samples in each chunk.
    pub chunk: u32,
    /// Entries that a table of runs has at most.
    pub most_runs: u32,
    /// Media time of an edit list, if any.
    pub media_time: Option<u32>,
    /// Number that makes the language.
    pub language: u16,
}

/// A box after `moov`, repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostileBox {
    /// A `moof`.
    Moof {
        /// Number of such boxes.
        repeat: u32,
        /// Number of track fragments in each.
        trafs: u32,
        /// Track of the first of them. The others have the following ones.
        first_track: u32,
        /// Runs in each track fragment.
        runs: u32,
        /// Samples of a run.
        samples: u32,
        /// Flags that say which fields samples have.
        flags: u32,
        /// Value of these fields.
        field: u32,
        /// Default duration of a sample.
        duration: u32,
        /// Default size of a sample.
        size: u32,
        /// Ticks between the decode times of two boxes. `None` leaves out `tfdt`.
        step: Option<u32>,
    },
    /// A `sidx` of one track.
    Sidx {
        /// Number of such boxes, of successive tracks.
        repeat: u32,
        /// Track of the first.
        first_track: u32,
        /// Ticks per second.
        timescale: u32,
        /// Number of references.
        references: u32,
        /// Size of each, in bytes. The highest bit makes it a reference to another `sidx`.
        size: u32,
        /// Duration of each, in ticks.
        duration: u32,
    },
    /// A `mfra` that lists every `moof` written so far for some tracks.
    Mfra {
        /// Number of tracks.
        tracks: u32,
        /// Ticks between two entries.
        step: u32,
    },
    /// Another box without contents.
    Free {
        /// Number of such boxes.
        repeat: u32,
        /// Bytes of payload.
        size: u32,
    },
}

/// Reads numbers from bytes. After the end, all are 0.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Returns a number of 5 bits of exponent and 3 of mantissa, exact up to 15.
    fn number(&mut self) -> u32 {
        let byte = u32::from(self.byte());
        if byte < 16 { byte } else { (8 + (byte & 7)).checked_shl((byte >> 3) - 1).unwrap_or(u32::MAX) }
    }

    fn runs(&mut self) -> Vec<(u32, u32)> {
        (0..self.byte() % 4).map(|_| (self.number(), self.number())).collect()
    }
}

impl HostileFile {
    /// Returns a file of some 90 kB with one track of a codec (see [`HostileTrack::codec`]), whose
    /// 1,023 fragments claim 65,536 samples each. No bytes confirm the samples.
    pub fn of_bare_fragments(codec: u8) -> Self {
        let track = HostileTrack { repeat: 1, codec, timescale: 48_000, ..HostileTrack::default() };
        let moof = HostileBox::Moof {
            repeat: 1023,
            trafs: 1,
            first_track: 1,
            runs: 1,
            samples: 65_536,
            flags: 0,
            field: 0,
            duration: 1,
            size: 0,
            step: Some(65_536),
        };
        Self { tracks: vec![track], fragments: vec![moof], is_fragmented: true, ..Self::default() }
    }

    /// Makes a file of any bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut from = Numbers(bytes);
        let kinds = from.byte();
        let size = from.number() as usize;
        let tracks = (0..kinds % 5).map(|_| HostileTrack::read(&mut from)).collect();
        let fragments = (0..kinds / 8 % 6).map(|_| HostileBox::read(&mut from)).collect();
        let shorter_by = from.number();
        Self { tracks, fragments, is_fragmented: kinds >= 128, size: size.min(MAX_SIZE), shorter_by }
    }

    /// Returns a repetition of a track, which has fewer samples than the first if it is of video.
    fn shorten(&self, track: &HostileTrack, repetition: u32) -> HostileTrack {
        let fewer = if track.codec == 0 { repetition.saturating_mul(self.shorter_by) } else { 0 };
        HostileTrack { samples: track.samples.saturating_sub(fewer), ..track.clone() }
    }

    /// Writes the file. Parts that would make it larger than [`MAX_SIZE`] are left out.
    pub fn write(&self) -> Vec<u8> {
        let mut head = boxed(b"ftyp", &[b"isom\0\0\0\0isom"]);
        let mut traks = Vec::new();
        let mut ids = Vec::new();
        for track in &self.tracks {
            let mut before = traks.len();
            for repetition in 0..track.repeat {
                let id = ids.len() as u32 + 1;
                traks.extend(self.shorten(track, repetition).write(id));
                if head.len() + traks.len() > MAX_SIZE * 9 / 10 {
                    traks.truncate(before);
                    break;
                }
                ids.push(id);
                before = traks.len();
            }
        }
        let mut mvhd = vec![0; 100];
        put(&mut mvhd, 12, 1000);
        put(&mut mvhd, 36, 0x1_0000);
        put(&mut mvhd, 52, 0x1_0000);
        put(&mut mvhd, 68, 0x4000_0000);
        let mut mvex = Vec::new();
        if self.is_fragmented {
            for &id in ids.iter().take(1024) {
                mvex.extend(boxed(b"trex", &[&words(&[0, id, 1, 0, 0, 0])]));
            }
            mvex = boxed(b"mvex", &[&mvex]);
        }
        head.extend(boxed(b"moov", &[&boxed(b"mvhd", &[&mvhd]), &traks, &mvex]));
        let mut moofs = Vec::new();
        let mut time = 0;
        for fragment in &self.fragments {
            fragment.write(&mut head, &mut moofs, &mut time);
        }
        if head.len() + 8 <= self.size {
            let rest = vec![0; self.size - head.len() - 8];
            head.extend(boxed(b"mdat", &[&rest]));
        }
        head
    }
}

impl HostileTrack {
    fn read(from: &mut Numbers<'_>) -> Self {
        Self {
            repeat: from.number() % 1100 + 1,
            codec: from.byte() % 4,
            timescale: from.number().max(1),
            samples: from.number(),
            size_bits: [0, 4, 8, 16, 32][usize::from(from.byte() % 5)],
            sample_size: from.number(),
            durations: from.runs(),
            compositions: from.runs(),
            sync_every: from.number(),
            chunk: from.number(),
            most_runs: from.number(),
            media_time: Some(from.number()).filter(|&time| time > 0),
            language: from.byte().into(),
        }
    }

    /// Returns runs that cover all samples, and no more of them than allowed.
    fn runs(&self, of: &[(u32, u32)]) -> Vec<u32> {
        let mut left = self.samples;
        let mut words = Vec::new();
        let most = (self.most_runs as usize).clamp(1, MAX_SIZE / 8);
        for &(count, value) in of.iter().cycle().take(if of.is_empty() { 0 } else { most }) {
            if left == 0 || count == 0 {
                break;
            }
            words.extend([count.min(left), value]);
            left -= count.min(left);
        }
        if left > 0 {
            words.extend([left, of.last().map_or(1, |&(_, value)| value)]);
        }
        words
    }

    fn write(&self, id: u32) -> Vec<u8> {
        let (handler, entry) = sample_entry(self.codec);
        let mut stbl = boxed(b"stsd", &[&words(&[0, 1]), &entry]);
        stbl.extend(table(b"stts", 2, &self.runs(&self.durations)));
        if !self.compositions.is_empty() {
            stbl.extend(table(b"ctts", 2, &self.runs(&self.compositions)));
        }
        let entries = self.samples.min(2 * MAX_SIZE as u32) as usize;
        match self.size_bits {
            0 => stbl.extend(boxed(b"stsz", &[&words(&[0, self.sample_size.max(1), self.samples])])),
            32 => {
                let sizes = vec![self.sample_size; entries.min(MAX_SIZE / 4)];
                stbl.extend(boxed(b"stsz", &[&words(&[0, 0, sizes.len() as u32]), &words(&sizes)]));
            }
            bits => {
                let value = self.sample_size as u8 & 15;
                let fill = match bits {
                    4 => vec![value << 4 | value; entries.div_ceil(2)],
                    8 => vec![value; entries],
                    _ => (0..2 * entries).map(|at| if at % 2 == 0 { 0 } else { value }).collect(),
                };
                let head = words(&[0, bits.into(), entries as u32]);
                stbl.extend(boxed(b"stz2", &[&head, &fill[..fill.len().min(MAX_SIZE)]]));
            }
        }
        let chunk = self.chunk.max(1);
        let chunks =
            if self.samples == 0 { 0 } else { self.samples.div_ceil(chunk).min(MAX_SIZE as u32 / 4) };
        stbl.extend(table(b"stsc", 3, &[1, chunk, 1][..if chunks == 0 { 0 } else { 3 }]));
        stbl.extend(table(b"stco", 1, &vec![0; chunks as usize]));
        if let Some(count) = self.samples.checked_div(self.sync_every) {
            let count = count.clamp(1, MAX_SIZE as u32 / 4);
            let numbers: Vec<u32> = (0..count).map(|n| n * self.sync_every + 1).collect();
            stbl.extend(table(b"stss", 1, &numbers));
        }
        let mut tkhd = vec![0; 84];
        tkhd[3] = 3;
        put(&mut tkhd, 12, id);
        put(&mut tkhd, 40, 0x1_0000);
        put(&mut tkhd, 56, 0x1_0000);
        put(&mut tkhd, 72, 0x4000_0000);
        put(&mut tkhd, 76, 64 << 16);
        put(&mut tkhd, 80, 64 << 16);
        let mut mdhd = vec![0; 24];
        put(&mut mdhd, 12, self.timescale);
        let letters = [self.language % 26 + 1, self.language / 26 % 26 + 1, 1];
        let language = letters.iter().fold(0, |packed, letter| packed << 5 | letter);
        mdhd[20..22].copy_from_slice(&language.to_be_bytes());
        let mut hdlr = vec![0; 25];
        hdlr[8..12].copy_from_slice(handler);
        let minf = boxed(b"minf", &[&boxed(b"stbl", &[&stbl])]);
        let mdia = boxed(b"mdia", &[&boxed(b"mdhd", &[&mdhd]), &boxed(b"hdlr", &[&hdlr]), &minf]);
        let edits = match self.media_time {
            Some(time) => boxed(b"edts", &[&boxed(b"elst", &[&words(&[0, 1, 0, time, 0x1_0000])])]),
            None => Vec::new(),
        };
        boxed(b"trak", &[&boxed(b"tkhd", &[&tkhd]), &edits, &mdia])
    }
}

impl HostileBox {
    fn read(from: &mut Numbers<'_>) -> Self {
        match from.byte() % 4 {
            0 => Self::Moof {
                repeat: from.number(),
                trafs: from.number() % 1025,
                first_track: from.number(),
                runs: from.number(),
                samples: from.number(),
                flags: u32::from(from.byte() & 15) << 8,
                field: from.number(),
                duration: from.number(),
                size: from.number(),
                step: Some(from.number()).filter(|&step| step > 0),
            },
            1 => Self::Sidx {
                repeat: from.number(),
                first_track: from.number(),
                timescale: from.number(),
                references: from.number() & 0xffff,
                size: from.number(),
                duration: from.number(),
            },
            2 => Self::Mfra { tracks: from.number() % 1025, step: from.number() },
            _ => Self::Free { repeat: from.number(), size: from.number() },
        }
    }

    /// Appends the boxes as far as there is room. `moofs` and `time` are those written so far.
    fn write(&self, out: &mut Vec<u8>, moofs: &mut Vec<u32>, time: &mut u64) {
        let mut append = |bytes: Vec<u8>, moofs: Option<&mut Vec<u32>>| {
            let fits = out.len() + bytes.len() <= MAX_SIZE;
            if fits {
                moofs.into_iter().for_each(|moofs| moofs.push(out.len() as u32));
                out.extend(bytes);
            }
            fits
        };
        match *self {
            Self::Free { repeat, size } => {
                let bytes = boxed(b"free", &[&vec![0; (size as usize).min(MAX_SIZE)]]);
                for _ in 0..repeat {
                    if !append(bytes.clone(), None) {
                        break;
                    }
                }
            }
            Self::Sidx { repeat, first_track, timescale, references, size, duration } => {
                for n in 0..repeat {
                    let mut payload = words(&[0, first_track.wrapping_add(n), timescale, 0, 0, references]);
                    for _ in 0..references {
                        payload.extend(words(&[size, duration, 0x9000_0000]));
                    }
                    if !append(boxed(b"sidx", &[&payload]), None) {
                        break;
                    }
                }
            }
            Self::Mfra { tracks, step } => {
                let mut payload = Vec::new();
                for track in 1..=tracks {
                    payload.extend(tfra(track, moofs, step));
                    if payload.len() > MAX_SIZE {
                        break;
                    }
                }
                let size = (8 + payload.len() + 16) as u32;
                append(boxed(b"mfra", &[&payload, &boxed(b"mfro", &[&words(&[0, size])])]), None);
            }
            Self::Moof { repeat, .. } => {
                for _ in 0..repeat {
                    if !append(self.moof(time), Some(&mut *moofs)) {
                        break;
                    }
                }
            }
        }
    }

    /// Returns a `moof` and moves the time on.
    fn moof(&self, time: &mut u64) -> Vec<u8> {
        let Self::Moof { trafs, first_track, runs, samples, flags, field, duration, size, step, .. } = *self
        else {
            return Vec::new();
        };
        let fields = flags.count_ones() as usize;
        let mut payload = boxed(b"mfhd", &[&words(&[0, 1])]);
        for n in 0..trafs {
            // default-base-is-moof, default duration and size.
            let tfhd = words(&[0x02_0018, first_track.wrapping_add(n), duration, size]);
            let mut traf = boxed(b"tfhd", &[&tfhd]);
            if step.is_some() {
                let halves = [0x0100_0000, (*time >> 32) as u32, *time as u32];
                traf.extend(boxed(b"tfdt", &[&words(&halves)]));
            }
            for _ in 0..runs {
                let most = (MAX_SIZE / 4).checked_div(fields).unwrap_or(usize::MAX);
                let count = samples.min(u32::try_from(most).unwrap_or(samples));
                let entries = if fields == 0 { 0 } else { count as usize * fields };
                // data-offset, so that sizes do not add up beyond the file.
                traf.extend(boxed(b"trun", &[&words(&[flags | 1, count, 0]), &words(&vec![field; entries])]));
                if traf.len() > MAX_SIZE {
                    break;
                }
            }
            payload.extend(boxed(b"traf", &[&traf]));
            if payload.len() > MAX_SIZE {
                break;
            }
        }
        *time += u64::from(step.unwrap_or(0));
        boxed(b"moof", &[&payload])
    }
}

/// Returns the `tfra` of a track with an entry for each `moof`.
fn tfra(track: u32, moofs: &[u32], step: u32) -> Vec<u8> {
    let mut payload = words(&[0, track, 0, moofs.len() as u32]);
    for (number, &offset) in (0_u32..).zip(moofs) {
        payload.extend(words(&[number.wrapping_mul(step), offset]));
        payload.extend([1, 1, 1]);
    }
    boxed(b"tfra", &[&payload])
}

/// Returns handler and sample entry of a codec.
fn sample_entry(codec: u8) -> (&'static [u8; 4], Vec<u8>) {
    const AVC: &[u8] = b"\x01\x64\0\x1f\xff\xe1\0\x04\x67\x64\0\x1f\x01\0\x02\x68\xee\xfd\xf8\xf8\0";
    const AAC: &[u8] =
        b"\0\0\0\0\x03\x19\0\x01\0\x04\x11\x40\x15\0\0\0\0\0\0\0\0\0\0\0\x05\x02\x11\x90\x06\x01\x02";
    let entry = |format: &[u8; 4], fixed: usize, kind: &[u8; 4], config: &[u8]| {
        let mut head = vec![0; 8 + fixed];
        head[7] = 1;
        if fixed == 70 {
            (head[25], head[27]) = (64, 64);
        }
        boxed(format, &[&head, &boxed(kind, &[config])])
    };
    match codec {
        0 => (b"vide", entry(b"avc1", 70, b"avcC", AVC)),
        1 => (b"soun", entry(b"mp4a", 20, b"esds", AAC)),
        2 => (b"text", entry(b"wvtt", 0, b"vttC", b"WEBVTT")),
        _ => (b"soun", entry(b"ac-3", 20, b"dac3", b"\x10\x11\xc0")),
    }
}

fn boxed(kind: &[u8; 4], payload: &[&[u8]]) -> Vec<u8> {
    let size = 8 + payload.iter().map(|part| part.len()).sum::<usize>();
    [&words(&[size as u32]), &kind[..]]
        .into_iter()
        .chain(payload.iter().copied())
        .collect::<Vec<_>>()
        .concat()
}

/// Returns a table with entries of some words each.
fn table(kind: &[u8; 4], words_of_entry: usize, entries: &[u32]) -> Vec<u8> {
    boxed(kind, &[&words(&[0, (entries.len() / words_of_entry) as u32]), &words(entries)])
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
}
