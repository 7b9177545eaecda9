//! The stamp in an index MP4 by which the media it was made from is recognised.

use bytes::{BufMut, Bytes};
use latemux_isobmff::{FourCc, cursor::Cursor, emit::WriteBox, header::BoxHeader};
use xxhash_rust::xxh3::xxh3_128;

/// Number of bytes of a media object's start that are compared with the stamp.
pub const MEDIA_HEAD: u64 = 16 << 10;

/// The size and start of a media object when its index MP4 was made: a `uuid` box in the `moov`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaStamp {
    /// Size of the object in bytes.
    pub size: u64,
    /// Number of its first bytes that `digest` covers, at most [`MEDIA_HEAD`].
    pub head: u32,
    /// Digest of those bytes.
    pub digest: u128,
}

/// Extended type of the `uuid` box that holds a [`MediaStamp`].
const USERTYPE: [u8; 16] =
    [0xb5, 0x0e, 0x6f, 0x1c, 0x27, 0x4a, 0x4d, 0x93, 0x9a, 0x61, 0x3c, 0x8d, 0x52, 0xe7, 0x04, 0xf9];

impl MediaStamp {
    /// Returns the stamp of an object of `size` bytes that starts with `head`. Only the first
    /// [`MEDIA_HEAD`] bytes of it count.
    pub fn of(size: u64, head: &[u8]) -> Self {
        let len = usize::try_from(MEDIA_HEAD).unwrap_or(usize::MAX).min(head.len());
        let head = head.get(..len).unwrap_or_default();
        Self { size, head: u32::try_from(len).unwrap_or(0), digest: xxh3_128(head) }
    }

    /// Finds the stamp in a `moov`. A stamp that cannot be read is ignored.
    pub(crate) fn find(moov: &Bytes) -> Option<Self> {
        let header = BoxHeader::read(moov, 0).ok()??;
        let moov = moov.slice(usize::from(header.header_len).min(moov.len())..);
        let children = Cursor::new(&moov, 0);
        let stamp = children.boxes().map_while(Result::ok).find(|b| b.usertype() == Some(USERTYPE))?;
        let mut payload = stamp.payload;
        payload.skip(USERTYPE.len()).ok()?;
        payload.version_up_to(0).ok()?;
        let size = payload.u64().ok()?;
        let head = payload.u32().ok()?;
        Some(Self { size, head, digest: u128::from_be_bytes(payload.array().ok()?) })
    }

    /// Returns a description of how an object of `size` bytes that starts with `head` differs, or
    /// `None` if it does not.
    pub(crate) fn differs(&self, size: u64, head: &[u8]) -> Option<String> {
        if self.size != size {
            let made_for = self.size;
            return Some(format!("that one had {made_for} bytes, and this one has {size}"));
        }
        let known = head.get(..self.head as usize);
        let other = known.is_some_and(|known| xxh3_128(known) != self.digest);
        other.then(|| format!("the first {} bytes are different", self.head))
    }
}

impl WriteBox for MediaStamp {
    fn kind(&self) -> FourCc {
        FourCc(*b"uuid")
    }

    fn payload_size(&self) -> u64 {
        16 + 4 + 8 + 4 + 16
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        out.put_slice(&USERTYPE);
        out.put_u32(0);
        out.put_u64(self.size);
        out.put_u32(self.head);
        out.put_u128(self.digest);
    }
}

#[cfg(test)]
#[path = "stamp_tests.rs"]
mod tests;
