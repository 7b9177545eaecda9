//! All retries of the program, and their budgets: one for each read and one for each back end.

use crate::Options;
use crate::counters::{Counters, increment};
use crate::distance::Distance;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The first wait; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Price of a retry, in hundredths, so that a request earns a percentage in whole numbers.
const PRICE: u64 = 100;

/// The budget for additional requests to a back end, beyond one for each read: a token bucket that
/// is filled by requests and not by a clock. Beside it are the counters and the distance of the
/// back end.
#[derive(Debug)]
pub(crate) struct Account {
    saved: AtomicU64,
    full: u64,
    earned: u64,
    retries: u32,
    pub(crate) retry_within: Duration,
    pub(crate) counters: Arc<Counters>,
    pub(crate) distance: Distance,
}

impl Account {
    pub(crate) fn new(options: &Options) -> Self {
        let full = u64::from(options.retry_burst) * PRICE;
        Self {
            saved: AtomicU64::new(full),
            full,
            earned: u64::from(options.retry_percent),
            retries: options.retries,
            retry_within: options.retry_within,
            counters: Arc::default(),
            distance: Distance::default(),
        }
    }

    pub(crate) fn earn(&self) {
        let more = |saved: u64| Some((saved + self.earned).min(self.full));
        let _ = self.saved.fetch_update(Relaxed, Relaxed, more);
    }

    /// Pays for one additional request. Returns false if the budget is used up.
    pub(crate) fn spend(&self) -> bool {
        let allowed = self.saved.fetch_update(Relaxed, Relaxed, |saved| saved.checked_sub(PRICE)).is_ok();
        if !allowed {
            increment(&self.counters.retries_refused);
        }
        allowed
    }

    pub(crate) fn budget(self: &Arc<Self>) -> Budget {
        Budget { left: self.retries, time: self.retry_within, wait: FIRST_WAIT, account: Arc::clone(self) }
    }
}

#[derive(Debug)]
pub(crate) struct Budget {
    left: u32,
    time: Duration,
    wait: Duration,
    account: Arc<Account>,
}

impl Budget {
    /// Returns how long to wait before a retry, after a failure that took `spent`. Returns `None`
    /// if a budget is used up, or if the server asks for a longer wait than is left.
    pub(crate) fn spend(&mut self, spent: Duration, retry_after: Option<Duration>) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let wait = retry_after.unwrap_or_else(|| jittered(self.wait));
        self.time = self.time.checked_sub(spent)?.checked_sub(wait)?;
        self.wait = self.wait.saturating_mul(2);
        self.account.spend().then(|| {
            increment(&self.account.counters.retries);
            wait
        })
    }
}

/// Returns between half and all of a wait, so that clients that failed together do not come back
/// together. Only the time of a retry depends on it.
fn jittered(wait: Duration) -> Duration {
    let half = wait / 2;
    // Each RandomState has its own keys.
    let random = RandomState::new().build_hasher().finish() % 1024;
    half + half * u32::try_from(random).unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::{Account, Budget, FIRST_WAIT};
    use crate::Options;
    use std::sync::Arc;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn account(retry_percent: u32, retry_burst: u32) -> Arc<Account> {
        Arc::new(Account::new(&Options { retry_percent, retry_burst, ..Options::default() }))
    }

    fn budget() -> Budget {
        account(20, 50).budget()
    }

    #[test]
    fn two_retries_with_growing_waits() {
        let mut budget = budget();
        let first = budget.spend(Duration::ZERO, None).unwrap();
        let second = budget.spend(Duration::ZERO, None).unwrap();
        assert!((FIRST_WAIT / 2..=FIRST_WAIT).contains(&first), "{first:?}");
        assert!((FIRST_WAIT..=FIRST_WAIT * 2).contains(&second), "{second:?}");
        assert_eq!(budget.spend(Duration::ZERO, None), None);
        assert_eq!(budget.account.counters.figures().retries, 2);
    }

    #[test]
    fn retries_end_after_five_seconds() {
        assert_eq!(budget().spend(5 * SECOND, None), None);
        let mut used = budget();
        assert_eq!(used.spend(SECOND, Some(3 * SECOND)), Some(3 * SECOND));
        assert_eq!(used.spend(SECOND, None), None);
        assert_eq!(budget().spend(Duration::ZERO, Some(6 * SECOND)), None);
    }

    #[test]
    fn retries_are_a_share_of_all_requests() {
        let account = account(10, 3);
        let made = |requests: u32| {
            let tried = (0..requests).map(|_| {
                account.earn();
                account.budget().spend(Duration::ZERO, None).is_some()
            });
            tried.filter(|made| *made).count()
        };
        // The burst, and a tenth of the requests; the bucket starts full, so the first request
        // earns nothing.
        assert_eq!(made(100), 3 + 9);
        assert_eq!(made(1000), 100);
        let figures = account.counters.figures();
        assert_eq!((figures.retries, figures.retries_refused), (112, 1100 - 112));
        for _ in 0..1000 {
            account.earn();
        }
        assert_eq!(made(1), 1);
        let more = (0..10).filter(|_| account.spend()).count();
        assert_eq!(more, 2, "at most the burst is saved");
    }
}
