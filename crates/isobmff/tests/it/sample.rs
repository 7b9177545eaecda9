//! Boxes made for tests, media files, and the top-level boxes of files.

use bytes::{BufMut, Bytes};
use latemux_isobmff::{
    FourCc, Timescale,
    boxes::{
        ctts::{self, CompositionOffsets},
        dref::SelfContained,
        elst::{Edit, EditList},
        hdlr::Hdlr,
        mdhd::{Elng, Language, Mdhd},
        minf::MediaHeader,
        mvhd::Mvhd,
        stco::ChunkOffsets,
        stsc::{self, SamplesToChunks},
        stsd::{SampleEntry, Stsd},
        stss::SyncSamples,
        stsz::SampleSizes,
        stts::{self, TimeToSamples},
        tkhd::Tkhd,
    },
    cursor::Cursor,
    emit::{Container, WriteBox},
    matrix::Matrix,
};
use std::{fs, path::PathBuf};

/// Writes one box.
pub(crate) fn bytes_of(written: &dyn WriteBox) -> Bytes {
    let mut out = Vec::new();
    written.write(&mut out);
    assert_eq!(out.len() as u64, written.size(), "size of {}", written.kind());
    out.into()
}

/// Returns the payload of a box, as the box's own `parse` takes it.
pub(crate) fn payload(bytes: &Bytes) -> Cursor<'_> {
    let mut boxes = Cursor::new(bytes, 0).boxes();
    let first = boxes.next().unwrap().unwrap();
    assert!(boxes.next().is_none(), "bytes after the box");
    first.payload
}

/// Returns a sample entry with an opaque body.
pub(crate) fn sample_entry(format: &[u8; 4], body: &[u8]) -> SampleEntry {
    let mut raw = Vec::new();
    raw.put_u32(u32::try_from(16 + body.len()).unwrap());
    raw.put_slice(format);
    raw.put_slice(&[0, 0, 0, 0, 0, 0, 0, 1]);
    raw.put_slice(body);
    SampleEntry { format: FourCc(*format), data_reference_index: 1, raw: raw.into() }
}

/// A box of any type and payload.
pub(crate) struct Raw(pub(crate) &'static [u8; 4], pub(crate) Vec<u8>);

impl WriteBox for Raw {
    fn kind(&self) -> FourCc {
        FourCc(*self.0)
    }
    fn payload_size(&self) -> u64 {
        self.1.len() as u64
    }
    fn write_payload(&self, out: &mut Vec<u8>) {
        out.extend(&self.1);
    }
}

pub(crate) fn scale(ticks: u32) -> Timescale {
    Timescale::new(ticks).unwrap()
}

/// Returns a progressive `moov` with one track that has every table: `samples` sync samples in
/// chunks of five.
pub(crate) fn progressive_moov(samples: u32) -> Bytes {
    let mvhd =
        Mvhd { timescale: scale(1000), duration: 0x1_0000_0001, matrix: Matrix::UNITY, next_track_id: 2 };
    let tkhd = Tkhd {
        id: 1,
        enabled: true,
        duration: 9,
        alternate_group: -3,
        volume: 0,
        matrix: Matrix::UNITY,
        display_size: (640 << 16, 360 << 16),
    };
    let edits = [
        Edit { duration: 100, media_time: None, rate: Edit::NORMAL_RATE },
        Edit { duration: 900, media_time: Some(1024), rate: Edit::NORMAL_RATE },
    ];
    let elst = EditList(&edits);
    let language = Language::new("pt-BR").unwrap();
    let mdhd = Mdhd { timescale: scale(90_000), duration: 12_345, language: language.clone() };
    let elng = Elng(&language);
    let hdlr = Hdlr(FourCc(*b"vide"));
    let header = MediaHeader { handler: hdlr.0 };
    let entries = [sample_entry(b"avc1", &[7; 70])];
    let stsd = Stsd(&entries);
    let stts: TimeToSamples = [stts::Run { count: samples, delta: 3000 }].into_iter().collect();
    let ctts: CompositionOffsets = [ctts::Run { count: samples, offset: -5 }].into_iter().collect();
    let stsz: SampleSizes = (0..samples).map(|n| n + 100).collect();
    let run = stsc::Run { first_chunk: 1, samples_per_chunk: 5, sample_description_index: 1 };
    let stsc: SamplesToChunks = [run].into_iter().collect();
    let stco: ChunkOffsets = (0..u64::from(samples) / 5).map(|n| n << 30).collect();
    let stss: SyncSamples = (1..=samples).collect();

    let stbl = Container(b"stbl", &[&stsd, &stts, &ctts, &stss, &stsc, &stsz, &stco]);
    let minf = Container(b"minf", &[&header, &Container(b"dinf", &[&SelfContained]), &stbl]);
    let mdia = Container(b"mdia", &[&mdhd, &hdlr, &elng, &minf]);
    let trak = Container(b"trak", &[&tkhd, &Container(b"edts", &[&elst]), &mdia]);
    bytes_of(&Container(b"moov", &[&mvhd, &trak]))
}

/// Returns the folder of shared media files, if there is one: `LATEMUX_MEDIA`, or a folder beside
/// the repository or beside the folder that holds several checkouts of it.
pub(crate) fn media_folder() -> Option<PathBuf> {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let beside = ["../../../shared/media", "../../../../shared/media"].map(|path| manifest.join(path));
    let root = std::env::var_os("LATEMUX_MEDIA").map(PathBuf::from);
    root.or_else(|| beside.into_iter().find(|path| path.is_dir()))
}

/// Returns all shared media files by name. Prints a message if there are none.
pub(crate) fn media() -> Vec<(String, Bytes)> {
    let mut files = Vec::new();
    for folder in media_folder().iter().flat_map(|root| fs::read_dir(root).unwrap()) {
        let folder = folder.unwrap().path();
        for file in fs::read_dir(&folder).into_iter().flatten() {
            let path = file.unwrap().path();
            let name = format!(
                "{}/{}",
                folder.file_name().unwrap().to_string_lossy(),
                path.file_name().unwrap().to_string_lossy()
            );
            files.push((name, Bytes::from(fs::read(&path).unwrap())));
        }
    }
    files.sort();
    if files.is_empty() {
        println!("skipped: no media files");
    }
    files
}

/// Returns the top-level boxes of a file: type, offset and bytes. The walk ends at a box that
/// reaches beyond the file.
pub(crate) fn top_level(file: &Bytes) -> Vec<(FourCc, u64, Bytes)> {
    let boxes = Cursor::new(file, 0).boxes();
    boxes.map_while(Result::ok).map(|found| (found.kind(), found.offset, found.raw())).collect()
}
