//! One file for each box, named by its four-character code: layout, reading, and writing of the
//! boxes that latemux sends. [`table`] holds the code that table boxes share.
//!
//! Table boxes are views: `parse` checks the declared count against the payload, and `iter` decodes
//! entries one by one.
//!
//! # Errors
//! All parsers of this module return [`Error::Truncated`](crate::Error::Truncated) if fields are
//! missing, [`Error::TooLarge`](crate::Error::TooLarge) if a count is more than the bytes can hold,
//! and [`Error::Unsupported`](crate::Error::Unsupported) for versions with an unknown layout.
//! Parsers of whole boxes return [`Error::Missing`](crate::Error::Missing) for a box of another
//! type. Errors of child boxes are returned too. Each parser documents only its other errors.

pub mod ctts;
pub mod dref;
pub mod elst;
pub mod ftyp;
pub mod hdlr;
pub mod kind;
pub mod labl;
mod macintosh_language;
pub mod mdhd;
pub mod mehd;
pub mod mfhd;
pub mod mfra;
pub mod minf;
pub mod mvhd;
pub mod saio;
pub mod saiz;
pub mod senc;
pub mod sidx;
pub mod sinf;
pub mod stco;
pub mod stsc;
pub mod stsd;
pub mod stss;
pub mod stsz;
pub mod stts;
pub mod table;
pub mod tfdt;
pub mod tfhd;
pub mod tfxd;
pub mod tkhd;
pub mod trex;
pub mod trun;
