//! `ftyp` and `styp`: the brands of a file or a segment (ISO/IEC 14496-12 §4.3, §8.16.2).

use crate::{Error, FourCc, cursor::Cursor, write::WriteBox};
use bytes::BufMut;

/// Brands of a file (`ftyp`) or of a segment (`styp`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileType {
    /// Brand of the specification that describes the file best.
    pub major: FourCc,
    /// Version of the major brand, for information only.
    pub minor_version: u32,
    /// Brands of all specifications that the file conforms to.
    pub compatible: Vec<FourCc>,
    /// True for a `styp`, which starts a segment, not a file.
    pub is_segment: bool,
}

impl FileType {
    /// Maximum number of compatible brands that are kept; more are of no use.
    pub const MAX_BRANDS: usize = 64;

    /// Reads the payload of a `ftyp` or `styp`.
    pub fn parse(mut payload: Cursor<'_>, kind: FourCc) -> Result<Self, Error> {
        let major = payload.fourcc()?;
        let minor_version = payload.u32()?;
        let codes = payload.peek().as_chunks::<4>().0.iter();
        let compatible = codes.take(Self::MAX_BRANDS).map(FourCc::from).collect();
        Ok(Self { major, minor_version, compatible, is_segment: kind == b"styp" })
    }
}

impl WriteBox for FileType {
    fn kind(&self) -> FourCc {
        FourCc(if self.is_segment { *b"styp" } else { *b"ftyp" })
    }

    fn payload_size(&self) -> u64 {
        8 + 4 * self.compatible.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        out.put_slice(&self.major.0);
        out.put_u32(self.minor_version);
        for brand in &self.compatible {
            out.put_slice(&brand.0);
        }
    }
}
