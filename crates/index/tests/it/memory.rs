//! The index in memory is at most a quarter of the `moov` it came from.

use crate::moov::{Sparse, TrackTables, audio, interleave, sample_entries, video};
use latemux_index::{Title, fragments::NoFragments, title::SegmentSamples};
use std::time::Duration;

fn measure(name: &str, mut tracks: Vec<TrackTables>) {
    interleave(&mut tracks);
    let sparse = Sparse::new(tracks);
    let located = sparse.locate().unwrap();
    let index = &located.index;
    assert_eq!(index.left_out, []);
    assert_eq!(located.round_trips, 2);
    let bytes = index.heap_bytes();
    let samples: u64 = index
        .tracks
        .iter()
        .map(|t| match &t.samples {
            latemux_index::media::Samples::Table(table) => u64::from(table.len()),
            latemux_index::media::Samples::Fragments(_) => unreachable!(),
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

/// A benchmark, for people: what a title of four hours costs to put together.
#[test]
#[ignore = "a measurement"]
fn a_title_of_four_hours() {
    let (avc, aac) = sample_entries("memory_title");
    let mut objects = Vec::new();
    for i in 0..7 {
        let mut tracks = vec![if i < 5 { video(&avc, 14_400) } else { audio(&aac, 14_400) }];
        interleave(&mut tracks);
        let sparse = Sparse::new(tracks);
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
