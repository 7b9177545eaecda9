//! `stsd`: sample entries (ISO/IEC 14496-12 §8.5.2). [`crate::codec`] reads their contents.

use crate::{
    Error, FourCc,
    cursor::Cursor,
    header::BoxHeader,
    write::{WriteBox, header_size, put_count, put_header, put_version_and_flags},
};
use bytes::{BufMut, Bytes};

/// One sample entry, not yet parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleEntry {
    /// The coding name: `avc1`, `mp4a`, `encv`, …
    pub format: FourCc,
    /// 1-based index into `dref`.
    pub data_reference_index: u16,
    /// The whole box, header included, as stored: an init segment repeats it unchanged.
    pub raw: Bytes,
}

impl SampleEntry {
    /// Maximum number of sample entries of a track.
    pub const MAX: u32 = 64;

    /// Reads the payload of a `stsd`.
    ///
    /// # Errors
    /// [`Error::OverLimit`] for more than [`Self::MAX`] entries.
    pub fn parse_list(mut payload: Cursor<'_>) -> Result<Vec<Self>, Error> {
        payload.version_and_flags()?;
        let count = payload.u32()?;
        payload.check_count("entry_count", u64::from(count), 16)?;
        payload.check_limit("entry_count", count.into(), Self::MAX.into())?;
        let mut entries = Vec::new();
        let mut boxes = payload.boxes();
        for _ in 0..count {
            let mut entry = boxes.next().transpose()?.ok_or_else(|| payload.truncated())?;
            entry.payload.skip(6)?;
            let data_reference_index = entry.payload.u16()?;
            entries.push(Self { format: entry.kind(), data_reference_index, raw: entry.raw() });
        }
        Ok(entries)
    }

    /// Returns the payload size of [`Self::raw`], and the payload after the data reference index.
    pub(super) fn parts(&self) -> (u64, &[u8]) {
        let header = BoxHeader::read(&self.raw, 0).ok().flatten();
        let header_len = header.map_or(8, |header| usize::from(header.header_len));
        let rest = self.raw.get(header_len + 8..).unwrap_or_default();
        (8 + rest.len() as u64, rest)
    }
}

/// A `stsd` to write. Each entry is repeated byte for byte, except for two things that hold for the
/// source only: the data reference index becomes 1, and a size of 0 ("to the end") or of 64 bits is
/// written as a plain size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stsd<'a>(pub &'a [SampleEntry]);

impl WriteBox for Stsd<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"stsd")
    }

    fn payload_size(&self) -> u64 {
        let size = |entry: &SampleEntry| entry.parts().0 + header_size(entry.parts().0);
        8 + self.0.iter().map(size).sum::<u64>()
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        put_count(out, self.0.len());
        for entry in self.0 {
            let (payload, rest) = entry.parts();
            put_header(out, entry.format, payload);
            out.put_bytes(0, 6);
            out.put_u16(1);
            out.put_slice(rest);
        }
    }
}
