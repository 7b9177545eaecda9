//! Means of repeated measurements, and their confidence intervals.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// The probability that an interval contains the true value.
const CONFIDENCE: f64 = 0.95;

/// The mean of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number of measurements.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// The standard deviation of a sample; `None` for one measurement.
    pub deviation: Option<f64>,
    /// Half of the 95 % confidence interval of the mean by Student's t distribution; `None` for one
    /// measurement.
    pub half_width: Option<f64>,
}

/// The ratio of two geometric means, with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The ratio.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Returns the mean of measurements; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let Moments { count, mean, variance } = Moments::of(values)?;
        let half_width = variance.and_then(|variance| {
            Some(critical_value(count as f64 - 1.0)? * (variance / count as f64).sqrt())
        });
        Some(Self { count, mean, deviation: variance.map(f64::sqrt), half_width })
    }
}

impl Ratio {
    /// Returns the ratio of two sets of independent measurements: the difference of the means of
    /// their logarithms, by Welch's t interval. `None` if a measurement is not above 0, or if a set
    /// has fewer than two.
    pub fn of(values: &[f64], against: &[f64]) -> Option<Self> {
        let logarithms = |values: &[f64]| -> Option<Vec<f64>> {
            values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect()
        };
        let ours = Moments::of(&logarithms(values)?)?;
        let theirs = Moments::of(&logarithms(against)?)?;
        let first = ours.squared_error()?;
        let second = theirs.squared_error()?;
        let difference = ours.mean - theirs.mean;
        let squared = first + second;
        let half_width = if squared > 0.0 {
            // Welch–Satterthwaite.
            let share = |error: f64, count: usize| error * error / (count as f64 - 1.0);
            let freedom = squared * squared / (share(first, ours.count) + share(second, theirs.count));
            critical_value(freedom)? * squared.sqrt()
        } else {
            0.0
        };
        let low = (difference - half_width).exp();
        let high = (difference + half_width).exp();
        Some(Self { value: difference.exp(), low, high })
    }

    /// Returns true if the interval does not contain 1.
    pub fn is_different(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

/// The first moments of measurements.
struct Moments {
    count: usize,
    mean: f64,
    /// The variance of a sample; `None` for one measurement.
    variance: Option<f64>,
}

impl Moments {
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Some(Self { count, mean, variance: (count > 1).then(|| squares / (count as f64 - 1.0)) })
    }

    /// Returns the squared standard error of the mean.
    fn squared_error(&self) -> Option<f64> {
        Some(self.variance? / self.count as f64)
    }
}

/// Returns the factor of the standard error for a two-sided interval.
fn critical_value(freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(f64::midpoint(1.0, CONFIDENCE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_are_those_of_published_tables() {
        let table = [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (29.0, 2.045), (120.0, 1.980)];
        for (freedom, expected) in table {
            let value = critical_value(freedom).unwrap();
            assert!((value - expected).abs() < 6e-4, "{freedom}: {value}");
        }
    }

    #[test]
    fn means_have_students_confidence_interval() {
        // 2.776 × sqrt(2.5 / 5), by hand.
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((estimate.count, estimate.mean), (5, 3.0));
        assert!((estimate.deviation.unwrap() - 1.5811).abs() < 1e-4, "{estimate:?}");
        assert!((estimate.half_width.unwrap() - 1.9632).abs() < 1e-3, "{estimate:?}");
        let one = Estimate::of(&[7.0]).unwrap();
        assert_eq!((one.mean, one.deviation, one.half_width), (7.0, None, None));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn ratios_are_those_of_geometric_means() {
        let e = std::f64::consts::E;
        let ratio = Ratio::of(&[2.0 * e, 2.0, 2.0 / e], &[e, 1.0, 1.0 / e]).unwrap();
        assert!((ratio.value - 2.0).abs() < 1e-9, "{ratio:?}");
        // Both variances are 1: 2.776 × sqrt(2 / 3) with 4 degrees of freedom.
        assert!((ratio.high.ln() - 2_f64.ln() - 2.2666).abs() < 1e-3, "{ratio:?}");
        assert!(((ratio.low * ratio.high) - 4.0).abs() < 1e-9, "the interval is even in logarithms");
        assert!(!ratio.is_different());
        let exact = Ratio::of(&[3.0, 3.0], &[2.0, 2.0]).unwrap();
        assert!((exact.low - 1.5).abs() < 1e-9 && exact.low == exact.high && exact.is_different());
    }

    #[test]
    fn ratios_need_two_measurements_above_0_of_each() {
        assert_eq!(Ratio::of(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(Ratio::of(&[1.0, 0.0], &[1.0, 2.0]), None);
        assert_eq!(Ratio::of(&[], &[]), None);
    }
}
