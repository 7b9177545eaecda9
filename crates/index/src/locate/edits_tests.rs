use super::*;
use crate::table::samples::{Sample, tests::build};

fn scale(ticks: u32) -> Timescale {
    Timescale::new(ticks).unwrap()
}

fn edit(duration: u64, media_time: Option<u64>) -> Edit {
    Edit { duration, media_time, rate: 0x1_0000 }
}

fn resolve(edits: &[Edit]) -> Result<Edits, &'static str> {
    Edits::resolve(edits, scale(1000), scale(48_000), false)
}

/// Returns `n` samples of 1024 ticks. Every `gop`th one is a sync sample, and composition offsets
/// repeat.
fn table(n: u32, gop: u32, compositions: &[i32]) -> SampleTable {
    let samples: Vec<Sample> = (0..n)
        .map(|i| Sample {
            offset: u64::from(i) * 10,
            size: 10,
            decode_time: i64::from(i) * 1024,
            duration: 1024,
            composition_offset: compositions[i as usize % compositions.len()],
            sync: i % gop == 0,
        })
        .collect();
    build(&samples)
}

#[test]
fn without_an_edit_list_all_media_plays() {
    let edits = resolve(&[]).unwrap();
    assert_eq!(edits.presentation, Presentation::default());
    assert_eq!(edits.samples(&table(10, 1, &[0]), TrackKind::Audio, scale(48_000)), 0..10);
}

#[test]
fn delays_shift_decode_times_and_offsets_shift_the_origin() {
    // 1 s of nothing, then the media from its start.
    let delayed = resolve(&[edit(1000, None), edit(5000, Some(0))]).unwrap();
    assert_eq!(delayed.presentation, Presentation { media_time: 0, shift: 48_000 });
    // Priming is hidden.
    let primed = resolve(&[edit(5000, Some(2112))]).unwrap();
    assert_eq!(primed.presentation, Presentation { media_time: 2112, shift: 0 });
    // Both: 21 ms are 1008 ticks, less than the offset.
    let both = resolve(&[edit(21, None), edit(5000, Some(1024))]).unwrap();
    assert_eq!(both.presentation, Presentation { media_time: 16, shift: 0 });
    let both = resolve(&[edit(50, None), edit(5000, Some(1024))]).unwrap();
    assert_eq!(both.presentation, Presentation { media_time: 0, shift: 1376 });
    // The sample at the edit's start is presented when the delay is over.
    assert_eq!(both.presentation.time(1024 + 1376, 0), 2400);
}

/// Half a tick of this movie is 2400 ticks of the track, which is more than two samples.
#[test]
fn a_coarse_movie_timescale_hid_the_last_frames() {
    let samples = |media_time| {
        let edits = Edits::resolve(&[edit(2, Some(media_time))], scale(10), scale(48_000), false).unwrap();
        let of_kind = |kind| edits.samples(&table(20, 1, &[0]), kind, scale(48_000)).end;
        (of_kind(TrackKind::Video), of_kind(TrackKind::Audio))
    };
    // The edits last for 9600 ticks, and end before and behind the start of the sample at 10,240.
    assert_eq!(samples(600), (10, 10));
    assert_eq!(samples(1024), (11, 11));
}

#[test]
fn a_list_of_only_an_empty_edit_lost_its_delay() {
    let delayed = resolve(&[edit(1000, None)]).unwrap();
    assert_eq!(delayed.presentation, Presentation { media_time: 0, shift: 48_000 });
    let mut table = table(10, 1, &[0]);
    table.shift(delayed.presentation.shift);
    assert_eq!(delayed.samples(&table, TrackKind::Audio, scale(48_000)), 0..10);
}

#[test]
fn adjacent_edits_are_joined_and_others_are_rejected() {
    let joined = resolve(&[edit(1000, Some(0)), edit(1000, Some(48_000))]).unwrap();
    assert_eq!(joined.samples(&table(200, 1, &[0]), TrackKind::Audio, scale(48_000)), 0..94);
    assert!(resolve(&[edit(1000, Some(0)), edit(1000, Some(0))]).is_err());
    assert!(resolve(&[edit(1000, Some(0)), edit(10, None), edit(1000, Some(48_000))]).is_err());
    assert!(resolve(&[Edit { rate: 0, ..edit(1000, Some(0)) }]).is_err());
    assert!(resolve(&[Edit { rate: 0x2_0000, ..edit(1000, Some(0)) }]).is_err());
    // An empty edit at the end is ignored.
    assert!(resolve(&[edit(1000, Some(0)), edit(10, None)]).is_ok());
}

#[test]
fn video_starts_at_the_sync_sample_before_the_edit() {
    let table = table(100, 10, &[2048, 5120, 2048, 0]);
    let range = |start: u64| {
        let edits = resolve(&[edit(0, Some(start))]).unwrap();
        edits.samples(&table, TrackKind::Video, scale(48_000))
    };
    assert_eq!(range(2048), 0..100);
    // Sample 20 is composed at 20 × 1024 + 2048.
    assert_eq!(range(20 * 1024 + 2048), 20..100);
    assert_eq!(range(20 * 1024 + 2047), 10..100);
    // An edit that starts before the first sync sample is composed.
    assert_eq!(range(0), 0..100);
}

#[test]
fn audio_keeps_its_priming_or_two_preroll_frames() {
    let table = table(200, 1, &[0]);
    let range = |start: u64| {
        let edits = resolve(&[edit(0, Some(start))]).unwrap();
        edits.samples(&table, TrackKind::Audio, scale(48_000))
    };
    assert_eq!(range(12_000), 0..200);
    assert_eq!(range(12_001), 9..200);
    assert_eq!(range(100 * 1024), 98..200);
}

#[test]
fn only_the_last_samples_in_decode_order_are_dropped() {
    // I P B B: composed in the order 0, 2, 3, 1.
    let table = table(100, 4, &[1024, 3072, 0, 0]);
    let until = |end: u64| {
        let edits = resolve(&[edit(end * 1000 / 48, Some(1024))]).unwrap();
        edits.samples(&table, TrackKind::Video, scale(48_000))
    };
    // In milliseconds: frame 4 is composed at 1024 + 4 × 1024, and the end is rounded.
    assert_eq!(until(40 * 1024 / 1000), 0..40);
    assert_eq!(
        resolve(&[edit(10_000, Some(1024))]).unwrap().samples(&table, TrackKind::Video, scale(48_000)),
        0..100
    );
}

#[test]
fn edit_durations_of_fragmented_files_are_ignored() {
    let edits = Edits::resolve(&[edit(40, Some(0))], scale(1000), scale(48_000), true).unwrap();
    assert_eq!(edits.samples(&table(100, 1, &[0]), TrackKind::Audio, scale(48_000)), 0..100);
}

#[test]
fn an_edit_list_cannot_make_later_sums_of_times_overflow() {
    assert_eq!(resolve(&[edit(0, Some(1 << 62))]), Err("an edit list that starts beyond 2^61"));
    let far = resolve(&[edit(u64::MAX, None), edit(u64::MAX, None), edit(u64::MAX, Some(0))]).unwrap();
    assert_eq!(far.presentation, Presentation { media_time: 0, shift: Time::MAX_TICKS });
    assert_eq!(far.samples(&table(10, 1, &[0]), TrackKind::Text, scale(48_000)), 9..10);
}
