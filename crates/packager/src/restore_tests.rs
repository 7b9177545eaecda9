use super::*;
use latemux_isobmff::{
    FourCc, Timescale,
    boxes::{mdhd::Language, stsd::SampleEntry},
    emit::{InitSegment, InitTrack, ReorderedSpec, reordered_fragment},
    matrix::Matrix,
    sample_flags::{NON_SYNC, SYNC},
};

fn init() -> Bytes {
    let track = InitTrack {
        track_id: 1,
        handler: FourCc(*b"vide"),
        timescale: Timescale::MILLIS,
        language: Language::unknown(),
        enabled: true,
        alternate_group: 0,
        matrix: Matrix::UNITY,
        display_size: (0, 0),
        sample_entries: vec![SampleEntry {
            format: FourCc(*b"none"),
            data_reference_index: 1,
            raw: Bytes::from_static(b"\0\0\0\x10none\0\0\0\0\0\0\0\x01"),
        }],
        edit_media_time: 0,
        trex: Trex::plain(1),
    };
    InitSegment::cmaf(track, None).to_bytes()
}

/// Returns a segment of four samples, of which the second and fourth come last. Sample `n` consists
/// of `n + 1` times the byte `n`.
fn segment(decode_time: u64) -> Bytes {
    let samples: Vec<EmitSample> = (0..4)
        .map(|n| EmitSample {
            size: n + 1,
            duration: 10 + n,
            flags: if n == 0 { SYNC } else { NON_SYNC },
            composition_offset: if n == 2 { -5 } else { 5 },
        })
        .collect();
    let fragment = FragmentSpec {
        sequence: 7,
        track_id: 1,
        sample_description_index: None,
        decode_time,
        samples: &samples,
    };
    let order = [0, 2, 1, 3];
    let mut out = b"\0\0\0\x08free".to_vec();
    let spec = ReorderedSpec { fragment, order: &order, importance: &[0, 2, 1, 2], layers: &[] };
    reordered_fragment(&spec, &mut out).unwrap();
    for n in order {
        out.extend(vec![u8::try_from(n).unwrap(); n as usize + 1]);
    }
    out.into()
}

/// A sample of a restored file: presentation time, duration, and bytes.
type Read = (i64, u32, Vec<u8>);

/// Reads the samples of the fragments of a file in which every field is stated in the fragment.
fn read(file: &Bytes) -> Vec<Read> {
    let mut found = Vec::new();
    for moof in Cursor::new(file, 0).boxes().map(Result::unwrap).filter(|found| found.kind() == b"moof") {
        let parsed = Moof::parse(&moof.raw(), moof.offset).unwrap();
        for track in &parsed.tracks {
            let [run] = track.runs.as_slice() else { panic!("one run") };
            let mut at =
                usize::try_from(moof.offset).unwrap() + usize::try_from(run.data_offset.unwrap()).unwrap();
            let mut time = i64::try_from(track.decode_time.unwrap()).unwrap();
            for sample in run.iter() {
                let duration = sample.duration.or(track.default_duration).unwrap();
                let size = sample.size.or(track.default_size).unwrap() as usize;
                found.push((
                    time + i64::from(sample.composition_offset),
                    duration,
                    file[at..at + size].to_vec(),
                ));
                at += size;
                time += i64::from(duration);
            }
        }
    }
    found
}

fn sample(n: u8, time: i64, duration: u32) -> Read {
    (time, duration, vec![n; usize::from(n) + 1])
}

#[test]
fn a_whole_segment_is_put_into_decode_order() {
    let restored = restore(&init(), &segment(100)).unwrap();
    assert_eq!((restored.kept, restored.lost), (4, 0));
    assert!(restored.file.starts_with(&init()));
    let expected = [sample(0, 105, 10), sample(1, 115, 11), sample(2, 116, 12), sample(3, 138, 13)];
    assert_eq!(read(&restored.file), expected);
}

#[test]
fn samples_keep_their_times_wherever_a_segment_is_cut_off() {
    let whole = segment(100);
    // The samples in the order of the `mdat`, with the bytes from the start of each to the end.
    for cut in 0..=10 {
        let bytes = whole.slice(..whole.len() - cut);
        let expected = match cut {
            0 => vec![sample(0, 105, 10), sample(1, 115, 11), sample(2, 116, 12), sample(3, 138, 13)],
            1..=4 => vec![sample(0, 105, 10), sample(1, 115, 11), sample(2, 116, 12 + 13)],
            5..=6 => vec![sample(0, 105, 10 + 11), sample(2, 116, 12 + 13)],
            7..=9 => vec![sample(0, 105, 10 + 11 + 12 + 13)],
            _ => {
                assert_eq!(restore(&init(), &bytes), Err(RestoreError::NoSample));
                continue;
            }
        };
        let restored = restore(&init(), &bytes).unwrap();
        assert_eq!(read(&restored.file), expected, "{cut} bytes cut off");
        assert_eq!((restored.kept, restored.lost), (expected.len() as u64, 4 - expected.len() as u64));
    }
}

#[test]
fn of_several_segments_only_the_last_is_cut_off() {
    let both = [segment(100), segment(146)].concat();
    let cut = Bytes::copy_from_slice(&both[..both.len() - 5]);
    let restored = restore(&init(), &cut).unwrap();
    assert_eq!((restored.kept, restored.lost), (6, 2));
    assert_eq!(read(&restored.file)[4..], [sample(0, 151, 21), sample(2, 162, 25)]);
    // Nothing is left of a fragment whose `moof` is cut off.
    let cut = Bytes::copy_from_slice(&both[..both.len() / 2 + 20]);
    assert_eq!(restore(&init(), &cut).unwrap().kept, 4);
}

#[test]
fn each_kind_of_bad_input_has_its_own_error() {
    let init = init();
    let segment = segment(0);
    let empty = Bytes::new();
    assert!(matches!(restore(&empty, &segment), Err(RestoreError::Init(_))));
    assert_eq!(restore(&init, &empty), Err(RestoreError::NoSample));
    assert_eq!(restore(&init, &Bytes::from_static(b"\0\0\0\x10free")), Err(RestoreError::NoSample));
    let tiny = restore(&init, &Bytes::from_static(b"\0\0\0\x02free"));
    assert!(matches!(tiny, Err(RestoreError::Segment(_))));

    let other_track = |bytes: &Bytes| {
        let mut bytes = bytes.to_vec();
        let tfhd = bytes.windows(4).position(|w| w == b"tfhd").unwrap();
        bytes[tfhd + 11] = 9;
        Bytes::from(bytes)
    };
    assert_eq!(restore(&init, &other_track(&segment)), Err(RestoreError::NoSuchTrack(9)));

    let mut progressive = init.to_vec();
    let mvex = progressive.windows(4).position(|w| w == b"mvex").unwrap();
    progressive[mvex..mvex + 4].copy_from_slice(b"free");
    assert_eq!(restore(&progressive.into(), &segment), Err(RestoreError::NotFragmented));
}

#[test]
fn samples_that_share_bytes_are_refused() {
    let samples = vec![EmitSample { size: 1000, duration: 1, flags: SYNC, composition_offset: 0 }; 3];
    let fragment = FragmentSpec {
        sequence: 1,
        track_id: 1,
        sample_description_index: None,
        decode_time: 0,
        samples: &samples,
    };
    let mut segment = Vec::new();
    let spec = ReorderedSpec { fragment, order: &[2, 1, 0], importance: &[0; 3], layers: &[] };
    let size = reordered_fragment(&spec, &mut segment).unwrap();
    let start = i32::try_from(size.head()).unwrap().to_be_bytes();
    segment.resize(segment.len() + 1000, 0);
    assert_eq!(restore(&init(), &segment.clone().into()).map(|restored| restored.kept), Ok(1));
    // Now all runs point at the bytes that are there.
    let mut at = 0;
    while let Some(found) = segment[at..].windows(4).position(|w| w == b"trun") {
        at += found + 4;
        segment[at + 8..at + 12].copy_from_slice(&start);
    }
    assert_eq!(restore(&init(), &segment.into()), Err(RestoreError::Overlapping));
}

#[test]
fn a_moov_without_a_size_swallowed_the_fragments() {
    let init = init();
    let moov = usize::try_from(Cursor::new(&init, 0).find(b"moov").unwrap().offset).unwrap();
    let mut open_ended = init.to_vec();
    open_ended[moov..moov + 4].copy_from_slice(&[0; 4]);
    let restored = restore(&open_ended.into(), &segment(100)).unwrap();
    assert_eq!(restored, restore(&init, &segment(100)).unwrap());
    assert_eq!(read(&restored.file).len(), 4);
}
