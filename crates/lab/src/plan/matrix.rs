//! All combinations of the values of axes.

use super::MAX_CELLS;
use crate::{Error, experiment::Scalar};
use std::collections::BTreeMap;

/// Returns all combinations, with the last axis changing fastest.
///
/// # Errors
/// If there are more than [`MAX_CELLS`]. They are counted before any is made.
pub(super) fn points(matrix: &BTreeMap<String, Vec<Scalar>>) -> Result<Vec<BTreeMap<&str, &Scalar>>, Error> {
    let count = matrix.values().try_fold(1_usize, |count, values| count.checked_mul(values.len()));
    if count.is_none_or(|count| count > MAX_CELLS) {
        let count = count.map_or_else(|| "too many".to_owned(), |count| count.to_string());
        return Err(Error::invalid(format!("matrix: {count} cells, more than {MAX_CELLS}")));
    }
    let mut points = vec![BTreeMap::new()];
    for (axis, values) in matrix {
        points = points
            .into_iter()
            .flat_map(|point| {
                values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.insert(axis.as_str(), value);
                    point
                })
            })
            .collect();
    }
    Ok(points)
}
