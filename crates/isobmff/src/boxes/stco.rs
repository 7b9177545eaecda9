//! `stco` and `co64`: chunk offsets (ISO/IEC 14496-12 §8.7.5).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    write::{WriteBox, put_table},
};
use bytes::Bytes;

/// Chunk offsets in bytes from the start of the file; a view of the box's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkOffsets {
    is_wide: bool,
    entries: Bytes,
}

impl ChunkOffsets {
    /// Reads the payload of a `stco`, or of a `co64` if `is_wide`.
    pub fn parse(mut payload: Cursor<'_>, is_wide: bool) -> Result<Self, Error> {
        Ok(Self { is_wide, entries: payload.counted_table(if is_wide { 8 } else { 4 })? })
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> usize {
        self.entries.len() / self.entry_len()
    }

    /// Returns the offsets as they are stored, big-endian, if they have 32 bits.
    pub fn narrow(&self) -> Option<&[[u8; 4]]> {
        (!self.is_wide).then(|| self.entries.as_chunks().0)
    }

    /// Returns the offsets as they are stored, big-endian, if they have 64 bits.
    pub fn wide(&self) -> Option<&[[u8; 8]]> {
        self.is_wide.then(|| self.entries.as_chunks().0)
    }

    /// Returns the offset of the chunk with this 0-based index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u64> {
        if self.is_wide {
            self.entries.as_chunks().0.get(index).map(|entry| u64::from_be_bytes(*entry))
        } else {
            self.entries.as_chunks().0.get(index).map(|entry| u32::from_be_bytes(*entry).into())
        }
    }

    /// Iterates over the offsets in chunk order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + Clone + '_ {
        let is_wide = self.is_wide;
        self.entries.chunks_exact(self.entry_len()).map(move |entry| {
            let high = u64::from(u32_at(entry, 0));
            if is_wide { high << 32 | u64::from(u32_at(entry, 4)) } else { high }
        })
    }

    const fn entry_len(&self) -> usize {
        if self.is_wide { 8 } else { 4 }
    }
}

impl FromIterator<u64> for ChunkOffsets {
    /// Builds a `co64` if an offset needs it, else a `stco`.
    fn from_iter<I: IntoIterator<Item = u64>>(offsets: I) -> Self {
        let offsets: Vec<u64> = offsets.into_iter().collect();
        let narrow: Option<Vec<u32>> = offsets.iter().map(|&offset| u32::try_from(offset).ok()).collect();
        let entries = match &narrow {
            Some(offsets) => offsets.iter().flat_map(|offset| offset.to_be_bytes()).collect(),
            None => offsets.iter().flat_map(|offset| offset.to_be_bytes()).collect(),
        };
        Self { is_wide: narrow.is_none(), entries }
    }
}

impl WriteBox for ChunkOffsets {
    fn kind(&self) -> FourCc {
        FourCc(if self.is_wide { *b"co64" } else { *b"stco" })
    }

    fn payload_size(&self) -> u64 {
        8 + self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_table(out, 0, self.entry_len(), &self.entries);
    }
}
