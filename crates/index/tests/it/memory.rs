//! The index in memory takes at most a quarter of the `moov` it came from.

use crate::{
    locating::locate_by,
    moov::{Sparse, TrackTables, audio, interleave, sample_entries, video},
    segment_indexes::{boxes, fragments, media_of, sidx},
};
use bytes::Bytes;
use latemux_index::{
    Title,
    locate::limits::Limits,
    media::fragment_samples::NoFragments,
    media::{IndexSource, Samples},
    title::SegmentSamples,
};
use std::{ops::Range, time::Duration};

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
fn two_hours_of_video_and_audio_are_small() {
    let (avc, aac) = sample_entries("memory_av");
    measure("video and audio", vec![video(&avc, 7200), audio(&aac, 7200)]);
    measure("video", vec![video(&avc, 7200)]);
}

#[test]
fn two_hours_of_audio_are_small() {
    let (_, aac) = sample_entries("memory_a");
    measure("audio", vec![audio(&aac, 7200)]);
}

#[test]
fn offsets_of_64_bits_are_small() {
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
    // Every sample lies at its offset.
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

/// Prints the cost of making a title of four hours. It checks nothing.
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
    println!("title: {} segments, {:?}", title.grid().starts.len(), started.elapsed());
    let segment = title.tracks()[0].segment(3000).unwrap();
    let started = std::time::Instant::now();
    let SegmentSamples::Known(samples) = title.samples(0, &segment, &NoFragments) else { unreachable!() };
    println!("samples of one segment: {}, {:?}", samples.len(), started.elapsed());
}

/// Video in fragments of two seconds, half a megabyte each. In a short title only the fixed part of
/// a track, mostly its codec, could be smaller: the sizes of fragments cannot be packed.
#[test]
fn video_indexed_by_sidx_is_small() {
    let (from, ten_minutes) = by_sidx(300);
    let fixed = ten_minutes - 300 * 18 / 8;
    assert!(fixed < 1000 && ten_minutes * 2 < from, "{ten_minutes} of {from}, {fixed} of them fixed");
    let (from, an_hour) = by_sidx(1800);
    assert!(an_hour * 4 <= from, "{an_hour} of {from}");
}

/// Returns the bytes of `moov` and `sidx`, and of the index made from them.
fn by_sidx(count: u32) -> (u64, u64) {
    let (_, init, fragments) = fragments("memory_sidx");
    let moof: Vec<u8> = boxes(&fragments[0])
        .into_iter()
        .filter(|(kind, _)| kind == b"moof")
        .flat_map(|(_, range)| fragments[0][range].to_vec())
        .collect();
    // Random sizes within about a quarter of their mean, which cannot be packed.
    let mut state = 1_u64;
    let mut size = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(400_000 + (state >> 33) % 200_000).unwrap()
    };
    let sizes: Vec<usize> = (0..count).map(|_| size()).collect();
    let references = sizes.iter().map(|&size| media_of(size)).collect();
    let head = [init, sidx(0, references)].concat();
    let size = head.len() + sizes.iter().sum::<usize>();
    let read = |range: &Range<u64>| {
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        let mut out = vec![0; range.len()];
        let mut put = |at: usize, bytes: &[u8]| {
            let shown = at.max(range.start)..(at + bytes.len()).min(range.end);
            if !shown.is_empty() {
                out[shown.start - range.start..shown.end - range.start]
                    .copy_from_slice(&bytes[shown.start - at..shown.end - at]);
            }
        };
        put(0, &head);
        let mut at = head.len();
        for (number, size) in (0_u64..).zip(&sizes) {
            let mut moof = moof.clone();
            let tfdt = moof.windows(4).position(|w| w == b"tfdt").unwrap();
            moof[tfdt + 8..tfdt + 16].copy_from_slice(&(number * 25_600).to_be_bytes());
            put(at, &moof);
            at += size;
        }
        Bytes::from(out)
    };
    let index = locate_by(size as u64, Limits::default(), read).unwrap().index;
    assert_eq!(index.source, IndexSource::SegmentIndex);
    let from = index.source_bytes;
    let bytes = index.heap_bytes() as u64;
    println!(
        "{count} fragments: moov and sidx {from} bytes, index {bytes}, 1/{:.2}",
        from as f64 / bytes as f64
    );
    (from, bytes)
}
