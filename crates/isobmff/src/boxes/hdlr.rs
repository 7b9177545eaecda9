//! `hdlr`: the media type of a track (ISO/IEC 14496-12 §8.4.3).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_version_and_flags},
};
use bytes::BufMut;

/// The handler type of a track. The handler's name is neither kept nor written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hdlr(pub FourCc);

impl Hdlr {
    /// Reads the payload of a `hdlr`.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        payload.version_and_flags()?;
        payload.skip(4)?; // pre_defined; in QuickTime the component type
        payload.fourcc().map(Self)
    }
}

impl WriteBox for Hdlr {
    fn kind(&self) -> FourCc {
        FourCc(*b"hdlr")
    }

    fn payload_size(&self) -> u64 {
        4 + 4 + 4 + 12 + 1
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        out.put_u32(0);
        out.put_slice(&self.0.0);
        out.put_bytes(0, 12);
        out.put_u8(0); // the name: empty, with its terminator
    }
}
