//! Boxes that are written and read back equal, one by one.

use crate::sample::{bytes_of, payload, progressive_moov, sample_entry, scale};
use bytes::{BufMut, Bytes};
use latemux_isobmff::{
    FourCc,
    boxes::{
        ctts::{self, CompositionOffsets},
        dref::{self, DataReference, External, SelfContained},
        elst::{Edit, EditList},
        ftyp::FileType,
        hdlr::Hdlr,
        mdhd::{Elng, Language, Mdhd},
        mfhd::Mfhd,
        minf::MediaHeader,
        mvhd::Mvhd,
        sidx::{Reference, Sidx},
        stco::ChunkOffsets,
        stsc::{self, SamplesToChunks},
        stsd::{SampleEntry, Stsd},
        stss::SyncSamples,
        stsz::SampleSizes,
        stts::{self, TimeToSamples},
        tfdt::Tfdt,
        tfhd::Tfhd,
        tkhd::Tkhd,
        trex::Trex,
        trun::{TrackRun, TrunSample},
    },
    cursor::Cursor,
    matrix::Matrix,
    movie::Movie,
};
use proptest::prelude::*;
use std::fmt::Debug;

/// Writes a box and asserts that `read` returns it.
fn reads_back<B>(written: &B, read: impl Fn(Cursor<'_>) -> Result<B, latemux_isobmff::Error>)
where
    B: latemux_isobmff::emit::WriteBox + PartialEq + Debug,
{
    let bytes = bytes_of(written);
    assert_eq!(&read(payload(&bytes)).unwrap(), written);
    // A box that is cut anywhere must not panic, and an empty one is an error.
    for len in 8..bytes.len() {
        let mut cut = bytes.slice(8..len);
        let _ = read(Cursor::new(&cut, 0));
        cut.clear();
        assert!(read(Cursor::new(&cut, 0)).is_err());
    }
}

#[test]
fn fixed_boxes_read_back_equal() {
    // In these numbers 32 ones are a value, but in version 0 they mean "unknown".
    for large in [0, u64::from(u32::MAX), u64::from(u32::MAX) + 1] {
        let language = Language::new("nor").unwrap();
        let matrix = Matrix([0, -0x1_0000, 0, 0x2_0000, 0, 0, 5, 6, 0x4000_0000]);
        reads_back(&Mvhd { timescale: scale(600), duration: large, matrix, next_track_id: 9 }, Mvhd::parse);
        reads_back(&Mdhd { timescale: scale(1), duration: large, language }, Mdhd::parse);
        reads_back(&Tfdt(large), Tfdt::parse);
        let tkhd = Tkhd {
            id: 5,
            enabled: large == 0,
            duration: large,
            alternate_group: -2,
            volume: 0x100,
            matrix,
            display_size: (0x1234_5678, 2),
        };
        reads_back(&tkhd, Tkhd::parse);
    }
    reads_back(&Hdlr(FourCc(*b"soun")), Hdlr::parse);
    reads_back(&Mfhd(77), Mfhd::parse);
    reads_back(
        &Trex { track_id: 1, sample_description_index: 2, duration: 3, size: 4, flags: 5 },
        Trex::parse,
    );
    for is_segment in [false, true] {
        let compatible = vec![FourCc(*b"iso6"), FourCc(*b"cmfc")];
        let written = FileType { major: FourCc(*b"cmfc"), minor_version: 3, compatible, is_segment };
        let kind = latemux_isobmff::emit::WriteBox::kind(&written);
        reads_back(&written, |payload| FileType::parse(payload, kind));
    }
}

#[test]
fn boxes_written_from_borrowed_parts_read_back_equal() {
    let tag = Language::new("zh-Hant").unwrap();
    let elng = bytes_of(&Elng(&tag));
    assert_eq!(Language::parse_elng(payload(&elng)).unwrap(), Some(tag));

    let dref = bytes_of(&SelfContained);
    assert_eq!(dref::parse(payload(&dref)).unwrap(), [DataReference::SelfContained]);
    let url = DataReference::Url("a/b%20c.mp4".into());
    let alias = DataReference::Other(FourCc(*b"alis"));
    for (entries, read) in [(1, vec![&url, &alias]), (2, vec![&url, &url, &alias, &alias])] {
        let dref = bytes_of(&External { location: "a/b%20c.mp4", path: Some("a/b c.mp4"), entries });
        assert_eq!(dref::parse(payload(&dref)).unwrap().iter().collect::<Vec<_>>(), read);
    }
    let dref = bytes_of(&External { location: "http://h/a.mp4", path: None, entries: 1 });
    assert_eq!(dref::parse(payload(&dref)).unwrap(), [DataReference::Url("http://h/a.mp4".into())]);

    for (handler, kind, size) in
        [(b"vide", "vmhd", 20), (b"soun", "smhd", 16), (b"subt", "sthd", 12), (b"text", "nmhd", 12)]
    {
        let bytes = bytes_of(&MediaHeader { handler: FourCc(*handler) });
        assert_eq!((&bytes[4..8], bytes.len()), (kind.as_bytes(), size));
    }

    let entries = [sample_entry(b"mp4a", b"one"), sample_entry(b"ac-3", b"")];
    let stsd = bytes_of(&Stsd(&entries));
    assert_eq!(SampleEntry::parse_list(payload(&stsd)).unwrap(), entries);
}

#[test]
fn a_sample_entry_is_adapted_to_its_new_file() {
    // The source has a 64-bit size, or one that means "to the end", and the second data reference.
    let mut wide = b"\0\0\0\x01avc1\0\0\0\0\0\0\0\x1c\0\0\0\0\0\0\0\x02".to_vec();
    wide.put_slice(b"body");
    let open = b"\0\0\0\0avc1\0\0\0\0\0\0\0\x02body".to_vec();
    for raw in [wide, open] {
        let entry = SampleEntry { format: FourCc(*b"avc1"), data_reference_index: 2, raw: raw.into() };
        let stsd = bytes_of(&Stsd(&[entry]));
        assert_eq!(SampleEntry::parse_list(payload(&stsd)).unwrap(), [sample_entry(b"avc1", b"body")]);
    }
}

#[test]
fn a_whole_movie_reads_back_equal() {
    let movie = Movie::parse(&progressive_moov(20), 0).unwrap();
    assert_eq!(movie.timescale, scale(1000));
    assert!(movie.fragments.is_none());
    let track = movie.tracks[0].as_ref().unwrap();
    assert_eq!((track.id, track.enabled, track.alternate_group), (1, true, -3));
    assert_eq!((track.handler, track.timescale), (FourCc(*b"vide"), scale(90_000)));
    assert_eq!(track.language.as_str(), "pt-BR");
    assert_eq!(track.display_size, (640 << 16, 360 << 16));
    assert_eq!(track.edits.iter().map(|edit| edit.media_time).collect::<Vec<_>>(), [None, Some(1024)]);
    assert_eq!(track.data_references, [DataReference::SelfContained]);
    assert_eq!(track.sample_entries, [sample_entry(b"avc1", &[7; 70])]);
    let tables = &track.tables;
    assert_eq!(tables.stts.iter().collect::<Vec<_>>(), [stts::Run { count: 20, delta: 3000 }]);
    assert_eq!(tables.ctts.as_ref().unwrap().iter().next(), Some(ctts::Run { count: 20, offset: -5 }));
    assert_eq!(tables.stsz.iter().collect::<Vec<_>>(), (100..120).collect::<Vec<_>>());
    assert_eq!(tables.stco.iter().collect::<Vec<_>>(), [0, 1 << 30, 2 << 30, 3 << 30]);
    assert_eq!(tables.stss.as_ref().unwrap().iter().len(), 20);
}

#[test]
fn chunk_offsets_use_64_bits_only_if_needed() {
    let last = u64::from(u32::MAX);
    for (offsets, kind) in [(vec![0, last], "stco"), (vec![0, last + 1], "co64"), (vec![], "stco")] {
        let table: ChunkOffsets = offsets.iter().copied().collect();
        assert_eq!(latemux_isobmff::emit::WriteBox::kind(&table).to_string(), kind);
        reads_back(&table, |payload| ChunkOffsets::parse(payload, kind == "co64"));
        assert_eq!(table.iter().collect::<Vec<_>>(), offsets);
        assert_eq!(table.count(), offsets.len());
    }
}

/// Returns a `trun` payload with exactly the given flags.
fn trun(flags: u32, version: u8, data_offset: i32, first: u32, samples: &[[u32; 4]]) -> Bytes {
    let mut out = Vec::new();
    out.put_u32(u32::from(version) << 24 | flags);
    out.put_u32(u32::try_from(samples.len()).unwrap());
    if flags & 1 != 0 {
        out.put_i32(data_offset);
    }
    if flags & 4 != 0 {
        out.put_u32(first);
    }
    for sample in samples {
        for (field, value) in sample.iter().enumerate() {
            if flags & 0x100 << field != 0 {
                out.put_u32(*value);
            }
        }
    }
    out.into()
}

#[test]
fn trun_with_any_flags_is_read() {
    let samples = [[1, 2, 3, 4], [5, 6, 7, u32::MAX], [8, 9, 10, 11]];
    for bits in 0..64u32 {
        let flags = bits & 1 | (bits & 2) << 1 | (bits >> 2) << 8;
        for version in 0..2 {
            let bytes = trun(flags, version, -7, 99, &samples);
            let run = TrackRun::parse(Cursor::new(&bytes, 0)).unwrap();
            assert_eq!(run.data_offset, (flags & 1 != 0).then_some(-7), "{flags:#x}");
            assert_eq!(run.first_sample_flags, (flags & 4 != 0).then_some(99), "{flags:#x}");
            assert_eq!(run.is_bare(), flags & 0xf00 == 0);
            let expected = samples.iter().enumerate().map(|(index, sample)| {
                let field = |n: usize| (flags & 0x100 << n != 0).then(|| sample[n]);
                let first = (index == 0 && flags & 4 != 0).then_some(99);
                TrunSample {
                    duration: field(0),
                    size: field(1),
                    flags: field(2).or(first),
                    composition_offset: field(3).map_or(0, u32::cast_signed),
                }
            });
            assert_eq!(run.iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{flags:#x}");
            assert_eq!(run.iter().len(), 3);
            if flags & 0xf00 != 0 {
                let short = bytes.slice(..bytes.len() - 1);
                assert!(TrackRun::parse(Cursor::new(&short, 0)).is_err(), "{flags:#x} cut");
            }
        }
    }
}

#[test]
fn tfhd_with_any_flags_reads_back_equal() {
    for bits in 0..128u32 {
        let some = |bit: u32| bits >> bit & 1 != 0;
        let tfhd = Tfhd {
            track_id: 3,
            base_data_offset: some(0).then_some(u64::MAX - 1),
            sample_description_index: some(1).then_some(11),
            default_duration: some(2).then_some(12),
            default_size: some(3).then_some(13),
            default_flags: some(4).then_some(14),
            duration_is_empty: some(5),
            default_base_is_moof: some(6),
        };
        reads_back(&tfhd, Tfhd::parse);
    }
}

proptest! {
    #[test]
    fn stts_reads_back_equal(runs in prop::collection::vec(any::<(u32, u32)>(), 0..50)) {
        let table: TimeToSamples = runs.iter().map(|&(count, delta)| stts::Run { count, delta }).collect();
        reads_back(&table, TimeToSamples::parse);
        prop_assert_eq!(table.iter().map(|run| (run.count, run.delta)).collect::<Vec<_>>(), runs);
    }

    #[test]
    fn ctts_reads_back_equal(runs in prop::collection::vec(any::<(u32, i32)>(), 0..50)) {
        let table: CompositionOffsets =
            runs.iter().map(|&(count, offset)| ctts::Run { count, offset }).collect();
        reads_back(&table, CompositionOffsets::parse);
        prop_assert_eq!(table.iter().map(|run| (run.count, run.offset)).collect::<Vec<_>>(), runs);
    }

    #[test]
    fn stsc_reads_back_equal(runs in prop::collection::vec(any::<(u32, u32, u32)>(), 0..50)) {
        let table: SamplesToChunks = runs
            .iter()
            .map(|&(first_chunk, samples_per_chunk, sample_description_index)| stsc::Run {
                first_chunk, samples_per_chunk, sample_description_index,
            })
            .collect();
        reads_back(&table, SamplesToChunks::parse);
        let read = table.iter().map(|r| (r.first_chunk, r.samples_per_chunk, r.sample_description_index));
        prop_assert_eq!(read.collect::<Vec<_>>(), runs);
    }

    #[test]
    fn stss_and_stsz_read_back_equal(numbers in prop::collection::vec(any::<u32>(), 0..50)) {
        let syncs: SyncSamples = numbers.iter().copied().collect();
        reads_back(&syncs, SyncSamples::parse);
        prop_assert_eq!(&syncs.iter().collect::<Vec<_>>(), &numbers);
        let sizes: SampleSizes = numbers.iter().copied().collect();
        reads_back(&sizes, SampleSizes::parse_stsz);
        prop_assert_eq!(&sizes.iter().collect::<Vec<_>>(), &numbers);
    }

    #[test]
    fn stz2_reads_back_equal(bits in prop::sample::select(vec![4u8, 8, 16]),
                                numbers in prop::collection::vec(any::<u16>(), 0..50)) {
        let numbers: Vec<u16> = numbers.iter().map(|n| n & u16::MAX >> (16 - bits)).collect();
        let entries: Bytes = match bits {
            4 => numbers.chunks(2).map(|p| (p[0] << 4 | p.get(1).unwrap_or(&0)) as u8).collect(),
            8 => numbers.iter().map(|&n| n as u8).collect(),
            _ => numbers.iter().flat_map(|n| n.to_be_bytes()).collect(),
        };
        let count = u32::try_from(numbers.len()).unwrap();
        let sizes = SampleSizes::Table { bits, count, entries };
        reads_back(&sizes, SampleSizes::parse_stz2);
        prop_assert_eq!(sizes.iter().map(|n| n as u16).collect::<Vec<_>>(), numbers);
    }

    #[test]
    fn constant_sizes_read_back_equal(size in 1..=u32::MAX, count: u32) {
        reads_back(&SampleSizes::Constant { size, count }, SampleSizes::parse_stsz);
    }

    #[test]
    fn edit_lists_read_back_equal(edits in prop::collection::vec(
        (any::<u64>(), any::<Option<u64>>(), any::<u32>(), 0..40u32), 0..20)) {
        let edits: Vec<Edit> = edits.iter().map(|&(duration, media_time, rate, shift)| Edit {
            duration: duration >> shift, media_time: media_time.map(|t| (t >> 1) >> shift), rate,
        }).collect();
        let bytes = bytes_of(&EditList(&edits));
        prop_assert_eq!(Edit::parse_list(payload(&bytes)).unwrap(), edits);
    }

    #[test]
    fn segment_indexes_read_back_equal(
        reference_id: u32, timescale in 1..=u32::MAX, time: u64, offset: u64, shift in 0..40u32,
        references in prop::collection::vec(
            (any::<bool>(), 0..=Reference::MAX_SIZE, any::<u32>(), any::<bool>(), 0..8u8,
             0..=Reference::MAX_SAP_DELTA),
            0..30,
        ),
    ) {
        let references = references.iter();
        let references = references.map(|&(is_index, size, duration, starts_with_sap, sap_type, sap_delta)| {
            Reference { is_index, size, duration, starts_with_sap, sap_type, sap_delta }
        }).collect();
        let sidx = Sidx {
            reference_id, timescale: scale(timescale), earliest_presentation_time: time >> shift,
            first_offset: offset >> shift, references,
        };
        prop_assert_eq!(Sidx::parse(&bytes_of(&sidx), 0).unwrap(), sidx);
    }
}
