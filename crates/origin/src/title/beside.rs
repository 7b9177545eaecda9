//! The index MP4 beside a file that is asked for by itself: where the file has no index of its own, it spares a look at every fragment.
//!
//! Only one that this program wrote is believed (it says which media it was made of), and what comes of it is kept as if the file had been
//! scanned: it is the same.

use crate::{
    Error,
    title::index::Objects,
    title::places::Place,
    title::resolve::{index_key, indexed_stem, is_media},
};
use futures_util::{FutureExt as _, future::BoxFuture};
use latemux_index::MediaIndex;
use latemux_storage::{StorageError, Version};

impl Objects {
    /// What the index MP4 of a file of that version says, if there is one that was made of it. A failure of any kind is none: the file
    /// itself says the same, at more length. Boxed, for the index of an index MP4 is found as that of any file.
    pub(crate) fn index_beside<'a>(
        &'a self,
        media: &'a Place,
        version: &'a Version,
    ) -> BoxFuture<'a, Option<MediaIndex>> {
        async move {
            let place = self.place_beside(media)?;
            match self.index_of_media(&place, media, version).await {
                Ok(index) => index,
                Err(Error::Storage(StorageError::NotFound(_))) => None,
                Err(error) => {
                    tracing::debug!(reason = error.reason(), object = %place, "not used as an index: {error}");
                    None
                }
            }
        }
        .boxed()
    }

    /// Where the index MP4 of a file would be; nowhere for what is one itself, or lies outside of the storage that is served.
    fn place_beside(&self, media: &Place) -> Option<Place> {
        let path = media.key.as_str();
        if media.is_elsewhere() || !is_media(path) || indexed_stem(path).is_some() {
            return None;
        }
        Some(self.served(index_key(&media.key)?))
    }

    async fn index_of_media(
        &self,
        place: &Place,
        media: &Place,
        version: &Version,
    ) -> Result<Option<MediaIndex>, Error> {
        let (_, index) = self.index(place, None).await?;
        if !self.is_ours(place, &index, media) {
            return Ok(None);
        }
        let (_, paired) = self.paired(index, media, Some(version)).await?;
        let index = paired.map_err(|error| Error::index(place.to_string(), error))?;
        Ok(Some(MediaIndex { stamp: None, ..index }))
    }
}
