//! Steps of a run: levels of load, each held for some time.

use super::{Arrival, Shard};
use crate::results::Plateau;
use std::time::Duration;

/// A level of load, held for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The number of players, or of connections.
    pub level: u64,
    /// The duration of the step, with the time in which players are added.
    pub duration: Duration,
}

/// Returns the plateaus of steps, whose players are added over `ramp`.
pub fn plateaus(steps: &[Step], ramp: Duration) -> Vec<Plateau> {
    let plateau = |from: &mut Duration, step: &Step| {
        let start = *from;
        *from = start.saturating_add(step.duration);
        Some(Plateau { level: step.level, from: start.saturating_add(ramp).min(*from), until: *from })
    };
    steps.iter().scan(Duration::ZERO, plateau).collect()
}

/// The time in which a player or connection takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Presence {
    pub(super) from: Duration,
    pub(super) until: Duration,
}

/// Returns the times in which the player or connection `number` takes part: all steps whose level
/// is above it. Those that a step adds start evenly over `ramp`.
pub(super) fn presences(steps: &[Step], ramp: Duration, number: u64) -> Vec<Presence> {
    let mut presences: Vec<Presence> = Vec::new();
    let mut start = Duration::ZERO;
    let mut before = 0;
    for step in steps {
        let end = start.saturating_add(step.duration);
        if number < before.min(step.level) {
            if let Some(last) = presences.last_mut() {
                last.until = end;
            }
        } else if number < step.level {
            let nanos = ramp.as_nanos() * u128::from(number - before) / u128::from(step.level - before);
            let delay = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            presences.push(Presence { from: start.saturating_add(delay), until: end });
        }
        (start, before) = (end, step.level);
    }
    presences
}

/// Returns the arrivals of a shard in order of time. A player's seed depends on its number alone.
pub(super) fn arrivals(steps: &[Step], ramp: Duration, seed: u64, shard: Shard) -> Vec<Arrival> {
    let mut random = fastrand::Rng::with_seed(seed);
    let most = steps.iter().map(|step| step.level).max().unwrap_or(0);
    let mut arrivals = Vec::new();
    for number in 0..most {
        let seed = random.u64(..);
        if shard.has(number) {
            let presences = presences(steps, ramp, number).into_iter();
            arrivals.extend(presences.map(|Presence { from, until }| Arrival {
                number,
                at: from,
                until: Some(until),
                seed,
            }));
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn steps() -> Vec<Step> {
        [(2, 10), (4, 20), (1, 10), (3, 10)]
            .map(|(level, duration)| Step { level, duration: seconds(duration) })
            .to_vec()
    }

    #[test]
    fn players_take_part_in_the_steps_above_their_number() {
        let of = |number| {
            let presences = presences(&steps(), seconds(4), number).into_iter();
            presences.map(|p| (p.from.as_secs(), p.until.as_secs())).collect::<Vec<_>>()
        };
        assert_eq!(of(0), [(0, 50)]);
        assert_eq!(of(1), [(2, 30), (40, 50)]);
        // The ramp of the second step is shared by two players.
        assert_eq!(of(2), [(10, 30), (42, 50)]);
        assert_eq!(of(3), [(12, 30)]);
        assert_eq!(of(4), []);
    }

    #[test]
    fn plateaus_begin_after_the_ramp() {
        let all: Vec<(u64, u64, u64)> = plateaus(&steps(), seconds(4))
            .iter()
            .map(|plateau| (plateau.level, plateau.from.as_secs(), plateau.until.as_secs()))
            .collect();
        assert_eq!(all, [(2, 4, 10), (4, 14, 30), (1, 34, 40), (3, 44, 50)]);
    }

    #[test]
    fn shards_of_steps_add_up_to_the_whole_run() {
        let of = |shard: &str| arrivals(&steps(), seconds(4), 7, shard.parse().unwrap());
        let mut parts = [of("0/2"), of("1/2")].concat();
        parts.sort_by_key(|arrival| arrival.at);
        assert_eq!(parts, of("0/1"));
        assert!(parts.is_sorted_by_key(|arrival| arrival.at) && parts.len() == 6, "{parts:?}");
    }
}
