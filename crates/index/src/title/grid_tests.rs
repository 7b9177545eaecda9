use super::*;
use crate::{
    media::{IndexSource, Purpose, fragment_samples::NoFragments},
    table::{
        fragment_table::FragmentTableBuilder, presentation::Presentation, samples::Sample,
        samples::tests::build,
    },
};
use bytes::Bytes;
use latemux_isobmff::{
    FourCc, Time, Timescale,
    boxes::{mdhd::Language, stsd::SampleEntry},
    codec::{Codec, Config, DeclaredBitrate, Media},
    matrix::Matrix,
    time::Round,
};
use proptest::prelude::*;

pub(crate) fn scale(ticks: u32) -> Timescale {
    Timescale::new(ticks).unwrap()
}

/// Returns a track whose presentation starts `media_time` after its media.
pub(crate) fn track_of(
    kind: TrackKind,
    timescale: u32,
    media_time: i64,
    samples: Samples,
    bounds: (i64, i64),
) -> Track {
    let format = FourCc(*b"test");
    Track {
        id: 1,
        kind,
        handler: format,
        enabled: true,
        timescale: scale(timescale),
        language: Language::unknown(),
        sample_entry: SampleEntry { format, data_reference_index: 1, raw: Bytes::new() },
        codec: Codec {
            format,
            rfc6381: String::new(),
            protection: None,
            config: Config::Other,
            media: Media::Text,
            declared_bitrate: DeclaredBitrate::default(),
        },
        matrix: Matrix::UNITY,
        display_size: (0, 0),
        presentation: Presentation { media_time, shift: 0 },
        start: bounds.0.max(0),
        end: bounds.1,
        samples,
        average_bitrate: 1_000_400,
        sample_description: 1,
        purpose: Purpose::default(),
        label: None,
        captions: None,
        location: None,
    }
}

pub(crate) fn table_track(kind: TrackKind, timescale: u32, media_time: i64, samples: &[Sample]) -> Track {
    let table = build(samples);
    let bounds = table.presented(&Presentation { media_time, shift: 0 }).unwrap();
    track_of(kind, timescale, media_time, Samples::Table(table), bounds)
}

/// Returns frames of one duration. Every `gop`th one is a sync sample.
pub(crate) fn frames(count: u32, duration: u32, gop: u32) -> Vec<Sample> {
    (0..count)
        .map(|i| Sample {
            offset: u64::from(i) * 100,
            size: 100,
            decode_time: i64::from(i) * i64::from(duration),
            duration,
            composition_offset: 0,
            sync: i % gop == 0,
        })
        .collect()
}

pub(crate) fn video(timescale: u32, count: u32, duration: u32, gop: u32) -> Track {
    table_track(TrackKind::Video, timescale, 0, &frames(count, duration, gop))
}

/// Returns AAC at 48 kHz with its priming before 0.
pub(crate) fn audio(count: u32) -> Track {
    table_track(TrackKind::Audio, 48_000, 1024, &frames(count, 1024, 1))
}

pub(crate) fn fragments(kind: TrackKind, timescale: u32, starts: &[i64], end: i64) -> Track {
    let mut builder = FragmentTableBuilder::default();
    for (i, &start) in (0..).zip(starts) {
        assert!(builder.push(1000 + i * 100, 100, start, 0, true));
    }
    track_of(kind, timescale, 0, Samples::Fragments(builder.finish(end, 0)), (starts[0], end))
}

/// Returns a title in which each track is an object of its own.
pub(crate) fn title(tracks: Vec<Track>, seconds: u64) -> Title {
    let object = |track| {
        Arc::new(MediaIndex {
            unpacked: Default::default(),
            object_size: 1 << 40,
            fingerprint: 1,
            tracks: vec![track],
            left_out: Vec::new(),
            thumbnails: Vec::new(),
            source: IndexSource::SampleTables,
            source_bytes: 0,
            fragment_defaults: Box::default(),
            stamp: None,
            cut_box: None,
            inline: None,
        })
    };
    Title::new(tracks.into_iter().map(object).collect(), Duration::from_secs(seconds)).unwrap()
}

fn ticks(times: &[Time], scale: u32) -> Vec<i64> {
    let scale = Timescale::new(scale).unwrap();
    times.iter().map(|t| t.in_scale(scale, Round::Nearest)).collect()
}

#[test]
fn boundaries_are_sync_samples_at_or_after_multiples_of_the_target() {
    // 25 frames a second, a GOP of 1.6 s, 20 s: 4 s is inside a GOP, 8 s is not.
    let title = title(vec![video(25, 500, 1, 40), audio(939)], 4);
    assert_eq!(ticks(&title.grid.starts, 25), [0, 120, 200, 320, 400]);
    assert_eq!(ticks(&[title.grid.end], 48_000), [938 * 1024]);
    let [video, audio] = title.tracks.as_slice() else { panic!("{:?}", title.tracks) };
    assert_eq!(video.cuts, [0, 120, 200, 320, 400, 500]);
    assert_eq!(video.times, [0, 120, 200, 320, 400, 500]);
    assert_eq!(video.grid_segments, [0, 1, 2, 3, 4]);
    // Audio is cut at the first sample at or after each boundary, with that sample's time. The
    // first segment includes the priming.
    assert_eq!(audio.cuts, [0, 226, 376, 601, 751, 939]);
    assert_eq!(audio.times, [0, 225 * 1024, 375 * 1024, 600 * 1024, 750 * 1024, 938 * 1024]);
    assert_eq!(title.problems, []);
    let second = audio.segment(1).unwrap();
    let SegmentSamples::Known(samples) = title.samples(1, &second, &NoFragments) else { panic!() };
    assert_eq!((samples.len(), samples[0].decode_time), (150, 226 * 1024));
    assert_eq!(audio.segment_at(225 * 1024), Some(second));
    assert_eq!(audio.segment_at(225 * 1024 + 1), None);
}

#[test]
fn renditions_of_different_timescales_share_the_grid() {
    // 29.97 frames a second in ticks of 1/30000 s, and in milliseconds, which round.
    let exact = video(30_000, 600, 1001, 60);
    let mut rounded = frames(600, 1, 60);
    for (i, sample) in (0..).zip(&mut rounded) {
        sample.decode_time = (i * 1001 + 15) / 30;
        sample.duration = u32::try_from((i * 1001 + 1001 + 15) / 30 - sample.decode_time).unwrap();
    }
    let title = title(vec![exact, table_track(TrackKind::Video, 1000, 0, &rounded)], 4);
    assert_eq!(title.problems, []);
    // 120 × 1001/30000 s are 4.004 s.
    assert_eq!(
        title.grid.starts.iter().map(|t| t.ticks).collect::<Vec<_>>(),
        [0, 120_120, 240_240, 360_360, 480_480]
    );
    assert!(title.tracks.iter().all(|t| t.cuts == [0, 120, 240, 360, 480, 600]), "{:?}", title.tracks);
    assert_eq!(title.tracks[1].times[1], 4004);
}

#[test]
fn sync_samples_of_only_some_renditions_are_skipped() {
    // GOPs of 2 s and of 3 s meet every 6 s: longer than 4 s, but not twice as long.
    let title = title(vec![video(25, 600, 1, 50), video(25, 600, 1, 75)], 4);
    assert_eq!(title.problems, []);
    assert_eq!(ticks(&title.grid.starts, 25), [0, 150, 300, 450]);
    assert!(title.tracks.iter().all(|t| t.cuts == [0, 150, 300, 450, 600]));
}

#[test]
fn gops_that_disagree_are_cut_separately_and_reported() {
    // 2 s and 1.96 s meet only after 98 s.
    let title = title(vec![video(25, 2000, 1, 50), video(25, 2000, 1, 49)], 4);
    assert_eq!(title.problems.iter().map(|p| p.reason).collect::<Vec<_>>(), ["misaligned_gops"]);
    assert_eq!(title.grid.starts.len(), 20);
    assert_eq!(title.tracks[0].cuts, (0..=20).map(|i| i * 100).collect::<Vec<_>>());
    for (i, (cut, boundary)) in title.tracks[1].cuts.iter().zip((0..).step_by(100)).enumerate().take(20) {
        assert_eq!((cut % 49, *cut >= boundary, *cut < boundary + 49), (0, true, true), "cut {i} at {cut}");
    }
}

#[test]
fn segments_of_one_minute_were_not_reported() {
    // Sync samples at 0, 60 and 120 s of 130 s, and a target of 4 s.
    let one = title(vec![video(25, 3250, 1, 1500), audio(6094)], 4);
    let [problem] = one.problems.as_slice() else { panic!("{:?}", one.problems) };
    assert_eq!((problem.reason, problem.object), ("long_segments", None));
    assert_eq!(
        problem.detail,
        "number of segments of video=1000000 that are longer than twice the target duration of 4 s: 3; the \
         longest lasts 60.000 s and starts at 0.000 s"
    );
    // Exactly twice the target is not reported, and longer is.
    assert_eq!(title(vec![video(25, 800, 1, 200)], 4).problems, []);
    assert_eq!(title(vec![video(25, 804, 1, 201)], 4).problems.len(), 1);
    // A rendition with long GOPs beside one with short GOPs.
    let both = title(vec![video(25, 3000, 1, 50), video(25, 3000, 1, 1500)], 4);
    assert!(both.problems.iter().any(|p| p.reason == "long_segments" && p.detail.contains("video_1=")));
    // Audio in fragments of one minute, beside video with short GOPs.
    let audio = fragments(TrackKind::Audio, 48_000, &[0, 2_880_000], 5_760_000);
    let both = title(vec![video(25, 3000, 1, 50), audio], 4);
    assert!(both.problems.iter().any(|p| p.reason == "long_segments" && p.detail.contains("audio=")));
    // A long cue is no problem.
    let text = table_track(TrackKind::Text, 1000, 0, &frames(1, 60_000, 1));
    assert_eq!(title(vec![video(25, 1500, 1, 50), text], 4).problems, []);
}

#[test]
fn leading_pictures_of_an_open_gop_are_in_its_segment() {
    // In decode order I B B P, the Bs presented before the I from the second GOP on.
    let samples: Vec<Sample> = frames(400, 1, 50)
        .into_iter()
        .zip(0..)
        .map(|(s, i): (Sample, usize)| Sample { composition_offset: [4, 1, 1, 3][i % 50 % 4], ..s })
        .collect();
    let title = title(vec![table_track(TrackKind::Video, 25, 4, &samples)], 4);
    // The sync sample is presented at 100, two Bs at 98 and 99.
    assert_eq!(ticks(&title.grid.starts, 25), [0, 100, 200, 300]);
    assert_eq!(title.tracks[0].times, [0, 98, 198, 298, 399]);
    assert_eq!(title.tracks[0].cuts, [0, 100, 200, 300, 400]);
}

#[test]
fn without_video_audio_is_cut_at_its_own_samples() {
    let title = title(vec![audio(939), table_track(TrackKind::Audio, 44_100, 0, &frames(861, 1024, 1))], 4);
    assert_eq!(ticks(&title.grid.starts, 48_000), [0, 192_512, 384_000, 576_512, 768_000]);
    assert_eq!(title.tracks[0].cuts, [0, 189, 376, 564, 751, 939]);
    // The second track is cut where the first one's samples start, or just after.
    assert_eq!(title.tracks[1].cuts, [0, 173, 345, 518, 690, 861]);
}

#[test]
fn fragments_are_cut_at_the_nearest_start() {
    let audio_starts = [0, 95_232, 191_488, 287_744, 384_000, 479_232];
    let tracks = vec![
        fragments(TrackKind::Video, 25, &[0, 50, 100, 150, 200, 250], 300),
        fragments(TrackKind::Audio, 48_000, &audio_starts, 576_000),
    ];
    let title = title(tracks, 4);
    assert_eq!(ticks(&title.grid.starts, 25), [0, 100, 200]);
    assert_eq!(title.tracks[0].cuts, [0, 2, 4, 6]);
    assert_eq!(title.tracks[1].cuts, [0, 2, 4, 6]);
    assert_eq!(title.tracks[1].times, [0, 191_488, 384_000, 576_000]);
    let segment = title.tracks[1].segment(1).unwrap();
    let SegmentSamples::Needs(ranges) = title.samples(1, &segment, &NoFragments) else { panic!() };
    assert_eq!(ranges, [1200..1300, 1300..1400]);
}

#[test]
fn a_track_that_starts_late_or_ends_early_has_fewer_segments() {
    let late: Vec<Sample> = frames(200, 1024, 1)
        .into_iter()
        .map(|s| Sample { decode_time: s.decode_time + 480_000, ..s })
        .collect();
    let mut text = table_track(TrackKind::Text, 1000, 0, &frames(1, 3000, 1));
    text.language = Language::new("eng").unwrap();
    let title = title(vec![video(25, 500, 1, 50), table_track(TrackKind::Audio, 48_000, 0, &late), text], 4);
    assert_eq!(title.grid.starts.len(), 5);
    let audio = &title.tracks[1];
    // It starts at 10 s, in the third segment, and ends at 14.27 s, in the fourth.
    assert_eq!((&audio.grid_segments, &audio.cuts), (&vec![2, 3], &vec![0, 94, 200]));
    assert_eq!(audio.times, [480_000, 576_256, 480_000 + 204_800]);
    assert_eq!(title.tracks[2].cuts, [0, 1]);
    let names: Vec<String> = title.tracks.iter().map(|t| t.name.to_string()).collect();
    assert_eq!(names, ["video=1000000", "audio=1000000", "textstream_eng=1000000"]);
}

#[test]
fn audio_that_outlasts_the_video_is_segmented_to_its_end() {
    let title = title(vec![video(25, 250, 1, 50), audio(1501)], 4);
    // Video ends at 10 s, audio at 32 s.
    let starts = ticks(&title.grid.starts, 48_000);
    assert_eq!(starts, [0, 192_000, 384_000, 576_512, 768_000, 960_512, 1_152_000, 1_344_512]);
    assert_eq!(title.tracks[0].cuts, [0, 100, 200, 250]);
    assert_eq!(title.tracks[1].segment_count(), 8);
}

fn reasons(title: &Title) -> Vec<&'static str> {
    title.problems.iter().map(|problem| problem.reason).collect()
}

#[test]
fn a_rendition_that_ended_early_let_the_grid_follow_the_audio() {
    // GOPs of 2 s. The lowest rendition ends at 9 s, the others and the audio at 25 s.
    let title =
        title(vec![video(25, 225, 1, 50), video(25, 625, 1, 50), video(25, 625, 1, 50), audio(1172)], 4);
    assert_eq!(ticks(&title.grid.starts, 25), [0, 100, 200, 300, 400, 500, 600]);
    assert_eq!(title.tracks[0].cuts, [0, 100, 200, 225]);
    assert_eq!(title.tracks[2].cuts, [0, 100, 200, 300, 400, 500, 600, 625]);
    assert_eq!(title.tracks[3].segment_count(), 7);
    assert_eq!(reasons(&title), ["video_ends_early"]);
    assert_eq!(
        title.problems[0].detail,
        "video tracks that end more than the target duration of 4 s before video_2=1000000, at 25.000 s: 1; \
         the first is video=1000000, at 9.000 s"
    );
}

/// Returns video at 25 frames a second that starts later by milliseconds.
fn late_video(count: u32, millis: i64) -> Track {
    let mut samples = frames(count, 40, 50);
    samples.iter_mut().for_each(|sample| sample.decode_time += millis);
    table_track(TrackKind::Video, 1000, 0, &samples)
}

/// Returns audio at 48 kHz that starts later by milliseconds.
fn late_audio(count: u32, millis: i64) -> Track {
    let mut samples = frames(count, 1024, 1);
    samples.iter_mut().for_each(|sample| sample.decode_time += millis * 48);
    table_track(TrackKind::Audio, 48_000, 0, &samples)
}

#[test]
fn a_picture_that_starts_later_than_the_sound_was_not_reported() {
    let title_of = |tracks| title(tracks, 4);
    let late = title_of(vec![late_video(250, 3000), audio(610), audio(600)]);
    assert_eq!(reasons(&late), ["video_starts_late"]);
    assert_eq!(
        late.problems[0].detail,
        "video=1000000 starts at 3.000 s, but audio=1000000 at 0.000 s; some players play the former \
         too early by the difference, or leave out what precedes it"
    );
    // B-frames without an edit list delay the picture by less.
    assert_eq!(reasons(&title_of(vec![late_video(250, 186), audio(480)])), ["video_starts_late"]);
    assert_eq!(reasons(&title_of(vec![late_video(250, 185), audio(480)])), [""; 0]);
    // Another video starts with the sound, or the whole title starts late.
    assert_eq!(reasons(&title_of(vec![late_video(250, 4000), late_video(350, 0), audio(656)])), [""; 0]);
    assert_eq!(reasons(&title_of(vec![late_video(250, 3000), late_audio(480, 3000)])), [""; 0]);
}

#[test]
fn sound_that_starts_later_than_the_picture_was_not_reported() {
    for (millis, expected) in [(3000, &["audio_starts_late"][..]), (91, &["audio_starts_late"]), (90, &[])] {
        let title = title(vec![late_video(350, 0), late_audio(480, millis)], 4);
        assert_eq!(reasons(&title), expected, "{millis} ms");
    }
    assert_eq!(reasons(&title(vec![late_video(350, 0), late_audio(480, 3000), audio(650)], 4)), [""; 0]);
}

#[test]
fn renditions_that_end_at_almost_the_same_time_keep_the_first_as_reference() {
    // Exactly the target duration earlier.
    let title = title(vec![video(25, 500, 1, 50), video(50, 1200, 1, 100), audio(1125)], 4);
    assert_eq!(title.grid.starts[1].scale, scale(25));
    assert_eq!(ticks(&title.grid.starts, 25), [0, 100, 200, 300, 400]);
    assert_eq!(title.problems, []);
}

#[test]
fn under_a_still_picture_sound_was_not_cut() {
    // One frame a second, and a sync sample every 20 s.
    let slow = title(vec![video(1, 40, 1, 20), audio(1875)], 4);
    assert_eq!(ticks(&slow.grid.starts, 1), [0, 4, 8, 12, 16, 20, 24, 28, 32, 36]);
    assert_eq!((&slow.tracks[0].cuts, &slow.tracks[0].grid_segments), (&vec![0, 20, 40], &vec![0, 5]));
    assert_eq!(slow.tracks[1].segment_count(), 10);
    assert_eq!(reasons(&slow), ["long_segments"]);
    // The rest after 20 s is too short for a segment.
    assert_eq!(ticks(&title(vec![video(1, 21, 1, 21), audio(985)], 4).grid.starts, 1), [0, 4, 8, 12, 16]);
    // Moving pictures, and segments that are not too long, stay as they are.
    assert_eq!(ticks(&title(vec![video(2, 80, 1, 40), audio(1875)], 4).grid.starts, 1), [0, 20]);
    assert_eq!(ticks(&title(vec![video(1, 40, 1, 20), audio(1875)], 10).grid.starts, 1), [0, 20]);
    // Another rendition moves.
    let mixed = title(vec![video(1, 40, 1, 20), video(25, 1000, 1, 500), audio(1875)], 4);
    assert_eq!(ticks(&mixed.grid.starts, 1), [0, 20]);
    // Of few frames, browsers show nothing before the end of the stream.
    let few = title(vec![table_track(TrackKind::Video, 25, 0, &frames(15, 100, 15)), audio(2812)], 4);
    assert_eq!(ticks(&few.grid.starts, 1), [0]);
    assert_eq!(reasons(&few), ["long_segments"]);
    // Without sound there is nothing to cut.
    assert_eq!(ticks(&title(vec![video(1, 40, 1, 20)], 4).grid.starts, 1), [0, 20]);
}

#[test]
fn text_behind_the_sound_does_not_keep_the_sound_from_being_cut() {
    let cue = table_track(TrackKind::Text, 1000, 0, &frames(1, 60_000, 1));
    let title = title(vec![video(25, 250, 1, 50), audio(1501), cue], 4);
    assert_eq!(title.tracks[1].segment_count(), 8);
}

#[test]
fn names_are_unique_and_video_ascends_by_bitrate() {
    let rate = |kind, rate| {
        let samples = frames(100, 1, 1);
        Track { average_bitrate: rate, ..table_track(kind, 25, 0, &samples) }
    };
    let title = title(
        vec![
            rate(TrackKind::Audio, 128_400),
            rate(TrackKind::Video, 2_000_000),
            rate(TrackKind::Video, 300),
            rate(TrackKind::Audio, 127_600),
        ],
        4,
    );
    let names: Vec<String> = title.tracks.iter().map(|t| t.name.to_string()).collect();
    assert_eq!(names, ["video=1000", "video=2000000", "audio=128000", "audio_1=128000"]);
    assert_eq!(title.find(&title.tracks[3].name), Some(3));
}

#[test]
fn a_title_without_media_is_an_error() {
    let error = Title::new(Vec::new(), Duration::from_secs(4)).unwrap_err();
    assert_eq!(error.reason(), "no_media");
}

pub(crate) fn any_track() -> impl Strategy<Value = Track> {
    let samples = prop::collection::vec((0..9000_u32, -3..4_i32, prop::bool::weighted(0.1)), 1..400);
    let kind = prop_oneof![Just(TrackKind::Video), Just(TrackKind::Audio), Just(TrackKind::Text)];
    (samples, kind, 1..100_000_u32, 0..5000_i64).prop_filter_map(
        "plays",
        |(rows, kind, timescale, media_time)| {
            let mut time = 0;
            let samples: Vec<Sample> = rows
                .into_iter()
                .enumerate()
                .map(|(i, (duration, offset, sync))| {
                    let sample = Sample {
                        offset: i as u64 * 10,
                        size: 10,
                        decode_time: time,
                        duration,
                        composition_offset: offset * 1000,
                        sync: sync || i == 0 || kind != TrackKind::Video,
                    };
                    time += i64::from(duration);
                    sample
                })
                .collect();
            let track = table_track(kind, timescale, media_time, &samples);
            (track.end > track.start).then_some(track)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_sample_is_in_one_segment_and_times_ascend(
        tracks in prop::collection::vec(any_track(), 1..5),
        target in 1..20_000_u64,
    ) {
        let object = |track| Arc::new(MediaIndex {
            unpacked: Default::default(),
            object_size: 1 << 40, fingerprint: 1, tracks: vec![track], left_out: Vec::new(), thumbnails: Vec::new(),
            source: IndexSource::SampleTables, source_bytes: 0, fragment_defaults: Box::default(),
            stamp: None,
            cut_box: None,
            inline: None,
        });
        let objects: Vec<_> = tracks.into_iter().map(object).collect();
        let title = Title::new(objects.clone(), Duration::from_millis(target)).unwrap();
        let again = Title::new(objects, Duration::from_millis(target)).unwrap();
        prop_assert_eq!(format!("{title:?}"), format!("{again:?}"));
        prop_assert!(title.grid.starts.is_sorted_by(|a, b| a < b));
        prop_assert!(title.grid.starts.last().unwrap() < &title.grid.end);
        for track in &title.tracks {
            let Samples::Table(table) = &title.track(track).samples else { unreachable!() };
            prop_assert_eq!((track.cuts[0], *track.cuts.last().unwrap()), (0, table.len()));
            prop_assert!(track.cuts.is_sorted_by(|a, b| a < b));
            prop_assert!(track.times.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(track.grid_segments.len() + 1, track.cuts.len());
            prop_assert!(track.grid_segments.is_sorted_by(|a, b| a < b));
            prop_assert!((*track.grid_segments.last().unwrap() as usize) < title.grid.starts.len());
            for &cut in &track.cuts[..track.cuts.len() - 1] {
                prop_assert!(table.get(cut).unwrap().sync);
            }
        }
    }

    // While there is video, the grid follows the rendition that lasts; behind it, sound is cut by
    // the target duration.
    #[test]
    fn boundaries_are_those_of_video_as_long_as_there_is_any(
        lengths in prop::collection::vec(1..40_u32, 1..4),
        gop in 5..60_u32,
        sound in 1..60_u32,
        target in 1..6_u64,
    ) {
        let videos = lengths.iter().map(|&seconds| video(25, seconds * 25, 1, gop));
        let title = title(videos.chain([audio(sound * 48_000 / 1024)]).collect(), target);
        let picture_end = i64::from(*lengths.iter().max().unwrap()) * 25;
        let starts = ticks(&title.grid.starts, 25);
        let target = i64::try_from(target).unwrap() * 25;
        for (number, &start) in starts.iter().enumerate().skip(1) {
            let of_video = start < picture_end;
            prop_assert_eq!(of_video, title.grid.starts[number].scale == scale(25), "{:?}", &starts);
            prop_assert!(!of_video || start % i64::from(gop) == 0, "{:?}", &starts);
            let next = starts.get(number + 1).copied().unwrap_or(start);
            prop_assert!(of_video || next - start <= target + 1, "{:?}", &starts);
        }
        let audio = title.tracks.last().unwrap();
        let longest = audio.times.windows(2).map(|w| (w[1] - w[0]) * 25 / 48_000).max().unwrap();
        prop_assert!(longest <= 3 * target + i64::from(gop) + 1, "{longest} {:?}", &starts);
    }

    // An audio file that was packed beside its video is cut at the video's sync samples, however
    // far apart they are.
    #[test]
    fn fragments_cut_by_video_become_the_segments_of_their_own_title(
        near in prop::collection::vec(prop::collection::btree_set(-3..3_i64, 0..3), 1..40),
        (rate, frame) in prop::sample::select(vec![(48_000_u32, 1024_u32), (44_100, 1152), (22_050, 2048), (48_000, 5760)]),
        outlasting in 0..20_u32,
        target in 500..8000_u64,
    ) {
        // Some multiples of the target have sync samples a few frames before or after them, some
        // have none.
        let multiple = |number: u64| i64::try_from(number * target * 25 / 1000).unwrap();
        let count = u32::try_from(multiple(near.len() as u64)).unwrap() + 40;
        let mut video_frames = frames(count, 1, u32::MAX);
        for (number, syncs) in (1..).zip(&near) {
            for sync in syncs {
                video_frames[usize::try_from(multiple(number) + sync).unwrap()].sync = true;
            }
        }
        let seconds = u32::try_from(video_frames.len()).unwrap() / 25 + outlasting;
        let audio = table_track(TrackKind::Audio, rate, 0, &frames((seconds * rate).div_ceil(frame) + 1, frame, 1));
        let of = |tracks: Vec<Track>| Title::new(
            title(tracks, 4).objects.clone(), Duration::from_millis(target),
        ).unwrap();
        let together = of(vec![table_track(TrackKind::Video, 25, 0, &video_frames), audio]);
        let audio = &together.tracks[together.of_kind(TrackKind::Audio).next().unwrap()];
        let (&end, starts) = audio.times.split_last().unwrap();
        let alone = of(vec![fragments(TrackKind::Audio, rate, starts, end)]);
        prop_assert_eq!(&alone.tracks[0].times, &audio.times);
    }
}
