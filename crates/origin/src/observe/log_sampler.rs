//! Samples the log lines of failed requests: a flood of requests that fail for one reason writes
//! one line a second. The metrics count all of them, and the access log has a line for each.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Shortest time between two lines with the same reason.
const PAUSE: Duration = Duration::from_secs(1);

/// The last line of each reason. Reasons are constants of the program, so there are few.
#[derive(Debug, Default)]
pub(crate) struct LogSampler(Mutex<HashMap<&'static str, Sampled>>);

#[derive(Debug)]
struct Sampled {
    /// Time of the last line.
    logged: Instant,
    /// Lines left out since then.
    left_out: u64,
}

impl LogSampler {
    /// Returns the number of lines left out before this one, or `None` if this one is to be left
    /// out too.
    pub(crate) fn admit(&self, reason: &'static str) -> Option<u64> {
        let now = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(reason) {
            None => {
                all.insert(reason, Sampled { logged: now, left_out: 0 });
                Some(0)
            }
            Some(sampled) if now.saturating_duration_since(sampled.logged) < PAUSE => {
                sampled.left_out += 1;
                None
            }
            Some(sampled) => {
                sampled.logged = now;
                Some(std::mem::take(&mut sampled.left_out))
            }
        }
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
}
