//! The page of a run, as `make web` builds it. [`crate::live`] serves it while a run lasts, and
//! [`crate::report`] writes it as one file with the data in it.

mod data;
mod files;

pub(crate) use data::{PlayerCounts, Quantiles, Sample, Sums, Totals};
pub(crate) use files::{file, with_data};
