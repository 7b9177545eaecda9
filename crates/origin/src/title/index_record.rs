//! The form of a file's index on disk: the length of a JSON head, the head, then the packed indexes
//! of all objects in order.

use crate::title::{indexed::IndexedFile, references::ObjectRef};
use latemux_index::{MediaIndex, persist::error::PersistError};
use latemux_storage::Version;
use serde::{Deserialize, Serialize};

/// Version of the record's own layout. The packed indexes have a version of their own.
const FORMAT: u32 = 1;

/// Head of a record.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    /// Version of the file.
    #[serde(with = "StoredVersion")]
    file: Version,
    parts: Vec<StoredPart>,
}

/// Object of a record.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPart {
    /// Location of the media as written in the file. `None` for the file itself.
    location: Option<Box<str>>,
    #[serde(with = "StoredVersion")]
    version: Version,
    /// Length of the packed index in bytes.
    len: usize,
}

/// Serialized form of [`Version`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Version")]
struct StoredVersion {
    etag: Option<Box<str>>,
    size: u64,
    modified: Option<i64>,
}

/// Decoded record of a file.
#[derive(Debug)]
pub(crate) struct IndexRecord {
    /// Version of the file that was indexed.
    pub(crate) version: Version,
    /// Location, version and index of each object.
    pub(crate) parts: Vec<(Option<Box<str>>, Version, MediaIndex)>,
}

/// Returns the name of a file's record. It is the same for all versions of the file.
pub(crate) fn record_name(file: &ObjectRef) -> Vec<u8> {
    let storage = file.storage.describe();
    let len = (storage.len() as u64).to_le_bytes();
    [&len, storage.as_bytes(), file.key.as_str().as_bytes()].concat()
}

impl IndexRecord {
    /// Encodes the record of an indexed file.
    pub(crate) fn encode(file: &IndexedFile) -> Vec<u8> {
        let indexes: Vec<Vec<u8>> = file.objects().map(|object| object.index.to_bytes()).collect();
        let parts = file.parts.iter().zip(&indexes).map(|((location, object), index)| StoredPart {
            location: location.as_deref().map(Box::from),
            version: object.version().clone(),
            len: index.len(),
        });
        let head = Head { format: FORMAT, file: file.version.clone(), parts: parts.collect() };
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let len = u32::try_from(head.len()).unwrap_or(0).to_le_bytes();
        let mut bytes = [&len, &*head].concat();
        indexes.iter().for_each(|index| bytes.extend_from_slice(index));
        bytes
    }

    /// Decodes a record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, PersistError> {
        const NO_HEAD: PersistError = PersistError::Damaged("no head");
        let (len, rest) = bytes.split_first_chunk().ok_or(NO_HEAD)?;
        let len = u32::from_le_bytes(*len) as usize;
        let (head, mut rest) = rest.split_at_checked(len).ok_or(NO_HEAD)?;
        let head: Head = serde_json::from_slice(head).map_err(|_| NO_HEAD)?;
        if head.format != FORMAT {
            return Err(PersistError::NotThis("of this version"));
        }
        let parts = head.parts.into_iter().map(|part| {
            let split = rest.split_at_checked(part.len);
            let (index, after) = split.ok_or(PersistError::Damaged("it ends too early"))?;
            rest = after;
            Ok((part.location, part.version, MediaIndex::from_bytes(index)?))
        });
        let parts = parts.collect::<Result<Vec<_>, PersistError>>()?;
        if parts.is_empty() || !rest.is_empty() {
            return Err(PersistError::Damaged("its parts do not match its head"));
        }
        Ok(Self { version: head.file, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, OriginConfig};
    use latemux_storage::{Key, Memory};
    use std::sync::Arc;

    async fn indexed_file() -> IndexedFile {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library/lighthouse.mp4");
        let memory = Memory::new();
        let version = memory.put(Key::new("a.mp4").unwrap(), std::fs::read(sample).unwrap());
        let origin = Origin::new(Arc::new(memory), OriginConfig::default());
        let title = origin.title("a.mp4").await.unwrap();
        let storage = Arc::new(Memory::new());
        let file = ObjectRef::served(storage.clone(), storage, Key::new("a.mp4").unwrap());
        let parts = title.objects.iter().map(|object| (Some("x".into()), object.clone())).collect();
        IndexedFile::new(file, version, parts)
    }

    #[tokio::test]
    async fn records_of_other_formats_and_damaged_records_are_refused() {
        let file = indexed_file().await;
        let bytes = IndexRecord::encode(&file);
        let record = IndexRecord::decode(&bytes).unwrap();
        assert_eq!((&record.version, record.parts.len()), (&file.version, 1));
        let (location, version, index) = &record.parts[0];
        assert_eq!((location.as_deref(), version), (Some("x"), &file.version));
        assert_eq!(index.to_bytes(), file.parts[0].1.index.to_bytes());

        // The packed index's format number stands behind its nine letters.
        let at = bytes.windows(9).position(|w| w == b"lmx index").unwrap() + 9;
        let mut newer = bytes.clone();
        newer[at] += 1;
        assert_eq!(IndexRecord::decode(&newer).unwrap_err().reason(), "other_format");
        assert!(String::from_utf8_lossy(&bytes).contains("{\"format\":1,"));
        let mut newer = bytes.clone();
        let at = bytes.windows(10).position(|w| w == b"\"format\":1").unwrap() + 9;
        newer[at] = b'2';
        assert_eq!(IndexRecord::decode(&newer).unwrap_err().reason(), "not_an_index");
        for damaged in
            [&bytes[..3], &bytes[..20], &bytes[..bytes.len() - 1], &[&bytes[..], b"x"].concat(), b"\0\0\0\0"]
        {
            assert!(IndexRecord::decode(damaged).is_err());
        }
    }
}
