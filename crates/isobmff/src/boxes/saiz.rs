//! `saiz`: sizes of sample auxiliary information (ISO/IEC 14496-12 §8.7.8).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_count, put_version_and_flags},
};
use bytes::BufMut;

/// Flag of `saiz` and `saio`: the box states the type of the information.
pub(super) const HAS_TYPE: u32 = 1;

/// `aux_info_type` of the importance of samples and of the places of their layers.
pub const IMPORTANCE: FourCc = FourCc(*b"lmip");

/// Auxiliary information of the same size for each sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saiz {
    /// `aux_info_type`. `None` stands for the protection scheme of the track.
    pub info_type: Option<FourCc>,
    /// Size in bytes of the information of each sample.
    pub size: u8,
    /// Number of samples that have information.
    pub count: u32,
}

impl Saiz {
    /// Reads the type and the common size from the payload of a `saiz`. Leaves the payload at the
    /// table of sizes, which there is if the size is 0.
    pub fn parse(payload: &mut Cursor<'_>) -> Result<Self, Error> {
        let info_type = parse_type(payload)?;
        Ok(Self { info_type, size: payload.u8()?, count: payload.u32()? })
    }

    /// Returns true if the information is that of Common Encryption (ISO/IEC 23001-7 §7).
    pub fn is_encryption(&self) -> bool {
        let schemes = [*b"cenc", *b"cens", *b"cbc1", *b"cbcs"];
        self.info_type.is_none_or(|kind| schemes.contains(&kind.0))
    }
}

impl WriteBox for Saiz {
    fn kind(&self) -> FourCc {
        FourCc(*b"saiz")
    }

    fn payload_size(&self) -> u64 {
        9 + if self.info_type.is_some() { 8 } else { 0 }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_type(out, self.info_type);
        out.put_u8(self.size);
        out.put_u32(self.count);
    }
}

/// Auxiliary information of a size for each sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaizTable<'a> {
    /// `aux_info_type`. `None` stands for the protection scheme of the track.
    pub info_type: Option<FourCc>,
    /// The sizes in bytes. They must not be empty.
    pub sizes: &'a [u8],
}

impl SaizTable<'_> {
    /// Returns the size that all samples share. `None` if there are several.
    fn common(&self) -> Option<u8> {
        let (first, rest) = self.sizes.split_first()?;
        // A size of 0 announces a table.
        (*first != 0 && rest.iter().all(|size| size == first)).then_some(*first)
    }
}

impl WriteBox for SaizTable<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"saiz")
    }

    fn payload_size(&self) -> u64 {
        let table = if self.common().is_some() { 0 } else { self.sizes.len() as u64 };
        9 + if self.info_type.is_some() { 8 } else { 0 } + table
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let common = self.common();
        put_type(out, self.info_type);
        out.put_u8(common.unwrap_or(0));
        put_count(out, self.sizes.len());
        if common.is_none() {
            out.put_slice(self.sizes);
        }
    }
}

/// Reads the version, the flags, and the type of the information if it is stated.
pub(super) fn parse_type(payload: &mut Cursor<'_>) -> Result<Option<FourCc>, Error> {
    let (_, flags) = payload.version_and_flags()?;
    if flags & HAS_TYPE == 0 {
        return Ok(None);
    }
    let kind = payload.u32()?;
    payload.u32()?;
    Ok(Some(FourCc(kind.to_be_bytes())))
}

/// Appends version 0, the flags, and the type of the information with parameter 0.
pub(super) fn put_type(out: &mut Vec<u8>, info_type: Option<FourCc>) {
    put_version_and_flags(out, 0, if info_type.is_some() { HAS_TYPE } else { 0 });
    if let Some(kind) = info_type {
        out.put_slice(&kind.0);
        out.put_u32(0);
    }
}
