//! Tests from outside the crate: real files, written boxes checked by independent readers, and
//! hostile input.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a test may fail, and prints what it skipped"
)]

mod av1;
mod codecs;
mod emit;
mod fragments;
mod hostile;
mod media;
mod remux;
mod round_trip;
mod sample;
mod slices;
