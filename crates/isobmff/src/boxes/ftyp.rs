//! `ftyp` and `styp`: what a file or a segment conforms to (ISO/IEC 14496-12 §4.3, §8.16.2).

use crate::{Error, FourCc, cursor::Cursor, emit::WriteBox};
use bytes::BufMut;

/// Brands of a file (`ftyp`) or of a segment (`styp`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileType {
    /// The best use of the file.
    pub major: FourCc,
    /// For information only.
    pub minor_version: u32,
    /// All specifications the file keeps to.
    pub compatible: Vec<FourCc>,
    /// A `styp`, which opens a segment, not a file.
    pub of_segment: bool,
}

impl FileType {
    /// The most compatible brands that are read: more say nothing of use.
    pub const MAX_BRANDS: usize = 64;

    /// Reads the payload of a `ftyp` or `styp`.
    ///
    /// # Errors
    /// Truncated.
    pub fn parse(mut payload: Cursor<'_>, kind: FourCc) -> Result<Self, Error> {
        let major = payload.fourcc()?;
        let minor_version = payload.u32()?;
        let codes = payload.peek().as_chunks::<4>().0.iter();
        let compatible = codes.take(Self::MAX_BRANDS).map(FourCc::from).collect();
        Ok(Self { major, minor_version, compatible, of_segment: kind == b"styp" })
    }
}

impl WriteBox for FileType {
    fn kind(&self) -> FourCc {
        FourCc(if self.of_segment { *b"styp" } else { *b"ftyp" })
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
