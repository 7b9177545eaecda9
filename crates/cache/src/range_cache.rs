//! The cache as a storage.

use crate::{
    Outcome, Reason, Witness,
    body::Body,
    core::Core,
    object::{Names, Object},
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use latemux_storage::{Key, Listing, ObjectMeta, Read, Storage, StorageError, Version, Want};
use std::{ops::Range, sync::Arc};

/// A storage that remembers what another one sends. Only reads of a range of a known version are remembered; all else passes.
///
/// What it remembers of a version it gives without asking whether the object is still there: who wants to know reads
/// without a version.
#[derive(Debug, Clone)]
pub struct RangeCache {
    core: Arc<Core>,
    source: Arc<dyn Storage>,
    name: Arc<str>,
}

impl RangeCache {
    pub(crate) fn new(core: Arc<Core>, source: Arc<dyn Storage>, name: &str) -> Self {
        Self { core, source, name: name.into() }
    }

    /// As [`Storage::read_within`], and what became of it: where anything of `range` has to be fetched, all of `reach` is that is not
    /// here, in as few requests; it comes to the end, whether or not this reader stays. The answer comes with its first bytes, so that an error storage gives at
    /// once is an error here.
    ///
    /// # Errors
    /// Those of the storage around which this is, as they come: none is remembered.
    pub async fn read_within_and_tell(
        &self,
        key: &Key,
        want: Want,
        reach: Range<u64>,
        pin: Option<&Version>,
    ) -> Result<(Read, Outcome), StorageError> {
        self.read_witnessed(key, want, reach, pin, None).await
    }

    /// As [`Self::read_within_and_tell`]; `witness` is told at once what becomes of it.
    ///
    /// # Errors
    /// As [`Self::read_within_and_tell`].
    pub async fn read_witnessed(
        &self,
        key: &Key,
        want: Want,
        reach: Range<u64>,
        pin: Option<&Version>,
        witness: Option<Arc<dyn Witness>>,
    ) -> Result<(Read, Outcome), StorageError> {
        let (object, range) = match self.object(key, &want, pin) {
            Ok(object) => object,
            Err(reason) => {
                let outcome = Outcome::Bypassed(reason);
                self.core.counters.count(outcome);
                if let Some(witness) = witness {
                    witness.found(outcome);
                }
                return Ok((self.source.read(key, want, pin).await?, outcome));
            }
        };
        let meta = ObjectMeta { size: object.version.size, version: object.version.clone() };
        let (core, source) = (self.core.clone(), self.source.clone());
        let (mut body, found) = Body::new(core, source, object, range.clone(), &reach, witness);
        let outcome = found.outcome();
        self.core.counters.count(outcome);
        body.open().await?;
        let body = stream::try_unfold(body, Body::next).boxed();
        Ok((Read { object: meta, range, body }, outcome))
    }

    /// As [`Storage::read`], and what became of it.
    ///
    /// # Errors
    /// As [`Self::read_within_and_tell`].
    pub async fn read_and_tell(
        &self,
        key: &Key,
        want: Want,
        pin: Option<&Version>,
    ) -> Result<(Read, Outcome), StorageError> {
        self.read_within_and_tell(key, want, 0..0, pin).await
    }

    /// What a read is of, if it can be answered from here.
    fn object(
        &self,
        key: &Key,
        want: &Want,
        pin: Option<&Version>,
    ) -> Result<(Arc<Object>, Range<u64>), Reason> {
        let version = pin.ok_or(Reason::Unpinned)?;
        let Want::Range(range) = want else { return Err(Reason::Head) };
        if range.is_empty() || range.end > version.size {
            return Err(Reason::Range);
        }
        if !version.tells() {
            return Err(Reason::Version);
        }
        let names = Names { storage: &self.name, key, version };
        let object = self.core.table.get(&self.name, &names).ok_or(Reason::Collision)?;
        Ok((object, range.clone()))
    }
}

impl Storage for RangeCache {
    fn read<'a>(
        &'a self,
        key: &'a Key,
        want: Want,
        pin: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move { Ok(self.read_and_tell(key, want, pin).await?.0) }.boxed()
    }

    fn read_within<'a>(
        &'a self,
        key: &'a Key,
        range: Range<u64>,
        reach: Range<u64>,
        pin: &'a Version,
    ) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move { Ok(self.read_within_and_tell(key, Want::Range(range), reach, Some(pin)).await?.0) }
            .boxed()
    }

    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.source.list(folder)
    }

    fn describe(&self) -> String {
        self.source.describe()
    }
}
