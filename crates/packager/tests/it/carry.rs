//! Codecs that each protocol carries, and the segments that muxed tracks share.

use crate::media::{avc_aac, ladder};
use bytes::Bytes;
use latemux_index::{Track, media::TrackKind};
use latemux_isobmff::{
    FourCc,
    codec::{Aac, Av1, Config, Svc},
};
use latemux_packager::{
    carry::{Protocol, carries},
    segment::PackedTracks,
};
use latemux_testmedia::origin::Origin;
use std::time::Duration;

const TARGET: Duration = Duration::from_secs(2);

/// Returns true for each protocol that carries the track, in the order DASH, HLS CMAF, HLS TS.
fn carried(track: &Track) -> [bool; 3] {
    [Protocol::Dash, Protocol::HlsCmaf, Protocol::HlsTs].map(|protocol| carries(protocol, track).is_ok())
}

#[test]
fn each_protocol_carries_the_codecs_it_has_a_mapping_for() {
    let origin = Origin::open(&[avc_aac()], TARGET);
    let mut track = origin.title.track(&origin.title.tracks()[0]).clone();
    assert_eq!(carried(&track), [true, true, true]);
    for (config, expected) in [
        (Config::Av1(Av1 { obus: Bytes::new() }), [true, true, false]),
        (Config::Vp9, [true, true, false]),
        (Config::Svc(Svc { nal_length_size: 4, has_base: true }), [true, true, false]),
        (Config::Svc(Svc { nal_length_size: 4, has_base: false }), [false, false, false]),
        (Config::Mp3, [true, true, true]),
        (Config::Ac3, [true, true, true]),
        (Config::Eac3, [true, true, true]),
        (Config::Ac4, [true, true, false]),
        (Config::Opus, [true, true, false]),
        (Config::Flac, [true, true, false]),
        (Config::Dts, [true, true, false]),
        (Config::Wvtt, [true, true, true]),
        (Config::Stpp, [true, true, true]),
        (Config::Tx3g, [true, true, true]),
        (Config::Other, [false, false, false]),
    ] {
        track.codec.config = config;
        assert_eq!(carried(&track), expected, "{:?}", track.codec.config);
    }
    track.codec.config = Config::Ac3;
    track.codec.protection = Some(FourCc(*b"cenc"));
    assert_eq!(carried(&track), [false; 3]);
}

#[test]
fn ts_carries_only_the_aac_that_adts_can_describe() {
    let origin = Origin::open(&[avc_aac()], TARGET);
    let audio = origin.title.of_kind(TrackKind::Audio).next().unwrap();
    let plain = origin.title.track(&origin.title.tracks()[audio]).clone();
    let with = |change: &dyn Fn(&mut Aac)| {
        let mut track = plain.clone();
        let Config::Aac(aac) = &mut track.codec.config else { panic!("AAC") };
        change(aac);
        let [dash, cmaf, ts] = carried(&track);
        assert!(dash && cmaf);
        ts
    };
    assert!(with(&|_| {}));
    // HE-AAC v1 and v2 have an AAC-LC core.
    assert!(with(&|aac| aac.object_type = 29));
    assert!(with(&|aac| aac.channel_config = 7));
    assert!(with(&|aac| (aac.channel_config, aac.program_config) = (0, true)));
    assert!(!with(&|aac| aac.channel_config = 0));
    assert!(!with(&|aac| aac.channel_config = 11));
    assert!(!with(&|aac| aac.core_object_type = 42));
    assert!(!with(&|aac| aac.core_object_type = 5));
    assert!(!with(&|aac| aac.core_sample_rate = 37_800));
    assert!(!with(&|aac| aac.frame_length = 960));
}

/// Each sample of two tracks is in exactly one segment, in order, for any cuts of the two tracks.
#[test]
fn muxing_keeps_every_sample_exactly_once() {
    // The bits select the inner cuts to leave out: four of video, four of audio.
    for missing in 0_u32..256 {
        let mut origin = Origin::open(&ladder(), TARGET);
        let audio = origin.title.of_kind(TrackKind::Audio).next().unwrap();
        let tracks = [audio, 0];
        for (track, bits) in [(0, missing & 15), (audio, missing >> 4)] {
            assert_eq!(origin.title.tracks()[track].cuts.len(), 6);
            for bit in (0..4).rev().filter(|bit| bits & 1 << bit != 0) {
                origin.title = origin.title.with_joined_segments(track, bit + 1);
            }
        }
        let mux = PackedTracks::new(&origin.title, &tracks).unwrap();
        assert_eq!(mux.lead().name, origin.title.tracks()[0].name);
        let mut reached = [0, 0];
        let mut at = mux.times(0).unwrap().0;
        for number in mux.numbers() {
            for (slot, (_, part)) in mux.shares(number).enumerate() {
                let Some(part) = part else { continue };
                assert_eq!(part.cut.start, reached[slot], "{missing} {number}");
                assert!(part.cut.end > part.cut.start);
                reached[slot] = part.cut.end;
            }
            let (start, end) = mux.times(number).unwrap();
            assert_eq!(start, at);
            at = end;
        }
        for (track, reached) in tracks.iter().zip(reached) {
            assert_eq!(origin.title.tracks()[*track].cuts.last(), Some(&reached), "{missing}");
        }
        assert!(mux.times(mux.lead().segment_count()).is_none());
        assert!(mux.shares(mux.lead().segment_count()).all(|(_, part)| part.is_none()));
    }
}
