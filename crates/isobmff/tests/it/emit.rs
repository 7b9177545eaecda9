//! Boxes, init segments and fragments that this crate writes, read back by it and by mp4-atom.

use crate::sample::{bytes_of, sample_entry, scale, top_level};
use bytes::Bytes;
use latemux_isobmff::{
    Error, FourCc,
    boxes::{
        ftyp::FileType,
        mdhd::Language,
        sidx::{Reference, Sidx},
        trex::Trex,
    },
    cursor::Cursor,
    emit::{
        self, EmitSample, FragmentSpec, InitSegment, InitTrack, WriteBox, fragment::MAX_SAMPLES,
        fragment_size,
    },
    fragment::Moof,
    header::BoxRef,
    matrix::Matrix,
    movie::Movie,
    sample_flags::{NON_SYNC, SYNC},
};
use mp4_atom::Decode;
use proptest::prelude::*;

pub(crate) fn track(handler: &[u8; 4], language: &str) -> InitTrack {
    InitTrack {
        track_id: 2,
        handler: FourCc(*handler),
        timescale: scale(48_000),
        language: Language::new(language).unwrap(),
        enabled: true,
        alternate_group: 0,
        matrix: Matrix([0, 0x1_0000, 0, -0x1_0000, 0, 0, 0x00f0_0000, 0, 0x4000_0000]),
        display_size: (0x0140_0000, 0x00f0_8000),
        sample_entries: vec![sample_entry(b"zzzz", b"some configuration")],
        edit_media_time: 0,
        trex: Trex::plain(2),
    }
}

#[test]
fn an_init_segment_reads_back_equal() {
    for (handler, language, edit) in [
        (b"vide", "eng", 1024u64),
        (b"soun", "und", 0),
        (b"subt", "sr-Latn", 0),
        (b"text", "de", u64::from(u32::MAX)),
    ] {
        let written = InitTrack { edit_media_time: edit, ..track(handler, language) };
        let segment = InitSegment::cmaf(written.clone(), Some(77));
        let bytes = segment.to_bytes();
        assert_eq!(bytes.len() as u64, segment.size());
        let boxes = top_level(&bytes);
        let [(ftyp, _, ftyp_bytes), (_, offset, moov)] = &boxes[..] else { panic!("{boxes:?}") };

        let payload = Cursor::new(ftyp_bytes, 0).find(b"ftyp").unwrap().payload;
        let brands = FileType::parse(payload, *ftyp).unwrap();
        assert_eq!(brands.major, FourCc(*b"cmfc"));
        assert!(brands.compatible.contains(&FourCc(*b"iso6")));
        assert_eq!(brands.compatible.contains(&FourCc(*b"cmf2")), handler != b"vide");

        let movie = Movie::parse(moov, *offset).unwrap();
        assert_eq!(movie.timescale, scale(48_000));
        assert_eq!(movie.fragments.as_deref(), Some(&[Trex::plain(2)][..]));
        let read = movie.tracks[0].as_ref().unwrap();
        assert_eq!((read.id, read.enabled, read.handler), (2, true, FourCc(*handler)));
        assert_eq!(read.timescale, scale(48_000));
        assert_eq!((&read.language, read.matrix), (&written.language, written.matrix));
        assert_eq!(read.display_size, written.display_size);
        assert_eq!(read.sample_entries, written.sample_entries);
        let starts: Vec<_> = read.edits.iter().map(|edit| edit.media_time).collect();
        assert_eq!(starts, if edit == 0 { vec![] } else { vec![Some(edit)] });
        assert_eq!(read.tables.stts.iter().len() + read.tables.stco.count(), 0);
        assert_eq!(read.tables.stsz.count(), 0);
        let elng = bytes.windows(4).any(|window| window == b"elng");
        assert_eq!(elng, language.len() != 3);
    }
}

#[test]
fn mp4_atom_reads_an_init_segment() {
    for (handler, language, edit) in [(b"vide", "fra", 1024u64), (b"soun", "sr-Latn", 0)] {
        let bytes = InitSegment::cmaf(
            InitTrack { edit_media_time: edit, ..track(handler, language) },
            Some(5_000_000_000),
        )
        .to_bytes();
        let mut rest = &bytes[..];
        let ftyp = mp4_atom::Ftyp::decode(&mut rest).unwrap();
        assert_eq!(ftyp.major_brand, mp4_atom::FourCC::new(b"cmfc"));
        let moov = mp4_atom::Moov::decode(&mut rest).unwrap();
        assert!(rest.is_empty());
        assert_eq!((moov.mvhd.timescale, moov.mvhd.next_track_id), (48_000, 3));
        let mvex = moov.mvex.unwrap();
        assert_eq!(mvex.mehd.unwrap().fragment_duration, 5_000_000_000);
        assert_eq!((mvex.trex[0].track_id, mvex.trex[0].default_sample_description_index), (2, 1));
        let trak = &moov.trak[0];
        assert!(trak.tkhd.enabled && trak.tkhd.in_movie);
        assert_eq!((trak.tkhd.track_id, trak.tkhd.width.integer()), (2, 320));
        assert_eq!((trak.tkhd.height.integer(), trak.tkhd.height.decimal()), (240, 0x8000));
        assert_eq!(trak.tkhd.volume.integer(), u8::from(handler == b"soun"));
        assert_eq!(trak.mdia.mdhd.language, if language.len() == 3 { language } else { "und" });
        assert_eq!(trak.mdia.hdlr.handler, mp4_atom::FourCC::new(handler));
        assert_eq!(trak.mdia.minf.vmhd.is_some(), handler == b"vide");
        assert_eq!(trak.mdia.minf.smhd.is_some(), handler == b"soun");
        let entries = trak.edts.iter().filter_map(|edts| edts.elst.as_ref()).flat_map(|elst| &elst.entries);
        let starts: Vec<_> = entries.map(|entry| (entry.media_time, entry.media_rate.integer())).collect();
        assert_eq!(starts, if edit == 0 { vec![] } else { vec![(Some(1024), 1)] });
        let stbl = &trak.mdia.minf.stbl;
        assert_eq!(stbl.stsd.codecs.len(), 1);
        assert!(stbl.stts.entries.is_empty() && stbl.stsc.entries.is_empty());
    }
}

fn spec(samples: &[EmitSample]) -> FragmentSpec<'_> {
    FragmentSpec {
        sequence: 4,
        track_id: 2,
        sample_description_index: None,
        decode_time: u64::from(u32::MAX) + 5,
        samples,
    }
}

fn write(spec: &FragmentSpec<'_>) -> Bytes {
    let mut out = Vec::new();
    emit::fragment(spec, &mut out).unwrap();
    assert_eq!(out.len() as u64, fragment_size(spec).unwrap().head());
    out.into()
}

#[test]
fn values_that_samples_share_are_written_once() {
    let same = EmitSample { size: 10, duration: 1024, flags: SYNC, composition_offset: 0 };
    let bare = write(&spec(&[same; 100]));
    let moof = Moof::parse(&bare, 0).unwrap();
    let traf = &moof.tracks[0];
    assert_eq!(
        (traf.default_duration, traf.default_size, traf.default_flags),
        (Some(1024), Some(10), Some(SYNC))
    );
    assert!(traf.runs[0].is_bare() && traf.runs[0].first_sample_flags.is_none());
    assert_eq!((moof.sequence, traf.decode_time), (4, Some(u64::from(u32::MAX) + 5)));
    assert!(traf.default_base_is_moof && traf.base_data_offset.is_none() && !traf.encrypted);

    // A key frame and samples that depend on it: two flags, and a size for each sample.
    let mut gop = [EmitSample { flags: NON_SYNC, ..same }; 100];
    gop[0] = EmitSample { flags: SYNC, size: 11, ..same };
    let bytes = write(&spec(&gop));
    assert_eq!(bytes.len(), bare.len() - 4 + 4 + 400);
    let moof = Moof::parse(&bytes, 0).unwrap();
    assert_eq!(moof.tracks[0].default_flags, Some(NON_SYNC));
    assert_eq!(moof.tracks[0].runs[0].first_sample_flags, Some(SYNC));

    // A second key frame in the middle: flags for each sample, and none elsewhere.
    gop[50].flags = SYNC;
    let bytes = write(&spec(&gop));
    let moof = Moof::parse(&bytes, 0).unwrap();
    assert_eq!((moof.tracks[0].default_flags, moof.tracks[0].runs[0].first_sample_flags), (None, None));
}

#[test]
fn negative_offsets_make_a_trun_version_1() {
    let version_and_flags = |offsets: [i32; 2]| {
        let samples =
            offsets.map(|composition_offset| EmitSample { composition_offset, ..EmitSample::default() });
        let bytes = write(&spec(&samples));
        let at = bytes.windows(4).position(|window| window == b"trun").unwrap();
        (bytes[at + 4], u32::from_be_bytes([0, bytes[at + 5], bytes[at + 6], bytes[at + 7]]))
    };
    assert_eq!(version_and_flags([0, 0]), (0, 0x001));
    assert_eq!(version_and_flags([0, 1]), (0, 0x801));
    assert_eq!(version_and_flags([0, -1]), (1, 0x801));
}

#[test]
fn an_mdat_of_4_gib_has_a_64_bit_size() {
    let last_narrow = u32::MAX - 8;
    for (sizes, header) in [([last_narrow, 0], 8), ([last_narrow, 1], 16), ([u32::MAX, u32::MAX], 16)] {
        let samples = sizes.map(|size| EmitSample { size, ..EmitSample::default() });
        let spec = spec(&samples);
        let size = fragment_size(&spec).unwrap();
        assert_eq!(size.mdat_header, header);
        assert_eq!(size.media, sizes.iter().copied().map(u64::from).sum::<u64>());
        let bytes = write(&spec);
        let mdat =
            latemux_isobmff::header::BoxHeader::read(&bytes[size.moof as usize..], 0).unwrap().unwrap();
        assert_eq!(mdat.size, Some(size.mdat_header + size.media));
        let moof = Moof::parse(&bytes, 0).unwrap();
        assert_eq!(moof.tracks[0].runs[0].data_offset.map(i64::from), i64::try_from(size.head()).ok());
    }
}

#[test]
fn too_many_samples_are_refused_before_anything_is_written() {
    let samples = vec![EmitSample::default(); MAX_SAMPLES + 1];
    let mut out = Vec::new();
    assert!(matches!(emit::fragment(&spec(&samples), &mut out), Err(Error::TooLarge { .. })));
    assert!(out.is_empty());
    assert!(fragment_size(&spec(&samples[1..])).is_ok());
}

#[test]
fn mp4_atom_reads_segment_types_and_segment_indexes() {
    let styp = bytes_of(&emit::segment_type(&[FourCc(*b"msdh"), FourCc(*b"cmfs")]));
    let read = mp4_atom::Styp::decode(&mut &styp[..]).unwrap();
    assert_eq!(read.major_brand, mp4_atom::FourCC::new(b"msdh"));
    assert_eq!(read.compatible_brands.len(), 2);

    for time in [7, 1 << 40] {
        let reference = Reference {
            is_index: false,
            size: 500,
            duration: 90_000,
            starts_with_sap: true,
            sap_type: 1,
            sap_delta: 0,
        };
        let sidx = Sidx {
            reference_id: 1,
            timescale: scale(90_000),
            earliest_presentation_time: time,
            first_offset: 3,
            references: vec![reference, Reference { is_index: true, sap_type: 7, ..reference }],
        };
        let bytes = bytes_of(&sidx);
        let read = mp4_atom::Sidx::decode(&mut &bytes[..]).unwrap();
        assert_eq!((read.timescale, read.earliest_presentation_time, read.first_offset), (90_000, time, 3));
        assert_eq!(
            (read.references[0].referenced_size, read.references[0].subsegment_duration),
            (500, 90_000)
        );
        assert!(read.references[1].reference_type && read.references[1].starts_with_sap);
        assert_eq!(read.references[1].sap_type, 7);
    }
}

/// Generates samples whose fields are often equal.
fn samples() -> impl Strategy<Value = Vec<EmitSample>> {
    let few = |values: Vec<u32>| prop::sample::select(values);
    let one = (few(vec![0, 9, 1 << 20]), few(vec![1, 2]), few(vec![SYNC, NON_SYNC, 0]), -1..2i32);
    let one = one.prop_map(|(size, duration, flags, composition_offset)| EmitSample {
        size,
        duration,
        flags,
        composition_offset,
    });
    prop_oneof![
        prop::collection::vec(one.clone(), 0..6),
        (one.clone(), one, 0..50usize).prop_map(|(first, rest, count)| {
            std::iter::once(first).chain(std::iter::repeat_n(rest, count)).collect()
        }),
    ]
}

proptest! {
    #[test]
    fn a_fragment_reads_back_equal_here_and_in_mp4_atom(
        samples in samples(), sequence: u32, decode_time: u64, description in prop::option::of(1..5u32)
    ) {
        let spec = FragmentSpec {
            sequence, track_id: 9, sample_description_index: description, decode_time, samples: &samples
        };
        let bytes = write(&spec);
        let size = fragment_size(&spec).unwrap();

        let moof = Moof::parse(&bytes, 0).unwrap();
        prop_assert_eq!((moof.sequence, moof.tracks.len()), (sequence, 1));
        let traf = &moof.tracks[0];
        prop_assert_eq!((traf.track_id, traf.decode_time), (9, Some(decode_time)));
        prop_assert_eq!(traf.sample_description_index, description);
        prop_assert_eq!(traf.runs.len(), 1);
        prop_assert_eq!(traf.runs[0].data_offset.map(i64::from), i64::try_from(size.head()).ok());
        let ours: Vec<_> = traf.runs[0].iter().map(|sample| EmitSample {
            size: sample.size.or(traf.default_size).unwrap(),
            duration: sample.duration.or(traf.default_duration).unwrap(),
            flags: sample.flags.or(traf.default_flags).unwrap(),
            composition_offset: sample.composition_offset,
        }).collect();
        prop_assert_eq!(&ours, &samples);

        let theirs = mp4_atom::Moof::decode(&mut &bytes[..size.moof as usize]).unwrap();
        let traf = &theirs.traf[0];
        prop_assert!(traf.tfhd.default_base_is_moof && traf.tfhd.base_data_offset.is_none());
        prop_assert_eq!(traf.tfdt.as_ref().unwrap().base_media_decode_time, decode_time);
        let theirs: Vec<_> = traf.trun[0].samples.iter().map(|sample| EmitSample {
            size: sample.size.or(traf.tfhd.default_sample_size).unwrap(),
            duration: sample.duration.or(traf.tfhd.default_sample_duration).unwrap(),
            flags: sample.flags.or(traf.tfhd.default_sample_flags).unwrap(),
            composition_offset: sample.cts.map_or(0, |cts| i32::try_from(cts).unwrap()),
        }).collect();
        prop_assert_eq!(&theirs, &samples);
    }
}

#[test]
fn only_audio_and_text_have_the_stricter_cmaf_brand() {
    assert_eq!(emit::cmaf_brands(FourCc(*b"vide")).size(), 24);
    assert_eq!(emit::cmaf_brands(FourCc(*b"soun")).size(), 28);
}

/// Returns the box types in `moof/traf` in order, and the payload of the last box.
fn children_of_traf(moof: &Bytes) -> (Vec<FourCc>, Bytes) {
    let traf = Cursor::new(moof, 0).find(b"moof").unwrap().payload.find(b"traf").unwrap();
    let children: Vec<_> = traf.payload.boxes().map(Result::unwrap).collect();
    let mut last = children.last().unwrap().payload.clone();
    (children.iter().map(BoxRef::kind).collect(), last.rest())
}

#[test]
fn a_smooth_fragment_states_its_time_and_duration_behind_the_run() {
    let samples = [
        EmitSample { size: 7, duration: 333_333, flags: SYNC, composition_offset: 0 },
        EmitSample { size: 9, duration: 333_334, flags: NON_SYNC, composition_offset: 5 },
    ];
    let spec = spec(&samples);
    let mut out = Vec::new();
    emit::smooth_fragment(&spec, 666_667, None, &mut out).unwrap();
    let size = emit::smooth_fragment_size(&spec).unwrap();
    assert_eq!((out.len() as u64, size.media), (size.head(), 16));
    let moof = Bytes::from(out).slice(..usize::try_from(size.moof).unwrap());
    let (kinds, tfxd) = children_of_traf(&moof);
    assert_eq!(kinds, [FourCc(*b"tfhd"), FourCc(*b"trun"), FourCc(*b"uuid")]);
    assert_eq!(tfxd[..16], latemux_isobmff::boxes::tfxd::TFXD);
    let payload = latemux_isobmff::boxes::tfxd::parse(Cursor::new(&tfxd, 0)).unwrap();
    assert_eq!(payload, (spec.decode_time, 666_667));
    let parsed = Moof::parse(&moof, 0).unwrap();
    let run = &parsed.tracks[0].runs[0];
    assert_eq!(u64::try_from(run.data_offset.unwrap()).unwrap(), size.head());
    let offsets: Vec<_> = run.iter().map(|sample| sample.composition_offset).collect();
    assert_eq!(offsets, [0, 5]);
}
