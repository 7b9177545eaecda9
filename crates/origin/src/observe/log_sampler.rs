//! Samples log lines: for each reason, a flood writes at most a burst of lines, and then one a
//! second.
//!
//! The metrics count all failed requests, and the access log has a line for each request.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Time after which a reason may have one more line.
const PAUSE: Duration = Duration::from_secs(1);

/// The lines of each reason. Reasons are constants of the program, so there are few.
#[derive(Debug)]
pub(crate) struct LogSampler {
    /// Most lines of one reason at once.
    burst: u32,
    sampled: Mutex<HashMap<&'static str, Sampled>>,
}

#[derive(Debug)]
struct Sampled {
    /// Time up to which lines have been added to `free`.
    counted: Instant,
    /// Lines that may be written at once.
    free: u32,
    /// Lines left out since the last one that was written.
    left_out: u64,
}

impl Default for LogSampler {
    /// Creates a sampler of one line a second for each reason.
    fn default() -> Self {
        Self::with_burst(1)
    }
}

impl LogSampler {
    /// Creates a sampler of one line a second for each reason, and of up to `burst` lines at once
    /// after a pause.
    pub(crate) fn with_burst(burst: u32) -> Self {
        Self { burst, sampled: Mutex::default() }
    }

    /// Returns the number of lines left out before this one, or `None` if this one is to be left
    /// out too.
    pub(crate) fn admit(&self, reason: &'static str) -> Option<u64> {
        let now = Instant::now();
        let mut all = self.sampled.lock().unwrap_or_else(PoisonError::into_inner);
        let first = Sampled { counted: now, free: self.burst, left_out: 0 };
        let sampled = all.entry(reason).or_insert(first);
        while sampled.free < self.burst && now.saturating_duration_since(sampled.counted) >= PAUSE {
            sampled.free += 1;
            sampled.counted += PAUSE;
        }
        if sampled.free == 0 {
            sampled.left_out += 1;
            return None;
        }
        if sampled.free == self.burst {
            sampled.counted = now;
        }
        sampled.free -= 1;
        Some(std::mem::take(&mut sampled.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_reason_is_logged_once_a_second_with_the_number_left_out() {
        let sampler = LogSampler::default();
        assert_eq!(sampler.admit("title_busy"), Some(0));
        for _ in 0..500 {
            assert_eq!(sampler.admit("title_busy"), None);
        }
        assert_eq!(sampler.admit("storage_busy"), Some(0));
        tokio::time::advance(PAUSE).await;
        assert_eq!(sampler.admit("title_busy"), Some(500));
        assert_eq!(sampler.admit("title_busy"), None);
        assert_eq!(sampler.admit("storage_busy"), Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_logged_and_then_one_line_a_second() {
        let sampler = LogSampler::with_burst(3);
        let admitted = || (0..10).map(|_| sampler.admit("truncated")).collect::<Vec<_>>();
        assert_eq!(admitted()[..4], [Some(0), Some(0), Some(0), None]);
        tokio::time::advance(PAUSE * 2).await;
        assert_eq!(admitted()[..3], [Some(7), Some(0), None]);
        tokio::time::advance(PAUSE * 1000).await;
        assert_eq!(admitted()[..4], [Some(8), Some(0), Some(0), None]);
    }
}
