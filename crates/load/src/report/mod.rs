//! Results for people and other programs: a text, a page and tables.

mod comparison;
pub mod csv;
mod html;
mod statistics;
mod stream_notes;
mod summary;

pub use comparison::{ComparedMeasure, compare, comparison, comparison_csv};
pub use html::page;
pub use statistics::{Estimate, Ratio};
pub use summary::summary;
