//! The hit ratio of a cache that evicts the title that was least recently used (LRU), by Che's
//! approximation (Che, Tung and Wang, "Hierarchical web caching systems", IEEE JSAC 20(7), 2002).
//!
//! The approximation: a title stays in the cache for the same number of requests T after each of
//! its requests. A request is then a hit if the same title was requested among the T requests
//! before it. T follows from the capacity, because the expected number of titles that are requested
//! among T requests is the number that fits.

/// The steps by which T is found. Each halves the interval.
const STEPS: u32 = 100;

/// Requests for titles whose popularity follows Zipf's law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Requests {
    /// The number of titles, which all have the same size.
    pub titles: u32,
    /// The exponent: the title of rank k, from 1, has a share proportional to 1 / k^exponent.
    pub exponent: f64,
    /// The number of requests, the first of which finds an empty cache.
    pub count: f64,
}

/// Returns the share of requests that an LRU cache serves, whose capacity is that of `capacity`
/// titles. The cache is empty before the first request: request k, from 0, can only be a hit if the
/// title was requested among the k requests before it.
pub fn hit_ratio(requests: &Requests, capacity: f64) -> f64 {
    let weights = (1..=requests.titles).map(|rank| f64::from(rank).powf(-requests.exponent));
    let whole: f64 = weights.clone().sum();
    let shares: Vec<f64> = weights.map(|weight| weight / whole).collect();
    let filling = stay(&shares, capacity).min(requests.count);
    let rest = requests.count - filling;
    let hits = |share: f64| {
        let missed_while_filling = -(-share * filling).exp_m1() / share;
        filling - missed_while_filling - rest * (-share * filling).exp_m1()
    };
    let sum: f64 = shares.iter().map(|share| share * hits(*share)).sum();
    (sum / requests.count).clamp(0.0, 1.0)
}

/// Returns the number of requests for which a title stays in the cache: T with
/// Σ(1 − e^(−share · T)) = capacity.
fn stay(shares: &[f64], capacity: f64) -> f64 {
    if capacity >= shares.len() as f64 {
        return f64::INFINITY;
    }
    let requested = |requests: f64| shares.iter().map(|share| -(-share * requests).exp_m1()).sum::<f64>();
    let mut high = capacity.max(1.0);
    while requested(high) < capacity && high.is_finite() {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if requested(middle) < capacity { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small and positive")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the hit ratio of a simulated LRU cache, which is a list of titles with the one that
    /// was used last at the end.
    fn simulated(requests: &Requests, capacity: usize, seed: u64) -> f64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let sums: Vec<f64> = (1..=requests.titles)
            .scan(0.0, |sum, rank| {
                *sum += f64::from(rank).powf(-requests.exponent);
                Some(*sum)
            })
            .collect();
        let mut kept: Vec<usize> = Vec::new();
        let mut hits = 0;
        let count = requests.count as usize;
        for _ in 0..count {
            let wanted = random.f64() * sums.last().unwrap();
            let title = sums.partition_point(|sum| *sum <= wanted);
            if let Some(at) = kept.iter().position(|known| *known == title) {
                kept.remove(at);
                hits += 1;
            } else if kept.len() == capacity {
                kept.remove(0);
            }
            kept.push(title);
        }
        f64::from(hits) / count as f64
    }

    #[test]
    fn the_approximation_is_near_a_simulated_cache() {
        for (exponent, capacity, count) in [
            (0.6, 10, 20_000.0),
            (0.6, 200, 20_000.0),
            (0.8, 50, 20_000.0),
            (0.8, 50, 500.0),
            (1.2, 10, 20_000.0),
            (1.2, 200, 2_000.0),
            (1.2, 200, 100.0),
        ] {
            let requests = Requests { titles: 1000, exponent, count };
            // Few requests spread more, so they are repeated.
            let repeats = (20_000.0 / count) as u64;
            let all = (1..=repeats).map(|seed| simulated(&requests, capacity, seed)).sum::<f64>();
            let expected = all / repeats as f64;
            let found = hit_ratio(&requests, capacity as f64);
            assert!((found - expected).abs() < 0.015, "{requests:?} {capacity}: {found}, not {expected}");
        }
    }

    #[test]
    fn equal_titles_are_hit_in_proportion_to_those_that_fit() {
        let requests = Requests { titles: 500, exponent: 0.0, count: 1e9 };
        for capacity in [1.0, 50.0, 250.0] {
            let found = hit_ratio(&requests, capacity);
            assert!((found - capacity / 500.0).abs() < 1e-6, "{capacity}: {found}");
        }
        assert!(hit_ratio(&requests, 500.0) > 0.999_999);
        // One request finds nothing.
        assert!(hit_ratio(&Requests { count: 1.0, ..requests }, 500.0) < 0.002);
    }

    proptest! {
        #[test]
        fn a_larger_cache_and_more_requests_are_never_worse(
            titles in 2..300_u32,
            exponent in 0.0..2.0,
            count in 1.0..1e5,
            capacity in 1.0..300.0,
            more in 1.0..10.0,
        ) {
            let requests = Requests { titles, exponent, count };
            let found = hit_ratio(&requests, capacity);
            prop_assert!((0.0..=1.0).contains(&found));
            prop_assert!(hit_ratio(&requests, capacity * more) >= found - 1e-9);
            let later = Requests { count: count * more, ..requests };
            prop_assert!(hit_ratio(&later, capacity) >= found - 1e-9);
        }
    }
}
