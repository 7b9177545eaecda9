//! Health of a disk: after failures it is left alone for a while, which is logged once.

use crate::memory::lock::lock;
use latemux_quantity::millis;
use std::{
    io,
    sync::Mutex,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

#[derive(Debug)]
pub(crate) struct Health {
    doing: &'static str,
    retry: Duration,
    /// Number of consecutive failures after which the disk is left alone.
    strikes: u32,
    /// Zero of a monotonic clock.
    zero: Instant,
    /// End of the rest in milliseconds after `zero`; 0 if the disk is not resting.
    until: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    strikes: u32,
    is_reported: bool,
}

impl Health {
    pub(crate) fn new(doing: &'static str, retry: Duration, strikes: u32) -> Self {
        Self {
            doing,
            retry,
            strikes,
            zero: Instant::now(),
            until: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    pub(crate) fn is_resting(&self) -> bool {
        let until = self.until.load(Relaxed);
        until > 0 && self.now() < until
    }

    pub(crate) fn failed(&self, error: &io::Error) {
        let mut state = lock(&self.state);
        state.strikes += 1;
        if error.kind() == io::ErrorKind::TimedOut || state.strikes >= self.strikes {
            self.until.store(self.now().saturating_add(millis(self.retry)), Relaxed);
        }
        if !state.is_reported {
            state.is_reported = true;
            let doing = self.doing;
            tracing::warn!(%error, retry = ?self.retry, "cache disk: {doing} fails, using storage in the meantime");
        }
    }

    pub(crate) fn succeeded(&self) {
        if self.until.load(Relaxed) == 0 && self.state.try_lock().is_ok_and(|state| state.strikes == 0) {
            return;
        }
        let mut state = lock(&self.state);
        state.strikes = 0;
        self.until.store(0, Relaxed);
        if std::mem::take(&mut state.is_reported) {
            tracing::info!("cache disk: {} works again", self.doing);
        }
    }

    fn now(&self) -> u64 {
        millis(self.zero.elapsed())
    }
}
