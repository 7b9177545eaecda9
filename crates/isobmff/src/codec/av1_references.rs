//! The frames that later ones of AV1 refer to (AV1 Bitstream & Decoding Process §7.8, §7.20).

/// Number of frames that later ones may refer to (NUM_REF_FRAMES).
pub(super) const SLOTS: usize = 8;
/// Number of references of a frame (REFS_PER_FRAME).
pub(super) const REFERENCES: usize = 7;
/// Number of segments (MAX_SEGMENTS).
pub(super) const SEGMENTS: usize = 8;

/// Places of the references of a frame: LAST_FRAME and so on, minus LAST_FRAME.
const LAST2: usize = 1;
const LAST3: usize = 2;
const GOLDEN: usize = 3;
const BACKWARD: usize = 4;
const ALTERNATE2: usize = 5;
const ALTERNATE: usize = 6;

/// The values of a frame that later ones may take from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) is_key: bool,
    pub(super) order_hint: u32,
    /// Width, before it is reduced by superres, and height.
    pub(super) size: (u32, u32),
    /// The difference of the quantizer index in each segment that has one (SEG_LVL_ALT_Q).
    pub(super) segments: [Option<i32>; SEGMENTS],
}

/// All frames that later ones may refer to. None are known at first.
pub(super) type References = [Option<Reference>; SLOTS];

/// The distances between order hints.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderHints {
    /// OrderHintBits, at least 1: streams without order hints have no such value.
    pub(super) bits: u32,
    /// Order hint of the current frame.
    pub(super) current: u32,
}

impl OrderHints {
    /// Returns get_relative_dist() (§5.9.3) from the current frame to another.
    pub(super) fn distance(self, hint: u32) -> i32 {
        let sign = 1_i32 << (self.bits - 1);
        let difference = i32::try_from(hint).unwrap_or(0) - i32::try_from(self.current).unwrap_or(0);
        (difference & (sign - 1)) - (difference & sign)
    }

    /// Returns the slots of all references of a frame that states only two of them
    /// (set_frame_refs(), §7.8). `None` if one of the frames is unknown.
    pub(super) fn references(
        self,
        known: &References,
        last: usize,
        golden: usize,
    ) -> Option<[usize; REFERENCES]> {
        let mut hints = [0; SLOTS];
        for (hint, reference) in hints.iter_mut().zip(known) {
            *hint = self.distance((*reference)?.order_hint);
        }
        let mut choice = Choice { hints, is_used: [false; SLOTS], slots: [None; REFERENCES] };
        choice.set(0, Some(last));
        choice.set(GOLDEN, Some(golden));
        choice.set(ALTERNATE, choice.latest(|hint| hint >= 0));
        choice.set(BACKWARD, choice.earliest_backward());
        choice.set(ALTERNATE2, choice.earliest_backward());
        for reference in [LAST2, LAST3, BACKWARD, ALTERNATE2, ALTERNATE] {
            if choice.slots.get(reference) == Some(&None) {
                choice.set(reference, choice.latest(|hint| hint < 0));
            }
        }
        // The earliest of all frames fills what is left.
        let (earliest, _) = hints.iter().enumerate().min_by_key(|(_, hint)| **hint)?;
        Some(choice.slots.map(|slot| slot.unwrap_or(earliest)))
    }

    /// Returns true if a frame with these references states skip_mode_present (§5.9.22). `None` if
    /// one of them is unknown.
    pub(super) fn allow_skip_mode(
        self,
        known: &References,
        references: &[usize; REFERENCES],
    ) -> Option<bool> {
        let mut forward = None;
        let mut has_backward = false;
        let mut hints = [0; REFERENCES];
        for (hint, &slot) in hints.iter_mut().zip(references) {
            *hint = (*known.get(slot)?)?.order_hint;
            match self.distance(*hint) {
                distance if distance < 0 => forward = forward.max(Some((distance, *hint))),
                distance => has_backward |= distance > 0,
            }
        }
        let Some((_, nearest)) = forward else { return Some(false) };
        let nearest = Self { current: nearest, ..self };
        Some(has_backward || hints.iter().any(|&hint| nearest.distance(hint) < 0))
    }
}

/// References that are being chosen.
struct Choice {
    /// The distance from the current frame to that in each slot.
    hints: [i32; SLOTS],
    is_used: [bool; SLOTS],
    slots: [Option<usize>; REFERENCES],
}

impl Choice {
    fn set(&mut self, reference: usize, slot: Option<usize>) {
        let Some(at) = slot else { return };
        if let (Some(chosen), Some(is_used)) = (self.slots.get_mut(reference), self.is_used.get_mut(at)) {
            *chosen = slot;
            *is_used = true;
        }
    }

    /// Returns the unused slots, with the distance of each.
    fn unused(&self) -> impl Iterator<Item = (usize, i32)> {
        let unused = self.hints.iter().zip(self.is_used).enumerate().filter(|(_, (_, is_used))| !is_used);
        unused.map(|(slot, (&hint, _))| (slot, hint))
    }

    /// Returns the latest of the unused frames, of several the last.
    fn latest(&self, fits: impl Fn(i32) -> bool) -> Option<usize> {
        self.unused().filter(|&(_, hint)| fits(hint)).max_by_key(|&(_, hint)| hint).map(|(slot, _)| slot)
    }

    /// Returns the earliest of the unused frames that come after the current one, of several the
    /// first.
    fn earliest_backward(&self) -> Option<usize> {
        self.unused().filter(|&(_, hint)| hint >= 0).min_by_key(|&(_, hint)| hint).map(|(slot, _)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(hints: [u32; SLOTS]) -> References {
        let reference =
            |order_hint| Reference { is_key: false, order_hint, size: (8, 8), segments: [None; 8] };
        hints.map(|order_hint| Some(reference(order_hint)))
    }

    #[test]
    fn distances_wrap_around() {
        let hints = |current| OrderHints { bits: 4, current };
        assert_eq!(hints(3).distance(5), 2);
        assert_eq!(hints(15).distance(1), 2);
        assert_eq!(hints(1).distance(15), -2);
        assert_eq!(hints(0).distance(8), -8);
    }

    /// The example has frames on both sides: the latest and the two earliest after the current one
    /// are ALTREF, BWDREF and ALTREF2; LAST2 and LAST3 are the latest before it.
    #[test]
    fn references_are_chosen_by_their_order() {
        let hints = OrderHints { bits: 7, current: 20 };
        let frames = known([10, 12, 14, 16, 18, 24, 28, 32]);
        assert_eq!(hints.references(&frames, 4, 0), Some([4, 3, 2, 0, 5, 6, 7]));
        // Without frames behind the current one, all are filled from those before it, and then by
        // the earliest.
        let frames = known([10, 12, 14, 16, 18, 18, 18, 18]);
        assert_eq!(hints.references(&frames, 4, 0), Some([4, 7, 6, 0, 5, 3, 2]));
        let frames = known([10; SLOTS]);
        assert_eq!(hints.references(&frames, 1, 2), Some([1, 7, 6, 2, 5, 4, 3]));
        let mut unknown = frames;
        unknown[3] = None;
        assert_eq!(hints.references(&unknown, 1, 2), None);
    }

    #[test]
    fn skip_mode_needs_frames_on_both_sides_or_two_before() {
        let hints = OrderHints { bits: 7, current: 20 };
        let allowed = |frames| hints.allow_skip_mode(&known(frames), &[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(allowed([18; 8]), Some(false));
        assert_eq!(allowed([24; 8]), Some(false));
        assert_eq!(allowed([20; 8]), Some(false));
        assert_eq!(allowed([18, 16, 18, 18, 18, 18, 18, 18]), Some(true));
        assert_eq!(allowed([18, 24, 18, 18, 18, 18, 18, 18]), Some(true));
        // The frame in the last slot is no reference.
        assert_eq!(allowed([18, 18, 18, 18, 18, 18, 18, 24]), Some(false));
    }
}
