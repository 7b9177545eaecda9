//! ISO base media file format (ISO/IEC 14496-12) boxes: read and write, without I/O, clock or randomness.
//!
//! Reading borrows: every table is a view ([`bytes::Bytes`]) into the `moov` or `moof` it came from, decoded
//! entry by entry when asked. Counts are checked against the bytes at hand before anything is allocated, and
//! no input makes this crate panic. Writing knows its sizes before the first byte.
//!
//! - [`header`], [`cursor`]: walking boxes
//! - [`boxes`]: one file per box, called by its four-character code
//! - [`movie`], [`fragment`], [`segment_index`]: the trees the index is built from
//! - [`sample_flags`]: what a fragment says of a sample's dependencies
//! - [`codec`]: sample entries and their configuration records, RFC 6381 strings
//! - [`emit`]: writing boxes with sizes known beforehand

pub mod bits;
pub mod boxes;
pub mod codec;
pub mod cursor;
pub mod emit;
pub mod error;
pub mod fourcc;
pub mod fragment;
pub mod header;
pub mod movie;
pub mod sample_flags;
pub mod segment_index;
pub mod time;

pub use error::Error;
pub use fourcc::FourCc;
pub use time::{Time, Timescale};
