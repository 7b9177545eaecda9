//! What is shown while a run lasts.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latemux_load::results::Recorder;
use std::{sync::Arc, time::Duration};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often a line is renewed; and every how many of these the results are written.
const PERIOD: Duration = Duration::from_secs(1);
const WRITE: u32 = 5;

/// A line on the terminal; nothing where standard error is none.
pub(super) struct Watch {
    recorder: Arc<Recorder>,
    bar: ProgressBar,
    clock: Interval,
}

impl Watch {
    pub(super) fn new(recorder: Arc<Recorder>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(2));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        let mut clock = interval(PERIOD);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { recorder, bar, clock }
    }

    /// Renews the line each second, and comes back when it is time to write the results. May be dropped at any time.
    pub(super) async fn tick(&mut self) {
        for _ in 0..WRITE {
            self.clock.tick().await;
            if self.bar.is_hidden() {
                continue;
            }
            let results = self.recorder.results();
            let players = &results.players;
            let playing = players.started.saturating_sub(players.finished + players.failed + players.stopped);
            // The second before this one is whole.
            let last = results.seconds.iter().rev().nth(1).copied().unwrap_or_default();
            let errors = results.total().failed();
            self.bar.set_message(format!(
                "{playing} players, {} requests/s, {} Mbit/s, {} stalls, {errors} failed",
                last.requests,
                last.bytes * 8 / 1_000_000,
                players.stalls.count(),
            ));
            self.bar.tick();
        }
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
