//! The choice of one of several URLs.

use std::sync::Arc;

/// An odd number near 2^64 divided by the golden ratio. Its multiples spread evenly over 64 bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// How often the URLs of a run are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Popularity {
    /// In turn, so that all are chosen equally often.
    #[default]
    InTurn,
    /// At random by Zipf's law with this exponent: the URL of rank k, from 1, has a share
    /// proportional to 1 / k^exponent.
    Zipf(f64),
}

/// Chooses among a number of URLs.
#[derive(Debug, Clone)]
pub(super) struct Chooser {
    count: usize,
    /// The sums of the weights up to each rank; empty to choose in turn.
    sums: Arc<[f64]>,
}

impl Chooser {
    pub(super) fn new(popularity: Popularity, count: usize) -> Self {
        let sums = match popularity {
            Popularity::InTurn => Arc::default(),
            Popularity::Zipf(exponent) => (1..=count)
                .scan(0.0, |sum, rank| {
                    *sum += (rank as f64).powf(-exponent);
                    Some(*sum)
                })
                .collect(),
        };
        Self { count, sums }
    }

    /// Returns the index of the URL for a player or request. The choice depends on its number and
    /// the seed alone, so that all shards of a run together choose as one machine would.
    pub(super) fn index(&self, number: u64, seed: u64) -> usize {
        let Some(whole) = self.sums.last() else {
            let turn = number.checked_rem(self.count as u64).unwrap_or(0);
            return usize::try_from(turn).unwrap_or(0);
        };
        let mut random = fastrand::Rng::with_seed(seed ^ number.wrapping_mul(SPREAD));
        let wanted = random.f64() * whole;
        self.sums.partition_point(|sum| *sum <= wanted).min(self.count.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(exponent: f64, seed: u64) -> Vec<f64> {
        let chooser = Chooser::new(Popularity::Zipf(exponent), 4);
        let mut counts = [0.0; 4];
        for number in 0..20_000 {
            counts[chooser.index(number, seed)] += 1.0 / 20_000.0;
        }
        counts.to_vec()
    }

    #[test]
    fn in_turn_all_urls_are_chosen_equally_often() {
        let chooser = Chooser::new(Popularity::InTurn, 3);
        let chosen: Vec<usize> = (0..7).map(|number| chooser.index(number, 9)).collect();
        assert_eq!(chosen, [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(Chooser::new(Popularity::InTurn, 0).index(5, 1), 0);
    }

    #[test]
    fn popularity_follows_zipfs_law() {
        // The harmonic number of 4 is 25 / 12. The standard deviation of a share is at most 0.0036.
        let expected = [0.48, 0.24, 0.16, 0.12];
        for seed in [1, 2, u64::MAX] {
            for (share, expected) in shares(1.0, seed).iter().zip(expected) {
                assert!((share - expected).abs() < 0.018, "seed {seed}: {share} for {expected}");
            }
        }
        assert!(shares(0.0, 1).iter().all(|share| (share - 0.25).abs() < 0.018), "0 is even");
        assert!(shares(9.0, 1)[0] > 0.99, "a high exponent prefers the first");
    }

    #[test]
    fn a_choice_depends_on_seed_and_number_alone() {
        let chooser = Chooser::new(Popularity::Zipf(1.0), 100);
        let chosen = |seed| (0..50).map(|number| chooser.index(number, seed)).collect::<Vec<_>>();
        assert_eq!(chosen(1), chosen(1));
        assert_ne!(chosen(1), chosen(2));
    }
}
