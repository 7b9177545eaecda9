//! The run of segments with the highest bit rate.

use crate::sizes::SegmentSize;
use std::collections::VecDeque;

/// Number of steps for each segment after which the search changes to the slower method that does
/// not depend on how many segments a run has. Runs of most titles have one to three segments.
const STEPS_PER_SEGMENT: usize = 16;

/// Number of steps for which the faster method is tried in any case.
const SHORT_TITLE: usize = 1 << 10;

/// Largest sum of bytes or ticks. Larger ones, which no title reaches, count as this one, so that
/// the product of two sums has 124 bits.
const LARGEST_SUM: u64 = 1 << 62;

/// Bytes and ticks of a run of segments. A duration of 0 ticks counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) bytes: u64,
    pub(crate) ticks: u64,
}

impl Run {
    /// Returns true if the run has more bytes for each tick than another one.
    fn is_higher(self, other: Self) -> bool {
        u128::from(self.bytes) * u128::from(other.ticks) > u128::from(other.bytes) * u128::from(self.ticks)
    }
}

/// Shortest and longest time of a run, in ticks.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    least: u64,
    most: u64,
}

impl Lengths {
    fn of(target: u128) -> Self {
        let limited = |ticks: u128| u64::try_from(ticks).unwrap_or(u64::MAX);
        Self { least: limited(target.div_ceil(2)).max(1), most: limited(target.saturating_mul(3) / 2) }
    }
}

/// Returns the run with the most bytes for each tick, of those that last for at least half and at
/// most one and a half times `target` ticks. `None` if there is no such run.
///
/// Takes O(n) steps if runs are short, and O(n log n) in practice otherwise: one segment of a day
/// among a hundred thousand short ones makes every run long.
pub(crate) fn highest_run(segments: &[SegmentSize], target: u128) -> Option<Run> {
    let lengths = Lengths::of(target);
    match by_trying_all(segments, lengths, STEPS_PER_SEGMENT.saturating_mul(segments.len())) {
        Ok(highest) => highest,
        Err(TooManySteps) => by_raising_the_rate(segments, lengths),
    }
}

#[derive(Debug)]
struct TooManySteps;

/// Returns the run with the highest bit rate by trying every run.
fn by_trying_all(
    segments: &[SegmentSize],
    lengths: Lengths,
    mut steps: usize,
) -> Result<Option<Run>, TooManySteps> {
    // Where most runs are too long for that many steps, the first steps are spared.
    let ticks = segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.duration.max(1)));
    if u128::from(lengths.most) * segments.len() as u128 > u128::from(ticks) * 2 * STEPS_PER_SEGMENT as u128 {
        steps = steps.min(SHORT_TITLE);
    }
    let mut highest: Option<Run> = None;
    for start in 0..segments.len() {
        // 64 bits suffice, because an index has less than 2^32 samples, each with a size and a
        // duration of 32 bits. A product of two such sums is one instruction.
        let mut run = Run { bytes: 0, ticks: 0 };
        for segment in segments.iter().skip(start) {
            steps = steps.checked_sub(1).ok_or(TooManySteps)?;
            run.bytes = run.bytes.saturating_add(segment.bytes);
            run.ticks = run.ticks.saturating_add(segment.duration.max(1));
            if run.ticks > lengths.most {
                break;
            }
            if run.ticks >= lengths.least && highest.is_none_or(|highest| run.is_higher(highest)) {
                highest = Some(run);
            }
        }
    }
    Ok(highest)
}

/// Returns the run with the highest bit rate. Raises a rate until no run has a higher one
/// (Dinkelbach's method). Each round looks at every segment once, and takes the run that exceeds
/// the rate by the most bytes.
fn by_raising_the_rate(segments: &[SegmentSize], lengths: Lengths) -> Option<Run> {
    let add = |sum: u64, more: u64| sum.saturating_add(more).min(LARGEST_SUM);
    let mut last = Run { bytes: 0, ticks: 0 };
    let mut sums = Vec::with_capacity(segments.len() + 1);
    sums.push(last);
    sums.extend(segments.iter().map(|segment| {
        last = Run { bytes: add(last.bytes, segment.bytes), ticks: add(last.ticks, segment.duration.max(1)) };
        last
    }));
    let mut highest = highest_of_shortest(&sums, lengths)?;
    // The rate is higher after each round, so the loop ends.
    while let Some(run) = run_above(&sums, lengths, highest) {
        highest = run;
    }
    Some(highest)
}

/// Returns the run between two sums.
fn between(start: &Run, end: &Run) -> Run {
    Run { bytes: end.bytes - start.bytes, ticks: end.ticks - start.ticks }
}

/// Returns the run with the highest bit rate of those that are the shortest up to their end. Few
/// runs have a higher rate: a run of twice that length consists of two, one of which has at least
/// the same rate. `None` if there is no run.
fn highest_of_shortest(sums: &[Run], lengths: Lengths) -> Option<Run> {
    let mut highest: Option<Run> = None;
    let mut starts = sums.iter().zip(sums.iter().skip(1)).peekable();
    for end in sums {
        while starts.next_if(|(_, next)| end.ticks.saturating_sub(next.ticks) >= lengths.least).is_some() {}
        let Some((start, _)) = starts.peek() else { break };
        let run = between(start, end);
        let is_run = (lengths.least..=lengths.most).contains(&run.ticks);
        if is_run && highest.is_none_or(|highest| run.is_higher(highest)) {
            highest = Some(run);
        }
    }
    highest
}

/// Returns the run that has the most bytes above those of a rate. `None` if no run has more bytes.
fn run_above(sums: &[Run], lengths: Lengths, rate: Run) -> Option<Run> {
    let above = |sum: &Run| {
        i128::from(sum.bytes) * i128::from(rate.ticks) - i128::from(sum.ticks) * i128::from(rate.bytes)
    };
    // The starts that are long enough before the end, each with less above the rate than those
    // after it.
    let mut starts: VecDeque<(&Run, i128)> = VecDeque::new();
    let mut later = sums.iter().peekable();
    let mut best: Option<(i128, Run)> = None;
    for end in sums {
        while let Some(start) = later.next_if(|start| end.ticks.saturating_sub(start.ticks) >= lengths.least)
        {
            let value = above(start);
            while starts.back().is_some_and(|(_, other)| *other >= value) {
                starts.pop_back();
            }
            starts.push_back((start, value));
        }
        while starts.front().is_some_and(|(start, _)| end.ticks - start.ticks > lengths.most) {
            starts.pop_front();
        }
        if let Some((start, value)) = starts.front() {
            let more = above(end) - value;
            if best.is_none_or(|(most, _)| more > most) {
                best = Some((more, between(start, end)));
            }
        }
    }
    best.filter(|(more, _)| *more > 0).map(|(_, run)| run)
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
            let lengths = Lengths::of(target);
            let all = by_trying_all(&segments, lengths, usize::MAX).unwrap();
            let raised = by_raising_the_rate(&segments, lengths);
            prop_assert_eq!(all.is_some(), raised.is_some());
            if let Some((all, raised)) = all.zip(raised) {
                prop_assert_eq!(all.bytes * raised.ticks, raised.bytes * all.ticks);
            }
        }
    }

    #[test]
    fn huge_sums_count_as_the_largest() {
        let huge = SegmentSize { bytes: u64::MAX, duration: 1 << 40 };
        let mut segments = vec![huge; 100];
        segments.extend([SegmentSize { bytes: 1, duration: u64::MAX }; 3]);
        let run = by_raising_the_rate(&segments, Lengths::of(1 << 40)).unwrap();
        assert_eq!(run, Run { bytes: LARGEST_SUM, ticks: 1 << 40 });
        assert!(by_raising_the_rate(&segments[100..], Lengths::of(1 << 40)).is_none());
    }

    #[test]
    fn one_long_segment_does_not_make_the_peak_quadratic() {
        let short = SegmentSize { bytes: 9, duration: 1 };
        let long = SegmentSize { bytes: 9, duration: 1 << 40 };
        let mut segments = vec![short; 1 << 17];
        segments.push(long);
        let target = u128::from(long.duration);
        let steps = STEPS_PER_SEGMENT * segments.len();
        assert!(matches!(by_trying_all(&segments, Lengths::of(target), steps), Err(TooManySteps)));
        let run = highest_run(&segments, target).unwrap();
        // All short segments with the long one.
        assert_eq!(run, Run { bytes: 9 * ((1 << 17) + 1), ticks: (1 << 40) + (1 << 17) });
    }
}
