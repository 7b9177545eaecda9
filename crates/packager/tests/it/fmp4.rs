//! Several tracks in one fMP4 segment: ffprobe finds every packet of both in the segments of their
//! playlist.

use crate::{
    media::{
        Source, assert_same_packets, avc_aac, fragmented, ladder, probe_without_warnings, shared, signed,
        with_mfra,
    },
    player::{Presentation, play},
};
use latemux_index::media::TrackKind;
use latemux_packager::{PackError, Resource, plan::Class};
use latemux_testmedia::origin::Origin;
use std::{path::PathBuf, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

/// Plays the first video and the first audio track together.
fn together(origin: &mut Origin, query: &str) -> Presentation {
    let first = |kind| origin.names(kind).remove(0);
    let video = first(TrackKind::Video);
    let audio = first(TrackKind::Audio);
    play(origin, &format!("x-{audio}-{video}.m3u8?hls_fmp4{query}"))
}

/// Asserts that muxed segments hold the packets of the source, and returns their number.
fn assert_muxed_packets(what: &str, files: &[PathBuf]) -> usize {
    let source = Source::files(files);
    let mut origin = Origin::of(source.objects.clone(), TARGET).unwrap();
    let played = together(&mut origin, "");
    assert!(played.init.is_some() && played.playlist.version == Some(6), "{what}: {}", played.text);
    let streams = probe_without_warnings(&format!("{what}-together"), &played.whole());
    assert_eq!(streams.len(), 2, "{what}");
    for (got, kind) in streams.iter().zip(["video", "audio"]) {
        let (_, _, want) = source.streams().find(|(_, _, stream)| stream.kind == kind).unwrap();
        assert_same_packets(&format!("{what} {kind}"), got, want);
    }
    played.segments.len()
}

#[test]
fn muxed_segments_hold_the_packets_of_every_kind_of_file() {
    for file in [avc_aac(), fragmented(), signed(), with_mfra()] {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(assert_muxed_packets(&name, &[file]) > 2);
    }
    assert!(assert_muxed_packets("ladder", &ladder()) > 2);
}

#[test]
fn muxed_segments_hold_the_packets_of_shared_media() {
    for name in ["androidx/sample.mp4", "androidx/edit_list_positive_shift.mp4"] {
        if let Some(file) = shared(name) {
            assert_muxed_packets(&name.replace('/', "-"), &[file]);
        }
    }
}

#[test]
fn joined_segments_hold_the_same_packets() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let plain = together(&mut origin, "");
    let joined = together(&mut origin, "&hls_minimum_fragment_length=5");
    assert!(joined.segments.len() < plain.segments.len(), "{}", joined.text);
    let packets = |name: &str, played: &Presentation| probe_without_warnings(name, &played.whole());
    for (got, want) in packets("joined", &joined).iter().zip(&packets("not-joined", &plain)) {
        assert_same_packets("joined", got, want);
    }
}

#[test]
fn the_body_does_not_depend_on_the_order_of_tracks() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let names = [origin.names(TrackKind::Video), origin.names(TrackKind::Audio)].concat();
    let other: Vec<_> = names.iter().rev().cloned().collect();
    for [one, two] in [
        [Resource::HlsInit(names.clone()), Resource::HlsInit(other.clone())],
        [Resource::HlsSegment(names.clone(), 2), Resource::HlsSegment(other, 2)],
    ] {
        let one = origin.get(&one).unwrap();
        let two = origin.get(&two).unwrap();
        assert_eq!((&one.bytes, one.digest), (&two.bytes, two.digest));
        assert_eq!((one.content_type, one.content_length), ("video/mp4", one.bytes.len() as u64));
        assert!(matches!(one.class, Class::Init | Class::Media));
    }
    let own = origin.get(&Resource::HlsSegment(names[..1].to_vec(), 2)).unwrap();
    assert_ne!(own.digest, origin.get(&Resource::HlsSegment(names, 2)).unwrap().digest);
}

#[test]
fn absent_tracks_and_segments_are_refused() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let video = origin.names(TrackKind::Video).remove(0);
    let audio = origin.names(TrackKind::Audio).remove(0);
    for twice in [vec![video.clone(), video.clone()], vec![audio.clone(), audio.clone()]] {
        let refused = origin.get(&Resource::HlsInit(twice.clone())).map(|_| ());
        assert!(matches!(refused, Err(PackError::NoSuchTrack(_))), "{refused:?}");
        let refused = origin.get(&Resource::HlsSegment(twice, 1)).map(|_| ());
        assert!(matches!(refused, Err(PackError::NoSuchTrack(_))), "{refused:?}");
    }
    let refused = origin.get(&Resource::HlsSegment(vec![video, audio], 99)).map(|_| ());
    assert!(matches!(refused, Err(PackError::NoSuchSegment { .. })), "{refused:?}");
}
