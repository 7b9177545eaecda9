//! Index MP4s: a `moov` whose samples lie in another object, which its `dref` names (ISO/IEC 14496-12 §8.7.2).

use crate::{
    IndexError,
    media::{MediaIndex, Samples, Track},
};
use bytes::{BufMut, Bytes};
use latemux_isobmff::{FourCc, cursor::Cursor, emit::WriteBox, header::BoxHeader};
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of a media object's start by which it is known again.
pub const MEDIA_HEAD: u64 = 16 << 10;

/// What a media object looked like when its index MP4 was made: a `uuid` box at the end of our `moov`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaStamp {
    /// Size of the object in bytes.
    pub size: u64,
    /// How many of its first bytes are in `digest`, at most [`MEDIA_HEAD`].
    pub head: u32,
    /// Their digest.
    pub digest: u128,
}

/// Extended type of the `uuid` box that holds a [`MediaStamp`].
const USERTYPE: [u8; 16] =
    [0xb5, 0x0e, 0x6f, 0x1c, 0x27, 0x4a, 0x4d, 0x93, 0x9a, 0x61, 0x3c, 0x8d, 0x52, 0xe7, 0x04, 0xf9];

impl MediaStamp {
    /// The stamp of an object of `size` bytes that starts with `head`, of which the first [`MEDIA_HEAD`] count.
    #[must_use]
    pub fn of(size: u64, head: &[u8]) -> Self {
        let len = usize::try_from(MEDIA_HEAD).unwrap_or(usize::MAX).min(head.len());
        let head = head.get(..len).unwrap_or_default();
        Self { size, head: u32::try_from(len).unwrap_or(0), digest: xxh3_128(head) }
    }

    /// Finds the stamp in a `moov`. One that cannot be read is none.
    pub(crate) fn find(moov: &Bytes) -> Option<Self> {
        let header = BoxHeader::read(moov, 0).ok()??;
        let moov = moov.slice(usize::from(header.header_len).min(moov.len())..);
        let children = Cursor::new(&moov, 0);
        let stamp = children.boxes().map_while(Result::ok).find(|b| b.usertype() == Some(USERTYPE))?;
        let mut payload = stamp.payload;
        payload.skip(USERTYPE.len()).ok()?;
        payload.version_up_to(0).ok()?;
        let (size, head) = (payload.u64().ok()?, payload.u32().ok()?);
        Some(Self { size, head, digest: u128::from_be_bytes(payload.array().ok()?) })
    }

    /// Whether an object of `size` bytes that starts with `head` is another one.
    fn differs(&self, size: u64, head: &[u8]) -> Option<String> {
        if self.size != size {
            return Some(format!("it was made for {} bytes, the media has {size}", self.size));
        }
        let known = usize::try_from(self.head).ok().and_then(|len| head.get(..len));
        let other = known.is_some_and(|known| xxh3_128(known) != self.digest);
        other.then(|| format!("the first {} bytes of the media are others", self.head))
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

impl MediaIndex {
    /// Where the media of its tracks is, each place once, in the order of the tracks: locations as the file says them, `None` for the
    /// object itself. `[None]` for all but index MP4s.
    #[must_use]
    pub fn locations(&self) -> Vec<Option<Arc<str>>> {
        let mut locations = Vec::new();
        for track in &self.tracks {
            if !locations.contains(&track.location) {
                locations.push(track.location.clone());
            }
        }
        if locations.is_empty() {
            locations.push(None);
        }
        locations
    }

    /// Parts an index by where the media is: what [`Self::locations`] says, each with its tracks. Of those with a location, nothing can
    /// be served before [`Self::of_media`]. What was left out stays with the first.
    #[must_use]
    pub fn by_location(mut self) -> Vec<(Option<Arc<str>>, Self)> {
        let locations = self.locations();
        let (mut tracks, mut left_out) =
            (std::mem::take(&mut self.tracks), std::mem::take(&mut self.left_out));
        let mut parts = Vec::with_capacity(locations.len());
        for location in locations {
            let own = tracks.extract_if(.., |track| track.location == location).collect();
            let left_out = std::mem::take(&mut left_out);
            parts.push((location, Self { tracks: own, left_out, ..self.clone() }));
        }
        parts
    }

    /// The index of the object its tracks' media is in, which has `size` bytes and starts with `head` ([`MEDIA_HEAD`] of them, or
    /// all).
    ///
    /// # Errors
    /// [`IndexError::Stale`] where that object is not the one the index was made of: another size or start than an index
    /// written by [`crate::index_file`] says, or samples beyond its end.
    pub fn of_media(mut self, size: u64, head: &[u8]) -> Result<Self, IndexError> {
        if let Some(what) = self.stamp.and_then(|stamp| stamp.differs(size, head)) {
            return Err(IndexError::Stale(what));
        }
        let end = self.tracks.iter().map(|track| (track.id, end_of_samples(track)));
        if let Some((track, end)) = end.max_by_key(|&(_, end)| end)
            && end > size
        {
            let what = format!("samples of track {track} reach to byte {end}, the media has {size}");
            return Err(IndexError::Stale(what));
        }
        let mut digest = Xxh3::new();
        digest.update(&self.fingerprint.to_le_bytes());
        digest.update(&size.to_le_bytes());
        digest.update(&MediaStamp::of(size, head).digest.to_le_bytes());
        self.fingerprint = digest.digest128();
        self.object_size = size;
        for track in &mut self.tracks {
            track.location = None;
        }
        Ok(self)
    }
}

/// One past the last byte of any sample that plays, from the start of the media object.
fn end_of_samples(track: &Track) -> u64 {
    match &track.samples {
        Samples::Table(table) => table
            .range(0..u32::MAX)
            .map(|sample| sample.offset.saturating_add(u64::from(sample.size)))
            .max()
            .unwrap_or(0),
        Samples::Fragments(_) => 0,
    }
}

#[cfg(test)]
#[path = "external_tests.rs"]
mod tests;
