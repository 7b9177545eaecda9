use super::*;
use crate::{
    media::{Samples, fragment_samples::NoFragments},
    title::SegmentSamples,
    title::grid_tests::{any_track, audio, fragments, frames, table_track, title, video},
};
use latemux_isobmff::Timescale;
use proptest::prelude::*;

fn millis(time: i64) -> Option<Time> {
    Some(Time::new(time, Timescale::MILLIS))
}

/// Returns the number of the first segment, the cuts and the times of a track.
fn track(title: &Title, index: usize) -> (u32, Vec<u32>, Vec<i64>) {
    let track = &title.tracks[index];
    assert_eq!(track.grid_segments.len(), track.segment_count() as usize);
    (track.first, track.cuts.clone(), track.times.clone())
}

#[test]
fn a_clip_is_cut_at_sync_samples_around_it() {
    // Sync samples every second, segments of 4 s.
    let whole = title(vec![video(25, 500, 1, 25), audio(940)], 4);
    let clip = whole.clipped(millis(5500), millis(10_040)).unwrap();
    assert_eq!(track(&clip, 0), (1, vec![125, 200, 275], vec![125, 200, 275]));
    // From the first frame at or after 5 s, and up to the first at or after 11 s.
    assert_eq!(track(&clip, 1), (1, vec![236, 376, 517], vec![235 * 1024, 375 * 1024, 516 * 1024]));
    assert_eq!(whole.tracks[1].cuts[2], 376);
}

#[test]
fn clips_along_the_grid_keep_segments_whole() {
    let whole = title(vec![video(25, 500, 1, 25), audio(940)], 4);
    let clip = whole.clipped(millis(8000), millis(16_000)).unwrap();
    for i in 0..2 {
        assert_eq!(clip.tracks[i].numbers(), 2..4);
        for n in 2..4 {
            assert_eq!(clip.tracks[i].segment(n), whole.tracks[i].segment(n));
        }
        assert!(clip.tracks[i].segment(1).is_none() && clip.tracks[i].segment(4).is_none());
        let start = clip.tracks[i].times[0];
        assert_eq!(clip.tracks[i].segment_at(start), whole.tracks[i].segment_at(start));
    }
    // A GOP as long as a segment has no other place to cut.
    let whole = title(vec![video(25, 500, 1, 100)], 4);
    let clip = whole.clipped(millis(7999), millis(8001)).unwrap();
    assert_eq!(track(&clip, 0), (1, vec![100, 200, 300], vec![100, 200, 300]));
}

#[test]
fn clips_without_a_limit_keep_the_ends_of_the_title() {
    let whole = title(vec![video(25, 500, 1, 25), audio(940)], 4);
    for (begin, end) in [(None, None), (millis(0), millis(1_000_000)), (millis(999), millis(19_999))] {
        let clip = whole.clipped(begin, end).unwrap();
        for (clip, whole) in clip.tracks.iter().zip(&whole.tracks) {
            assert_eq!((clip.first, &clip.cuts, &clip.times), (0, &whole.cuts, &whole.times));
        }
    }
    assert!(whole.clipped(millis(20_033), None).is_none());
    // Audio that outlasts the video is cut with the grid.
    let whole = title(vec![video(25, 100, 1, 25), audio(940)], 4);
    let clip = whole.clipped(millis(9000), millis(9500)).unwrap();
    assert_eq!(clip.tracks[0].segment_count(), 0);
    // The grid continues at 4 s, where the video ends, and at 8 s.
    assert_eq!(clip.tracks[1].numbers(), 2..3);
}

#[test]
fn a_clip_inside_a_still_picture_has_the_picture() {
    // One frame a second, a sync sample every 20 s, and sound cut every 4 s.
    let whole = title(vec![video(1, 60, 1, 20), audio(2812)], 4);
    assert_eq!(whole.tracks[0].grid_segments, [0, 5, 10]);
    for (begin, end) in [(21_000, 22_000), (24_000, 32_000), (25_000, 39_999)] {
        let clip = whole.clipped(millis(begin), millis(end)).unwrap();
        assert_eq!(track(&clip, 0), (1, vec![20, 40], vec![20, 40]), "{begin} to {end}");
        assert_eq!(clip.tracks[1].numbers(), 5..10, "{begin} to {end}");
    }
    let clip = whole.clipped(millis(21_000), None).unwrap();
    assert_eq!((clip.tracks[0].first, clip.tracks[1].first), (1, 5));
}

#[test]
fn a_clip_behind_the_end_of_the_first_rendition_is_cut_at_sync_samples() {
    // Sync samples every second, segments of 4 s; the first rendition ends at 5 s.
    let whole = title(vec![video(25, 125, 1, 25), video(25, 500, 1, 25), audio(940)], 4);
    let clip = whole.clipped(millis(9500), millis(10_040)).unwrap();
    assert_eq!(clip.tracks[0].segment_count(), 0);
    assert_eq!(track(&clip, 1), (2, vec![225, 275], vec![225, 275]));
}

#[test]
fn renditions_are_cut_at_shared_sync_samples() {
    // Sync samples every second, and every two seconds.
    let whole = title(vec![video(25, 500, 1, 25), video(50, 1000, 1, 100)], 8);
    let clip = whole.clipped(millis(3500), millis(12_500)).unwrap();
    assert_eq!(track(&clip, 0).1, [50, 200, 350]);
    assert_eq!(track(&clip, 1).1, [100, 400, 700]);
}

#[test]
fn leading_pictures_stay_with_their_sync_sample() {
    let mut samples = frames(500, 1, 25);
    for (i, sample) in samples.iter_mut().enumerate() {
        // Decoded as I P B B …: two frames are presented before the sync sample they are decoded
        // after.
        sample.composition_offset = match i % 25 {
            0 => 3,
            1 | 2 => 0,
            _ => 1,
        };
    }
    let whole = title(vec![table_track(TrackKind::Video, 25, 0, &samples)], 4);
    let clip = whole.clipped(millis(5500), None).unwrap();
    assert_eq!((clip.tracks[0].cuts[0], clip.tracks[0].times[0]), (125, 126));
}

#[test]
fn fragments_are_cut_where_they_start() {
    let starts: Vec<i64> = (0..20).map(|s| s * 25).collect();
    let audio: Vec<i64> = (0..20).map(|s| s * 48_000 + 512).collect();
    let whole = title(
        vec![
            fragments(TrackKind::Video, 25, &starts, 500),
            fragments(TrackKind::Audio, 48_000, &audio, 960_000),
        ],
        4,
    );
    let clip = whole.clipped(millis(5500), millis(10_040)).unwrap();
    assert_eq!(track(&clip, 0), (1, vec![5, 8, 11], vec![125, 200, 275]));
    assert_eq!(track(&clip, 1).1, [5, 8, 11]);
}

#[test]
fn filtered_tracks_are_remembered() {
    let whole = title(vec![video(25, 500, 1, 25), audio(940)], 4);
    let filtered = whole.with_tracks(|i| i == 1);
    assert_eq!((filtered.tracks.len(), filtered.whole_tracks().count()), (1, 2));
    assert_eq!(filtered.tracks[0].cuts, whole.tracks[1].cuts);
    // The clip comes first, so that a segment's content does not depend on the filter.
    let clip = whole.clipped(millis(5500), None).unwrap().with_tracks(|i| i == 1);
    assert_eq!(clip.tracks[0].cuts[0], 236);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_clip_is_a_contiguous_part_of_each_track(
        tracks in prop::collection::vec(any_track(), 1..5),
        target in 1..20,
        begin in 0..100_000_i64,
        length in 1..100_000_i64,
    ) {
        let whole = title(tracks, u64::try_from(target).unwrap());
        let end = begin + length;
        let Some(clip) = whole.clipped(millis(begin), millis(end)) else {
            let grid = &whole.grid;
            prop_assert!(grid.end <= millis(begin).unwrap() || millis(end).unwrap() <= grid.starts[0]);
            return Ok(());
        };
        for (index, (clipped, track)) in clip.tracks.iter().zip(&whole.tracks).enumerate() {
            prop_assert_eq!(&clipped.name, &track.name);
            if clipped.segment_count() == 0 {
                continue;
            }
            prop_assert!(clipped.cuts.is_sorted_by(|a, b| a < b));
            prop_assert!(clipped.times.is_sorted_by(|a, b| a < b));
            let inner = clipped.numbers().start + 1..clipped.numbers().end - 1;
            for number in inner {
                prop_assert_eq!(clipped.segment(number), track.segment(number));
            }
            for number in clipped.numbers() {
                let part = clipped.segment(number).unwrap();
                let all = track.segment(number).unwrap();
                prop_assert!(part.cut.start >= all.cut.start && part.cut.end <= all.cut.end);
                prop_assert!(part.start >= all.start && part.end <= all.end);
                let SegmentSamples::Known(samples) = clip.samples(index, &part, &NoFragments) else { unreachable!() };
                prop_assert!(samples.first().unwrap().sync);
            }
            // All video presented within the clip is in it.
            let of = clip.track(clipped);
            let Samples::Table(table) = &of.samples else { unreachable!() };
            if index == 0 && of.kind == TrackKind::Video {
                for sample in table.range(0..table.len()).filter(|s| s.sync).zip(0_u32..).map(|(s, _)| s) {
                    let time = Time::new(of.presentation.time(sample.decode_time, sample.composition_offset), of.timescale);
                    if time >= millis(begin).unwrap() && time < millis(end).unwrap() {
                        let known = clipped.numbers().any(|n| {
                            let cut = clipped.segment(n).unwrap().cut;
                            table.range(cut).any(|s| s.offset == sample.offset)
                        });
                        prop_assert!(known, "{time:?}");
                    }
                }
            }
        }
    }
}
