//! The only retries in the program, and their budget.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// How often and how long one read may be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retries {
    /// Requests after the first.
    pub max: u32,
    /// Time that failed requests and the waits between them may take together. A request that fails later than this
    /// is not tried again.
    pub within: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max: 2, within: Duration::from_secs(5) }
    }
}

/// The first wait; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// What is left of a read's retries.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u32,
    time: Duration,
    wait: Duration,
}

impl Budget {
    pub(crate) fn new(retries: &Retries) -> Self {
        Self { left: retries.max, time: retries.within, wait: FIRST_WAIT }
    }

    /// How long to wait before trying again after a failure that took `spent`; `None` where the budget is used up, or
    /// the server asks for a longer wait than is left.
    pub(crate) fn spend(&mut self, spent: Duration, asked: Option<Duration>) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let wait = asked.unwrap_or_else(|| jittered(self.wait));
        self.time = self.time.checked_sub(spent)?.checked_sub(wait)?;
        self.wait = self.wait.saturating_mul(2);
        Some(wait)
    }
}

/// Between half and all of a wait, so that clients that failed together do not come back together. Nothing but the
/// time of a retry depends on it.
fn jittered(wait: Duration) -> Duration {
    let half = wait / 2;
    // Each RandomState has keys of its own.
    let random = RandomState::new().build_hasher().finish() % 1024;
    half + half * u32::try_from(random).unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::{Budget, FIRST_WAIT, Retries};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn two_retries_with_growing_waits() {
        let mut budget = Budget::new(&Retries::default());
        let first = budget.spend(Duration::ZERO, None).unwrap();
        let second = budget.spend(Duration::ZERO, None).unwrap();
        assert!((FIRST_WAIT / 2..=FIRST_WAIT).contains(&first), "{first:?}");
        assert!((FIRST_WAIT..=FIRST_WAIT * 2).contains(&second), "{second:?}");
        assert_eq!(budget.spend(Duration::ZERO, None), None);
    }

    #[test]
    fn no_longer_than_five_seconds() {
        assert_eq!(Budget::new(&Retries::default()).spend(5 * SECOND, None), None);
        let mut budget = Budget::new(&Retries::default());
        assert_eq!(budget.spend(SECOND, Some(3 * SECOND)), Some(3 * SECOND));
        assert_eq!(budget.spend(SECOND, None), None);
        assert_eq!(Budget::new(&Retries::default()).spend(Duration::ZERO, Some(6 * SECOND)), None);
    }
}
