//! The same media in box variants that ffmpeg does not write, made by rewriting its files box by
//! box.

/// Options for rewriting a progressive file. If all are false, `moov` comes first and boxes keep
/// their form.
#[derive(Debug, Clone, Copy, Default)]
pub struct Variant {
    /// If true, `moov` lies behind the media.
    pub moov_last: bool,
    /// If true, chunk offsets are in `co64`.
    pub co64: bool,
    /// If true, sample sizes are in `stz2` with 16-bit entries (for tracks whose samples fit).
    pub stz2: bool,
    /// If true, `mdat` has a 64-bit size.
    pub wide_mdat: bool,
    /// If true, `moov` and the containers below it have 64-bit sizes.
    pub wide_boxes: bool,
}

pub(crate) type Code = [u8; 4];

const CONTAINERS: [&Code; 5] = [b"moov", b"trak", b"mdia", b"minf", b"stbl"];

/// Returns the boxes in `bytes`: type and payload.
pub(crate) fn boxes(bytes: &[u8]) -> Vec<(Code, &[u8])> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 8 <= bytes.len() {
        let size32 = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let kind: Code = bytes[at + 4..at + 8].try_into().expect("4 bytes");
        let (header, size) = match size32 {
            0 => (8, bytes.len() - at),
            1 => {
                let wide = u64::from_be_bytes(bytes[at + 8..at + 16].try_into().expect("8 bytes"));
                (16, usize::try_from(wide).expect("fits"))
            }
            n => (8, n as usize),
        };
        found.push((kind, &bytes[at + header..at + size]));
        at += size;
    }
    found
}

pub(crate) fn put(out: &mut Vec<u8>, kind: Code, payload: &[u8], wide: bool) {
    let len = payload.len() as u64;
    if wide {
        out.extend(1u32.to_be_bytes());
        out.extend(kind);
        out.extend((len + 16).to_be_bytes());
    } else {
        out.extend(u32::try_from(len + 8).expect("small test files").to_be_bytes());
        out.extend(kind);
    }
    out.extend(payload);
}

/// Returns a box with a 32-bit size.
pub(crate) fn boxed(kind: Code, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, kind, payload, false);
    out
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Rewrites the boxes of `moov`, and adds `shift` to every chunk offset.
fn rewrite_moov(bytes: &[u8], variant: Variant, shift: i64) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in boxes(bytes) {
        match &kind {
            k if CONTAINERS.contains(&k) => {
                put(&mut out, kind, &rewrite_moov(payload, variant, shift), variant.wide_boxes);
            }
            b"stco" | b"co64" => {
                let entry = if &kind == b"co64" { 8 } else { 4 };
                let offsets = payload[8..].chunks_exact(entry).map(|e| {
                    let offset = e.iter().fold(0i64, |n, b| n << 8 | i64::from(*b)) + shift;
                    u64::try_from(offset).expect("offsets stay positive")
                });
                let mut table = payload[..8].to_vec();
                for offset in offsets {
                    if variant.co64 {
                        table.extend(offset.to_be_bytes());
                    } else {
                        table.extend(u32::try_from(offset).expect("small test files").to_be_bytes());
                    }
                }
                put(&mut out, if variant.co64 { *b"co64" } else { *b"stco" }, &table, false);
            }
            b"stsz" if variant.stz2 && u32_at(payload, 4) == 0 => {
                let sizes: Vec<u32> = payload[12..].chunks_exact(4).map(|e| u32_at(e, 0)).collect();
                if sizes.iter().any(|s| *s > 0xffff) {
                    put(&mut out, kind, payload, false);
                    continue;
                }
                let mut table = vec![0, 0, 0, 0, 0, 0, 0, 16];
                table.extend(u32::try_from(sizes.len()).expect("a count").to_be_bytes());
                for size in sizes {
                    table.extend(u16::try_from(size).expect("checked above").to_be_bytes());
                }
                put(&mut out, *b"stz2", &table, false);
            }
            _ => put(&mut out, kind, payload, false),
        }
    }
    out
}

/// Rewrites a progressive MP4 with one `mdat`. Sample bytes are moved but not changed.
pub fn progressive(file: &[u8], variant: Variant) -> Vec<u8> {
    let top = boxes(file);
    let find = |code: &Code| top.iter().find(|(k, _)| k == code).expect("ftyp, moov and mdat").1;
    let [ftyp, moov, mdat] = [b"ftyp", b"moov", b"mdat"].map(find);
    let old_start = mdat.as_ptr() as usize - file.as_ptr() as usize;
    let header = if variant.wide_mdat { 16 } else { 8 };
    let build = |shift: i64| {
        let mut boxed = Vec::new();
        put(&mut boxed, *b"moov", &rewrite_moov(moov, variant, shift), variant.wide_boxes);
        boxed
    };
    let new_start = ftyp.len() + 8 + header + if variant.moov_last { 0 } else { build(0).len() };
    let shift = i64::try_from(new_start).expect("small") - i64::try_from(old_start).expect("small");
    let moov = build(shift);
    let mut out = Vec::with_capacity(file.len() + 64);
    put(&mut out, *b"ftyp", ftyp, false);
    if !variant.moov_last {
        out.extend(&moov);
    }
    put(&mut out, *b"mdat", mdat, variant.wide_mdat);
    if variant.moov_last {
        out.extend(&moov);
    }
    out
}

/// Returns a progressive MP4 whose tables and media repeat those of another one, which has at most
/// one edit for each track. `moov` comes first.
pub fn looped(file: &[u8], times: u32) -> Vec<u8> {
    let (mut out, media) = loop_head(file, times);
    out.extend(media.repeat(times as usize));
    out
}

/// Returns the bytes of such a file before its media, and the size of the whole file.
pub fn looped_head(file: &[u8], times: u32) -> (Vec<u8>, u64) {
    let (head, media) = loop_head(file, times);
    let size = head.len() as u64 + media.len() as u64 * u64::from(times);
    (head, size)
}

/// Returns the bytes of such a file before its media, and one repetition of the media.
fn loop_head(file: &[u8], times: u32) -> (Vec<u8>, Vec<u8>) {
    let first = progressive(file, Variant::default());
    let top = boxes(&first);
    let find = |code: &Code| top.iter().find(|(k, _)| k == code).expect("ftyp, moov and mdat").1;
    let [ftyp, moov, mdat] = [b"ftyp", b"moov", b"mdat"].map(find);
    let period = u32::try_from(mdat.len()).expect("small test files");
    let loops = Loops { times, period, moved: 0, chunks: 0, samples: 0 };
    let grown = boxed(*b"moov", &loop_moov(moov, loops)).len() - (moov.len() + 8);
    let loops = Loops { moved: u32::try_from(grown).expect("small test files"), ..loops };
    let mut head = boxed(*b"ftyp", ftyp);
    put(&mut head, *b"moov", &loop_moov(moov, loops), false);
    let size = u64::from(period) * u64::from(times) + 8;
    head.extend(u32::try_from(size).expect("less than 4 GiB of media").to_be_bytes());
    head.extend(b"mdat");
    (head, mdat.to_vec())
}

/// Replaces a table in the tracks of a handler (`vide`, `soun`) by another payload. The file's
/// `moov` must be last.
pub fn with_table(file: &[u8], handler: &Code, table: &Code, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, old) in boxes(file) {
        let new = match &kind {
            k if k == table => payload.to_vec(),
            b"trak" if !has_handler(old, handler) => old.to_vec(),
            k if CONTAINERS.contains(&k) => with_table(old, handler, table, payload),
            _ => old.to_vec(),
        };
        put(&mut out, kind, &new, false);
    }
    out
}

fn has_handler(trak: &[u8], handler: &Code) -> bool {
    let of = |within: &[u8], code: &Code| {
        boxes(within).into_iter().find(|(kind, _)| kind == code).map(|(_, payload)| payload.to_vec())
    };
    let hdlr = of(trak, b"mdia").and_then(|mdia| of(&mdia, b"hdlr"));
    hdlr.is_some_and(|hdlr| hdlr.get(8..12) == Some(&handler[..]))
}

/// The repetitions of a file's media, and the number of chunks and samples of one track in one.
#[derive(Clone, Copy)]
struct Loops {
    times: u32,
    /// Bytes of media in one repetition.
    period: u32,
    /// Bytes by which the media is moved.
    moved: u32,
    chunks: u32,
    samples: u32,
}

/// Repeats the sample tables of `moov`, or of a box below it.
fn loop_moov(bytes: &[u8], loops: Loops) -> Vec<u8> {
    let mut out = Vec::new();
    let children = boxes(bytes);
    let count = |code: &Code, at| {
        children.iter().find(|(kind, _)| kind == code).map_or(0, |(_, table)| u32_at(table, at))
    };
    let loops = Loops { chunks: count(b"stco", 4), samples: count(b"stsz", 8), ..loops };
    for (kind, payload) in &children {
        // Position of the number of entries, size of an entry, and how much its first field grows
        // with each repetition.
        let (at, entry, step) = match kind {
            k if CONTAINERS.contains(&k) || k == b"edts" => {
                put(&mut out, *kind, &loop_moov(payload, loops), false);
                continue;
            }
            b"stts" | b"ctts" => (4, 8, 0),
            b"stsc" => (4, 12, loops.chunks),
            b"stco" => (4, 4, loops.period),
            b"stss" => (4, 4, loops.samples),
            b"stsz" if u32_at(payload, 4) == 0 => (8, 4, 0),
            b"elst" => {
                let mut list = payload[..8].to_vec();
                for edit in payload[8..].chunks_exact(12) {
                    list.extend((u32_at(edit, 0) * loops.times).to_be_bytes());
                    list.extend(&edit[4..]);
                }
                put(&mut out, *kind, &list, false);
                continue;
            }
            _ => {
                put(&mut out, *kind, payload, false);
                continue;
            }
        };
        let mut table = payload[..at].to_vec();
        table.extend((u32_at(payload, at) * loops.times).to_be_bytes());
        let moved = if kind == b"stco" { loops.moved } else { 0 };
        for number in 0..loops.times {
            for old in payload[at + 4..].chunks_exact(entry) {
                table.extend((u32_at(old, 0) + moved + number * step).to_be_bytes());
                table.extend(&old[4..]);
            }
        }
        put(&mut out, *kind, &table, false);
    }
    out
}

/// Removes top-level boxes of the given types from a fragmented file whose offsets are relative
/// (`default-base-is-moof`).
pub fn without(file: &[u8], codes: &[&Code]) -> Vec<u8> {
    let kept = boxes(file).into_iter().filter(|(kind, _)| !codes.contains(&kind));
    kept.flat_map(|(kind, payload)| boxed(kind, payload)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{probe::probe, recipe};
    use std::{fs, path::Path};

    #[test]
    fn a_looped_file_repeats_the_packets() {
        let source = recipe::avc_aac("rewrite", "");
        let packets = |path: &Path| -> Vec<Vec<_>> {
            let streams = probe(path, &["-ignore_editlist", "1"]).streams;
            let of_stream = |s: crate::probe::Stream| s.packets.into_iter().map(|p| (p.size, p.hash));
            streams.into_iter().map(|stream| of_stream(stream).collect()).collect()
        };
        let path = recipe::folder().join(format!("looped-{}.mp4", std::process::id()));
        fs::write(&path, looped(&fs::read(&source).unwrap(), 3)).unwrap();
        let want: Vec<_> = packets(&source)
            .into_iter()
            .map(|stream| std::iter::repeat_n(stream, 3).flatten().collect::<Vec<_>>())
            .collect();
        assert_eq!(packets(&path), want);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn every_variant_holds_the_same_packets() {
        let source = recipe::avc_aac("rewrite", "");
        let file = fs::read(&source).unwrap();
        let want = probe(&source, &[]);
        let all = Variant { moov_last: true, co64: true, stz2: true, wide_mdat: true, wide_boxes: true };
        for (i, variant) in
            [Variant::default(), all, Variant { moov_last: false, ..all }].into_iter().enumerate()
        {
            let path = recipe::folder().join(format!("variant-{}-{i}.mp4", std::process::id()));
            fs::write(&path, progressive(&file, variant)).unwrap();
            let got = probe(&path, &[]);
            for (want, got) in want.streams.iter().zip(&got.streams) {
                let strip = |s: &crate::probe::Stream| -> Vec<_> {
                    s.packets.iter().map(|p| (p.dts, p.pts, p.size, p.hash.clone())).collect()
                };
                assert_eq!(strip(want), strip(got), "{variant:?}");
            }
            assert_eq!(got.warnings, "", "{variant:?}");
            fs::remove_file(path).unwrap();
        }
    }
}
