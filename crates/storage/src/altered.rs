//! A storage whose responses a test alters or observes.

use crate::{ListRequest, Listing, Read, ReadRequest, Storage, StorageError};
use futures_util::{FutureExt, future::BoxFuture};
use std::sync::Arc;

/// Passes every response of another storage through a function. `alter` is called when a read is
/// requested, and the function it returns is called with the response. That function is dropped if
/// the read fails or nobody waits for it any more.
pub struct Altered<F> {
    inner: Arc<dyn Storage>,
    alter: F,
}

impl<F, G> Altered<F>
where
    F: Fn() -> G + Send + Sync,
    G: FnOnce(Read) -> Read + Send,
{
    /// Alters the responses of `inner`.
    pub fn new(inner: Arc<dyn Storage>, alter: F) -> Self {
        Self { inner, alter }
    }
}

impl<F> std::fmt::Debug for Altered<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Altered").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F, G> Storage for Altered<F>
where
    F: Fn() -> G + Send + Sync,
    G: FnOnce(Read) -> Read + Send,
{
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let alter = (self.alter)();
            self.inner.read(request).await.map(alter)
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.inner.list(request)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
