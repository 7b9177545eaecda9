//! A storage that fails on demand: by a script, or by a seed.

use crate::{Key, ListRequest, Listing, Read, ReadRequest, Storage, StorageError, Want};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future, future::BoxFuture, stream, stream::BoxStream};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};

/// A gate where a response waits until the test lets it pass.
#[derive(Debug, Clone)]
pub struct Gate {
    pass: Arc<Semaphore>,
    waiting: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { pass: Arc::new(Semaphore::new(0)), waiting: watch::Sender::new(0) }
    }
}

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets one response pass.
    pub fn let_one_pass(&self) {
        self.pass.add_permits(1);
    }

    /// Lets all responses pass from now on.
    pub fn open(&self) {
        self.pass.close();
    }

    /// Waits until this many responses wait at the gate or have passed it.
    pub async fn reached(&self, arrived: usize) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.waiting.subscribe().wait_for(|n| *n >= arrived).await;
    }

    async fn pass(&self) {
        self.waiting.send_modify(|n| *n += 1);
        if let Ok(permit) = self.pass.acquire().await {
            permit.forget();
        }
    }
}

/// The fault of one request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// No fault.
    None,
    /// The request fails.
    Error(StorageError),
    /// The response waits at the gate.
    Wait(Gate),
    /// The request gets no response.
    Silence,
    /// The body fails with this error after this many bytes, or at its end if it is shorter.
    BreakAfter(u64, StorageError),
    /// The body stalls after this many bytes.
    StallAfter(u64),
    /// The body waits at the gate after this many bytes.
    WaitAfter(u64, Gate),
    /// The body ends after this many bytes without an error, which the contract forbids.
    ShortAfter(u64),
}

impl Fault {
    /// Returns a fault that resets the connection after this many bytes.
    pub fn reset_after(key: &Key, bytes: u64) -> Self {
        let detail = "connection reset (injected)".to_owned();
        Self::BreakAfter(bytes, StorageError::Unavailable { key: key.to_string(), detail })
    }
}

/// Chooses the fault of request n (from 0): `(n, key, want)`; `want` is `None` for listings.
type Choice = Box<dyn FnMut(u64, &Key, Option<&Want>) -> Fault + Send>;

/// A storage that fails on demand.
pub struct Faulty {
    inner: Arc<dyn Storage>,
    choice: Mutex<(u64, Choice)>,
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Faulty").field(&self.inner).finish()
    }
}

impl Faulty {
    /// Wraps `inner`; `choice` chooses the fault of each request.
    pub fn new(
        inner: Arc<dyn Storage>,
        choice: impl FnMut(u64, &Key, Option<&Want>) -> Fault + Send + 'static,
    ) -> Self {
        Self { inner, choice: Mutex::new((0, Box::new(choice))) }
    }

    /// Applies one fault to each request in turn, then none.
    pub fn scripted(inner: Arc<dyn Storage>, script: impl IntoIterator<Item = Fault>) -> Self {
        let mut script: VecDeque<Fault> = script.into_iter().collect();
        Self::new(inner, move |_, _, _| script.pop_front().unwrap_or(Fault::None))
    }

    /// Makes about one request in `one_in` fail, in a way and at a byte drawn from `seed`. Tests
    /// should print the seed when they fail.
    pub fn seeded(inner: Arc<dyn Storage>, seed: u64, one_in: u64) -> Self {
        Self::new(inner, move |n, key, _| {
            let draw = splitmix64(seed ^ splitmix64(n));
            if !draw.is_multiple_of(one_in.max(1)) {
                return Fault::None;
            }
            let kind = splitmix64(draw) % 5;
            let at = splitmix64(draw ^ 1) % 100_000;
            let name = key.to_string();
            match kind {
                0 => Fault::reset_after(key, at),
                1 => Fault::BreakAfter(at, StorageError::Changed(name)),
                2 => Fault::Error(StorageError::Unavailable { key: name, detail: "injected".to_owned() }),
                3 => Fault::Error(StorageError::Throttled { key: name, retry_after: None }),
                _ => Fault::ShortAfter(at),
            }
        })
    }

    fn choose(&self, key: &Key, want: Option<&Want>) -> Fault {
        let mut choice = self.choice.lock().unwrap_or_else(PoisonError::into_inner);
        let n = choice.0;
        choice.0 += 1;
        (choice.1)(n, key, want)
    }
}

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014).
fn splitmix64(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

type Body = BoxStream<'static, Result<Bytes, StorageError>>;

/// Splits a body after exactly `bytes` bytes; the function returns the second part.
fn split(body: Body, bytes: u64) -> (Body, impl FnOnce() -> Body) {
    let left: Arc<Mutex<(u64, Option<Bytes>, Body)>> = Arc::new(Mutex::new((bytes, None, body)));
    let rest = Arc::clone(&left);
    let first = stream::poll_fn(move |cx| {
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.0 == 0 {
            return std::task::Poll::Ready(None);
        }
        left.2.poll_next_unpin(cx).map(|frame| {
            Some(frame?.map(|mut frame| {
                let cut = usize::try_from(left.0).map_or(frame.len(), |n| n.min(frame.len()));
                let over = frame.split_off(cut);
                left.0 -= cut as u64;
                left.1 = (!over.is_empty()).then_some(over);
                frame
            }))
        })
    });
    let after = move || {
        let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
        let body = std::mem::replace(&mut rest.2, stream::empty().boxed());
        stream::iter(rest.1.take().map(Ok)).chain(body).boxed()
    };
    (first.boxed(), after)
}

impl Storage for Faulty {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let fault = self.choose(request.key, Some(&request.want));
            match &fault {
                Fault::Error(e) => return Err(e.clone()),
                Fault::Silence => return future::pending().await,
                Fault::Wait(gate) => gate.pass().await,
                _ => {}
            }
            let mut read = self.inner.read(request).await?;
            read.body = match fault {
                Fault::BreakAfter(at, e) => {
                    let (first, _) = split(read.body, at);
                    first.chain(stream::iter([Err(e)])).boxed()
                }
                Fault::StallAfter(at) => split(read.body, at).0.chain(stream::pending()).boxed(),
                Fault::ShortAfter(at) => split(read.body, at).0,
                Fault::WaitAfter(at, gate) => {
                    let (first, rest) = split(read.body, at);
                    let later = stream::once(async move {
                        gate.pass().await;
                        rest()
                    });
                    first.chain(later.flatten()).boxed()
                }
                Fault::None | Fault::Error(_) | Fault::Wait(_) | Fault::Silence => read.body,
            };
            Ok(read)
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        async move {
            match self.choose(request.folder, None) {
                Fault::Error(e) => return Err(e),
                Fault::Silence => return future::pending().await,
                Fault::Wait(gate) => gate.pass().await,
                _ => {}
            }
            self.inner.list(request).await
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
