//! The reach of segments: the bytes that all tracks of an object contribute to them.

use crate::{
    generated::{AVC_AAC, encode, folder, store},
    locating::{locate, samples_of},
};
use bytes::Bytes;
use latemux_index::{Title, locate::limits::Limits, media::Samples};
use std::{ops::Range, path::Path, time::Duration};

/// Checks the segments of every track: all tracks of a segment share one reach, which holds their
/// samples. All reaches together are little more than the media, and are in ascending order.
fn check(path: &Path) {
    let object = Bytes::from(std::fs::read(path).unwrap());
    let index = locate(&object, Limits::default()).unwrap().index;
    let title = Title::new(vec![index.clone()], Duration::from_secs(4)).unwrap();
    let mut media = 0;
    let mut by_grid: Vec<(u32, Range<u64>)> = Vec::new();
    for (number, track) in title.tracks().iter().enumerate() {
        let samples = samples_of(&index, &object, track.track);
        media += samples.iter().map(|s| u64::from(s.size)).sum::<u64>();
        assert!(track.segment_count() >= 4);
        for n in 0..track.segment_count() {
            let segment = track.segment(n).unwrap();
            let reach = title.reach(number, &segment.cut).unwrap();
            if let Samples::Table(_) = title.track(track).samples {
                let first = segment.cut.start as usize;
                let end = segment.cut.end as usize;
                for sample in &samples[first..end] {
                    let bytes = sample.offset..sample.offset + u64::from(sample.size);
                    assert!(reach.start <= bytes.start && bytes.end <= reach.end, "{bytes:?} in {reach:?}");
                }
                // A cut within the segment has the segment's reach.
                assert_eq!(
                    title.reach(number, &(segment.cut.start + 1..segment.cut.end)),
                    Some(reach.clone())
                );
            }
            by_grid.push((track.grid_segments[n as usize], reach));
        }
        assert_eq!(title.reach(number, &(0..0)), None);
        assert_eq!(title.reach(number, &(0..u32::MAX)), None);
    }
    assert_eq!(title.reach(99, &(0..1)), None);
    by_grid.sort_by_key(|(grid, _)| *grid);
    by_grid.dedup();
    let grids: Vec<u32> = by_grid.iter().map(|(grid, _)| *grid).collect();
    assert_eq!(grids, (0_u32..).take(grids.len()).collect::<Vec<_>>(), "one reach for each: {by_grid:?}");
    let mut read = 0;
    let mut end = 0;
    for (_, reach) in &by_grid {
        assert!(reach.end > end, "{by_grid:?}");
        read += reach.end - reach.start.max(end);
        end = reach.end;
    }
    assert!(read >= media && read <= media + media / 50 + 8000, "{read} for {media}");
}

#[test]
fn tracks_of_one_file_share_their_reach() {
    let folder = folder("reach");
    let source = encode(&folder, "source.mp4", &AVC_AAC);
    check(&source);
    check(&store(&source, "first.mp4", &["-movflags", "faststart"]));
    check(&store(&source, "scan.mp4", &["-movflags", "frag_keyframe+empty_moov+skip_trailer"]));
    check(&store(&source, "mfra.mp4", &["-movflags", "frag_keyframe+empty_moov"]));
}
