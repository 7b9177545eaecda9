//! Readers of fragmented MP4 and of MPDs that others wrote.

use crate::{cmaf, origin::Origin};
use latemux_index::media::TrackKind;
use mp4_atom::{Any, DecodeMaybe as _};
use std::{io::Cursor, path::PathBuf, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

fn sources() -> Vec<PathBuf> {
    vec![cmaf::avc_aac(), cmaf::hevc(), cmaf::fragmented(), cmaf::with_sidx(), cmaf::with_mfra()]
}

#[test]
fn transmux_finds_nothing_wrong_with_a_track() {
    for file in sources() {
        let mut origin = Origin::open(&[&file], TARGET);
        for name in [origin.names(TrackKind::Video), origin.names(TrackKind::Audio)].concat() {
            let (init, segments) = origin.cmaf(&name);
            let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
            let issues = transmux::validate::validate_cmaf_track(&init, &segments);
            assert!(issues.is_empty(), "{} {name}: {issues:#?}", file.display());
        }
    }
}

/// Every box read to its end.
fn atoms(bytes: &[u8]) -> Vec<Any> {
    let mut cursor = Cursor::new(bytes);
    let mut atoms = Vec::new();
    while let Some(atom) = Any::decode_maybe(&mut cursor).unwrap() {
        atoms.push(atom);
    }
    assert_eq!(cursor.position(), bytes.len() as u64);
    atoms
}

#[test]
fn mp4_atom_reads_what_was_meant() {
    for file in sources() {
        let mut origin = Origin::open(&[&file], TARGET);
        for name in [origin.names(TrackKind::Video), origin.names(TrackKind::Audio)].concat() {
            let index = origin.title.find(&name).unwrap();
            let (init, segments) = origin.cmaf(&name);
            let [Any::Ftyp(ftyp), Any::Moov(moov)] = atoms(&init).try_into().unwrap() else {
                panic!("init is not ftyp and moov")
            };
            assert_eq!(ftyp.major_brand, b"cmfc".into());
            let track = origin.title.track(&origin.title.tracks[index]);
            let [trak] = moov.trak.as_slice() else { panic!("one track") };
            assert_eq!(trak.mdia.mdhd.timescale, track.timescale.get());
            let media_time = trak
                .edts
                .as_ref()
                .and_then(|e| e.elst.as_ref())
                .and_then(|e| e.entries.first().copied())
                .map_or(0, |e| i64::try_from(e.media_time.unwrap()).unwrap());
            assert_eq!(media_time, track.presentation.media_time);

            for (n, segment) in (1..).zip(&segments) {
                let [Any::Styp(_), Any::Moof(moof), Any::Mdat(mdat)] = atoms(segment).try_into().unwrap()
                else {
                    panic!("segment is not styp, moof and mdat")
                };
                assert_eq!(moof.mfhd.sequence_number, n);
                let [traf] = moof.traf.as_slice() else { panic!("one track") };
                let [trun] = traf.trun.as_slice() else { panic!("one run") };
                let head = segment.len() - mdat.data.len();
                assert_eq!(
                    usize::try_from(trun.data_offset.unwrap()).unwrap(),
                    head - 24,
                    "from the moof on"
                );
                let size: u32 =
                    trun.entries.iter().map(|e| e.size.or(traf.tfhd.default_sample_size).unwrap()).sum();
                assert_eq!(usize::try_from(size).unwrap(), mdat.data.len());
                // The earliest presentation time is the segment's start in manifests.
                let mut decode_time =
                    i64::try_from(traf.tfdt.as_ref().unwrap().base_media_decode_time).unwrap();
                let mut earliest = i64::MAX;
                for entry in &trun.entries {
                    earliest = earliest.min(decode_time + i64::from(entry.cts.unwrap_or(0)) - media_time);
                    decode_time += i64::from(entry.duration.or(traf.tfhd.default_sample_duration).unwrap());
                }
                let start = origin.title.tracks[index].segment(n - 1).unwrap().start;
                assert_eq!(earliest.max(0), start, "{} {name} {n}", file.display());
            }
        }
    }
}
