//! Published tables. Reports show their figures beside the measured results.

use super::{Quantity, Scalar, from_toml, text};
use crate::Error;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// A published table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The title with its unit.
    pub title: String,
    /// The publication and the number of the table.
    pub source: String,
    /// The heads of the columns.
    pub columns: Vec<String>,
    /// The figures of each row.
    pub rows: BTreeMap<String, Vec<String>>,
    /// The value that the figures state, if they can be shown in plots.
    #[serde(default)]
    pub value: Option<Quantity>,
    /// The values of axes that rows and columns stand for, by their heads. Plots show a figure only
    /// if both its row and its column are listed.
    #[serde(default)]
    pub cells: BTreeMap<String, BTreeMap<String, Scalar>>,
}

impl Published {
    /// Reads a table.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a published table.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&text(path)?).map_err(|error| error.within(&path.display().to_string()))
    }

    /// Parses the text of a table.
    fn parse(text: &str) -> Result<Self, Error> {
        let published: Self = from_toml(text)?;
        published.check_heads()?;
        Ok(published)
    }

    /// Returns the figure for a cell, if a number was published for it.
    pub fn figure(&self, quantity: Quantity, point: &BTreeMap<String, String>) -> Option<f64> {
        let is_of = |head: &String| {
            let stated = self.cells.get(head)?;
            let is_own =
                |(axis, value): (&String, &Scalar)| point.get(axis).is_some_and(|own| own == value.as_str());
            stated.iter().all(is_own).then_some(())
        };
        let rows = self.rows.iter().filter(|(row, _)| self.value == Some(quantity) && is_of(row).is_some());
        let figures = rows.flat_map(|(_, figures)| self.columns.iter().zip(figures));
        figures.filter(|(column, _)| is_of(column).is_some()).find_map(|(_, figure)| figure.parse().ok())
    }

    /// Checks that each row has a figure for each column, and that `cells` names rows and columns.
    fn check_heads(&self) -> Result<(), Error> {
        let is_head = |head: &&String| self.columns.contains(head) || self.rows.contains_key(*head);
        if let Some(head) = self.cells.keys().find(|head| !is_head(head)) {
            return Err(Error::invalid(format!("cells: no row or column is called '{head}'")));
        }
        let columns = self.columns.len();
        match self.rows.iter().find(|(_, figures)| figures.len() != columns) {
            Some((row, figures)) => {
                let count = figures.len();
                Err(Error::invalid(format!("the row '{row}' has {count} figures for {columns} columns")))
            }
            None => Ok(()),
        }
    }

    /// Checks that an experiment has the axis values for which figures are published.
    ///
    /// # Errors
    /// If it lacks one.
    pub fn check(&self, matrix: &BTreeMap<String, Vec<Scalar>>) -> Result<(), Error> {
        for (axis, value) in self.cells.values().flatten() {
            super::check_value(matrix, axis, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "
title = 'Throughput'
source = 'F, table 1'
value = 'MB/s'
columns = ['CDN', 'IPP']
rows = { dash = ['1', '2'] }
cells = { CDN = { setup = 'cdn' }, IPP = { setup = 'ipp' }, dash = {} }
";

    fn matrix() -> BTreeMap<String, Vec<Scalar>> {
        from_toml("setup = ['cdn', 'ipp']").unwrap()
    }

    #[test]
    fn a_figure_is_that_of_a_cell() {
        let published = Published::parse(RIGHT).unwrap();
        assert_eq!(published.check(&matrix()), Ok(()));
        let figure = |setup: &str, quantity| {
            let point = BTreeMap::from([("setup".to_owned(), setup.to_owned())]);
            published.figure(quantity, &point)
        };
        assert_eq!(figure("cdn", Quantity::ByteRate), Some(1.0));
        assert_eq!(figure("ipp", Quantity::ByteRate), Some(2.0));
        assert_eq!(figure("ipp", Quantity::Latency), None);
        assert_eq!(figure("n-single", Quantity::ByteRate), None);
    }

    #[test]
    fn tables_with_mistakes_are_refused() {
        let refused = |text: &str, why: &str| {
            let checked = Published::parse(text).and_then(|published| published.check(&matrix()));
            let error = checked.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(&RIGHT.replace("columns", "heads"), "unknown field `heads`");
        refused(&RIGHT.replace("'2'] }", "] }"), "the row 'dash' has 1 figures for 2 columns");
        refused(&RIGHT.replace("CDN = {", "x = {"), "cells: no row or column is called 'x'");
        refused(&RIGHT.replace("setup = 'cdn'", "setup = 'x'"), "the axis 'setup' has no value 'x'");
        refused(&RIGHT.replace("setup = 'cdn'", "host = 'x'"), "the matrix has no axis 'host'");
    }
}
