//! Walks arbitrary bytes as boxes, and reads them as a `moov`. No input may panic, there are no
//! more entries than bytes, and boxes that are read are written back to equal ones.
#![no_main]

use bytes::Bytes;
use latemux_isobmff::{
    boxes::{
        elst::{Edit, EditList},
        ftyp::FileType,
        mvhd::Mvhd,
        stsz::SampleSizes,
        tkhd::Tkhd,
    },
    cursor::Cursor,
    emit::WriteBox,
    movie::{Movie, Track},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    walk(&Cursor::new(&bytes, 0), 0);
    if let Ok(movie) = Movie::parse(&bytes, 0) {
        let entries: usize = movie.tracks.iter().flatten().map(entries).sum();
        assert!(entries <= 2 * bytes.len(), "{entries} entries from {} bytes", bytes.len());
    }
});

/// Descends into every box as if it were a container.
fn walk(payload: &Cursor<'_>, depth: usize) {
    for child in payload.boxes().map_while(Result::ok) {
        assert!(child.raw().len() <= payload.remaining());
        let payload = child.payload.clone();
        match &child.kind().0 {
            b"ftyp" | b"styp" => {
                reads_back(FileType::parse(payload, child.kind()).ok(), |p| {
                    FileType::parse(p, child.kind()).ok()
                });
            }
            b"mvhd" => reads_back(Mvhd::parse(payload).ok(), |p| Mvhd::parse(p).ok()),
            b"tkhd" => reads_back(Tkhd::parse(payload).ok(), |p| Tkhd::parse(p).ok()),
            b"stsz" => reads_back(SampleSizes::parse_stsz(payload).ok(), |p| SampleSizes::parse_stsz(p).ok()),
            b"stz2" => reads_back(SampleSizes::parse_stz2(payload).ok(), |p| SampleSizes::parse_stz2(p).ok()),
            b"elst" => {
                if let Ok(edits) = Edit::parse_list(payload) {
                    let mut out = Vec::new();
                    EditList(&edits).write(&mut out);
                    let out = Bytes::from(out);
                    let read = Cursor::new(&out, 0).find(b"elst").and_then(|b| Edit::parse_list(b.payload));
                    assert_eq!(read.ok(), Some(edits));
                }
            }
            _ => {}
        }
        if depth < 12 {
            walk(&child.payload, depth + 1);
        }
    }
}

/// Writes a box that was read and asserts that reading it again returns the same.
fn reads_back<B: WriteBox + PartialEq + std::fmt::Debug>(
    read: Option<B>,
    parse: impl Fn(Cursor<'_>) -> Option<B>,
) {
    let Some(read) = read else { return };
    let mut out = Vec::new();
    read.write(&mut out);
    assert_eq!(out.len() as u64, read.size());
    let out = Bytes::from(out);
    let mut boxes = Cursor::new(&out, 0).boxes();
    let payload = boxes.next().and_then(Result::ok).map(|found| found.payload);
    assert_eq!(payload.and_then(parse).as_ref(), Some(&read));
}

/// Reads every entry in the tables of a track and returns their number.
fn entries(track: &Track) -> usize {
    let tables = &track.tables;
    let sizes = match &tables.stsz {
        SampleSizes::Constant { .. } => 0, // the count stands for no bytes
        table @ SampleSizes::Table { .. } => table.iter().count(),
    };
    sizes
        + tables.stts.iter().count()
        + tables.stsc.iter().count()
        + tables.stco.iter().count()
        + tables.ctts.iter().map(|table| table.iter().count()).sum::<usize>()
        + tables.stss.iter().map(|table| table.iter().count()).sum::<usize>()
        + track.edits.len()
        + track.sample_entries.len()
        + track.data_references.len()
}
