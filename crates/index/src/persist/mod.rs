//! Indexes as bytes, to be kept on disk: the packed columns as they are in memory, small and read back without computing anything.
//!
//! Not an exchange format: bytes of another [`FORMAT`] are refused, and whoever kept them makes the index anew from its object.
//! Nothing but the checksum stands between a bit that flipped on disk and a wrong index, so all of the bytes are under it; counts
//! are checked against the bytes at hand, and columns against themselves, whatever the checksum says.
//!
//! ```text
//! "lmx index" | format u16 | kind u8 | length of what follows u64 | XXH3 of all else u64 | …        little endian
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

/// Bytes before the payload.
const HEADER: usize = MAGIC.len() + 2 + 1 + 8 + 8;

/// What is in the bytes.
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
    /// The index as bytes, for [`Self::from_bytes`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        wrap(ContentKind::Media, |out| media::put_index(self, out))
    }

    /// Reads what [`Self::to_bytes`] gave: the same index.
    ///
    /// # Errors
    /// Where they are anything but all of such bytes, as they were written, by this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PersistError> {
        unwrap(ContentKind::Media, bytes, media::take_index)
    }
}

impl FragmentSamples {
    /// The samples as bytes, for [`Self::from_bytes`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        wrap(ContentKind::Fragment, |out| media::put_fragment(self, out))
    }

    /// Reads what [`Self::to_bytes`] gave: the same samples.
    ///
    /// # Errors
    /// Where they are anything but all of such bytes, as they were written, by this version.
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
        return Err(PersistError::Damaged("another length"));
    }
    let (summed, _) = header.split_at(HEADER - 8);
    if reader.u64()? != checksum(summed, payload) {
        return Err(PersistError::Damaged("another checksum"));
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
