//! Tests that cover several modules, and the sample entries that all tests of codecs use.

mod aac;
mod describe;
mod parameter_sets;
pub(super) mod sample_entries;
