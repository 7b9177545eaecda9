//! Persisted indexes: the packed columns as they are in memory. They are small, and are read back
//! without computing anything.
//!
//! This is not an exchange format: bytes of another [`FORMAT`] are rejected, and the object is
//! indexed again. The checksum covers all of the bytes, since nothing else would detect a wrong
//! bit. Counts are checked against the number of bytes, and columns for consistency, whatever the
//! checksum.
//!
//! ```text
//! "lmx index" | format u16 | kind u8 | length of the payload u64 | XXH3 of all other bytes u64
//!             | payload                                               (all little endian)
//! ```

mod cursor;
pub mod error;
pub mod external;
pub mod index_file;
mod media;
mod packed;

use crate::{
    media::{MediaIndex, fragment_samples::FragmentSamples},
    persist::{
        cursor::{ByteReader, ByteWriter},
        error::{FORMAT, PersistError},
    },
};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 9] = b"lmx index";

/// Number of bytes before the payload.
const HEADER: usize = MAGIC.len() + 2 + 1 + 8 + 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Media = 1,
    Fragment = 2,
}

impl ContentKind {
    fn name(self) -> &'static str {
        match self {
            Self::Media => "the index of an object",
            Self::Fragment => "the samples of a fragment",
        }
    }
}

impl MediaIndex {
    /// Returns the index as bytes, for [`Self::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        wrap(ContentKind::Media, |out| media::put_index(self, out))
    }

    /// Reads an index that [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// - [`PersistError::NotThis`] if the bytes are not a persisted index
    /// - [`PersistError::OtherFormat`] if another version wrote them
    /// - [`PersistError::Damaged`] if they are incomplete or changed
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PersistError> {
        unwrap(ContentKind::Media, bytes, media::take_index)
    }
}

impl FragmentSamples {
    /// Returns the samples as bytes, for [`Self::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        wrap(ContentKind::Fragment, |out| media::put_fragment(self, out))
    }

    /// Reads samples that [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    ///
    /// - [`PersistError::NotThis`] if the bytes are not the samples of a fragment
    /// - [`PersistError::OtherFormat`] if another version wrote them
    /// - [`PersistError::Damaged`] if they are incomplete or changed
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PersistError> {
        unwrap(ContentKind::Fragment, bytes, media::take_fragment)
    }
}

fn wrap(kind: ContentKind, put: impl FnOnce(&mut ByteWriter)) -> Vec<u8> {
    let mut payload = ByteWriter::default();
    put(&mut payload);
    let payload = payload.0;
    let mut out = ByteWriter(Vec::with_capacity(HEADER + payload.len()));
    out.bytes(MAGIC);
    out.u16(FORMAT);
    out.u8(kind as u8);
    out.u64(payload.len() as u64);
    let checksum = checksum(&out.0, &payload);
    out.u64(checksum);
    out.bytes(&payload);
    out.0
}

fn unwrap<T>(
    kind: ContentKind,
    bytes: &[u8],
    take: impl FnOnce(&mut ByteReader<'_>) -> Result<T, PersistError>,
) -> Result<T, PersistError> {
    let Some((header, payload)) = bytes.split_at_checked(HEADER) else {
        return Err(PersistError::NotThis(kind.name()));
    };
    let mut reader = ByteReader(header);
    if reader.bytes(MAGIC.len())? != MAGIC {
        return Err(PersistError::NotThis(kind.name()));
    }
    let found = reader.u16()?;
    if found != FORMAT {
        return Err(PersistError::OtherFormat { found });
    }
    if reader.u8()? != kind as u8 {
        return Err(PersistError::NotThis(kind.name()));
    }
    if reader.u64()? != payload.len() as u64 {
        return Err(PersistError::Damaged("the length does not match"));
    }
    let (summed, _) = header.split_at(HEADER - 8);
    if reader.u64()? != checksum(summed, payload) {
        return Err(PersistError::Damaged("the checksum does not match"));
    }
    let mut reader = ByteReader(payload);
    let value = take(&mut reader)?;
    if reader.0.is_empty() { Ok(value) } else { Err(PersistError::Damaged("bytes left over")) }
}

fn checksum(header: &[u8], payload: &[u8]) -> u64 {
    let mut digest = Xxh3::new();
    digest.update(header);
    digest.update(payload);
    digest.digest()
}
