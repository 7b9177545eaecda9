//! The range cache as a storage.

use crate::{
    Outcome, Tier,
    counters::bypass,
    fetch::body::RangeBody,
    memory::object::{Names, Object},
    store::Store,
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use latemux_storage::{ListRequest, Listing, ObjectMeta, Read, ReadRequest, Storage, StorageError, Want};
use std::{ops::Range, sync::Arc};

/// A storage that keeps the bytes of another storage. It serves only reads of a range of a pinned
/// version; all other requests pass through.
///
/// A hit does not check that the object still exists. A read without a version does check, because
/// it reaches storage.
///
/// If any byte of a range has to be fetched, the cache fetches all of the request's reach that it
/// does not hold, in as few requests as possible, and completes that fetch even if the reader
/// leaves. The response comes with its first bytes, so an error that storage reports at once is an
/// error of the read. Errors are not remembered.
#[derive(Debug, Clone)]
pub struct RangeCache {
    store: Arc<Store>,
    source: Arc<dyn Storage>,
    name: Arc<str>,
}

impl RangeCache {
    pub(crate) fn new(store: Arc<Store>, source: Arc<dyn Storage>, name: &str) -> Self {
        Self { store, source, name: name.into() }
    }

    async fn read_now(&self, request: ReadRequest<'_>) -> Result<Read, StorageError> {
        let (object, range) = match self.object(&request) {
            Ok(object) => object,
            Err(reason) => {
                let outcome = Outcome::Bypassed(reason);
                self.store.counters.count(outcome);
                if let Some(observer) = &request.observer {
                    observer.on_outcome(outcome);
                }
                return self.source.read(ReadRequest { reach: None, observer: None, ..request }).await;
            }
        };
        let meta = ObjectMeta { size: object.version.size, version: object.version.clone() };
        let store = &self.store;
        let source = &self.source;
        let (mut body, outcome) =
            RangeBody::new(store, source, object, range.clone(), request.reach, request.observer);
        self.store.counters.count(outcome);
        body.open().await?;
        let body = stream::try_unfold(body, RangeBody::next).boxed();
        let is_in_memory = outcome == Outcome::Hit(Tier::Memory);
        Ok(Read { object: meta, range, body, is_in_memory })
    }

    /// Returns the object and the range that a read asks for, if the cache can serve it.
    fn object(&self, request: &ReadRequest<'_>) -> Result<(Arc<Object>, Range<u64>), &'static str> {
        let version = request.version.ok_or(bypass::UNPINNED)?;
        let Want::Range(range) = &request.want else { return Err(bypass::HEAD) };
        if range.is_empty() || range.end > version.size {
            return Err(bypass::RANGE);
        }
        if !version.is_reliable() {
            return Err(bypass::VERSION);
        }
        let names = Names { storage: &self.name, key: request.key, version };
        let object = self.store.table.get(&self.name, &names).ok_or(bypass::COLLISION)?;
        Ok((object, range.clone()))
    }
}

impl Storage for RangeCache {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        self.read_now(request).boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.source.list(request)
    }

    fn describe(&self) -> String {
        self.source.describe()
    }
}
