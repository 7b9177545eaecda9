//! Cuts arbitrary samples of AVC, HEVC, AV1 and VP9 into slices. No input may panic, cuts are as
//! long as their sample, and so are the subsamples that are made of them.
//!
//! The input is a byte for the codec, parameter sets and a sample, each after its length in a byte.
//! In AV1, the first of these sets holds the OBUs of the sample entry, and the others are samples
//! before the last.
#![no_main]

use bytes::Bytes;
use latemux_isobmff::codec::{Avc, Hevc, SliceReader};
use latemux_protect::{
    Scheme,
    cuts::{CutReader, subsamples},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&codec, mut rest)) = data.split_first() else { return };
    let mut sets = Vec::new();
    for _ in 0..3 {
        let Some((&length, after)) = rest.split_first() else { return };
        let (set, after) = after.split_at(usize::from(length).min(after.len()));
        sets.push(Bytes::copy_from_slice(set));
        rest = after;
    }
    let length_size = [1, 2, 4][usize::from(codec >> 1) % 3];
    if codec == b'9' {
        return check(CutReader::of_vp9(), rest);
    }
    if codec == b'1' {
        let mut reader = CutReader::of_av1(&sets[0]);
        for sample in &sets[1..] {
            if reader.cut(sample, &mut Vec::new()).is_err() {
                return;
            }
        }
        return check(reader, rest);
    }
    let slices = match codec & 1 {
        0 => SliceReader::avc(&Avc {
            nal_length_size: length_size,
            profile: [0; 3],
            sps: sets[..1].into(),
            pps: sets[1..].into(),
            sps_ext: Box::default(),
            has_layers: false,
        }),
        _ => SliceReader::hevc(&Hevc { nal_length_size: length_size, nal_units: sets.into() }),
    };
    check(CutReader::of_slices(slices, length_size), rest);
});

fn check(mut reader: CutReader, rest: &[u8]) {
    let mut cuts = Vec::new();
    if reader.cut(rest, &mut cuts).is_err() {
        return;
    }
    let length = |pairs: &mut dyn Iterator<Item = (u32, u32)>| -> u64 {
        pairs.map(|(clear, rest)| u64::from(clear) + u64::from(rest)).sum()
    };
    assert_eq!(length(&mut cuts.iter().map(|cut| (cut.clear, cut.data))), rest.len() as u64);
    for scheme in [Scheme::Cenc, Scheme::Cbcs] {
        let mut made = Vec::new();
        for has_small in [false, true] {
            made.clear();
            if subsamples(scheme, has_small, &cuts, &mut made).is_ok() {
                let all = length(&mut made.iter().map(|one| (u32::from(one.clear), one.protected)));
                assert_eq!(all, rest.len() as u64);
            }
        }
    }
}
