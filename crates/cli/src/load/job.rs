//! The kinds of runs.

use latemux_load::{
    results::Plateau,
    run::{Plan, SinglePlan, plateaus},
};

/// The sockets of a player: one for video, one for audio.
const SOCKETS: u64 = 2;

/// The kind of run.
pub(super) enum Job {
    Players(Plan),
    Single(SinglePlan),
}

impl Job {
    /// Returns the maximum number of connections at a time.
    pub(super) fn connections(&self, streams: Option<usize>) -> u64 {
        let (count, steps, sockets) = match self {
            Self::Players(plan) => (plan.players, &plan.steps, SOCKETS),
            Self::Single(plan) => (plan.concurrency, &plan.steps, 1),
        };
        // A connection for chunks may be replaced before the server has closed the old one.
        let sockets = sockets.saturating_add(streams.map_or(0, |streams| streams as u64 * 2));
        let level = steps.iter().map(|step| step.level).max().unwrap_or(count);
        level.saturating_mul(sockets)
    }

    pub(super) fn plateaus(&self) -> Vec<Plateau> {
        match self {
            Self::Players(plan) => plateaus(&plan.steps, plan.ramp),
            Self::Single(plan) => plateaus(&plan.steps, plan.ramp),
        }
    }
}
