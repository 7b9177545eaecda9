//! Sizes computed column by column equal those computed sample by sample.

use super::*;
use latemux_isobmff::{Time, Timescale};
use latemux_testmedia::{
    hostile::{HostileFile, HostileTrack},
    origin::index,
};
use std::{path::Path, sync::Arc, time::Duration};

/// Creates a title from files of the sample library.
fn title(files: &[&str]) -> Title {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/library");
    let index = |file: &&str| Arc::new(index(&std::fs::read(library.join(file)).unwrap().into()).unwrap());
    Title::new(files.iter().map(index).collect(), Duration::from_secs(2)).unwrap()
}

fn sample_by_sample(title: &Title, packed: &PackedTracks<'_>, protocol: Protocol) -> Vec<u64> {
    let shares = |number| {
        packed.shares(number).filter_map(|(track, share)| Some(share_size(title, track, &share?, protocol)))
    };
    packed.numbers().map(|number| container_bytes(protocol) + shares(number).sum::<u64>()).collect()
}

#[test]
fn sizes_of_columns_equal_those_of_samples() {
    let seconds = |s: i64| Some(Time::new(s * 100 + 37, Timescale::new(100).unwrap()));
    let harbour = ["harbour/audio-fra.mp4", "harbour/video-180p.mp4", "harbour/video-360p.mp4"];
    for files in [&["lighthouse.mp4"][..], &["buoy.mp4"], &["ferry.mp4"], &harbour] {
        let whole = title(files);
        let clips = [whole.clipped(seconds(3), seconds(9)), whole.clipped(None, seconds(1))];
        for title in [&whole].into_iter().chain(clips.iter().flatten()) {
            let all: Vec<usize> = (0..title.tracks().len()).collect();
            let one = all.iter().map(std::slice::from_ref);
            for tracks in one.chain(all.windows(2)) {
                for protocol in
                    [Protocol::Dash, Protocol::HlsCmaf, Protocol::HlsTs, Protocol::Hds, Protocol::Smooth]
                {
                    for minimum in [None, Some(Duration::from_secs(5))] {
                        let packed = PackedTracks::new(title, tracks).unwrap().joined(minimum);
                        let expected = sample_by_sample(title, &packed, protocol);
                        assert!(!expected.is_empty());
                        assert_eq!(
                            packed_sizes(title, &packed, protocol),
                            expected,
                            "{files:?} {tracks:?} {protocol:?}"
                        );
                    }
                    check_iframes(title, tracks[0], protocol);
                }
            }
        }
    }
}

/// Returns a title of two tracks of text, whose samples have these durations in milliseconds, one
/// after the other, and a track of audio.
fn text_title(durations: &[u32]) -> Title {
    let track = HostileTrack {
        repeat: 2,
        codec: 2,
        timescale: 1000,
        samples: 40,
        size_bits: 8,
        durations: durations.iter().map(|&duration| (1, duration)).collect(),
        chunk: 40,
        most_runs: 40,
        ..HostileTrack::default()
    };
    let audio =
        HostileTrack { repeat: 1, codec: 1, samples: 90, durations: vec![(90, 1000)], ..track.clone() };
    let file = HostileFile { tracks: vec![track, audio], ..HostileFile::default() };
    let index = index(&file.write().into()).unwrap();
    Title::new(vec![Arc::new(index)], Duration::from_secs(2)).unwrap()
}

#[test]
fn sizes_of_text_equal_those_of_samples() {
    for durations in [&[500, 700, 900][..], &[2000], &[30_000, 10, 1], &[1, 0, 9000], &[100_000, 1]] {
        let title = text_title(durations);
        let is_text = |&i: &usize| title.track(&title.tracks()[i]).kind == TrackKind::Text;
        let texts: Vec<usize> = (0..title.tracks().len()).filter(is_text).collect();
        assert_eq!(texts.len(), 2);
        for tracks in texts.iter().map(std::slice::from_ref).chain([&*texts]) {
            let packed = PackedTracks::new(&title, tracks).unwrap();
            assert!(tracks.iter().all(|&track| cuts_of_shares(&packed, track).is_some()));
            for protocol in
                [Protocol::Dash, Protocol::HlsCmaf, Protocol::HlsTs, Protocol::Hds, Protocol::Smooth]
            {
                let expected = sample_by_sample(&title, &packed, protocol);
                assert!(expected.len() > 5);
                assert_eq!(
                    packed_sizes(&title, &packed, protocol),
                    expected,
                    "{durations:?} {tracks:?} {protocol:?}"
                );
            }
        }
    }
}

fn check_iframes(title: &Title, track: usize, protocol: Protocol) {
    let title_track = &title.tracks()[track];
    let frames = iframes::of_track(title, track);
    let segments = iframes::as_segments(title_track, &frames);
    let size = |segment| share_size(title, track, segment, protocol) + container_bytes(protocol);
    let expected: Vec<u64> = segments.iter().map(size).collect();
    let (whole, first) = segment_and_iframe_sizes(title, track, protocol, &frames);
    assert_eq!((&whole, &first), (&segment_sizes(title, track, protocol), &expected));
    assert_eq!(iframe_sizes(title, track, protocol), expected);
}
