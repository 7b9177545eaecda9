//! False sizes and counts, cut and damaged boxes. They give an error, never a panic, and no
//! allocation for a false count.

use crate::sample::{Raw, bytes_of, progressive_moov, scale};
use bytes::Bytes;
use latemux_isobmff::{
    Error,
    boxes::{
        elst::Edit,
        mfra::{Mfra, mfro_size},
        mvhd::Mvhd,
        sidx::Sidx,
        stsd::SampleEntry,
        stsz::SampleSizes,
        trex::Trex,
        trun::TrackRun,
    },
    cursor::Cursor,
    emit::{Container, EmitSample, FragmentSpec, InitSegment, WriteBox, fragment},
    fragment::Moof,
    header::BoxHeader,
    matrix::Matrix,
    movie::{Movie, Track},
};
use proptest::prelude::*;

/// Reads every entry of a `moov` and returns their number. Each entry must have bytes of its own.
fn exhaust(movie: &Movie) -> usize {
    let per_track = |track: &Track| {
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
    };
    movie.tracks.iter().flatten().map(per_track).sum()
}

fn read_moov(bytes: &Bytes) {
    if let Ok(movie) = Movie::parse(bytes, 0) {
        // The smallest entry is half a byte.
        assert!(exhaust(&movie) <= 2 * bytes.len());
    }
}

fn read_moof(bytes: &Bytes) {
    if let Ok(moof) = Moof::parse(bytes, 0) {
        let samples: usize = moof.tracks.iter().flat_map(|t| &t.runs).map(|run| run.iter().count()).sum();
        assert!(samples <= bytes.len() / 4 + TrackRun::MAX_BARE as usize);
    }
}

fn moof() -> Bytes {
    let samples: Vec<_> = (0..20)
        .map(|n| EmitSample { size: n, duration: n % 3, flags: n << 16, composition_offset: -1 })
        .collect();
    let spec = FragmentSpec {
        sequence: 1,
        track_id: 1,
        sample_description_index: Some(1),
        decode_time: 0,
        samples: &samples,
    };
    let mut out = Vec::new();
    fragment(&spec, &mut out).unwrap();
    out.into()
}

#[test]
fn a_box_cut_anywhere_is_an_error() {
    let moov = progressive_moov(20);
    let moof = moof();
    assert!(Movie::parse(&moov, 0).is_ok() && Moof::parse(&moof, 0).is_ok());
    for len in 0..moov.len() {
        assert!(Movie::parse(&moov.slice(..len), 0).is_err(), "{len}");
    }
    for len in 0..moof.len() - 8 {
        assert!(Moof::parse(&moof.slice(..len), 0).is_err(), "{len}");
    }
}

#[test]
fn every_32_bit_word_may_be_false() {
    for (original, read) in [(progressive_moov(20), read_moov as fn(&Bytes)), (moof(), read_moof)] {
        for at in 0..original.len() - 4 {
            for value in [0, 1, 7, 8, 9, 16, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fff8, u32::MAX] {
                let mut bytes = original.to_vec();
                bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
                read(&bytes.into());
            }
        }
    }
}

proptest! {
    #[test]
    fn damaged_boxes_are_read_without_panic(
        at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)
    ) {
        for (original, read) in [(progressive_moov(20), read_moov as fn(&Bytes)), (moof(), read_moof)] {
            let mut bytes = original.to_vec();
            for (index, value) in &at {
                let index = index.index(bytes.len());
                bytes[index] = *value;
            }
            read(&bytes.into());
        }
    }

    #[test]
    fn random_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = BoxHeader::read(&bytes, 0);
        let _ = mfro_size(&bytes);
        let bytes = Bytes::from(bytes);
        assert!(Cursor::new(&bytes, u64::MAX).boxes().count() <= bytes.len() / 8 + 1);
        for kind in [b"moov", b"moof", b"sidx", b"mfra"] {
            let mut boxed = 208u32.to_be_bytes().to_vec();
            boxed.extend(kind);
            boxed.extend(&bytes);
            boxed.resize(208, 0);
            let boxed = Bytes::from(boxed);
            read_moov(&boxed);
            read_moof(&boxed);
            let _ = Sidx::parse(&boxed, u64::MAX);
            let _ = Mfra::parse(&boxed, u64::MAX);
        }
    }
}

const MVHD: fn() -> Mvhd =
    || Mvhd { timescale: scale(1), duration: 0, matrix: Matrix::UNITY, next_track_id: 0 };

#[test]
fn numbers_of_boxes_and_entries_are_bounded() {
    let empty = Raw(b"trak", Vec::new());
    let mvhd = MVHD();
    let of = |traks: usize| {
        let mut children: Vec<&dyn WriteBox> = vec![&mvhd];
        children.extend(std::iter::repeat_n(&empty as &dyn WriteBox, traks));
        Movie::parse(&bytes_of(&Container(b"moov", &children)), 0)
    };
    assert_eq!(of(Movie::MAX_TRACKS).unwrap().tracks.len(), Movie::MAX_TRACKS);
    assert!(matches!(of(Movie::MAX_TRACKS + 1), Err(Error::OverLimit { limit: 1024, .. })));

    let trex = Trex::plain(1);
    let trexes: Vec<&dyn WriteBox> = std::iter::repeat_n(&trex as &dyn WriteBox, 1025).collect();
    let moov = bytes_of(&Container(b"moov", &[&mvhd, &Container(b"mvex", &trexes)]));
    assert!(matches!(Movie::parse(&moov, 0), Err(Error::OverLimit { limit: 1024, .. })));

    let mut payload = b"\0\0\0\0\0\0\0\x41".to_vec();
    payload.extend(std::iter::repeat_n(*b"\0\0\0\x10mp4a\0\0\0\0\0\0\0\x01", 65).flatten());
    let stsd = Bytes::from(payload);
    let error = SampleEntry::parse_list(Cursor::new(&stsd, 0)).unwrap_err();
    assert!(matches!(error, Error::OverLimit { value: 65, limit: 64, .. }));

    let mut payload = b"\0\0\0\0\0\0\x10\x01".to_vec();
    payload.resize(8 + 4097 * 12, 0);
    let elst = Bytes::from(payload);
    assert!(matches!(Edit::parse_list(Cursor::new(&elst, 0)), Err(Error::OverLimit { limit: 4096, .. })));
}

#[test]
fn samples_without_fields_are_bounded_over_the_whole_moof() {
    let mfhd = Raw(b"mfhd", vec![0; 8]);
    let tfhd = Raw(b"tfhd", vec![0; 8]);
    let half = Raw(b"trun", vec![0, 0, 0, 0, 0, 0, 0x80, 0]);
    let moof = |runs: usize| {
        let mut traf: Vec<&dyn WriteBox> = vec![&tfhd];
        traf.extend(std::iter::repeat_n(&half as &dyn WriteBox, runs));
        Moof::parse(&bytes_of(&Container(b"moof", &[&mfhd, &Container(b"traf", &traf)])), 0)
    };
    let samples: usize = moof(2).unwrap().tracks[0].runs.iter().map(|run| run.iter().count()).sum();
    assert_eq!(samples, 65_536);
    assert!(matches!(moof(3), Err(Error::OverLimit { limit: 65_536, .. })));
    let false_count = Bytes::from_static(b"\0\0\0\0\0\x01\0\x01");
    let error = TrackRun::parse(Cursor::new(&false_count, 0));
    assert!(matches!(error, Err(Error::OverLimit { value: 65_537, .. })));
}

#[test]
fn an_error_in_one_track_leaves_the_others_readable() {
    let good = progressive_moov(5);
    let trak = |bytes: &Bytes| {
        let moov = Cursor::new(bytes, 0).find(b"moov").unwrap().payload;
        moov.find(b"trak").unwrap().payload.rest().to_vec()
    };
    let spoil = |from: &[u8], to: &[u8]| {
        let mut bytes = trak(&good);
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        bytes[at..at + from.len()].copy_from_slice(to);
        bytes
    };
    // The same ID, a zero timescale, an absent table, a false count, an absent header, a box that
    // does not fit.
    let spoilt = [
        (trak(&good), "moov/trak at byte 2082: track_ID is not unique"),
        (spoil(b"\0\0\0\0\0\0\0\0\0\x01\x5f\x90", &[0; 12]), "timescale is 0"),
        (spoil(b"stsc", b"free"), "moov/trak/mdia/minf/stbl: no 'stsc' box"),
        (spoil(b"stss\0\0\0\0\0\0\0\x05", b"stss\0\0\0\0\0\0\0\x06"), "entry_count is 6, more than 5"),
        (spoil(b"mdhd", b"mdhe"), "moov/trak/mdia: no 'mdhd' box"),
        (spoil(b"\0\0\0\x20mdhd", b"\0\xff\0\x20mdhd"), "moov/trak/mdia/mdhd at byte"),
    ];
    let mvhd = MVHD();
    let first = Raw(b"trak", trak(&good));
    for (bad, expected) in spoilt {
        let bad = Raw(b"trak", bad);
        let movie = Movie::parse(&bytes_of(&Container(b"moov", &[&mvhd, &first, &bad])), 1000).unwrap();
        assert!(movie.tracks[0].is_ok());
        let error = movie.tracks[1].as_ref().unwrap_err();
        assert_eq!(error.id, Some(1));
        let text = error.to_string();
        let expected = if expected.contains("unique") { "track_ID is not unique" } else { expected };
        assert!(text.contains(expected), "{text} should say: {expected}");
    }
    let headless = Raw(b"trak", spoil(b"tkhd", b"tkhe"));
    let movie = Movie::parse(&bytes_of(&Container(b"moov", &[&mvhd, &headless, &first])), 0).unwrap();
    assert_eq!(movie.tracks[0].as_ref().unwrap_err().to_string(), "track ?: moov/trak: no 'tkhd' box");
    assert!(movie.tracks[1].is_ok());
}

#[test]
fn a_fragmented_movie_may_leave_out_its_tables() {
    let init = InitSegment::cmaf(crate::emit::track(b"soun", "eng"), Some(5)).to_bytes();
    let (_, offset, moov) = crate::sample::top_level(&init).remove(1);
    for table in [b"stts", b"stsz", b"stsc", b"stco"] {
        let mut bytes = moov.to_vec();
        let at = bytes.windows(4).position(|window| window == table).unwrap();
        bytes[at..at + 4].copy_from_slice(b"free");
        let movie = Movie::parse(&Bytes::from(bytes.clone()), offset).unwrap();
        assert!(movie.tracks[0].is_ok(), "{:?}", movie.tracks[0]);
        // Without `mvex` the file is progressive and lacks a table.
        let at = bytes.windows(4).position(|window| window == b"mvex").unwrap();
        bytes[at..at + 4].copy_from_slice(b"free");
        let movie = Movie::parse(&bytes.into(), offset).unwrap();
        assert!(matches!(movie.tracks[0].as_ref().unwrap_err().error, Error::Missing { .. }));
    }
}

#[test]
fn an_error_states_its_offset_in_the_file() {
    let moov = progressive_moov(5);
    let at = moov.windows(4).position(|window| window == b"mdhd").unwrap();
    let mut bytes = moov.to_vec();
    bytes[at + 4] = 9; // version
    let movie = Movie::parse(&bytes.into(), 1_000_000).unwrap();
    let error = movie.tracks[0].as_ref().unwrap_err();
    let offset = 1_000_000 + at + 4;
    assert_eq!(
        error.to_string(),
        format!("track 1: moov/trak/mdia/mdhd at byte {offset}: unsupported version")
    );
}
