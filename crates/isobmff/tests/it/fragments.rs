//! Contents of a `moof` besides runs: encryption, times of Smooth Streaming, several track
//! fragments.

use crate::sample::{Raw, bytes_of, media, top_level};
use bytes::{BufMut, Bytes};
use latemux_isobmff::{
    Error,
    boxes::{
        mfhd::Mfhd,
        tfdt::Tfdt,
        tfhd::Tfhd,
        tfxd::{PIFF_SENC, TFXD},
    },
    emit::{Container, WriteBox},
    fragment::{Moof, TrackFragment},
};
use std::collections::BTreeMap;

fn tfhd(track_id: u32) -> Tfhd {
    Tfhd { track_id, ..Tfhd::default() }
}

/// Parses a `moof` whose only track fragment has a `tfhd` and the given boxes, and returns that
/// fragment.
fn fragment_with(boxes: &[&dyn WriteBox]) -> Result<TrackFragment, Error> {
    let tfhd = tfhd(1);
    let mut traf: Vec<&dyn WriteBox> = vec![&tfhd];
    traf.extend(boxes);
    let moof = bytes_of(&Container(b"moof", &[&Mfhd(1), &Container(b"traf", &traf)]));
    Moof::parse(&moof, 0).map(|mut moof| moof.tracks.remove(0))
}

fn uuid(usertype: [u8; 16], rest: &[u8]) -> Raw {
    Raw(b"uuid", [&usertype[..], rest].concat())
}

#[test]
fn smooth_streaming_times_are_read_in_both_versions() {
    let time = 0x1_2345_6789_u64;
    let duration = 20_000_000_u64;
    let mut wide = vec![1, 0, 0, 0];
    wide.put_u64(time);
    wide.put_u64(duration);
    assert_eq!(fragment_with(&[&uuid(TFXD, &wide)]).unwrap().tfxd, Some((time, duration)));
    let narrow = [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9];
    let read = fragment_with(&[&uuid(TFXD, &narrow)]).unwrap();
    assert_eq!((read.tfxd, read.encrypted, read.decode_time), (Some((7, 9)), false, None));
    assert!(matches!(fragment_with(&[&uuid(TFXD, &narrow[..11])]), Err(Error::Truncated { .. })));
    assert_eq!(fragment_with(&[&uuid([7; 16], &narrow)]).unwrap().tfxd, None);
    assert!(fragment_with(&[&Raw(b"uuid", vec![1; 15])]).is_ok(), "too short for an extended type");
}

#[test]
fn every_sign_of_encryption_is_recognised() {
    assert!(!fragment_with(&[&Raw(b"free", Vec::new())]).unwrap().encrypted);
    assert!(fragment_with(&[&Raw(b"senc", vec![0; 8])]).unwrap().encrypted);
    assert!(fragment_with(&[&Raw(b"saiz", vec![0; 9])]).unwrap().encrypted);
    assert!(fragment_with(&[&uuid(PIFF_SENC, &[0; 8])]).unwrap().encrypted);
}

#[test]
fn several_track_fragments_and_runs_are_read_in_order() {
    let run = |data_offset: u32, samples: u32| {
        let mut payload = vec![0, 0, 2, 1];
        payload.put_u32(samples);
        payload.put_u32(data_offset);
        (0..samples).for_each(|size| payload.put_u32(size));
        Raw(b"trun", payload)
    };
    let empty = Tfhd { duration_is_empty: true, ..tfhd(2) };
    let first = tfhd(1);
    let second = tfhd(1);
    let moof = Container(
        b"moof",
        &[
            &Mfhd(9),
            &Container(b"traf", &[&first, &Tfdt(100), &run(50, 3), &run(80, 2)]),
            &Container(b"traf", &[&empty]),
            &Container(b"traf", &[&second, &run(200, 1)]),
        ],
    );
    let moof = Moof::parse(&bytes_of(&moof), 0).unwrap();
    assert_eq!(moof.sequence, 9);
    let tracks: Vec<_> =
        moof.tracks.iter().map(|t| (t.track_id, t.decode_time, t.duration_is_empty)).collect();
    assert_eq!(tracks, [(1, Some(100), false), (2, None, true), (1, None, false)]);
    let runs: Vec<_> = moof.tracks[0].runs.iter().map(|run| (run.data_offset, run.count)).collect();
    assert_eq!(runs, [(Some(50), 3), (Some(80), 2)]);
    let sizes = moof.tracks[0].runs.iter().flat_map(|run| run.iter().map(|sample| sample.size.unwrap()));
    assert_eq!(sizes.collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
}

#[test]
fn required_boxes_must_be_present() {
    let parse = |boxes: &[&dyn WriteBox]| Moof::parse(&bytes_of(&Container(b"moof", boxes)), 0);
    let error = |boxes: &[&dyn WriteBox]| parse(boxes).unwrap_err().to_string();
    assert_eq!(error(&[]), "moof: no 'mfhd' box");
    assert_eq!(error(&[&Mfhd(1), &Container(b"traf", &[])]), "moof/traf: no 'tfhd' box");
    assert!(parse(&[&Mfhd(1)]).unwrap().tracks.is_empty());
    let other = Bytes::from_static(b"\0\0\0\x08mdat");
    assert_eq!(Moof::parse(&other, 0).unwrap_err().to_string(), "file: no 'moof' box");
}

#[test]
fn encrypted_and_smooth_files_are_recognised() {
    let mut encrypted = BTreeMap::new();
    let mut smooth = BTreeMap::new();
    for (name, bytes) in media() {
        for (_, offset, raw) in top_level(&bytes).iter().filter(|(kind, ..)| *kind == b"moof") {
            let moof = Moof::parse(raw, *offset).unwrap();
            *encrypted.entry(name.clone()).or_insert(0) += moof.tracks.iter().filter(|t| t.encrypted).count();
            *smooth.entry(name.clone()).or_insert(0) +=
                moof.tracks.iter().filter(|t| t.tfxd.is_some()).count();
        }
    }
    let names = |found: BTreeMap<String, usize>| -> Vec<String> {
        found.into_iter().filter(|(_, count)| *count > 0).map(|(name, _)| name).collect()
    };
    let encrypted = names(encrypted);
    let smooth = names(smooth);
    println!("encrypted: {encrypted:?}\nsmooth: {smooth:?}");
    if !encrypted.is_empty() {
        let expected = [
            "androidx/sample_fragmented_widevine.mp4",
            "mp4ff/cbcs_audio.mp4",
            "mp4ff/piff_video.mp4",
            "mp4ff/prog_8s_enc_dashinit.mp4",
        ];
        assert_eq!(encrypted, expected);
    }
}
