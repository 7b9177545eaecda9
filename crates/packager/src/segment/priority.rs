//! The order of importance of samples, so that a segment that is cut off still plays.
//!
//! Sync samples come first, then the other samples that are references, then those that no sample
//! depends on. Samples of the same importance are in decode order. Wherever the segment is cut off,
//! the samples that each remaining sample depends on remain too. The exception are samples that are
//! decoded after a sync sample and presented before it: they may depend on samples before it.
//!
//! References are not ordered by temporal layer. Encoders let frames of a low layer depend on
//! references of a higher one before them (`b-pyramid=normal` of x264), which the index cannot
//! tell.

use latemux_index::Sample;

/// The importance of a sample; the lowest value is the most important.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Importance {
    /// A sync sample.
    Sync = 0,
    /// A sample that others may depend on.
    Reference = 1,
    /// A sample that no other depends on.
    Unreferenced = 2,
}

/// The samples of a segment in order of importance.
#[derive(Debug)]
pub(crate) struct Priority {
    /// For each sample in decode order, its [`Importance`].
    pub(crate) importance: Vec<u8>,
    /// The positions in decode order of the samples, the most important first.
    pub(crate) order: Vec<u32>,
}

impl Priority {
    /// Orders samples, given in decode order. Returns `None` if that is their order already.
    pub(crate) fn of(samples: &[Sample]) -> Option<Self> {
        let importance = importance(samples);
        if importance.is_sorted() {
            return None;
        }
        let importance: Vec<u8> = importance.iter().map(|&importance| importance as u8).collect();
        Some(Self { order: most_important_first(&importance), importance })
    }

    /// Returns samples in order of importance.
    pub(crate) fn apply(&self, samples: &[Sample]) -> Vec<Sample> {
        self.order.iter().filter_map(|&position| samples.get(position as usize).copied()).collect()
    }
}

/// Returns the positions of what has these ranks, the lowest rank first. Equal ranks stay in order.
pub(super) fn most_important_first(ranks: &[u8]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).take(ranks.len()).collect();
    order.sort_by_key(|&position| ranks.get(position as usize).copied());
    order
}

/// Returns the importance of samples, given in decode order.
///
/// A sample that is presented later than all samples decoded before it counts as a reference. Any
/// other sample may depend on its neighbours: among the samples decoded before it, the last one
/// that is presented before it, and the first one presented after it. It counts as a reference only
/// if it is itself such a neighbour of a sample that is decoded later.
fn importance(samples: &[Sample]) -> Vec<Importance> {
    let time = |sample: &Sample| sample.decode_time.saturating_add(sample.composition_offset.into());
    let mut presented: Vec<usize> = (0..samples.len()).collect();
    presented.sort_by_key(|&position| samples.get(position).map(time));
    let mut neighbours = vec![Neighbours::default(); samples.len()];
    for pair in presented.windows(2) {
        let [before, after] = *pair else { continue };
        set(&mut neighbours, before, |neighbours| neighbours.after = Some(after));
        set(&mut neighbours, after, |neighbours| neighbours.before = Some(before));
    }
    let mut importance = vec![Importance::Unreferenced; samples.len()];
    // From the last sample on, each is removed, so that only those decoded before it are left.
    for (position, sample) in samples.iter().enumerate().rev() {
        let Neighbours { before, after } = neighbours.get(position).copied().unwrap_or_default();
        if let Some(before) = before {
            set(&mut neighbours, before, |neighbours| neighbours.after = after);
        }
        if let Some(after) = after {
            set(&mut neighbours, after, |neighbours| neighbours.before = before);
            for neighbour in before.into_iter().chain([after]) {
                set(&mut importance, neighbour, |found| *found = Importance::Reference);
            }
        } else {
            set(&mut importance, position, |found| *found = Importance::Reference);
        }
        if sample.sync {
            set(&mut importance, position, |found| *found = Importance::Sync);
        }
    }
    importance
}

/// The samples before and after another one in presentation.
#[derive(Debug, Clone, Copy, Default)]
struct Neighbours {
    before: Option<usize>,
    after: Option<usize>,
}

fn set<T>(items: &mut [T], at: usize, change: impl FnOnce(&mut T)) {
    if let Some(item) = items.get_mut(at) {
        change(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Importance::{Reference, Sync, Unreferenced};

    /// Returns samples of these presentation times, in decode order. The first is a sync sample.
    fn samples(times: &[i32]) -> Vec<Sample> {
        let sample = |(position, &time): (i64, &i32)| Sample {
            offset: 0,
            size: 1,
            decode_time: position,
            duration: 1,
            composition_offset: time - i32::try_from(position).unwrap(),
            sync: position == 0,
        };
        (0..).zip(times).map(sample).collect()
    }

    #[test]
    fn frames_that_no_frame_lies_beside_are_unreferenced() {
        for (times, expected) in [
            // P b b, then a pyramid P B b b.
            (&[0, 3, 1, 2, 7, 5, 4, 6][..], "IPRuPRuu"),
            (&[0, 1, 2, 3], "IPPP"),
            // One frame between two.
            (&[0, 2, 1, 4, 3], "IPuPu"),
            // A pyramid of three layers.
            (&[0, 8, 4, 2, 1, 3, 6, 5, 7], "IPRRuuRuu"),
            // Frames before the sync sample in presentation.
            (&[2, 0, 1, 4, 3], "IRuPu"),
            (&[5], "I"),
            (&[], ""),
        ] {
            let found: String = importance(&samples(times))
                .iter()
                .zip(times)
                .map(|(importance, _)| match importance {
                    Sync => 'I',
                    Reference => 'R',
                    Unreferenced => 'u',
                })
                .collect();
            assert_eq!(found, expected.replace('P', "R"), "{times:?}");
        }
    }

    #[test]
    fn sync_samples_come_first_and_unreferenced_ones_last() {
        let mut samples = samples(&[0, 2, 1, 3, 5, 4]);
        samples[3].sync = true;
        let priority = Priority::of(&samples).unwrap();
        assert_eq!(priority.order, [0, 3, 1, 4, 2, 5]);
        assert_eq!(priority.importance, [0, 1, 2, 0, 1, 2]);
        let times: Vec<i64> = priority.apply(&samples).iter().map(|sample| sample.decode_time).collect();
        assert_eq!(times, [0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn samples_that_are_in_order_stay_as_they_are() {
        assert!(Priority::of(&samples(&[0, 1, 2, 3])).is_none());
        assert!(Priority::of(&samples(&[])).is_none());
    }
}
