//! Verdicts: what the results say about a claim.

use super::{
    fit::{self, ClaimFit},
    value::value,
};
use crate::{
    driver::Record,
    experiment::{Claim, Quantity, Scalar},
};
use latemux_load::report::Estimate;
use std::collections::BTreeMap;

/// The fewest blocks from which a claim is decided.
const FEWEST_BLOCKS: usize = 3;

/// A claim, and what the results say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedClaim {
    /// The claim.
    pub claim: Claim,
    /// The verdict.
    pub verdict: Verdict,
    /// The mean, and the ends of its 95 % confidence interval; `None` without measurements.
    pub interval: Option<[f64; 3]>,
    /// The number of blocks that have a value.
    pub blocks: usize,
    /// The fit, if the claim is about one.
    pub fit: Option<ClaimFit>,
}

/// The verdict about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is within the bounds.
    Holds,
    /// The interval includes a bound, or there are too few measurements.
    Open,
    /// The whole interval is outside the bounds.
    Contradicts,
}

impl Verdict {
    /// Returns the word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Open => "open",
            Self::Contradicts => "contradicts",
        }
    }
}

/// The cells of one block, which were measured one after the other on one machine, with their
/// values.
type Block<'a> = BTreeMap<&'a BTreeMap<String, String>, f64>;

impl JudgedClaim {
    /// Returns half of the width of the interval as a share of the mean. It is infinite if there is
    /// only one value, or if only the mean is 0.
    pub fn half_width(&self) -> Option<f64> {
        let [mean, low, high] = self.interval?;
        if self.blocks < 2 {
            return Some(f64::INFINITY);
        }
        let half = (high - low) / 2.0;
        Some(if half > 0.0 { half / mean.abs() } else { 0.0 })
    }
}

/// Decides a claim of an experiment.
///
/// Each block gives one value. A claim with `against` compares cells within the block: the value
/// is the geometric mean of their ratios, or the ratio of their sums if a ratio is not above 0. The
/// value of a claim with `fit` is the coefficient of determination of the fit to the block. Without
/// either it is that of the cell that is furthest from fulfilling the claim. The interval is
/// that of Student's t over the values of the blocks. For claims with `against`, efficiencies and
/// ratios of hit ratios, it is computed from their logarithms, and for fits from the logarithm of
/// 1 − R².
pub(super) fn decide(claim: &Claim, experiment: &str, records: &[(usize, Record)]) -> JudgedClaim {
    let own = current(experiment, records);
    let own = own.iter().copied();
    let (values, interval, fit) = if claim.fit.is_some() {
        let chosen = own.filter(|(_, record)| has(&record.point, &claim.of));
        let chosen: Vec<(usize, &Record)> = chosen.map(|(machine, record)| (*machine, record)).collect();
        let (values, fit) = fit::fit(claim, &chosen);
        let interval = fit::interval(&values);
        (values, interval, fit)
    } else {
        let values = of_blocks(claim, own);
        let is_ratio =
            claim.against.is_some() || matches!(claim.value, Quantity::Efficiency | Quantity::HitRatioByLru);
        let interval = interval(&values, is_ratio);
        (values, interval, None)
    };
    let verdict = match interval {
        Some([_, low, high]) if values.len() >= FEWEST_BLOCKS => {
            let least = claim.at_least.unwrap_or(f64::NEG_INFINITY);
            let most = claim.at_most.unwrap_or(f64::INFINITY);
            if low >= least && high <= most {
                Verdict::Holds
            } else if high < least || low > most {
                Verdict::Contradicts
            } else {
                Verdict::Open
            }
        }
        _ => Verdict::Open,
    };
    JudgedClaim { claim: claim.clone(), verdict, interval, blocks: values.len(), fit }
}

/// Returns the records of an experiment. Of the keys of one point on one machine, only the last
/// measured one counts: the others are results of an earlier program.
fn current<'a>(experiment: &str, records: &'a [(usize, Record)]) -> Vec<&'a (usize, Record)> {
    let own = || records.iter().filter(|(_, record)| record.experiment == experiment);
    let last: BTreeMap<(usize, &BTreeMap<String, String>), &String> =
        own().map(|(machine, record)| ((*machine, &record.point), &record.key)).collect();
    own().filter(|(machine, record)| last.get(&(*machine, &record.point)) == Some(&&record.key)).collect()
}

/// Returns the value of a claim in each block that has one.
fn of_blocks<'a>(claim: &Claim, records: impl Iterator<Item = &'a (usize, Record)>) -> Vec<f64> {
    let mut blocks: BTreeMap<(usize, u32), Block<'_>> = BTreeMap::new();
    for (machine, record) in records {
        let measured = record.measured.as_ref().and_then(|measured| value(claim.value, measured));
        if let Some(value) = measured {
            blocks.entry((*machine, record.repeat)).or_default().insert(&record.point, value);
        }
    }
    blocks.values().filter_map(|block| of_block(claim, block)).collect()
}

/// Returns the value of a claim in one block.
fn of_block(claim: &Claim, block: &Block<'_>) -> Option<f64> {
    let chosen = block.iter().filter(|(point, _)| has(point, &claim.of));
    let Some(against) = &claim.against else {
        // The excess is above 0 outside of the bounds.
        let least = claim.at_least.unwrap_or(f64::NEG_INFINITY);
        let most = claim.at_most.unwrap_or(f64::INFINITY);
        let excess = |value: f64| (least - value).max(value - most);
        return chosen.map(|(_, value)| *value).max_by(|one, other| excess(*one).total_cmp(&excess(*other)));
    };
    let pairs: Vec<(f64, f64)> = chosen
        .filter_map(|(point, value)| {
            let mut other = (*point).clone();
            other.extend(against.iter().map(|(axis, value)| (axis.clone(), value.to_string())));
            Some((*value, *block.get(&other)?))
        })
        .collect();
    if pairs.is_empty() {
        return None;
    }
    if pairs.iter().all(|(value, other)| *value > 0.0 && *other > 0.0) {
        let logarithms: f64 = pairs.iter().map(|(value, other)| (value / other).ln()).sum();
        return Some((logarithms / pairs.len() as f64).exp());
    }
    let (value, other) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    (other > 0.0).then(|| value / other)
}

/// Returns true if a point has these values of axes.
fn has(point: &BTreeMap<String, String>, values: &BTreeMap<String, Scalar>) -> bool {
    values.iter().all(|(axis, value)| point.get(axis).is_some_and(|stated| stated == value.as_str()))
}

/// Returns the mean and the ends of its interval. A single value has no interval but itself.
fn interval(values: &[f64], of_logarithms: bool) -> Option<[f64; 3]> {
    let of_logarithms = of_logarithms && values.iter().all(|value| *value > 0.0);
    let to = |value: &f64| if of_logarithms { value.ln() } else { *value };
    let from = |value: f64| if of_logarithms { value.exp() } else { value };
    let values: Vec<f64> = values.iter().map(to).collect();
    let Estimate { mean, half_width, .. } = Estimate::of(&values)?;
    let half_width = half_width.unwrap_or(0.0);
    Some([mean, mean - half_width, mean + half_width].map(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::Model,
        plan::Offered,
        report::tests::{measured, record},
    };

    fn claim(against: Option<&str>, at_least: Option<f64>, at_most: Option<f64>) -> Claim {
        let text = |against: &str| format!("against = {{ setup = '{against}' }}\n");
        let bound = |name: &str, bound: Option<f64>| {
            bound.map_or_else(String::new, |bound| format!("{name} = {bound:?}\n"))
        };
        let text = format!(
            "text = 'x'\nvalue = 'MB/s'\nof = {{ setup = 'a' }}\n{}{}{}",
            against.map_or_else(String::new, text),
            bound("at_least", at_least),
            bound("at_most", at_most)
        );
        toml::from_str(&text).unwrap()
    }

    /// Makes blocks with a cell `a` and a cell `b` each.
    fn blocks(values: &[(u64, u64)]) -> Vec<(usize, Record)> {
        let both = |(repeat, (a, b)): (u32, &(u64, u64))| {
            [("a", *a), ("b", *b)].map(|(setup, bytes)| (0, record(repeat, setup, Some(measured(bytes)))))
        };
        (0..).zip(values).flat_map(both).collect()
    }

    fn verdict_of(claim: &Claim, values: &[(u64, u64)]) -> Verdict {
        decide(claim, "cold", &blocks(values)).verdict
    }

    #[test]
    fn a_ratio_is_taken_within_each_block() {
        // The machine gets slower from block to block, and the ratio stays about 3.
        let values = [(30_000, 10_000), (15_100, 5_000), (5_980, 2_000)];
        let verdict = decide(&claim(Some("b"), Some(2.5), None), "cold", &blocks(&values));
        assert_eq!((verdict.verdict, verdict.blocks), (Verdict::Holds, 3));
        let [mean, low, high] = verdict.interval.unwrap();
        assert!((mean - 3.0).abs() < 0.02 && low > 2.9 && high < 3.1, "{verdict:?}");
        assert_eq!(verdict_of(&claim(Some("b"), Some(3.0), None), &values), Verdict::Open);
        assert_eq!(verdict_of(&claim(Some("b"), Some(3.5), None), &values), Verdict::Contradicts);
        assert_eq!(verdict_of(&claim(Some("b"), None, Some(2.5)), &values), Verdict::Contradicts);
        assert_eq!(verdict_of(&claim(Some("b"), Some(2.9), Some(3.1)), &values), Verdict::Holds);
    }

    #[test]
    fn results_of_an_earlier_program_do_not_count() {
        let claim = claim(Some("b"), Some(1.5), None);
        let mut records = blocks(&[(9, 1), (9, 1), (9, 1), (9, 1)]);
        let later = blocks(&[(2, 1), (2, 1), (2, 1)]).into_iter().map(|(machine, record)| {
            let key = format!("{}-later", record.key);
            (machine, Record { key, ..record })
        });
        records.extend(later);
        let judged = decide(&claim, "cold", &records);
        assert_eq!((judged.blocks, judged.interval.map(|[mean, ..]| mean.round())), (3, Some(2.0)));
    }

    #[test]
    fn the_width_of_an_interval_is_a_share_of_its_mean() {
        let width = |values: &[(u64, u64)]| {
            decide(&claim(Some("b"), Some(1.0), None), "cold", &blocks(values)).half_width()
        };
        assert_eq!(width(&[]), None);
        assert_eq!(width(&[(9, 1)]), Some(f64::INFINITY));
        assert!(width(&[(9, 1), (9, 1), (9, 1)]).unwrap() < 1e-9);
        // Student's t of two values: 12.7 times the standard error.
        assert!(width(&[(9, 1), (8, 1)]).unwrap() > 0.5);
    }

    #[test]
    fn fewer_than_three_blocks_decide_nothing() {
        assert_eq!(verdict_of(&claim(Some("b"), Some(1.0), None), &[(9, 1), (9, 1)]), Verdict::Open);
        assert_eq!(verdict_of(&claim(Some("b"), Some(1.0), None), &[(9, 1), (9, 1), (9, 1)]), Verdict::Holds);
        let verdict = decide(&claim(None, Some(1.0), None), "other", &blocks(&[(9, 1)]));
        assert_eq!((verdict.verdict, verdict.interval), (Verdict::Open, None));
    }

    #[test]
    fn nothing_at_all_can_be_compared_with_something() {
        let none = [(0, 7_000_000), (0, 7_000_000), (0, 7_000_000)];
        assert_eq!(verdict_of(&claim(Some("b"), None, Some(0.0)), &none), Verdict::Holds);
        assert_eq!(verdict_of(&claim(Some("b"), Some(0.1), None), &none), Verdict::Contradicts);
        assert_eq!(verdict_of(&claim(None, None, Some(0.0)), &none), Verdict::Holds);
    }

    #[test]
    fn an_efficiency_is_never_below_0() {
        // After some time nearly all comes from a cache, and values differ by orders of magnitude.
        let records = blocks(&[(10_000_000, 1), (100_000_000, 1), (1_000_000_000, 1)]);
        let claim = Claim { value: Quantity::Efficiency, ..claim(None, Some(0.98), None) };
        let [mean, low, _] = decide(&claim, "cold", &records).interval.unwrap();
        assert!((mean - 100.0).abs() < 1e-6 && low > 0.0, "{mean} {low}");
    }

    /// Makes blocks of four cells at fixed rates, which send the offered load times a factor.
    fn offered(factors: [f64; 4]) -> Vec<(usize, Record)> {
        let cell = |repeat: u32, (at, factor): (u32, f64)| {
            let offered = f64::from(at) * 1e6;
            let bytes = (2.0 * factor * offered * f64::from(100 + repeat)).to_string();
            let mut record = record(repeat, "a", Some(measured(bytes.parse().unwrap())));
            record.point.insert("rate".to_owned(), at.to_string());
            record.offered = Some(Offered { requests: 2.0, bytes: offered });
            (0, record)
        };
        let block = |repeat| (1..).zip(factors).map(move |one| cell(repeat, one));
        (0..3).flat_map(block).collect()
    }

    #[test]
    fn a_fit_is_decided_by_what_it_explains() {
        let fit = Claim { fit: Some(Model::Offered), ..claim(None, Some(0.98), None) };
        let verdict = |factors| decide(&fit, "cold", &offered(factors));
        let exact = verdict([1.0, 1.0, 1.0, 1.0]);
        assert_eq!((exact.verdict, exact.blocks), (Verdict::Holds, 3));
        let fitted = exact.fit.unwrap();
        // 100, 101 and 102 in three blocks.
        assert!((fitted.factor.mean - 101.0).abs() < 0.01 && fitted.cells.len() == 4, "{fitted:?}");
        assert_eq!(verdict([1.0, 3.0, 0.3, 1.0]).verdict, Verdict::Contradicts);
        let two = &offered([1.0; 4])[..8];
        assert_eq!(decide(&fit, "cold", two).verdict, Verdict::Open);
        assert_eq!(decide(&fit, "cold", &blocks(&[(1, 1), (1, 1), (1, 1)])).fit, None);
    }

    #[test]
    fn a_claim_about_cells_holds_for_the_worst_of_them() {
        let all = |bound| {
            let claim = claim(None, Some(bound), None);
            Claim { of: BTreeMap::new(), ..claim }
        };
        // 0.5, 1 and 2 MB/s are those of 1, 2 and 4 MB in 2 s.
        let values = [(4_000_000, 1_000_000), (4_000_000, 1_000_000), (4_000_000, 1_000_000)];
        assert_eq!(verdict_of(&all(0.5), &values), Verdict::Holds);
        assert_eq!(verdict_of(&all(0.6), &values), Verdict::Contradicts);
        // With two bounds, either of them may be the one that a cell misses.
        let between = |least, most| Claim { at_most: Some(most), ..all(least) };
        assert_eq!(verdict_of(&between(0.5, 2.0), &values), Verdict::Holds);
        assert_eq!(verdict_of(&between(0.5, 1.9), &values), Verdict::Contradicts);
        assert_eq!(verdict_of(&between(0.6, 2.0), &values), Verdict::Contradicts);
    }
}
