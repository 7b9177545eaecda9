//! Indexes on disk: what files gave, with the versions it was of. Nothing of it is believed before storage said that those are
//! still the versions there are.

use crate::{
    Error,
    observe::metrics::{CacheSnapshot, CacheWatch},
    observe::trace::note,
    title::index::{Loaded, Objects, Parts},
    title::places::Place,
};
use bytes::Bytes;
use latemux_index::{MediaIndex, persist::error::PersistError};
use latemux_storage::{Outcome, StorageError, Tier, Version};
use serde::{Deserialize, Serialize};

/// Number of the layout of what surrounds the indexes, which have one of their own.
const FORMAT: u32 = 1;

/// What stands before the indexes, as JSON behind its length.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    /// Version of the file.
    file: Stated,
    parts: Vec<Part>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Part {
    /// As the file says where its media is; none for the file itself.
    location: Option<Box<str>>,
    version: Stated,
    /// Bytes of the index, which lie in the order of the parts.
    len: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Stated {
    etag: Option<Box<str>>,
    size: u64,
    modified: Option<i64>,
}

impl From<&Version> for Stated {
    fn from(Version { etag, size, modified }: &Version) -> Self {
        Self { etag: etag.clone(), size: *size, modified: *modified }
    }
}

impl From<Stated> for Version {
    fn from(Stated { etag, size, modified }: Stated) -> Self {
        Self { etag, size, modified }
    }
}

/// A file as it is on disk.
#[derive(Debug)]
struct Kept {
    version: Version,
    parts: Vec<(Option<Box<str>>, Version, MediaIndex)>,
}

/// What is called so on disk: a file of a storage, whichever version.
fn name(place: &Place) -> Vec<u8> {
    let storage = place.storage.describe();
    let len = u64::try_from(storage.len()).unwrap_or(u64::MAX).to_le_bytes();
    [&len, storage.as_bytes(), place.key.as_str().as_bytes()].concat()
}

fn encode(loaded: &Loaded) -> Vec<u8> {
    let indexes: Vec<Vec<u8>> =
        loaded.parts.iter().map(|(_, object)| MediaIndex::to_bytes(&object.index)).collect();
    let parts = loaded.parts.iter().zip(&indexes).map(|((location, object), index)| Part {
        location: location.as_deref().map(Box::from),
        version: (&object.version).into(),
        len: index.len(),
    });
    let head = Head { format: FORMAT, file: (&loaded.version).into(), parts: parts.collect() };
    let head = serde_json::to_vec(&head).unwrap_or_default();
    let len = u32::try_from(head.len()).unwrap_or(0).to_le_bytes();
    let mut bytes = [&len, &*head].concat();
    indexes.iter().for_each(|index| bytes.extend_from_slice(index));
    bytes
}

fn decode(bytes: &[u8]) -> Result<Kept, PersistError> {
    const HEADLESS: PersistError = PersistError::Damaged("no head");
    let (len, rest) = bytes.split_first_chunk().ok_or(HEADLESS)?;
    let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| HEADLESS)?;
    let (head, mut rest) = rest.split_at_checked(len).ok_or(HEADLESS)?;
    let head: Head = serde_json::from_slice(head).map_err(|_| HEADLESS)?;
    if head.format != FORMAT {
        return Err(PersistError::NotThis("of this version"));
    }
    let parts = head.parts.into_iter().map(|part| {
        let (index, after) =
            rest.split_at_checked(part.len).ok_or(PersistError::Damaged("it ends too early"))?;
        rest = after;
        Ok((part.location, part.version.into(), MediaIndex::from_bytes(index)?))
    });
    let parts = parts.collect::<Result<Vec<_>, PersistError>>()?;
    if parts.is_empty() || !rest.is_empty() {
        return Err(PersistError::Damaged("other parts than it says"));
    }
    Ok(Kept { version: head.file.into(), parts })
}

impl Objects {
    /// What a file gave when it was last indexed, by this process or one before it, if the file and the media it points to are still of
    /// those versions: one small read of each tells. A listing that tells another size needs none.
    ///
    /// # Errors
    /// What storage says, but for that.
    pub(crate) async fn persisted(&self, place: &Place, listed: Option<u64>) -> Result<Option<Parts>, Error> {
        let Some(kept) = self.kept(place).await else { return Ok(None) };
        if listed.is_some_and(|size| size != kept.version.size) {
            self.forget_persisted(place);
            return Ok(None);
        }
        let parts = self.of_kept(place, kept)?;
        match self.unchanged(place, &parts).await {
            Ok(()) => {
                note(Outcome::Hit(Tier::Disk));
                Ok(Some(parts))
            }
            Err(StorageError::Changed(_) | StorageError::NotFound(_)) => {
                self.forget_persisted(place);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same as it is on disk, whatever became of the file. For who forgets it.
    pub(crate) async fn last_known(&self, place: &Place) -> Option<Parts> {
        let kept = self.kept(place).await?;
        self.of_kept(place, kept).ok()
    }

    async fn kept(&self, place: &Place) -> Option<Kept> {
        let (records, name) = (self.records.as_ref()?, name(place));
        let bytes: Bytes = records.get(&name).await?;
        match tokio::task::spawn_blocking(move || decode(&bytes)).await.ok()? {
            Ok(kept) => Some(kept),
            Err(error) => {
                // Written by another version of this program, as a rule.
                tracing::debug!(reason = error.reason(), object = %place, "the index on disk is not used: {error}");
                records.discard(&name);
                None
            }
        }
    }

    fn of_kept(&self, place: &Place, kept: Kept) -> Result<Parts, Error> {
        let parts = kept.parts.into_iter().map(|(location, version, index)| match location {
            None => Ok(self.object(place, version, index, None)),
            // It must be allowed by the configuration there is now.
            Some(location) => {
                let media = self.places.find(place, &location)?;
                Ok(self.object(&media, version, index, Some((place.clone(), kept.version.clone()))))
            }
        });
        Ok(parts.collect::<Result<Vec<_>, Error>>()?.into())
    }

    /// Has what a file gave written to disk, by and by.
    pub(crate) fn persist(&self, loaded: Loaded) {
        let Some(records) = &self.records else { return };
        let versions = loaded.parts.iter().map(|(_, object)| &object.version);
        if versions.chain([&loaded.version]).all(Version::is_reliable) {
            let weight = loaded.parts.iter().map(|(_, object)| object.heap_bytes()).sum::<usize>();
            let weight = u64::try_from(weight).unwrap_or(u64::MAX);
            records.put(name(&loaded.place), weight, move || encode(&loaded));
        }
    }

    /// Whether anything was on disk.
    pub(crate) fn forget_persisted(&self, place: &Place) -> bool {
        self.records.as_ref().is_some_and(|records| records.forget(&name(place)))
    }

    /// What is on disk, for metrics.
    pub(crate) fn watch_persisted(&self) -> Option<CacheWatch> {
        let records = self.records.clone()?;
        Some(CacheWatch::new(move || {
            let figures = records.figures();
            CacheSnapshot {
                cache: "objects",
                tier: "disk",
                bytes: figures.bytes,
                limit: records.limit(),
                entries: figures.values,
                hits: figures.hits,
                misses: figures.misses,
                joins: 0,
                evictions: figures.evictions,
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, OriginConfig};
    use latemux_storage::{Key, Memory};
    use std::sync::Arc;

    async fn loaded() -> Loaded {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library/lighthouse.mp4");
        let memory = Memory::new();
        let version = memory.put(Key::new("a.mp4").unwrap(), std::fs::read(sample).unwrap());
        let origin = Origin::new(Arc::new(memory), OriginConfig::default());
        let title = origin.title("a.mp4").await.unwrap();
        let place = Place::served(Arc::new(Memory::new()), Key::new("a.mp4").unwrap());
        Loaded {
            place,
            version,
            parts: title.objects.iter().map(|object| (Some("x".into()), object.clone())).collect(),
        }
    }

    #[tokio::test]
    async fn another_version_of_anything_is_refused() {
        let loaded = loaded().await;
        let bytes = encode(&loaded);
        let kept = decode(&bytes).unwrap();
        assert_eq!((&kept.version, kept.parts.len()), (&loaded.version, 1));
        let (location, version, index) = &kept.parts[0];
        assert_eq!((location.as_deref(), version), (Some("x"), &loaded.version));
        assert_eq!(index.to_bytes(), loaded.parts[0].1.index.to_bytes());

        // The index's own format: behind its nine letters.
        let at = bytes.windows(9).position(|w| w == b"lmx index").unwrap() + 9;
        let mut newer = bytes.clone();
        newer[at] += 1;
        assert_eq!(decode(&newer).unwrap_err().reason(), "other_format");
        let outer = |text: &str| String::from_utf8_lossy(&bytes).contains(text);
        assert!(outer("{\"format\":1,"));
        let mut newer = bytes.clone();
        let at = bytes.windows(10).position(|w| w == b"\"format\":1").unwrap() + 9;
        newer[at] = b'2';
        assert_eq!(decode(&newer).unwrap_err().reason(), "not_an_index");
        for wrong in
            [&bytes[..3], &bytes[..20], &bytes[..bytes.len() - 1], &[&bytes[..], b"x"].concat(), b"\0\0\0\0"]
        {
            assert!(decode(wrong).is_err());
        }
    }
}
