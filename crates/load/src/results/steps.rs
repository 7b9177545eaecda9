//! Requests by the step of a run.

use super::Requests;
use crate::micros::micros;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The part of a step that is measured: the time after players were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plateau {
    /// The number of players, or of connections.
    pub level: u64,
    /// The time from the start of the run to the start of the plateau.
    pub from: Duration,
    /// The time from the start of the run to the end of the step.
    pub until: Duration,
}

/// The plateau of a step, and the requests of all classes that were due on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResults {
    /// The number of players, or of connections.
    pub level: u64,
    /// The time from the start of the run to the start of the plateau, in milliseconds.
    pub from: u64,
    /// The time from the start of the run to the end of the plateau, in milliseconds.
    pub until: u64,
    /// The requests.
    pub requests: Requests,
}

impl StepResults {
    pub(super) fn new(plateau: &Plateau) -> Self {
        let millis = |time: Duration| micros(time) / 1000;
        Self {
            level: plateau.level,
            from: millis(plateau.from),
            until: millis(plateau.until),
            requests: Requests::default(),
        }
    }
}
