//! When a title was last compared with storage, and with which result.

use latemux_index::{MediaIndex, Title};
use latemux_quantity::millis;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// Age after which a segment that a title does not have is searched for in storage.
pub(crate) const MISSING_AGE: Duration = Duration::from_secs(1);
/// Longest pause between two comparisons of a title that is unsettled, or that storage failed to
/// confirm.
const SHORT_PAUSE: Duration = Duration::from_secs(2);
/// Time for which a title with a part that cannot be read counts as unsettled. After it, the part
/// counts as damaged for good.
pub(crate) const SETTLING: Duration = Duration::from_secs(60);

/// Reasons of problems that may end when a file has been copied completely, or when storage no
/// longer sends wrong bytes.
const PASSING: [&str; 7] =
    ["not_mp4", "truncated", "malformed", "no_media", "empty_track", "no_sync_sample", "index_stale"];

/// Condition for using a title from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// No condition. Reads of media are pinned to the versions from which the title was made, so an
    /// outdated title cannot give wrong bytes.
    Any,
    /// The title was compared with storage less than [`crate::OriginConfig::recheck_after`] ago. If
    /// storage fails, an older title may be used.
    Recent,
    /// The title was compared with storage less than this time ago.
    Within(Duration),
    /// The title is compared with storage now.
    Current,
}

/// Comparisons of a title with storage.
#[derive(Debug)]
pub(crate) struct Checks {
    clock: Instant,
    /// Time of the last comparison that found the title unchanged, in ms after `clock`.
    confirmed: AtomicU64,
    /// Time of the last comparison that failed since then, in ms after `clock`, or 0.
    failed: AtomicU64,
    /// True if a read failed because of its object after the head of a response was sent.
    is_doubtful: AtomicBool,
    /// True if an object of the title is known to have changed.
    is_outdated: AtomicBool,
    /// True if the title lacks a part that may become readable.
    is_suspect: bool,
}

impl Checks {
    /// Creates the state of a title that was read from storage at `now`.
    pub(crate) fn new(now: Instant, is_suspect: bool) -> Self {
        Self {
            clock: now,
            confirmed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            is_doubtful: AtomicBool::new(false),
            is_outdated: AtomicBool::new(false),
            is_suspect,
        }
    }

    fn ms(&self, now: Instant) -> u64 {
        millis(now.saturating_duration_since(self.clock))
    }

    fn age(&self, now: Instant) -> Duration {
        Duration::from_millis(self.ms(now).saturating_sub(self.confirmed.load(Relaxed)))
    }

    /// Returns true if the title may be used without a comparison. `recheck_after` is the
    /// configured age.
    pub(crate) fn is_fresh(&self, freshness: Freshness, recheck_after: Duration) -> bool {
        if self.is_doubtful.load(Relaxed) {
            return false;
        }
        let within = |age| self.age(Instant::now()) < age;
        match freshness {
            Freshness::Any => true,
            Freshness::Recent if self.is_unsettled() => within(recheck_after.min(SHORT_PAUSE)),
            Freshness::Recent => within(recheck_after),
            Freshness::Within(age) => within(age),
            Freshness::Current => false,
        }
    }

    /// Returns true if the title may be used although storage fails: it was confirmed less than
    /// `limit` ago, and nothing is known against it since.
    pub(crate) fn may_be_stale(&self, limit: Duration) -> bool {
        let is_known_bad = self.is_doubtful.load(Relaxed) || self.is_outdated.load(Relaxed);
        !is_known_bad && self.age(Instant::now()) < limit
    }

    /// Returns true if the last comparison failed so recently that none should be made now.
    pub(crate) fn has_just_failed(&self, recheck_after: Duration) -> bool {
        let failed = self.failed.load(Relaxed);
        let since = Duration::from_millis(self.ms(Instant::now()).saturating_sub(failed));
        failed > 0 && since < recheck_after.min(SHORT_PAUSE)
    }

    /// Returns true if the last comparison failed, so that the title may be outdated.
    pub(crate) fn is_stale(&self) -> bool {
        self.failed.load(Relaxed) > 0
    }

    /// Returns true while the title lacks a part that may become readable.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.is_suspect && self.clock.elapsed() < SETTLING
    }

    /// Notes a comparison, begun at `now`, that found the title unchanged.
    pub(crate) fn confirm(&self, now: Instant) {
        self.confirmed.store(self.ms(now), Relaxed);
        self.failed.store(0, Relaxed);
        self.is_doubtful.store(false, Relaxed);
        self.is_outdated.store(false, Relaxed);
    }

    /// Notes a failed comparison. Returns true if the one before succeeded.
    pub(crate) fn fail(&self) -> bool {
        self.failed.swap(self.ms(Instant::now()).max(1), Relaxed) == 0
    }

    /// Makes the next request compare the title with storage first.
    pub(crate) fn mark_doubtful(&self) {
        self.is_doubtful.store(true, Relaxed);
    }

    /// Notes that an object of the title has changed.
    pub(crate) fn mark_outdated(&self) {
        self.is_outdated.store(true, Relaxed);
    }
}

/// Returns true if a title lacks a part that may become readable.
pub(crate) fn is_suspect(title: &Title) -> bool {
    title.problems().iter().any(|problem| PASSING.contains(&problem.reason))
}

/// Returns true if an index lacks a track that may become readable.
pub(crate) fn lacks_tracks(index: &MediaIndex) -> bool {
    index.left_out.iter().any(|problem| PASSING.contains(&problem.reason()))
}
