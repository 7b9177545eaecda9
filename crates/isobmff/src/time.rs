//! Times and durations that carry their timescale, so that ticks of different scales are never
//! mixed.

use std::{cmp::Ordering, fmt, num::NonZeroU32};

/// Ticks per second of a movie or a track (ISO/IEC 14496-12 §8.2.2, §8.4.2). Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Timescale(NonZeroU32);

impl Timescale {
    /// Milliseconds.
    pub const MILLIS: Self = Self(NonZeroU32::new(1000).unwrap());
    /// The clock of MPEG-2 systems, 90 kHz (ISO/IEC 13818-1 §2.4.3.7).
    pub const MPEG: Self = Self(NonZeroU32::new(90_000).unwrap());

    /// Returns `None` for zero, which the standard forbids but files contain.
    pub const fn new(ticks_per_second: u32) -> Option<Self> {
        match NonZeroU32::new(ticks_per_second) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// Returns the ticks per second.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// A point in time or a duration: `ticks` of a [`Timescale`]. Times compare by value, so 1/2 s
/// equals 500/1000 s.
#[derive(Clone, Copy)]
pub struct Time {
    /// Ticks, possibly negative.
    pub ticks: i64,
    /// Ticks per second.
    pub scale: Timescale,
}

/// Direction in which a conversion rounds if the target scale has no exact value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
    /// To the nearest tick; halves are rounded up.
    Nearest,
}

impl Time {
    /// Returns the time of `ticks` in `scale`.
    pub const fn new(ticks: i64, scale: Timescale) -> Self {
        Self { ticks, scale }
    }

    /// Largest number of ticks that conversions return and indexed files may state: 73 years in
    /// nanoseconds. The sum or difference of any three such numbers fits `i64`.
    pub const MAX_TICKS: i64 = 1 << 61;

    /// Returns the same time in ticks of `scale`, rounded as requested and limited to
    /// [`Self::MAX_TICKS`] on either side of zero.
    pub fn in_scale(self, scale: Timescale, round: Round) -> i64 {
        let few = self.ticks.checked_mul(scale.get().into());
        if let Some(scaled) = few.filter(|scaled| scaled.unsigned_abs() <= Self::MAX_TICKS.unsigned_abs()) {
            return divided(scaled, self.scale.get().into(), round);
        }
        let from = i128::from(self.scale.get());
        let scaled = i128::from(self.ticks) * i128::from(scale.get());
        let ticks = match round {
            Round::Down => scaled.div_euclid(from),
            Round::Up => -(-scaled).div_euclid(from),
            Round::Nearest => (2 * scaled + from).div_euclid(2 * from),
        };
        let limit = i128::from(Self::MAX_TICKS);
        i64::try_from(ticks.clamp(-limit, limit)).unwrap_or(0)
    }

    /// Returns seconds, for display and logs only.
    #[expect(clippy::cast_precision_loss, reason = "only for display")]
    pub fn seconds(self) -> f64 {
        self.ticks as f64 / f64::from(self.scale.get())
    }
}

/// Divides numbers of 64 bits, which takes a fraction of the time that 128 bits take.
fn divided(scaled: i64, from: i64, round: Round) -> i64 {
    match round {
        Round::Down => scaled.div_euclid(from),
        Round::Up => -(-scaled).div_euclid(from),
        // The same as (2 × scaled + from) / (2 × from).
        Round::Nearest => scaled.div_euclid(from) + i64::from(2 * scaled.rem_euclid(from) >= from),
    }
}

/// Returns the greatest common divisor of two numbers, 0 if both are 0.
pub fn gcd(mut a: u32, mut b: u32) -> u32 {
    if a == 0 || b == 0 {
        return a | b;
    }
    // Stein's algorithm: no divisions, of which each takes longer than several of these steps.
    let common = (a | b).trailing_zeros();
    a >>= a.trailing_zeros();
    while b != 0 {
        b >>= b.trailing_zeros();
        (a, b) = (a.min(b), a.abs_diff(b));
    }
    a << common
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = i128::from(self.ticks) * i128::from(other.scale.get());
        let right = i128::from(other.ticks) * i128::from(self.scale.get());
        left.cmp(&right)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Time {}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ticks, self.scale.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scale(n: u32) -> Timescale {
        Timescale::new(n).unwrap()
    }

    proptest! {
        #[test]
        fn the_greatest_common_divisor_is_that_of_euclid(mut a: u32, mut b: u32, factor in 1..60_000_u32) {
            (a, b) = (a / factor * factor, b / factor * factor);
            let found = gcd(a, b);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            prop_assert_eq!(found, a);
        }
    }

    proptest! {
        #[test]
        fn few_ticks_are_converted_like_many(
            ticks in prop_oneof![-1000..1000_i64, -1_i64 << 40..1 << 40, any::<i64>()],
            from in prop_oneof![1..100_u32, 1..=u32::MAX],
            to in prop_oneof![1..100_u32, 1..=u32::MAX],
        ) {
            let (from, to) = (i128::from(from), i128::from(to));
            let scaled = i128::from(ticks) * to;
            let expected = [
                scaled.div_euclid(from),
                -(-scaled).div_euclid(from),
                (2 * scaled + from).div_euclid(2 * from),
            ];
            let scales = [from, to].map(|ticks| scale(u32::try_from(ticks).unwrap()));
            let time = Time::new(ticks, scales[0]);
            let found = [Round::Down, Round::Up, Round::Nearest].map(|round| time.in_scale(scales[1], round));
            prop_assert_eq!(found.map(i128::from), expected.map(|ticks| ticks.clamp(-1 << 61, 1 << 61)));
        }
    }

    #[test]
    fn compares_by_value_across_scales() {
        assert_eq!(Time::new(1, scale(2)), Time::new(500, scale(1000)));
        assert!(Time::new(1001, scale(30_000)) > Time::new(33, scale(1000)));
        assert!(Time::new(i64::MAX, scale(1)) > Time::new(i64::MAX, scale(u32::MAX)));
    }

    #[test]
    fn rounds_in_the_requested_direction_on_both_sides_of_zero() {
        let t = |ticks| Time::new(ticks, scale(3));
        assert_eq!(t(1).in_scale(scale(10), Round::Down), 3);
        assert_eq!(t(1).in_scale(scale(10), Round::Up), 4);
        assert_eq!(t(-1).in_scale(scale(10), Round::Down), -4);
        assert_eq!(t(-1).in_scale(scale(10), Round::Up), -3);
        assert_eq!(t(1).in_scale(scale(6), Round::Nearest), 2);
        assert_eq!(Time::new(i64::MAX, scale(1)).in_scale(scale(2), Round::Down), Time::MAX_TICKS);
        assert_eq!(Time::new(i64::MIN, scale(1)).in_scale(scale(1), Round::Up), -Time::MAX_TICKS);
    }
}
