//! One file per box, called by its four-character code: layout, reading, writing where we write it, and tests.
//!
//! Table boxes are views: `parse` checks the declared count against the payload, `iter` decodes entries as asked.

pub mod ctts;
pub mod elst;
pub mod mdhd;
pub mod mfra;
pub mod sidx;
pub mod stco;
pub mod stsc;
pub mod stsd;
pub mod stss;
pub mod stsz;
pub mod stts;
pub mod trex;
pub mod trun;
