//! `vmhd`, `smhd`, `sthd`, `nmhd`: the media header of `minf` that goes with a handler (ISO/IEC
//! 14496-12 §12). Players need none of their fields, so they are written but not read.

use crate::{
    FourCc,
    write::{WriteBox, put_version_and_flags},
};
use bytes::BufMut;

/// The media header of a track with the given handler type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaHeader {
    /// Handler type of the track.
    pub handler: FourCc,
}

impl WriteBox for MediaHeader {
    fn kind(&self) -> FourCc {
        FourCc(match &self.handler.0 {
            b"vide" => *b"vmhd",
            b"soun" => *b"smhd",
            b"subt" => *b"sthd",
            _ => *b"nmhd",
        })
    }

    fn payload_size(&self) -> u64 {
        match &self.handler.0 {
            b"vide" => 12,
            b"soun" => 8,
            _ => 4,
        }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        // §12.1.2 requires flags of 1 in `vmhd`. Its modes, and the balance of `smhd`, are 0.
        put_version_and_flags(out, 0, u32::from(self.handler == b"vide"));
        match &self.handler.0 {
            b"vide" => out.put_bytes(0, 8),
            b"soun" => out.put_bytes(0, 4),
            _ => {}
        }
    }
}
