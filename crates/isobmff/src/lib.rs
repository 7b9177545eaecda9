//! Boxes of the ISO base media file format (ISO/IEC 14496-12): reading and writing, without I/O,
//! clock or randomness.
//!
//! Reading borrows: a table is a view ([`bytes::Bytes`]) into the `moov` or `moof` that holds it,
//! and its entries are decoded when they are iterated. Counts are checked against the available
//! bytes before anything is allocated, and no input makes this crate panic. When writing, all
//! sizes are known before the first byte.
//!
//! - [`header`], [`cursor`]: walking boxes
//! - [`bits`]: reading and writing bit by bit
//! - [`boxes`]: one file for each box, named by its four-character code
//! - [`movie`], [`fragment`]: whole `moov` and `moof` trees
//! - [`matrix`]: the transformation by which a picture is shown
//! - [`sample_flags`]: the flags that describe a sample's dependencies
//! - [`codec`]: sample entries, their configuration records, and RFC 6381 codec strings
//! - [`emit`]: writing boxes, init segments and fragments

pub mod bits;
pub mod boxes;
pub mod codec;
pub mod cursor;
pub mod emit;
pub mod error;
pub mod fourcc;
pub mod fragment;
pub mod header;
pub mod matrix;
pub mod movie;
pub mod sample_flags;
pub mod time;
mod write;

pub use error::Error;
pub use fourcc::FourCc;
pub use time::{Time, Timescale};
