//! Sample and fragment tables of a track, packed into columns of numbers.

pub mod batches;
pub(crate) mod chunk_block;
pub(crate) mod column;
pub mod fragment_table;
pub(crate) mod interleaving;
pub(crate) mod layout;
pub(crate) mod positions;
pub mod presentation;
pub(crate) mod rice;
pub(crate) mod sample_builder;
pub mod samples;
pub(crate) mod syncs;
