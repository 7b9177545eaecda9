//! Reads the index of one object: gives a [`Locator`] the bytes it needs from storage.

use crate::Error;
use bytes::{Bytes, BytesMut};
use futures_util::{
    StreamExt,
    future::{join, join_all, try_join_all},
};
use latemux_index::{
    MediaIndex,
    index_file::FullTables,
    locate::{Got, Limits, Locator, Step, Want},
};
use latemux_storage::{Key, ObjectMeta, Storage, StorageError, Version};

/// Bytes read where a `moof` is expected. Most are smaller, and media follows.
pub(crate) const MOOF_READ: u64 = 8 << 10;

/// Reads the index of one object. Each step is one round trip to storage.
#[derive(Debug)]
pub struct IndexReader<'a> {
    storage: &'a dyn Storage,
    key: &'a Key,
    /// Name of the object in errors.
    name: String,
    locator: Locator,
    /// Reads of the next step.
    wants: Vec<Want>,
    /// `None` until the first step, unless the caller pinned a version.
    version: Option<Version>,
    is_scanning: bool,
    bytes_read: u64,
}

/// Result of one step of an [`IndexReader`].
#[derive(Debug)]
pub enum IndexStep<'a> {
    /// The reader needs another step.
    Read(IndexReader<'a>),
    /// The reader needs more steps and reads every `moof` of the object from now on. Returned once.
    Scan(IndexReader<'a>),
    /// The index is complete.
    Done(Box<ReadIndex>),
}

/// Index of an object as it was read from storage.
#[derive(Debug)]
pub struct ReadIndex {
    /// Version of the object.
    pub version: Version,
    /// Index of the object.
    pub index: MediaIndex,
    /// Bytes read from storage for the index.
    pub bytes_read: u64,
    locator: Locator,
}

impl ReadIndex {
    /// Returns all sample tables if the reader was made by [`IndexReader::for_full_tables`].
    #[must_use]
    pub fn full_tables(&self) -> Option<&FullTables> {
        self.locator.full_tables()
    }
}

impl<'a> IndexReader<'a> {
    /// Creates a reader of the index that serving needs. `name` stands for the object in errors.
    #[must_use]
    pub fn new(storage: &'a dyn Storage, key: &'a Key, name: String, limits: Limits) -> Self {
        Self::with_locator(storage, key, name, Locator::new(limits))
    }

    /// Creates a reader of all sample tables, from which an index MP4 can be written.
    #[must_use]
    pub fn for_full_tables(storage: &'a dyn Storage, key: &'a Key, name: String, limits: Limits) -> Self {
        let limits = Limits { tail: MOOF_READ, ..limits };
        Self::with_locator(storage, key, name, Locator::for_full_tables(limits))
    }

    fn with_locator(storage: &'a dyn Storage, key: &'a Key, name: String, locator: Locator) -> Self {
        let wants = vec![locator.first()];
        Self { storage, key, name, locator, wants, version: None, is_scanning: false, bytes_read: 0 }
    }

    /// Makes the first step read more, for an object that a listing says has `size` bytes. It saves
    /// round trips.
    #[must_use]
    pub fn with_listed_size(mut self, size: u64) -> Self {
        self.wants = self.locator.first_of(size);
        self
    }

    /// Pins all reads to a version of the object.
    #[must_use]
    pub fn pinned(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Returns the object's version once the first step has found it.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Returns how far a scan of all fragments has come, in bytes from the start of the object.
    #[must_use]
    pub fn scanned(&self) -> u64 {
        self.locator.scanned()
    }

    /// Returns the number of bytes the next step reads, at most.
    pub(crate) fn next_bytes(&self) -> u64 {
        let bytes = self.wants.iter().map(|want| match want {
            Want::Head(len) => *len,
            Want::Range(range) => range.end.saturating_sub(range.start),
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// Reads what the index needs next, in one round trip, and parses it.
    ///
    /// # Errors
    /// - [`Error::Storage`] for a failed read, or a change of the object between two steps
    /// - [`Error::Index`] for an object without a usable index
    pub async fn step(self) -> Result<IndexStep<'a>, Error> {
        let mut reads = self.wants.iter().map(|want| self.read(want));
        let mut got = Vec::with_capacity(self.wants.len());
        let version = match &self.version {
            Some(version) => {
                got.extend(try_join_all(reads).await?.into_iter().map(|(_, bytes)| bytes));
                version.clone()
            }
            None => {
                let first = reads.next().ok_or(Error::Internal("an index reader with nothing to read"))?;
                let (head, guesses) = join(first, join_all(reads)).await;
                let (object, bytes) = head?;
                got.push(bytes);
                // A listing may be outdated. A guess that failed or found another version is
                // dropped; its bytes are read again if they turn out to be needed.
                let same = guesses.into_iter().flatten().filter(|(guess, _)| guess.version == object.version);
                got.extend(same.map(|(_, bytes)| bytes));
                object.version
            }
        };
        let bytes_read = self.bytes_read + got.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
        let (size, mut locator) = (version.size, self.locator);
        // Parsing a large moov takes milliseconds. It must not hold up other requests.
        let parsed = tokio::task::spawn_blocking(move || {
            let step = locator.step(size, got);
            (locator, step)
        });
        let (locator, step) = parsed.await.map_err(|_| Error::Internal("parsing an index panicked"))?;
        let (wants, is_scanning) = match step.map_err(|error| Error::index(&self.name, error))? {
            Step::Read(wants) => (wants, self.is_scanning),
            Step::Scan(wants) => (wants, true),
            Step::Done(index) => {
                let read = ReadIndex { version, index: *index, bytes_read, locator };
                return Ok(IndexStep::Done(Box::new(read)));
            }
        };
        let begins_scan = is_scanning && !self.is_scanning;
        let version = Some(version);
        let next = Self { locator, wants, version, is_scanning, bytes_read, ..self };
        Ok(if begins_scan { IndexStep::Scan(next) } else { IndexStep::Read(next) })
    }

    async fn read(&self, want: &Want) -> Result<(ObjectMeta, Got), StorageError> {
        let want = match want {
            Want::Head(len) => latemux_storage::Want::Head(*len),
            Want::Range(range) => latemux_storage::Want::Range(range.clone()),
        };
        read_whole(self.storage, self.key, &self.name, want, self.version.as_ref()).await
    }
}

/// Reads bytes of an object and waits for all of them. `name` stands for the object in errors.
pub(crate) async fn read_whole(
    storage: &dyn Storage,
    key: &Key,
    name: &str,
    want: latemux_storage::Want,
    pin: Option<&Version>,
) -> Result<(ObjectMeta, Got), StorageError> {
    let mut read = storage.read(key, want, pin).await?;
    let promised = read.range.end.saturating_sub(read.range.start);
    let mut frames = Vec::new();
    let mut received = 0_u64;
    while let Some(frame) = read.body.next().await {
        let frame = frame?;
        received = received.saturating_add(frame.len() as u64);
        if received > promised {
            break;
        }
        frames.push(frame);
    }
    if received != promised {
        let detail = format!("a read of {promised} bytes returned {received} bytes or more");
        return Err(StorageError::BadAnswer { key: name.to_owned(), detail });
    }
    Ok((read.object, Got { offset: read.range.start, bytes: concat(frames) }))
}

/// Joins frames into one buffer. A single frame is returned without a copy.
fn concat(mut frames: Vec<Bytes>) -> Bytes {
    if frames.len() == 1 {
        return frames.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
    for frame in frames {
        whole.extend_from_slice(&frame);
    }
    whole.freeze()
}
