//! Scalable AVC (SVC) made with the openh264 library, which also decodes it. A small C program that
//! calls the library is compiled when it is first needed.

use crate::{
    recipe::{folder, make},
    rewrite::{Code, boxed, boxes, put},
};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};
use xxhash_rust::xxh3::xxh3_64;

const PROGRAM: &str = include_str!("openh264.c");
/// Number of frames of each stream.
const FRAMES: u32 = 96;

/// The sample entry of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// `avc1` with `avcC` and `svcC`.
    Avc1,
    /// `svc1` with `svcC`, which has all parameter sets.
    Svc1,
    /// Like [`Self::Svc1`], with the sample entry `svc2`.
    Svc2,
    /// `svc1` with `svcC`, which has the parameter sets of enhancement layers alone.
    Enhancement,
}

/// An encoder and decoder of SVC.
#[derive(Debug, Clone)]
pub struct OpenH264(PathBuf);

/// A decoded picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Width in pixels.
    pub width: u32,
    /// Hash of all samples.
    pub hash: String,
}

impl OpenH264 {
    /// Returns the program, compiled with the C compiler `cc`. Prints the reason and returns `None`
    /// if the library or its headers are not installed.
    #[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
    pub fn find() -> Option<Self> {
        static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
        let found = FOUND.get_or_init(compile).clone();
        if found.is_none() {
            println!("skipped: SVC cannot be made without a C compiler and libopenh264-dev");
        }
        found.map(Self)
    }

    /// Returns an MP4 of 96 frames at 25 frames per second, with so many spatial and temporal
    /// layers. The highest spatial layer has a width of 320 pixels. GOPs have 48 frames.
    pub fn mp4(&self, spatial: u32, temporal: u32, entry: Entry) -> PathBuf {
        let program = xxh3_64(PROGRAM.as_bytes());
        let name = format!("svc-{spatial}-{temporal}-{program:016x}");
        let stream = folder().join(format!("{name}.264"));
        if !stream.exists() {
            let sizes = [spatial, temporal, FRAMES].map(|number| number.to_string());
            let bytes = self.run(&[&["encode".to_owned()][..], &sizes].concat(), &[]);
            replace(&stream, &bytes);
        }
        // ffmpeg makes `avcC` and the sample tables. It keeps all NAL units in the samples.
        let args = format!("-r 25 -f h264 -i {} -c copy", stream.display());
        let plain = make(&name, "mp4", &args);
        let path = folder().join(format!("{name}-{entry:?}.mp4"));
        let sets = parameter_sets(&fs::read(&stream).expect("it was just made"));
        replace(&path, &with_svcc(&fs::read(plain).expect("it was just made"), &sets, entry));
        path
    }

    /// Decodes the highest layer of samples with NAL lengths of four bytes. `None` stands for a
    /// sample that cannot be decoded.
    pub fn decode<'a>(&self, samples: impl IntoIterator<Item = &'a [u8]>) -> Vec<Option<Picture>> {
        let mut stream = Vec::new();
        for sample in samples {
            let mut rest = sample;
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                let (unit, after) = after.split_at(u32::from_be_bytes(*length) as usize);
                stream.extend([0, 0, 0, 1]);
                stream.extend(unit);
                rest = after;
            }
        }
        let text = String::from_utf8(self.run(&["decode".to_owned()], &stream)).expect("text");
        let picture = |line: &str| {
            let mut fields = line.split(' ');
            let width = fields.next()?.parse().ok()?;
            Some(Picture { width, hash: fields.nth(1)?.to_owned() })
        };
        text.lines().map(picture).collect()
    }

    fn run(&self, args: &[String], input: &[u8]) -> Vec<u8> {
        let mut command = Command::new(&self.0);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was compiled");
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            // The program may write while it still reads.
            scope.spawn(move || stdin.write_all(input).expect("the program reads its input"));
            child.wait_with_output().expect("the program ends")
        });
        assert!(output.status.success(), "{command:?}");
        output.stdout
    }
}

/// Compiles the program, unless that was done before.
fn compile() -> Option<PathBuf> {
    let program = folder().join(format!("openh264-{:016x}", xxh3_64(PROGRAM.as_bytes())));
    if program.exists() {
        return Some(program);
    }
    let part = folder().join(format!("part-openh264-{}", std::process::id()));
    let mut command = Command::new("cc");
    command.args(["-O1", "-x", "c", "-", "-lopenh264", "-o"]).arg(&part);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    child.stdin.take()?.write_all(PROGRAM.as_bytes()).ok()?;
    if !child.wait().ok()?.success() {
        return None;
    }
    fs::rename(part, &program).expect("same folder");
    Some(program)
}

/// Writes a file at once, so that tests that run beside each other find it whole.
fn replace(path: &Path, bytes: &[u8]) {
    let part = folder().join(format!("part-svc-{}-{:?}", std::process::id(), std::thread::current().id()));
    fs::write(&part, bytes).expect("the folder is writable");
    fs::rename(part, path).expect("same folder");
}

/// Returns the different parameter sets of a byte stream, by their nal_unit_type: sequence
/// parameter sets (7), those of enhancement layers (15), and picture parameter sets (8).
fn parameter_sets(stream: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let starts: Vec<usize> = (0..stream.len()).filter(|&at| stream[at..].starts_with(&[0, 0, 1])).collect();
    let ends = starts.iter().skip(1).copied().chain([stream.len()]);
    let mut sets: Vec<(u8, Vec<u8>)> = Vec::new();
    for (start, end) in starts.iter().zip(ends) {
        // A start code may have four bytes. No NAL unit ends with a zero.
        let unit: &[u8] = &stream[start + 3..end];
        let unit = &unit[..unit.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)];
        let kind = unit[0] & 0x1f;
        if matches!(kind, 7 | 8 | 15) && !sets.iter().any(|(_, known)| known == unit) {
            sets.push((kind, unit.to_vec()));
        }
    }
    sets
}

/// Returns SVCDecoderConfigurationRecord (ISO/IEC 14496-15 §6).
fn record(sets: &[(u8, Vec<u8>)], entry: Entry) -> Vec<u8> {
    let of = |kinds: &'static [u8]| sets.iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, set)| set);
    let listed = |sets: &[&Vec<u8>]| {
        let mut list = vec![u8::try_from(sets.len()).expect("a few sets")];
        for set in sets {
            list.extend(u16::try_from(set.len()).expect("a short set").to_be_bytes());
            list.extend(*set);
        }
        list
    };
    let sequence: Vec<_> = match entry {
        Entry::Svc1 | Entry::Svc2 => of(&[7, 15]).collect(),
        Entry::Avc1 | Entry::Enhancement => of(&[15]).collect(),
    };
    // The profile is that of the highest layer.
    let highest = of(&[15]).next().or_else(|| of(&[7]).next()).expect("a sequence parameter set");
    let mut record = vec![1, highest[1], highest[2], highest[3], 0xff];
    record.extend(listed(&sequence));
    record.extend(listed(&of(&[8]).collect::<Vec<_>>()));
    record
}

/// Adds `svcC` to the sample entry of an MP4 with one track whose `moov` lies behind the media.
fn with_svcc(file: &[u8], sets: &[(u8, Vec<u8>)], entry: Entry) -> Vec<u8> {
    const CONTAINERS: [&Code; 5] = [b"moov", b"trak", b"mdia", b"minf", b"stbl"];
    let mut out = Vec::new();
    for (kind, payload) in boxes(file) {
        match &kind {
            k if CONTAINERS.contains(&k) => put(&mut out, kind, &with_svcc(payload, sets, entry), false),
            b"stsd" => {
                let (head, list) = payload.split_at(8);
                let [(_, old)] = boxes(list)[..] else { panic!("one sample entry") };
                // The fields of a visual sample entry.
                let (fields, children) = old.split_at(78);
                let mut new = fields.to_vec();
                for (kind, child) in boxes(children) {
                    if entry == Entry::Avc1 || &kind != b"avcC" {
                        put(&mut new, kind, child, false);
                    }
                }
                put(&mut new, *b"svcC", &record(sets, entry), false);
                let code = match entry {
                    Entry::Avc1 => *b"avc1",
                    Entry::Svc1 | Entry::Enhancement => *b"svc1",
                    Entry::Svc2 => *b"svc2",
                };
                put(&mut out, kind, &[head, &boxed(code, &new)].concat(), false);
            }
            _ => put(&mut out, kind, payload, false),
        }
    }
    out
}
