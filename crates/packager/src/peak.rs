//! The run of segments with the highest bit rate.

use crate::sizes::SegmentSize;
use std::collections::VecDeque;

/// Number of steps for each segment after which the search changes to the slower method that does
/// not depend on how many segments a run has. Runs of most titles have one to three segments.
const STEPS_PER_SEGMENT: usize = 16;

/// Bytes and ticks of a run of segments. A duration of 0 ticks counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) bytes: u128,
    pub(crate) ticks: u128,
}

/// Returns the run with the most bytes for each tick, of those that last for at least half and at
/// most one and a half times `target` ticks. `None` if there is no such run.
///
/// Takes O(n) steps if runs are short, and O(n log n) in practice otherwise: one segment of a day
/// among a hundred thousand short ones makes every run long.
pub(crate) fn highest_run(segments: &[SegmentSize], target: u128) -> Option<Run> {
    match by_trying_all(segments, target, STEPS_PER_SEGMENT.saturating_mul(segments.len())) {
        Ok(highest) => highest,
        Err(TooManySteps) => by_raising_the_rate(segments, target),
    }
}

#[derive(Debug)]
struct TooManySteps;

/// Tries every run.
fn by_trying_all(
    segments: &[SegmentSize],
    target: u128,
    mut steps: usize,
) -> Result<Option<Run>, TooManySteps> {
    let limited = |ticks: u128| u64::try_from(ticks).unwrap_or(u64::MAX);
    let least = limited(target.div_ceil(2));
    let most = limited(target.saturating_mul(3) / 2);
    let mut highest: Option<(u64, u64)> = None;
    for start in 0..segments.len() {
        // 64 bits suffice, because an index has less than 2^32 samples, each with a size and a
        // duration of 32 bits. A product of two such sums is one instruction.
        let mut bytes = 0_u64;
        let mut ticks = 0_u64;
        for segment in segments.iter().skip(start) {
            steps = steps.checked_sub(1).ok_or(TooManySteps)?;
            bytes = bytes.saturating_add(segment.bytes);
            ticks = ticks.saturating_add(segment.duration.max(1));
            if ticks > most {
                break;
            }
            let is_higher = |(other_bytes, other_ticks): (u64, u64)| {
                u128::from(bytes) * u128::from(other_ticks) > u128::from(other_bytes) * u128::from(ticks)
            };
            if ticks >= least && highest.is_none_or(is_higher) {
                highest = Some((bytes, ticks));
            }
        }
    }
    Ok(highest.map(|(bytes, ticks)| Run { bytes: bytes.into(), ticks: ticks.into() }))
}

/// Raises a rate until no run has a higher one (Dinkelbach's method). Each round looks at every
/// segment once, and takes the run that exceeds the rate by the most bytes.
fn by_raising_the_rate(segments: &[SegmentSize], target: u128) -> Option<Run> {
    let mut sums = vec![Run { bytes: 0, ticks: 0 }];
    for segment in segments {
        let last = sums.last().copied()?;
        let ticks = last.ticks + u128::from(segment.duration.max(1));
        sums.push(Run { bytes: last.bytes + u128::from(segment.bytes), ticks });
    }
    let mut highest = None;
    let mut rate = Run { bytes: 0, ticks: 1 };
    // The rate is higher after each round, so the loop ends.
    while let Some(run) = run_above(&sums, target, rate, highest.is_none()) {
        highest = Some(run);
        rate = run;
    }
    highest
}

/// Returns the run that has the most bytes above those of a rate. `None` if no run has more bytes;
/// with `or_equal`, a run that has as many is enough.
fn run_above(sums: &[Run], target: u128, rate: Run, or_equal: bool) -> Option<Run> {
    // Only sums beyond 2^126 are saturated, which no storage holds.
    let signed = |value: u128| i128::try_from(value).unwrap_or(i128::MAX);
    let above = |sum: &Run| {
        let bytes = signed(sum.bytes).saturating_mul(signed(rate.ticks));
        bytes.saturating_sub(signed(sum.ticks).saturating_mul(signed(rate.bytes)))
    };
    // The starts that are long enough before the end, each with less above the rate than those
    // after it.
    let mut starts: VecDeque<(&Run, i128)> = VecDeque::new();
    let mut later = sums.iter().peekable();
    let mut best: Option<(i128, Run)> = None;
    for end in sums {
        while let Some(start) = later.next_if(|start| 2 * (end.ticks - start.ticks.min(end.ticks)) >= target)
        {
            let value = above(start);
            while starts.back().is_some_and(|(_, other)| *other >= value) {
                starts.pop_back();
            }
            starts.push_back((start, value));
        }
        while starts.front().is_some_and(|(start, _)| 2 * (end.ticks - start.ticks) > 3 * target) {
            starts.pop_front();
        }
        if let Some((start, value)) = starts.front() {
            let more = above(end).saturating_sub(*value);
            if best.is_none_or(|(most, _)| more > most) {
                best = Some((more, Run { bytes: end.bytes - start.bytes, ticks: end.ticks - start.ticks }));
            }
        }
    }
    best.filter(|(more, _)| *more > 0 || or_equal && *more == 0).map(|(_, run)| run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_methods_find_the_same_rate(
            segments in prop::collection::vec((0_u64..50, 0_u64..30), 0..40),
            target in 1_u128..200,
        ) {
            let segments: Vec<_> =
                segments.into_iter().map(|(bytes, duration)| SegmentSize { bytes, duration }).collect();
            let all = by_trying_all(&segments, target, usize::MAX).unwrap();
            let raised = by_raising_the_rate(&segments, target);
            prop_assert_eq!(all.is_some(), raised.is_some());
            if let Some((all, raised)) = all.zip(raised) {
                prop_assert_eq!(all.bytes * raised.ticks, raised.bytes * all.ticks);
            }
        }
    }

    #[test]
    fn one_long_segment_does_not_make_the_peak_quadratic() {
        let short = SegmentSize { bytes: 9, duration: 1 };
        let long = SegmentSize { bytes: 9, duration: 1 << 40 };
        let mut segments = vec![short; 1 << 17];
        segments.push(long);
        let target = u128::from(long.duration);
        let steps = STEPS_PER_SEGMENT * segments.len();
        assert!(matches!(by_trying_all(&segments, target, steps), Err(TooManySteps)));
        let run = highest_run(&segments, target).unwrap();
        // All short segments with the long one.
        assert_eq!(run, Run { bytes: 9 * ((1 << 17) + 1), ticks: (1 << 40) + (1 << 17) });
    }
}
