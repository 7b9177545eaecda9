//! The index in memory is at most a quarter of the `moov` it came from.

use crate::moov::{Sparse, TrackTables, audio, interleave, sample_entries, video};
use latemux_index::{Title, fragments::NoFragments, media::Samples, title::SegmentSamples};
use std::time::Duration;

fn measure(name: &str, mut tracks: Vec<TrackTables>) {
    interleave(&mut tracks);
    let sparse = Sparse::new(tracks, 1 << 20);
    let located = sparse.locate().unwrap();
    let index = &located.index;
    assert_eq!(index.left_out, []);
    assert_eq!(located.round_trips, 2);
    let bytes = index.heap_bytes();
    let samples: u64 = index
        .tracks
        .iter()
        .map(|t| match &t.samples {
            Samples::Table(table) => u64::from(table.len()),
            Samples::Fragments(_) => unreachable!(),
        })
        .sum();
    println!(
        "{name}: {samples} samples, moov {} bytes, index {bytes}, 1/{:.2}",
        sparse.moov,
        sparse.moov as f64 / bytes as f64
    );
    assert!(bytes * 4 <= sparse.moov, "{name}: {bytes} of {}", sparse.moov);
}

#[test]
fn two_hours_of_video_and_audio() {
    let (avc, aac) = sample_entries("memory_av");
    measure("video and audio", vec![video(&avc, 7200), audio(&aac, 7200)]);
    measure("video", vec![video(&avc, 7200)]);
}

#[test]
fn two_hours_of_audio() {
    let (_, aac) = sample_entries("memory_a");
    measure("audio", vec![audio(&aac, 7200)]);
}

#[test]
fn offsets_of_64_bits() {
    let (avc, aac) = sample_entries("memory_wide");
    let mut tracks = vec![video(&avc, 60), audio(&aac, 60)];
    interleave(&mut tracks);
    let samples = |further| {
        let sparse = Sparse::new(tracks.clone(), further);
        let located = sparse.locate().unwrap();
        let all = |number: usize| {
            let Samples::Table(table) = &located.index.tracks[number].samples else { unreachable!() };
            table.range(0..u32::MAX).map(|s| s.offset - sparse.moov as u64 - further).collect::<Vec<_>>()
        };
        (all(0), all(1))
    };
    assert_eq!(samples(1 << 20), samples(1 << 40));
    // Every one lies where it was put.
    let (video, audio) = samples(1 << 20);
    let placed = |track: &TrackTables, found: &[u64]| {
        let mut sizes = track.sizes.iter().map(|&s| u64::from(s));
        let mut found = found.iter();
        for (&samples, &offset) in track.chunks.iter().zip(&track.offsets) {
            let mut at = offset + 20 + 16;
            for size in sizes.by_ref().take(samples as usize) {
                assert_eq!(found.next(), Some(&at));
                at += size;
            }
        }
        assert_eq!(found.next(), None);
    };
    placed(&tracks[0], &video);
    placed(&tracks[1], &audio);
}

/// A benchmark, for people: what a title of four hours costs to put together.
#[test]
#[ignore = "a measurement"]
fn a_title_of_four_hours() {
    let (avc, aac) = sample_entries("memory_title");
    let mut objects = Vec::new();
    for i in 0..7 {
        let mut tracks = vec![if i < 5 { video(&avc, 14_400) } else { audio(&aac, 14_400) }];
        interleave(&mut tracks);
        let sparse = Sparse::new(tracks, 1 << 20);
        let started = std::time::Instant::now();
        objects.push(sparse.locate().unwrap().index);
        println!("index {i}: {:?}", started.elapsed());
    }
    let started = std::time::Instant::now();
    let title = Title::new(objects, Duration::from_secs(4)).unwrap();
    println!("title: {} segments, {:?}", title.grid.starts.len(), started.elapsed());
    let segment = title.tracks[0].segment(3000).unwrap();
    let started = std::time::Instant::now();
    let SegmentSamples::Known(samples) = title.samples(0, &segment, &NoFragments) else { unreachable!() };
    println!("samples of one segment: {}, {:?}", samples.len(), started.elapsed());
}
