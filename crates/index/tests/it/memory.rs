//! The index in memory is at most a quarter of the `moov` it came from.

use crate::moov::{Sparse, TrackTables, audio, interleave, sample_entries, video};

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
