//! Runs of segments with the same duration: `S` of a DASH `SegmentTimeline` (ISO/IEC 23009-1
//! §5.3.9.6), and `c` of a Smooth Streaming manifest.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timeline(pub(super) Vec<TimelineRun>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimelineRun {
    /// Start of the first run, in ticks; `None` for all others, which follow without a gap.
    pub(super) time: Option<i64>,
    /// Duration of each segment, in ticks.
    pub(super) duration: i64,
    /// Segments that follow the first one. DASH states this; Smooth Streaming counts all.
    pub(super) repeat: u32,
}

impl Timeline {
    /// Groups segments between boundaries, in ticks: one more than there are segments.
    pub(super) fn new(boundaries: &[i64]) -> Self {
        let mut runs: Vec<TimelineRun> = Vec::new();
        for (&start, &end) in boundaries.iter().zip(boundaries.iter().skip(1)) {
            let duration = end - start;
            match runs.last_mut() {
                Some(last) if last.duration == duration => last.repeat += 1,
                last => {
                    let time = last.is_none().then_some(start);
                    runs.push(TimelineRun { time, duration, repeat: 0 });
                }
            }
        }
        Self(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_state_every_boundary(
            start in 0_i64..1000,
            durations in prop::collection::vec(1_i64..4, 0..40),
        ) {
            let mut boundaries = vec![start];
            for d in &durations {
                boundaries.push(boundaries[boundaries.len() - 1] + d);
            }
            let timeline = Timeline::new(&boundaries);
            let mut stated = Vec::new();
            let mut at = 0;
            for run in &timeline.0 {
                at = run.time.unwrap_or(at);
                for _ in 0..=run.repeat {
                    stated.push((at, run.duration));
                    at += run.duration;
                }
            }
            let expected: Vec<_> = boundaries.iter().copied().zip(durations).collect();
            prop_assert_eq!(stated, expected);
            // Neighbouring runs have different durations.
            prop_assert!(timeline.0.windows(2).all(|w| w[0].duration != w[1].duration));
        }
    }
}
