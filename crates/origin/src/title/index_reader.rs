//! Reads the index of one object. It reads the bytes that a [`Locator`] needs from storage.

use crate::{
    Error,
    title::{quick_work::do_at_once, workers::Workers},
};
use bytes::{Bytes, BytesMut};
use futures_util::{
    StreamExt,
    future::{join, join_all, try_join_all},
};
use latemux_index::{
    IndexError, MediaIndex,
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
};
use latemux_storage::{Key, ObjectMeta, ReadRequest, Storage, StorageError, Version, Want};

/// Reads the index of one object. Each step is one round trip to storage.
#[derive(Debug)]
pub struct IndexReader<'a> {
    storage: &'a dyn Storage,
    key: &'a Key,
    /// Name of the object in errors.
    name: String,
    limits: Limits,
    locator: Locator,
    /// Reads of the next step.
    wants: Vec<Want>,
    /// `None` until the first step, unless the caller pinned a version.
    version: Option<Version>,
    is_scanning: bool,
    bytes_read: u64,
    workers: Workers,
}

impl<'a> IndexReader<'a> {
    /// Creates a reader of the index that serving needs. `name` stands for the object in errors.
    pub fn new(storage: &'a dyn Storage, key: &'a Key, name: String, limits: Limits) -> Self {
        let locator = Locator::new(limits);
        let wants = vec![Want::Head(locator.first_reads(None).head)];
        Self {
            storage,
            key,
            name,
            limits,
            locator,
            wants,
            version: None,
            is_scanning: false,
            bytes_read: 0,
            workers: Workers::new(None),
        }
    }

    /// Makes the reader read all sample tables, from which an index MP4 can be written.
    #[must_use]
    pub fn for_full_tables(self) -> Self {
        Self { locator: Locator::for_full_tables(self.limits.for_full_tables()), ..self }
    }

    /// Makes the index own unpacked copies of its columns, see [`MediaIndex::take_unpacked`].
    #[must_use]
    pub(crate) fn keeping_values(self) -> Self {
        Self { locator: self.locator.keeping_values(), ..self }
    }

    /// Makes the first step read more, to save round trips. `size` is the size of the object in
    /// bytes according to a listing.
    #[must_use]
    pub fn with_listed_size(self, size: u64) -> Self {
        let first = self.locator.first_reads(Some(size));
        let wants = [Want::Head(first.head)].into_iter().chain(first.tail.map(Want::Range)).collect();
        Self { wants, ..self }
    }

    /// Makes these threads parse large indexes.
    #[must_use]
    pub(crate) fn with_workers(self, workers: Workers) -> Self {
        Self { workers, ..self }
    }

    /// Pins all reads to a version of the object.
    #[must_use]
    pub fn pinned(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Returns the object's version once the first step has found it.
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Returns the number of bytes read from storage so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Returns how far a scan of all fragments has come, in bytes from the start of the object.
    pub fn scanned(&self) -> u64 {
        self.locator.scanned()
    }

    /// Returns true once the index has to be found by reading every `moof` of the object.
    pub(crate) fn is_scanning(&self) -> bool {
        self.is_scanning
    }

    pub(crate) fn is_for_full_tables(&self) -> bool {
        self.locator.is_for_full_tables()
    }

    /// Returns the locator. After the last step of a reader for full tables, it has the tables.
    pub fn into_locator(self) -> Locator {
        self.locator
    }

    /// Returns the number of bytes the next step reads, at most.
    pub(crate) fn next_bytes(&self) -> u64 {
        let bytes = self.wants.iter().map(|want| match want {
            Want::Head(len) => *len,
            Want::Range(range) => range.end - range.start,
        });
        bytes.sum()
    }

    /// Reads what the index needs next, in one round trip, and parses it. Returns the index once it
    /// is complete; until then, another step is needed.
    ///
    /// # Errors
    /// - [`Error::Storage`] for a failed read, or a change of the object between two steps
    /// - [`Error::Index`] for an object without a usable index
    pub async fn step(&mut self) -> Result<Option<MediaIndex>, Error> {
        let read = |want: &Want| {
            let request = ReadRequest::new(self.key, want.clone()).pinned_to(self.version.as_ref());
            read_whole(self.storage, request, &self.name)
        };
        let mut reads = self.wants.iter().map(read);
        let mut got = Vec::with_capacity(self.wants.len());
        let version = match &self.version {
            Some(version) => {
                got.extend(try_join_all(reads).await?.into_iter().map(|(_, bytes)| bytes));
                version.clone()
            }
            None => {
                let first = reads.next().ok_or(Error::Internal("an index reader with nothing to read"))?;
                let (head, others) = join(first, join_all(reads)).await;
                let (object, bytes) = head?;
                got.push(bytes);
                // A listing may be outdated. Further reads that failed or found another version are
                // dropped. Their bytes are read again if they are needed.
                let same = others.into_iter().flatten().filter(|(other, _)| other.version == object.version);
                got.extend(same.map(|(_, bytes)| bytes));
                object.version
            }
        };
        self.bytes_read += got.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
        let size = version.size;
        self.version = Some(version);
        let step = self.parse(size, got).await?;
        match step.map_err(|error| Error::index(&self.name, error))? {
            Step::Read(ranges) => self.wants = ranges.into_iter().map(Want::Range).collect(),
            Step::Scan(ranges) => {
                self.wants = ranges.into_iter().map(Want::Range).collect();
                self.is_scanning = true;
            }
            Step::Done(index) => return Ok(Some(*index)),
        }
        Ok(None)
    }

    /// Gives the locator the bytes that were read. A small index is parsed at once. A large one
    /// takes milliseconds, which must not hold up other requests.
    async fn parse(&mut self, size: u64, got: Vec<ObjectBytes>) -> Result<Result<Step, IndexError>, Error> {
        let locator = &mut self.locator;
        if let Some(step) = do_at_once(|| locator.quick_step(size, got))?.transpose() {
            return Ok(step);
        }
        let mut locator = std::mem::replace(&mut self.locator, Locator::new(self.limits));
        let parsed = self.workers.run(move || {
            let step = locator.step(size, Vec::new());
            (locator, step)
        });
        let (locator, step) = parsed.await?;
        self.locator = locator;
        Ok(step)
    }
}

/// Makes a read request and waits for all its bytes. `name` stands for the object in errors.
pub(crate) async fn read_whole(
    storage: &dyn Storage,
    request: ReadRequest<'_>,
    name: &str,
) -> Result<(ObjectMeta, ObjectBytes), StorageError> {
    let mut read = storage.read(request).await?;
    let promised = read.range.end - read.range.start;
    // A single frame is used without a copy. Several are copied as they arrive, so that storage can
    // use their buffers again.
    let mut only = Bytes::new();
    let mut whole = BytesMut::new();
    let mut received = 0;
    while let Some(frame) = read.body.next().await {
        let frame = frame?;
        received += frame.len() as u64;
        if received > promised {
            break;
        }
        if frame.len() as u64 == promised {
            only = frame;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(usize::try_from(promised).unwrap_or(0));
        }
        whole.extend_from_slice(&frame);
    }
    if received != promised {
        let detail = format!("a read of {promised} bytes returned {received} bytes or more");
        return Err(StorageError::BadResponse { key: name.to_owned(), detail });
    }
    let bytes = if whole.is_empty() { only } else { whole.freeze() };
    Ok((read.object, ObjectBytes { offset: read.range.start, bytes }))
}
