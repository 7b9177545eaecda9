//! `stco` and `co64`: where chunks lie (ISO/IEC 14496-12 §8.7.5).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    emit::{WriteBox, put_version_and_flags},
};
use bytes::{BufMut, Bytes};

/// Chunk offsets, in bytes from the start of the file; a view of the box's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkOffsets {
    wide: bool,
    entries: Bytes,
}

impl ChunkOffsets {
    /// Reads the payload of a `stco` or, where `wide`, of a `co64`.
    ///
    /// # Errors
    /// Truncated, or more entries than bytes.
    pub fn parse(mut payload: Cursor<'_>, wide: bool) -> Result<Self, Error> {
        payload.version_and_flags()?;
        let count = payload.u32()?;
        Ok(Self { wide, entries: payload.table("entry_count", count, if wide { 8 } else { 4 })? })
    }

    /// Number of chunks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len() / self.entry_len()
    }

    /// Offsets in chunk order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + Clone + '_ {
        let wide = self.wide;
        self.entries.chunks_exact(self.entry_len()).map(move |entry| {
            let high = u64::from(u32_at(entry, 0));
            if wide { high << 32 | u64::from(u32_at(entry, 4)) } else { high }
        })
    }

    const fn entry_len(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }
}

impl FromIterator<u64> for ChunkOffsets {
    /// `co64` where an offset needs it.
    fn from_iter<I: IntoIterator<Item = u64>>(offsets: I) -> Self {
        let offsets: Vec<u64> = offsets.into_iter().collect();
        let narrow: Option<Vec<u32>> = offsets.iter().map(|&offset| u32::try_from(offset).ok()).collect();
        let entries = match &narrow {
            Some(offsets) => offsets.iter().flat_map(|offset| offset.to_be_bytes()).collect(),
            None => offsets.iter().flat_map(|offset| offset.to_be_bytes()).collect(),
        };
        Self { wide: narrow.is_none(), entries }
    }
}

impl WriteBox for ChunkOffsets {
    fn kind(&self) -> FourCc {
        FourCc(if self.wide { *b"co64" } else { *b"stco" })
    }

    fn payload_size(&self) -> u64 {
        8 + self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        out.put_u32(u32::try_from(self.count()).unwrap_or(u32::MAX));
        out.put_slice(&self.entries);
    }
}
