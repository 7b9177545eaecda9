//! Index MP4s: a `moov` whose samples lie in another object, which its `dref` names (ISO/IEC 14496-12 §8.7.2).

use crate::{
    error::IndexError,
    media::{MediaIndex, Samples, Track, stamp::MediaStamp},
};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

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
    /// written by [`crate::persist::index_file`] says, or samples beyond its end.
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
