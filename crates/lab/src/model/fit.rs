//! The proportional model (regression without intercept), fitted by least squares.

/// The fewest points to which the model is fitted.
const FEWEST_POINTS: usize = 3;

/// The proportional model y = `factor` · x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The slope.
    pub factor: f64,
    /// The coefficient of determination: 1 − Σ(y − factor · x)² / Σ(y − mean of y)². It is 1 if all
    /// points lie on the line, and negative if the mean of y describes them better.
    pub r_squared: f64,
}

/// Fits the proportional model to points (x, y). Returns `None` for fewer than three points, and if
/// all x are 0, all y are equal, or a number is not finite.
pub fn proportional(points: &[(f64, f64)]) -> Option<Fit> {
    if points.len() < FEWEST_POINTS {
        return None;
    }
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(*x, *y)).sum::<f64>();
    let factor = sum(&|x, y| x * y) / sum(&|x, _| x * x);
    let mean = sum(&|_, y| y) / points.len() as f64;
    let around_mean = sum(&|_, y| (y - mean).powi(2));
    let around_line = sum(&|x, y| (y - factor * x).powi(2));
    let r_squared = 1.0 - around_line / around_mean;
    r_squared.is_finite().then_some(Fit { factor, r_squared })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_fitted_as_by_hand() {
        // a = (1·2 + 2·3 + 3·7) / (1 + 4 + 9) = 29/14; residuals and deviations by hand.
        let fit = proportional(&[(1.0, 2.0), (2.0, 3.0), (3.0, 7.0)]).unwrap();
        assert!((fit.factor - 29.0 / 14.0).abs() < 1e-12);
        let around_line = [2.0_f64, 3.0, 7.0].iter().zip([1.0, 2.0, 3.0]);
        let around_line: f64 = around_line.map(|(y, x)| (y - 29.0 / 14.0 * x).powi(2)).sum();
        assert!((fit.r_squared - (1.0 - around_line / 14.0)).abs() < 1e-12, "{fit:?}");
    }

    #[test]
    fn without_a_spread_there_is_no_fit() {
        assert_eq!(proportional(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(proportional(&[(0.0, 1.0), (0.0, 2.0), (0.0, 3.0)]), None);
        assert_eq!(proportional(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), None);
        assert_eq!(proportional(&[(1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0)]), None);
        // An output that falls while the offer grows is worse than its mean.
        assert!(proportional(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]).unwrap().r_squared < 0.0);
    }

    /// Returns points of different x on a line, at least as far from each other as they are wide.
    fn exact() -> impl Strategy<Value = (f64, Vec<(f64, f64)>)> {
        (0.01..100.0, prop::collection::btree_set(1..10_000_u32, 3..20)).prop_map(|(factor, x)| {
            let points = x.into_iter().map(|x| (f64::from(x), factor * f64::from(x)));
            (factor, points.collect())
        })
    }

    proptest! {
        #[test]
        fn exact_points_are_explained_wholly((factor, points) in exact()) {
            let fit = proportional(&points).unwrap();
            prop_assert!((fit.factor / factor - 1.0).abs() < 1e-9);
            prop_assert!((fit.r_squared - 1.0).abs() < 1e-9);
        }

        #[test]
        fn noise_lowers_the_share_that_is_explained(
            (_, mut points) in exact(),
            at in any::<prop::sample::Index>(),
            share in prop_oneof![-0.9..-0.1, 0.1..2.0],
        ) {
            let exact = proportional(&points).unwrap().r_squared;
            let at = at.index(points.len());
            points[at].1 *= 1.0 + share;
            if let Some(noisy) = proportional(&points) {
                prop_assert!(noisy.r_squared < exact - 1e-12, "{} {}", noisy.r_squared, exact);
            }
        }

        #[test]
        fn no_other_line_is_nearer_and_units_do_not_matter(
            points in prop::collection::vec((1.0..1e3, 1.0..1e3), 3..20),
            other in 0.5..2.0_f64,
            unit in 0.001..1e3_f64,
        ) {
            let Some(fit) = proportional(&points) else { return Ok(()) };
            let around = |factor: f64| points.iter().map(|(x, y)| (y - factor * x).powi(2)).sum::<f64>();
            prop_assert!(around(fit.factor) <= around(fit.factor * other) * (1.0 + 1e-9));
            let scaled: Vec<(f64, f64)> = points.iter().map(|(x, y)| (*x, y * unit)).collect();
            let scaled = proportional(&scaled).unwrap();
            prop_assert!((scaled.factor / fit.factor / unit - 1.0).abs() < 1e-6);
            prop_assert!((scaled.r_squared - fit.r_squared).abs() < 1e-6 * fit.r_squared.abs().max(1.0));
        }
    }
}
