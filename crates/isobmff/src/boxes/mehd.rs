//! `mehd`: duration of a fragmented movie (ISO/IEC 14496-12 §8.8.2). Nothing needs it from a
//! source, so it is written but not read.

use crate::{
    FourCc,
    write::{WriteBox, put_time, put_version_and_flags, version_for},
};

/// Duration of the longest track, fragments included, in movie ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mehd(pub u64);

impl WriteBox for Mehd {
    fn kind(&self) -> FourCc {
        FourCc(*b"mehd")
    }

    fn payload_size(&self) -> u64 {
        if version_for(&[self.0]) == 0 { 8 } else { 12 }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let version = version_for(&[self.0]);
        put_version_and_flags(out, version, 0);
        put_time(out, version, self.0);
    }
}
