//! Index MP4s whose samples lie in another object, which their `dref` names (ISO/IEC 14496-12
//! §8.7.2).

use crate::{
    error::IndexError,
    locate::limits::most_samples,
    media::{MediaIndex, Samples, Track, stamp::MediaStamp},
};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

impl MediaIndex {
    /// Returns the locations of its tracks' media, each once, in the order of the tracks: as the
    /// file states them, or `None` for the object itself. All but index MP4s return `[None]`.
    pub fn locations(&self) -> Vec<Option<Arc<str>>> {
        let mut locations = Vec::new();
        for track in self.all_tracks() {
            if !locations.contains(&track.location) {
                locations.push(track.location.clone());
            }
        }
        if locations.is_empty() {
            locations.push(None);
        }
        locations
    }

    /// Splits an index by the location of the media, in the order of [`Self::locations`], each with
    /// its tracks. Tracks with a location cannot be served before [`Self::of_media`]. Tracks left
    /// out stay with the first.
    pub fn by_location(mut self) -> Vec<(Option<Arc<str>>, Self)> {
        let locations = self.locations();
        let mut tracks = std::mem::take(&mut self.tracks);
        let mut thumbnails = std::mem::take(&mut self.thumbnails);
        let mut left_out = std::mem::take(&mut self.left_out);
        let mut parts = Vec::with_capacity(locations.len());
        for location in locations {
            let mut own: Vec<_> = tracks.extract_if(.., |track| track.location == location).collect();
            let pictures = thumbnails.extract_if(.., |of| of.track.location == location);
            let mut pictures: Vec<_> = pictures.collect();
            // A list that grew has room for four tracks, of which each takes some 300 bytes.
            own.shrink_to_fit();
            pictures.shrink_to_fit();
            let left_out = std::mem::take(&mut left_out);
            parts.push((location, Self { tracks: own, thumbnails: pictures, left_out, ..self.clone() }));
        }
        parts
    }

    /// Returns the index of the object that holds its tracks' media. That object has `size` bytes
    /// and starts with `head` (16 KiB, or all of it).
    ///
    /// # Errors
    ///
    /// [`IndexError::Stale`] if the object is not the one the index was made of: its size or start
    /// is not as the stamp states, or samples lie beyond its end.
    pub fn of_media(mut self, size: u64, head: &[u8]) -> Result<Self, IndexError> {
        if let Some(what) = self.stamp.and_then(|stamp| stamp.differs(size, head)) {
            return Err(IndexError::Stale(what));
        }
        let limit = most_samples(size);
        if self.sample_count() > limit {
            return Err(IndexError::OverLimit { what: "samples for an object of this size", limit });
        }
        let end = self.all_tracks().map(|track| (track.id, end_of_samples(track)));
        if let Some((track, end)) = end.max_by_key(|&(_, end)| end)
            && end > size
        {
            let what = format!("samples of track {track} end at byte {end}, but the media ends at {size}");
            return Err(IndexError::Stale(what));
        }
        let mut digest = Xxh3::new();
        digest.update(&self.fingerprint.to_le_bytes());
        digest.update(&size.to_le_bytes());
        digest.update(&MediaStamp::of(size, head).digest.to_le_bytes());
        self.fingerprint = digest.digest128();
        self.object_size = size;
        let pictures = self.thumbnails.iter_mut().map(|of| &mut of.track);
        for track in self.tracks.iter_mut().chain(pictures) {
            track.location = None;
        }
        Ok(self)
    }
}

/// Returns the end of the last sample that plays, in bytes from the start of the media object.
fn end_of_samples(track: &Track) -> u64 {
    match &track.samples {
        Samples::Table(table) => {
            table.range(0..u32::MAX).map(|sample| sample.offset + u64::from(sample.size)).max().unwrap_or(0)
        }
        Samples::Fragments(_) => 0,
    }
}
