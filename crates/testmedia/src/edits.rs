//! Edit lists that ffmpeg does not write.

use crate::rewrite::{Code, boxed, boxes, u32_at};

/// One edit: its duration in movie ticks, and the media time in track ticks at which it starts.
/// `None` is an empty edit.
pub type Edit = (u32, Option<u32>);

/// Gives the tracks of a handler (`vide`, `soun`) other edit lists; an empty list removes them. The
/// file's `moov` must be last, or its offsets relative to `moof`.
pub fn with_edits(file: &[u8], edits: &[(&Code, &[Edit])]) -> Vec<u8> {
    let rewrite = |(kind, payload): (Code, &[u8])| match &kind {
        b"moov" => boxed(kind, &in_movie(payload, edits)),
        _ => boxed(kind, payload),
    };
    boxes(file).into_iter().flat_map(rewrite).collect()
}

/// Returns the ticks per second of a file's movie, in which edits last.
pub fn movie_timescale(file: &[u8]) -> u32 {
    let of = |found: &[(Code, &[u8])], code: &Code| {
        found.iter().find(|(kind, _)| kind == code).map(|b| b.1.to_vec())
    };
    let moov = of(&boxes(file), b"moov").expect("moov");
    u32_at(&of(&boxes(&moov), b"mvhd").expect("mvhd"), 12)
}

fn in_movie(moov: &[u8], edits: &[(&Code, &[Edit])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, payload) in boxes(moov) {
        if &kind != b"trak" {
            out.extend(boxed(kind, payload));
            continue;
        }
        let of = |code: &Code, within: &[u8]| {
            boxes(within).into_iter().find(|(kind, _)| kind == code).expect("a complete track").1.to_vec()
        };
        let handler = of(b"hdlr", &of(b"mdia", payload));
        let list =
            edits.iter().find(|(code, _)| handler.get(8..12) == Some(&code[..])).map(|(_, list)| *list);
        let mut trak = Vec::new();
        for (kind, payload) in boxes(payload) {
            if &kind != b"edts" || list.is_none() {
                trak.extend(boxed(kind, payload));
            }
            if &kind == b"tkhd" && list.is_some_and(|list| !list.is_empty()) {
                trak.extend(boxed(*b"edts", &edit_list(list.unwrap_or_default())));
            }
        }
        out.extend(boxed(kind, &trak));
    }
    out
}

fn edit_list(edits: &[Edit]) -> Vec<u8> {
    let mut list = vec![0; 4];
    list.extend(u32::try_from(edits.len()).expect("few edits").to_be_bytes());
    for (duration, media_time) in edits {
        list.extend(duration.to_be_bytes());
        list.extend(media_time.unwrap_or(u32::MAX).to_be_bytes());
        list.extend(0x1_0000_u32.to_be_bytes());
    }
    boxed(*b"elst", &list)
}
