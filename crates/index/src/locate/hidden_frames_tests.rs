use super::*;
use crate::table::samples::{Sample, tests::build};
use proptest::prelude::*;

/// Returns frames of `duration` ticks, `gop` to a sync sample. If `reordered`, each P frame is
/// decoded before the two B frames that are presented before it, and `gop` is 1 + a multiple of 3.
fn frames(count: u32, gop: u32, duration: u32, reordered: bool) -> SampleTable {
    let samples: Vec<Sample> = (0..count)
        .map(|i| {
            let in_gop = i % gop;
            let composed = match (reordered, in_gop % 3) {
                (false, _) => 0,
                (true, _) if in_gop == 0 => 1,
                (true, 1) => 3,
                (true, _) => 0,
            };
            Sample {
                offset: u64::from(i) * 10,
                size: 10,
                decode_time: i64::from(i) * i64::from(duration),
                duration,
                composition_offset: composed * i32::try_from(duration).unwrap(),
                sync: in_gop == 0,
            }
        })
        .collect();
    build(&samples)
}

fn times(table: &SampleTable, presentation: Presentation) -> Vec<(i64, i64)> {
    table.timing(0).map(|(decode, _, offset)| (decode, presentation.time(decode, offset))).collect()
}

#[test]
fn nothing_changes_if_no_frame_is_hidden() {
    let table = frames(30, 10, 512, true);
    let presentation = Presentation { media_time: 512, shift: 0 };
    assert!(presented_from_zero(&table, presentation, Timescale::new(12_800).unwrap()).is_none());
    assert!(presented_from_zero(&table, Presentation::default(), Timescale::new(12_800).unwrap()).is_none());
}

/// 25 frames per second in 25 ticks: no frame fits between two others.
#[test]
fn a_coarse_timescale_is_multiplied() {
    let table = frames(30, 10, 1, false);
    let presentation = Presentation { media_time: 7, shift: 0 };
    let (table, presentation, timescale) =
        presented_from_zero(&table, presentation, Timescale::new(25).unwrap()).unwrap();
    assert_eq!(timescale.get(), 28 * 25);
    let shown: Vec<i64> = times(&table, presentation).iter().map(|&(_, presented)| presented).collect();
    assert_eq!(shown[..10], [0, 1, 2, 3, 4, 5, 6, 7, 28, 56]);
    assert_eq!(shown[29], 22 * 28);
    assert_eq!(table.composition_bounds(), (0, 0));
}

/// The first tick after a frame's start hides the whole frame, and everything up to the next sync
/// sample went with it.
#[test]
fn an_edit_one_tick_into_the_first_frame_hides_no_gop() {
    let table = frames(30, 10, 512, false);
    let presentation = Presentation { media_time: 1, shift: 0 };
    let (table, presentation, timescale) =
        presented_from_zero(&table, presentation, Timescale::new(12_800).unwrap()).unwrap();
    assert_eq!(timescale.get(), 12_800);
    let got = times(&table, presentation);
    assert_eq!(got[..3], [(1, 0), (512, 511), (1024, 1023)]);
}

proptest! {
    #[test]
    fn hidden_frames_come_first_and_all_others_keep_their_times(
        gop in (1..20_u32).prop_map(|n| 3 * n + 1),
        duration in prop::sample::select(vec![1_u32, 20, 512, 1001, 3600, 400_000]),
        reordered in any::<bool>(),
        before in 0..3_u32,
        start in 0..100_i64,
        part in 0..4_i64,
    ) {
        let scale = duration * 25;
        let mut table = frames(300, gop, duration, reordered);
        table.keep(before * gop..300);
        let first = i64::from(before * gop) * i64::from(duration);
        let media_time = first + start * i64::from(duration) + part * i64::from(duration) / 4;
        let presentation = Presentation { media_time, shift: 0 };
        let timescale = Timescale::new(scale).unwrap();
        let was = times(&table, presentation);
        let hidden = was.iter().filter(|(_, presented)| *presented < 0).count();
        let retimed = presented_from_zero(&table, presentation, timescale);
        prop_assert_eq!(retimed.is_some(), hidden > 0);
        let Some((new, presentation, timescale)) = retimed else { return Ok(()) };
        let factor = i64::from(timescale.get() / scale);
        prop_assert_eq!(i64::from(timescale.get()), factor * i64::from(scale));
        let got = times(&new, presentation);
        prop_assert_eq!(got.len(), was.len());
        let step = i64::from(timescale.get().div_ceil(90_000));
        prop_assert!(got.windows(2).all(|w| w[1].0 - w[0].0 >= step));
        prop_assert!(got.iter().all(|&(decode, presented)| presented + presentation.media_time >= decode));
        let lead = |(decode, presented): (i64, i64)| presented - decode;
        prop_assert_eq!(lead(got[0]) + presentation.media_time, factor * (lead(was[0]) + media_time));

        // The order of presentation is the same, and no two frames are presented at once.
        let order = |times: &[(i64, i64)]| {
            let mut order: Vec<usize> = (0..times.len()).collect();
            order.sort_by_key(|&i| times[i].1);
            order
        };
        prop_assert_eq!(order(&got), order(&was));
        let mut presented: Vec<i64> = got.iter().map(|&(_, presented)| presented).collect();
        presented.sort_unstable();
        prop_assert_eq!(presented[0], 0);
        prop_assert!(presented.windows(2).all(|w| w[1] - w[0] >= step));

        // Hidden frames take 10 ms, and one step for each shown frame that is presented meanwhile.
        let within = step * i64::try_from(hidden).unwrap();
        prop_assert!(within <= i64::from(timescale.get()) / 100 + step);
        for (got, was) in got.iter().zip(&was) {
            if was.1 * factor >= 2 * within {
                prop_assert_eq!(got.1, was.1 * factor);
            }
            if was.0 * factor >= presentation.media_time + 2 * within + 10 * factor * i64::from(duration) {
                prop_assert_eq!(got.0, was.0 * factor);
            }
        }
        // A player of TS that infers a frame's duration from the next frame in the order of
        // presentation does not see a gap before any frame.
        for (n, w) in got.windows(2).enumerate() {
            let next = got.iter().map(|&(_, at)| at).filter(|&at| at > w[0].1).min();
            prop_assert!(next.is_none_or(|next| w[1].0 - w[0].0 <= 2 * (next - w[0].1)), "frame {n}");
        }
        prop_assert_eq!(new.all_sync(), table.all_sync());
        let place = |table: &SampleTable| -> Vec<_> {
            table.range(0..u32::MAX).map(|s| (s.offset, s.size, s.sync)).collect()
        };
        prop_assert_eq!(place(&new), place(&table));
    }
}
