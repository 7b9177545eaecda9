use super::*;
use latemux_isobmff::codec::{Avc, SliceReader};
use latemux_protect::{ContentKey, Key, KeyId, SampleSeal, Scheme};
use proptest::prelude::*;

/// Returns NAL units without slices, with their lengths: access unit delimiters and filler data.
fn sample(lengths: &[u8]) -> Vec<u8> {
    let unit = |&length: &u8| {
        let mut unit = u32::from(length).to_be_bytes().to_vec();
        unit.extend([12].into_iter().chain(std::iter::repeat(0xff)).take(length.into()));
        unit
    };
    lengths.iter().flat_map(unit).collect()
}

fn reader() -> CutReader {
    let sets = || Vec::new().into();
    let config = Avc {
        nal_length_size: 4,
        profile: [0; 3],
        sps: sets(),
        pps: sets(),
        sps_ext: sets(),
        has_layers: false,
    };
    CutReader::of_slices(SliceReader::avc(&config), 4)
}

fn cipher(key: &ContentKey, sizes: &[u32], cuts: &PackedCuts) -> SampleCipher {
    let scheme = Scheme::Cenc;
    let seal = SampleSeal { key, scheme, is_video: true, is_av1: false, fingerprint: 1 };
    let places = sizes.iter().map(|&size| (u64::from(size), size));
    seal.seal(places, Some(cuts)).unwrap().cipher(key, 5)
}

/// Writes a segment of five bytes and these samples in pieces. Returns the output, the reason of
/// the failure and the check.
fn written(
    samples: &[Vec<u8>],
    stated: &[Vec<Cut>],
    pieces: &[usize],
) -> (Vec<u8>, Option<PackError>, Arc<CutCheck>) {
    let key = ContentKey::new(KeyId::of_digest([9; 16]), Key::new([7; 16]), None);
    let sizes: Vec<u32> = samples.iter().map(|sample| u32::try_from(sample.len()).unwrap()).collect();
    let mut cuts = PackedCuts::default();
    stated.iter().for_each(|of| cuts.push(of));
    let check = Arc::new(CutCheck::default());
    let mut checked = CheckedSamples::new(
        cipher(&key, &sizes, &cuts),
        5,
        sizes.iter().copied(),
        (reader(), Arc::new(cuts)),
        check.clone(),
        "video".to_owned(),
    );
    let mut input = Bytes::from([b"moof!".to_vec(), samples.concat()].concat());
    let mut out = BytesMut::new();
    for piece in pieces.iter().cycle() {
        if input.is_empty() {
            break;
        }
        let piece = input.split_to(input.len().min(*piece));
        checked.write_all(&[piece], &mut out);
    }
    (out.to_vec(), checked.failure(), check)
}

fn clear(sample: &[u8]) -> Vec<Cut> {
    vec![Cut { clear: u32::try_from(sample.len()).unwrap(), data: 0 }]
}

#[test]
fn nothing_of_a_sample_with_other_cuts_is_sent() {
    let samples = [sample(&[3]), sample(&[100, 3]), sample(&[9])];
    let right: Vec<Vec<Cut>> = samples.iter().map(|sample| clear(sample)).collect();
    let mut wrong = right.clone();
    wrong[1] = vec![Cut { clear: 5, data: 106 }];
    for pieces in [&[1][..], &[7, 50], &[1000]] {
        let (out, failure, check) = written(&samples, &right, pieces);
        assert_eq!((out.len(), failure.is_none()), (5 + 7 + 111 + 13, true));
        assert!(check.matches() && !check.differs());
        let (out, failure, check) = written(&samples, &wrong, pieces);
        assert_eq!(out, [b"moof!".to_vec(), samples[0].clone()].concat(), "{pieces:?}");
        assert_eq!(failure.unwrap().reason(), "cannot_cut");
        assert!(check.differs() && !check.matches());
    }
}

#[test]
fn a_window_takes_all_samples_up_to_its_last() {
    let key = ContentKey::new(KeyId::of_digest([9; 16]), Key::new([7; 16]), None);
    let mut cuts = PackedCuts::default();
    [10, 20, 30].iter().for_each(|&clear| cuts.push(&[Cut { clear, data: 0 }]));
    let mut made = CheckedSamples::new(
        cipher(&key, &[10, 20, 30], &cuts),
        5,
        [10, 20, 30].into_iter(),
        (reader(), Arc::new(cuts)),
        Arc::default(),
        String::new(),
    );
    for (window, end) in [(0..3, 5), (4..15, 15), (15..16, 35), (36..60, 65), (64..65, 65)] {
        assert_eq!(made.trim(window.clone()), Trimmed { input: 0..end, before: window.start });
    }
    assert!(made.heap_bytes() > 60);
}

proptest! {
    #[test]
    fn pieces_of_any_size_give_the_same_bytes(
        lengths in prop::collection::vec(prop::collection::vec(1_u8.., 0..4), 1..8),
        pieces in prop::collection::vec(1_usize..400, 1..6),
    ) {
        let samples: Vec<Vec<u8>> = lengths.iter().map(|of| sample(of)).collect();
        let cuts: Vec<Vec<Cut>> = samples.iter().map(|sample| {
            let mut cuts = Vec::new();
            reader().cut(sample, &mut cuts).unwrap();
            cuts
        }).collect();
        let (out, failure, check) = written(&samples, &cuts, &pieces);
        prop_assert_eq!(out, [b"moof!".to_vec(), samples.concat()].concat());
        prop_assert!(failure.is_none() && check.matches());
    }
}
