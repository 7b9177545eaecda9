//! The same media with the sample entries and matrices that QuickTime writes: those of cameras,
//! telephones and editing suites.

use crate::rewrite::{Code, Variant, boxed, boxes, progressive, put};

/// Form of the `colr` box in a video entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colr {
    /// The source's own, or none.
    AsIs,
    /// QuickTime's `nclc`, of 18 bytes.
    Nclc,
    /// `nclx` of 18 bytes, without the byte that states the range.
    ShortNclx,
}

/// Options for rewriting the `moov` of a progressive file.
#[derive(Debug, Clone, Copy)]
pub struct QuickTime {
    /// Version of the sound description. 0 leaves the entry of the source as it is; in 1 and 2 a
    /// `wave` box holds the configuration.
    pub audio_version: u8,
    /// Form of `colr`.
    pub colr: Colr,
    /// True if four zero bytes end each video entry.
    pub terminator: bool,
    /// If true, video entries have the boxes `gama` and `fiel`, a vendor and qualities.
    pub extras: bool,
    /// Matrix of the video's `tkhd`, instead of the source's.
    pub matrix: Option<[i32; 9]>,
    /// Matrix of `mvhd`, instead of the source's.
    pub movie_matrix: Option<[i32; 9]>,
}

/// A matrix that changes nothing.
pub const UNITY: [i32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Returns the matrix that turns a picture of `height` lines by 90° clockwise, as telephones write
/// it for video that is taken upright.
pub const fn quarter_turn(height: i32) -> [i32; 9] {
    [0, 0x1_0000, 0, -0x1_0000, 0, 0, height << 16, 0, 0x4000_0000]
}

impl Default for QuickTime {
    /// Returns the options that change nothing.
    fn default() -> Self {
        Self {
            audio_version: 0,
            colr: Colr::AsIs,
            terminator: false,
            extras: false,
            matrix: None,
            movie_matrix: None,
        }
    }
}

/// Rewrites a progressive MP4 with AVC and AAC. The samples stay the same.
pub fn quicktime(file: &[u8], options: QuickTime) -> Vec<u8> {
    // Behind the media, `moov` can grow without moving any sample.
    let file = progressive(file, Variant { moov_last: true, ..Variant::default() });
    let mut out = Vec::with_capacity(file.len() + 512);
    for (kind, payload) in boxes(&file) {
        match &kind {
            // The compatible brands are replaced by as many of QuickTime.
            b"ftyp" => put(&mut out, kind, &b"qt  ".repeat(payload.len() / 4), false),
            b"moov" => put(&mut out, kind, &rewrite(payload, options, false), false),
            _ => put(&mut out, kind, payload, false),
        }
    }
    out
}

/// Rewrites the boxes in `bytes`. `is_video` is true within the `trak` of a video.
fn rewrite(bytes: &[u8], options: QuickTime, is_video: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in boxes(bytes) {
        let changed = match &kind {
            b"trak" => {
                let is_video = payload.windows(8).any(|window| window == b"\0\0\0\0vide");
                rewrite(payload, options, is_video)
            }
            b"mdia" | b"minf" | b"stbl" => rewrite(payload, options, is_video),
            b"tkhd" if is_video => with_matrix(payload, 40, options.matrix),
            b"mvhd" => with_matrix(payload, 36, options.movie_matrix),
            b"stsd" => stsd(payload, options),
            _ => payload.to_vec(),
        };
        put(&mut out, kind, &changed, false);
    }
    out
}

/// Sets the matrix of a `tkhd` or `mvhd` of version 0, where it lies at `at`.
fn with_matrix(payload: &[u8], at: usize, matrix: Option<[i32; 9]>) -> Vec<u8> {
    assert_eq!(payload[0], 0, "a file of ffmpeg that is short");
    let mut payload = payload.to_vec();
    for (n, number) in matrix.into_iter().flatten().enumerate() {
        payload[at + 4 * n..][..4].copy_from_slice(&number.to_be_bytes());
    }
    payload
}

fn stsd(payload: &[u8], options: QuickTime) -> Vec<u8> {
    let mut out = payload[..8].to_vec();
    for (format, entry) in boxes(&payload[8..]) {
        let changed = match &format {
            b"mp4a" if options.audio_version > 0 => sound(entry, options.audio_version),
            b"avc1" | b"hvc1" => picture(entry, options),
            _ => entry.to_vec(),
        };
        put(&mut out, format, &changed, false);
    }
    out
}

/// Number of bytes before the boxes of a video entry, and of an audio entry of version 0.
const VIDEO_FIELDS: usize = 78;
const AUDIO_FIELDS: usize = 28;

/// Makes a sound description with a `wave` box (QuickTime File Format, sound sample descriptions).
fn sound(entry: &[u8], version: u8) -> Vec<u8> {
    let (fields, rest) = entry.split_at(AUDIO_FIELDS);
    let (esds, rest): (Vec<_>, Vec<_>) = boxes(rest).into_iter().partition(|(kind, _)| kind == b"esds");
    let mut wave = boxed(*b"frma", b"mp4a");
    wave.extend(boxed(*b"mp4a", &[0; 4]));
    esds.iter().for_each(|(kind, payload)| wave.extend(boxed(*kind, payload)));
    // The terminator is a box of no type.
    wave.extend(boxed([0; 4], &[]));

    let mut out = fields.to_vec();
    out[8..10].copy_from_slice(&[0, version]);
    match version {
        1 => {
            // Variable compression; samples in a packet, bytes in a packet, in a frame, in a
            // sample.
            out[20..22].copy_from_slice(&[0xff, 0xfe]);
            [1024_u32, 0, 0, 2].iter().for_each(|number| out.extend(number.to_be_bytes()));
        }
        2 => {
            let channels = u32::from(u16::from_be_bytes([fields[16], fields[17]]));
            let rate = f64::from(u16::from_be_bytes([fields[24], fields[25]]));
            out[16..28].copy_from_slice(&[0, 3, 0, 16, 0xff, 0xfe, 0, 0, 0, 1, 0, 0]);
            out.extend(72_u32.to_be_bytes());
            out.extend(rate.to_be_bytes());
            [channels, 0x7f00_0000, 0, 0, 0, 1024].iter().for_each(|n| out.extend(n.to_be_bytes()));
        }
        _ => panic!("version {version} of a sound description"),
    }
    out.extend(boxed(*b"wave", &wave));
    // A layout tag of QuickTime's for stereo.
    out.extend(boxed(*b"chan", &[[0; 4], [0, 101, 0, 2], [0; 4], [0; 4]].concat()));
    rest.iter().for_each(|(kind, payload)| out.extend(boxed(*kind, payload)));
    out
}

fn picture(entry: &[u8], options: QuickTime) -> Vec<u8> {
    let (fields, rest) = entry.split_at(VIDEO_FIELDS);
    let mut out = fields.to_vec();
    if options.extras {
        // Vendor, temporal and spatial quality.
        out[12..24].copy_from_slice(b"appl\0\0\x02\0\0\0\x02\0");
    }
    for (kind, payload) in boxes(rest) {
        if &kind != b"colr" || options.colr == Colr::AsIs {
            out.extend(boxed(kind, payload));
        }
    }
    // BT.709.
    let colr = |kind: Code| boxed(*b"colr", &[&kind[..], &[0, 1, 0, 1, 0, 1]].concat());
    match options.colr {
        Colr::AsIs => {}
        Colr::Nclc => out.extend(colr(*b"nclc")),
        Colr::ShortNclx => out.extend(colr(*b"nclx")),
    }
    if options.extras {
        out.extend(boxed(*b"gama", &[0, 1, 0xcc, 0xcc]));
        out.extend(boxed(*b"fiel", &[1, 0]));
    }
    if options.terminator {
        out.extend([0; 4]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{probe::probe, recipe};
    use std::fs;

    #[test]
    fn ffmpeg_reads_the_same_packets_from_every_form() {
        let source = recipe::avc_aac("rewrite", "");
        let file = fs::read(&source).unwrap();
        let want = probe(&source, &[]);
        for (i, (audio_version, colr)) in
            [(1, Colr::Nclc), (2, Colr::ShortNclx), (0, Colr::AsIs)].into_iter().enumerate()
        {
            let matrix = Some(quarter_turn(180));
            let options =
                QuickTime { audio_version, colr, terminator: true, extras: true, matrix, movie_matrix: None };
            let path = recipe::folder().join(format!("quicktime-{}-{i}.mov", std::process::id()));
            fs::write(&path, quicktime(&file, options)).unwrap();
            let got = probe(&path, &[]);
            for (want, got) in want.streams.iter().zip(&got.streams) {
                assert_eq!((&want.codec, &want.packets.len()), (&got.codec, &got.packets.len()));
                assert!(want.packets.iter().zip(&got.packets).all(|(a, b)| a.hash == b.hash), "{options:?}");
            }
            fs::remove_file(path).unwrap();
        }
    }
}
