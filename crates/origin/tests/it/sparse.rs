//! Objects as large as films that store only the bytes of their indexes. All other bytes are zeros.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use latemux_storage::{ListRequest, Listing, ObjectMeta, Read, ReadRequest, Storage, StorageError, Version};

/// Folder of sparse objects.
#[derive(Debug, Default)]
pub(crate) struct Sparse(Vec<Object>);

#[derive(Debug)]
struct Object {
    name: String,
    start: Bytes,
    end: Bytes,
    size: u64,
    /// Size in bytes that a listing states.
    listed: u64,
}

impl Sparse {
    /// Adds an object of `size` bytes with a start, an end and zeros between. A listing states
    /// `listed` bytes.
    pub(crate) fn add(&mut self, name: &str, start: Bytes, end: Bytes, size: u64, listed: u64) {
        self.0.push(Object { name: name.to_owned(), start, end, size, listed });
    }
}

impl Object {
    fn bytes(&self, from: u64, to: u64) -> Bytes {
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        for (at, piece) in [(0, &self.start), (self.size - self.end.len() as u64, &self.end)] {
            let first = from.max(at);
            let last = to.min(at + piece.len() as u64);
            if first < last {
                let within = |n: u64, base: u64| usize::try_from(n - base).unwrap();
                let part = &piece[within(first, at)..within(last, at)];
                bytes[within(first, from)..within(last, from)].copy_from_slice(part);
            }
        }
        bytes.into()
    }
}

impl Storage for Sparse {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let key = request.key;
            let found = self.0.iter().find(|object| key.as_str().ends_with(&object.name));
            let object = found.ok_or_else(|| StorageError::NotFound(key.to_string()))?;
            let range =
                request.want.within(object.size).ok_or_else(|| StorageError::OutOfRange(key.to_string()))?;
            let version = Version { etag: Some("\"1\"".into()), size: object.size, modified: None };
            let bytes = object.bytes(range.start, range.end);
            Ok(Read {
                object: ObjectMeta { size: object.size, version },
                range,
                body: stream::iter([Ok(bytes)]).boxed(),
                is_in_memory: false,
            })
        }
        .boxed()
    }

    fn list<'a>(&'a self, _request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        let objects = self.0.iter().map(|object| (object.name.clone(), object.listed)).collect();
        async { Ok(Listing { objects, ..Listing::default() }) }.boxed()
    }

    fn describe(&self) -> String {
        String::new()
    }
}
