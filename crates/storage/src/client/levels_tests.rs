use super::*;

/// Makes reads whose throughput depends on their number, counted from 0, and on the number of
/// streams. Returns the numbers of streams that were used.
fn noisy(levels: &mut Levels, count: u64, rate: impl Fn(u64, usize) -> u64) -> Vec<usize> {
    let read = |number| {
        let streams = levels.next(false);
        levels.record(streams, rate(number, streams));
        streams
    };
    (0..count).map(read).collect()
}

fn reads(levels: &mut Levels, count: u64, rate: impl Fn(usize) -> u64) -> Vec<usize> {
    noisy(levels, count, |_, streams| rate(streams))
}

fn proportional(streams: usize) -> u64 {
    streams as u64 * 1000
}

fn count(used: &[usize], streams: usize) -> usize {
    used.iter().filter(|used| **used == streams).count()
}

#[test]
fn streams_are_added_while_they_help() {
    let mut levels = Levels::new(6);
    let used = reads(&mut levels, 12, proportional);
    assert_eq!(used, [1, 2, 4, 6, 6, 4, 2, 1, 6, 4, 2, 1], "each is judged by three reads");
    assert_eq!(levels.choice(), Choice { streams: 6, rate_of_one: 1000, rate: 6000 });
    // Two are faster than one, but more are no faster than two.
    let mut levels = Levels::new(6);
    let used = reads(&mut levels, 2100, |streams| 1000 * streams.min(2) as u64);
    assert_eq!(levels.choice().streams, 2);
    // One of seven reads tries others: one stream twice as often as more than two.
    assert!((200..=206).contains(&count(&used, 1)), "{}", count(&used, 1));
    assert!((50..=56).contains(&count(&used, 4)), "{}", count(&used, 4));
    assert!((50..=56).contains(&count(&used, 6)), "{}", count(&used, 6));
}

/// Each step alone gains less than 10 %.
#[test]
fn small_gains_add_up() {
    let mut levels = Levels::new(16);
    reads(&mut levels, 15, |streams| 1000 + 50 * streams as u64);
    assert_eq!(levels.choice().streams, 16);
}

#[test]
fn of_levels_that_are_nearly_as_fast_the_one_with_the_fewest_streams_is_chosen() {
    for (rate_of_one, streams) in [(901, 1), (900, 1), (899, 2)] {
        let mut levels = Levels::new(2);
        reads(&mut levels, 6, |streams| if streams == 1 { rate_of_one } else { 1000 });
        assert_eq!(levels.choice().streams, streams, "{rate_of_one}");
    }
}

/// The first read over each number of streams is slow, because it opens connections.
#[test]
fn one_slow_read_ended_the_climb() {
    for slow in 0..15 {
        let mut levels = Levels::new(16);
        let rate = |number, streams| if number == slow { 10 } else { proportional(streams) };
        noisy(&mut levels, 17, rate);
        assert_eq!(levels.choice().streams, 16, "read {slow}");
    }
    let mut levels = Levels::new(4);
    let first = std::cell::RefCell::new(std::collections::HashSet::new());
    reads(&mut levels, 9, |streams| {
        proportional(streams) / if first.borrow_mut().insert(streams) { 8 } else { 1 }
    });
    assert_eq!(levels.choice().streams, 4);
}

/// The throughput of each read is off by up to a third.
#[test]
fn noise_neither_ends_the_climb_nor_begins_one_that_does_not_help() {
    for seed in 0..100_u64 {
        let noise = |number: u64| 67 + (seed * 7919 + number).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 67;
        let used = |rate: &dyn Fn(usize) -> u64| {
            let mut levels = Levels::new(16);
            noisy(&mut levels, 60, |number, streams| rate(streams) * noise(number) / 100);
            let steady = noisy(&mut levels, 210, |number, streams| rate(streams) * noise(number + 60) / 100);
            (count(&steady, 1), steady.iter().filter(|used| **used >= 4).count())
        };
        // Two are twice as fast as one, four and eight three times, sixteen four times.
        let (_, many) = used(&|streams| 1000 * (1 + streams as u64 / 2).min(3 + streams as u64 / 16));
        assert!(many >= 150, "seed {seed}: {many} of 210");
        // More are half as fast.
        let (one, _) = used(&|streams| if streams == 1 { 2000 } else { 900 });
        assert!(one >= 190, "seed {seed}: {one} of 210");
    }
}

#[test]
fn a_level_that_does_not_help_is_tried_again_but_rarely() {
    let mut levels = Levels::new(4);
    let used = reads(&mut levels, 2100, |streams| 1000 / streams as u64);
    assert_eq!(levels.choice().streams, 1);
    assert_eq!(count(&used, 4), 0);
    assert!((100..=106).contains(&count(&used, 2)), "{}", count(&used, 2));
    // One fast read is followed by two more, which decide.
    let used = reads(&mut levels, 21, |streams| if streams == 1 { 1000 } else { 5000 });
    // So do more streams than these, which the fast read allows to try once more.
    let tried = used.iter().position(|used| *used == 2).unwrap();
    assert_eq!(used[tried..tried + 6], [2, 4, 4, 2, 4, 2], "{used:?}");
}

#[test]
fn a_single_fast_read_changes_nothing() {
    let mut levels = Levels::new(4);
    reads(&mut levels, 30, |streams| 1000 / streams as u64);
    let lucky = std::cell::Cell::new(true);
    let used = reads(&mut levels, 60, |streams| match streams {
        2 if lucky.replace(false) => 9000,
        streams => 1000 / streams as u64,
    });
    assert_eq!(levels.choice().streams, 1);
    assert!(count(&used, 2) <= 6, "{used:?}");
}

#[test]
fn streams_that_no_longer_help_are_left_again() {
    let mut levels = Levels::new(4);
    reads(&mut levels, 20, proportional);
    assert_eq!(levels.choice().streams, 4);
    let used = reads(&mut levels, 100, |_| 3000);
    assert_eq!(levels.choice(), Choice { streams: 1, rate_of_one: 3000, rate: 3000 }, "{used:?}");
    // The network changes once more.
    reads(&mut levels, 100, proportional);
    assert_eq!(levels.choice().streams, 4);
}

#[test]
fn a_pause_and_forgotten_reads_lead_back_to_one_stream() {
    let mut levels = Levels::new(4);
    reads(&mut levels, 20, proportional);
    assert_eq!(levels.next(true), 1);
    levels.forget_streams();
    assert_eq!(levels.choice().streams, 1);
    assert_eq!(reads(&mut levels, 3, proportional), [2, 4, 4]);
}

/// Reads that were under way at the failure end after it.
#[test]
fn late_reads_after_a_failure_do_no_harm() {
    let mut levels = Levels::new(8);
    reads(&mut levels, 30, proportional);
    levels.forget_streams();
    (0..3).for_each(|_| levels.record(4, 4000));
    assert_eq!(levels.choice().streams, 4);
    reads(&mut levels, 200, proportional);
    assert_eq!(levels.choice().streams, 8);
}
