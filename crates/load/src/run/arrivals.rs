//! The start times of players.

use std::{fmt, str::FromStr, time::Duration};

/// The distribution of start times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Evenly over the ramp. A player that has finished starts again, so that the number of players
    /// is constant.
    Closed,
    /// At random, with this number of players per second on average, independent of the server.
    /// Each player plays once.
    Poisson(f64),
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "closed" {
            return Ok(Self::Closed);
        }
        let rate = text.strip_prefix("poisson:").and_then(|rate| rate.parse::<f64>().ok());
        match rate.filter(|rate| *rate > 0.0 && rate.is_finite()) {
            Some(rate) => Ok(Self::Poisson(rate)),
            None => Err("neither `closed` nor `poisson:RATE` with a RATE of players per second".to_owned()),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => out.write_str("closed"),
            Self::Poisson(rate) => write!(out, "poisson:{rate}"),
        }
    }
}

/// A part of a run: the players whose number modulo `count` is `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Default for Shard {
    /// Returns the whole run.
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Shard {
    /// Returns true if a player belongs to this part.
    pub const fn has(self, number: u64) -> bool {
        number % self.count == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    /// Reads `i/N`, where the first `i` is 0.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            _ => Err("not i/N with i from 0 to N-1".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.index, self.count)
    }
}

/// The start of a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the player in the whole run.
    pub number: u64,
    /// The time since the start of the run.
    pub at: Duration,
    /// The time since the start of the run at which the player leaves; `None` if it stays.
    pub until: Option<Duration>,
    /// The seed of the player's random choices.
    pub seed: u64,
}

/// Returns the arrivals of a shard in order of time. The arrival of a player depends on the seed,
/// but not on the number of shards.
pub(super) fn schedule(
    arrivals: Arrivals,
    players: u64,
    ramp: Duration,
    seed: u64,
    shard: Shard,
) -> impl Iterator<Item = Arrival> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut at = Duration::ZERO;
    (0..players)
        .map(move |number| {
            let seed = random.u64(..);
            match arrivals {
                Arrivals::Closed => {
                    let nanos = ramp.as_nanos() * u128::from(number) / u128::from(players.max(1));
                    at = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
                }
                Arrivals::Poisson(rate) => {
                    let gap = -(1.0 - random.f64()).ln() / rate;
                    at = at.saturating_add(Duration::try_from_secs_f64(gap).unwrap_or(Duration::MAX));
                }
            }
            Arrival { number, at, until: None, seed }
        })
        .filter(move |arrival| shard.has(arrival.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(arrivals: Arrivals, shard: &str) -> Vec<Arrival> {
        schedule(arrivals, 1000, Duration::from_secs(10), 42, shard.parse().unwrap()).collect()
    }

    #[test]
    fn shards_add_up_to_the_whole_run() {
        for arrivals in [Arrivals::Closed, Arrivals::Poisson(3.0)] {
            let mut parts = [all(arrivals, "0/3"), all(arrivals, "1/3"), all(arrivals, "2/3")].concat();
            parts.sort_by_key(|arrival| arrival.number);
            assert_eq!(parts, all(arrivals, "0/1"));
        }
    }

    #[test]
    fn ramps_are_even_and_random_arrivals_have_their_rate() {
        let ramp = all(Arrivals::Closed, "0/1");
        assert_eq!((ramp[0].at, ramp[500].at), (Duration::ZERO, Duration::from_secs(5)));
        let chance = all(Arrivals::Poisson(50.0), "0/1");
        let last = chance[999].at.as_secs_f64();
        // 20 s; the standard deviation is 0.63 s.
        assert!((17.0..23.0).contains(&last), "{last}");
        let gaps: Vec<Duration> = chance.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
        let mean = 0.02;
        let above = gaps.iter().filter(|gap| gap.as_secs_f64() > mean).count();
        // 1/e of them are longer than the mean.
        assert!((300..430).contains(&above), "{above}");
    }

    #[test]
    fn arrivals_and_shards_are_parsed() {
        assert_eq!("poisson:2.5".parse(), Ok(Arrivals::Poisson(2.5)));
        for wrong in ["poisson:0", "poisson:-1", "poisson:inf", "poisson", "open"] {
            assert!(wrong.parse::<Arrivals>().is_err(), "{wrong}");
        }
        assert_eq!("2/3".parse::<Shard>().unwrap().to_string(), "2/3");
        for wrong in ["3/3", "0/0", "1", "-1/2", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
