//! The crate from outside: real files, what we write against independent readers, and hostile input.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a test may fail, and says what it saw"
)]

mod emit;
mod fragments;
mod hostile;
mod media;
mod remux;
mod round_trip;
mod sample;
