//! A storage with mirrors to fall back on.
//!
//! A mirror holds the same objects. It answers only if the storage before it fails, and a read of a
//! known version only with an object of that version: the same strong ETag and size, or, without
//! ETags, the same size and modification time. Nothing less proves that all bytes are equal.

mod breaker;

use crate::counters::{Counters, increment};
use crate::{Key, ListRequest, Listing, PageToken, Read, ReadRequest, Storage, StorageClient, StorageError};
use crate::{Version, Want, check};
use breaker::{Breaker, Change};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use futures_util::{FutureExt, future::BoxFuture};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// A storage with mirrors to fall back on.
#[derive(Debug)]
pub struct Mirrored {
    group: Arc<Group>,
}

#[derive(Debug)]
struct Group {
    /// The storage itself, then its mirrors.
    members: Vec<Arc<Member>>,
}

/// A storage and its failures.
#[derive(Debug)]
struct Member {
    storage: Arc<dyn Storage>,
    counters: Arc<Counters>,
    breaker: Breaker,
}

impl Member {
    /// Notes whether a request to this storage failed.
    fn note<T>(&self, result: &Result<T, StorageError>) {
        let failed = result.as_ref().is_err_and(is_outage);
        let change = if failed { self.breaker.fail() } else { self.breaker.succeed() };
        let storage = self.storage.describe();
        match change {
            Some(Change::Opened) => {
                self.counters.suspended.store(1, Relaxed);
                tracing::warn!(reason = "storage_suspended", storage, "storage fails: it is asked last");
            }
            Some(Change::Closed) => {
                self.counters.suspended.store(0, Relaxed);
                tracing::info!(storage, "storage works again");
            }
            None => {}
        }
    }

    /// Asks this storage in the background whether it works again, if it is time to.
    fn probe(self: &Arc<Self>) {
        if self.breaker.take_probe() {
            let this = Arc::clone(self);
            tokio::spawn(async move { this.note(&check(&*this.storage).await) });
        }
    }
}

/// Returns true for failures for which a mirror is asked. The other errors are answers.
fn is_outage(error: &StorageError) -> bool {
    error.is_fault() || matches!(error, StorageError::Busy { .. } | StorageError::WrongCredentials { .. })
}

impl Group {
    /// Returns the members in the order in which they are asked: those that fail come last.
    fn order(&self) -> Vec<usize> {
        let is_open = |number: &usize| self.members.get(*number).is_some_and(|m| m.breaker.is_open());
        let (failing, mut order): (Vec<_>, Vec<_>) = (0..self.members.len()).partition(is_open);
        order.extend(failing);
        order
    }

    /// Asks the members in turn until one answers. Returns the answer and the member's number.
    async fn ask<'a, T>(
        &'a self,
        use_of_mirrors: UseOfMirrors,
        ask: impl Fn(&'a dyn Storage) -> BoxFuture<'a, Result<T, StorageError>>,
    ) -> Result<(T, usize), StorageError> {
        self.members.iter().for_each(Member::probe);
        let mut own_error = None;
        let mut mirror_error = None;
        for number in self.order() {
            let Some(member) = self.members.get(number) else { continue };
            let is_mirror = number > 0;
            let is_failing = || self.members.first().is_some_and(|own| own.breaker.is_open());
            match use_of_mirrors {
                UseOfMirrors::Never if is_mirror => continue,
                UseOfMirrors::WhileFailing if is_mirror && !is_failing() => continue,
                _ => {}
            }
            let answer = ask(&*member.storage).await;
            member.note(&answer);
            match answer {
                Ok(answer) => {
                    if is_mirror {
                        increment(&member.counters.fallbacks);
                    }
                    return Ok((answer, number));
                }
                // A mirror that lacks an object, or has another version, says nothing about it.
                Err(error) if is_mirror => mirror_error = Some(error),
                Err(error) if is_outage(&error) => own_error = Some(error),
                Err(error) => return Err(error),
            }
        }
        let none = || StorageError::Unavailable { key: String::new(), detail: "no storage".to_owned() };
        Err(own_error.or(mirror_error).unwrap_or_else(none))
    }

    /// Reads from a member other than the one that failed.
    async fn read_elsewhere(&self, failed: usize, request: ReadRequest<'_>) -> Option<(Read, usize)> {
        for number in self.order().into_iter().filter(|number| *number != failed) {
            let member = self.members.get(number)?;
            let answer = member.storage.read(request.clone()).await;
            member.note(&answer);
            if let Ok(read) = answer {
                if number > 0 {
                    increment(&member.counters.fallbacks);
                }
                return Some((read, number));
            }
        }
        None
    }
}

/// The conditions for asking mirrors.
#[derive(Debug, Clone, Copy)]
enum UseOfMirrors {
    /// The mirror's version is compared with a known one.
    Always,
    /// Nothing shows that a mirror has the current version. It is asked only while the storage
    /// itself counts as failing, so that a single failure does not change the version.
    WhileFailing,
    /// The known version cannot be compared.
    Never,
}

impl UseOfMirrors {
    fn of(version: Option<&Version>) -> Self {
        match version {
            None => Self::WhileFailing,
            Some(version) if version.is_reliable() => Self::Always,
            // Equal sizes prove nothing.
            Some(_) => Self::Never,
        }
    }
}

/// A body that continues from another member if the one it comes from fails.
struct Body {
    group: Arc<Group>,
    key: Key,
    version: Version,
    body: BoxStream<'static, Result<Bytes, StorageError>>,
    /// Positions in the object of the next byte, and of the byte after the last.
    at: u64,
    end: u64,
    /// Number of the member that the body comes from.
    number: usize,
    /// Members that may still be asked.
    left: usize,
}

impl Body {
    async fn next(mut self) -> Option<(Result<Bytes, StorageError>, Self)> {
        loop {
            let error = match self.body.next().await? {
                Ok(frame) => {
                    self.at += frame.len() as u64;
                    return Some((Ok(frame), self));
                }
                Err(error) => error,
            };
            if let Some(member) = self.group.members.get(self.number).filter(|_| is_outage(&error)) {
                member.note(&Err::<(), _>(error.clone()));
            }
            if !is_outage(&error) || self.at >= self.end || self.left == 0 || !self.version.is_reliable() {
                return Some((Err(error), self));
            }
            self.left -= 1;
            let group = Arc::clone(&self.group);
            let request = ReadRequest::new(&self.key, Want::Range(self.at..self.end)).pinned(&self.version);
            match group.read_elsewhere(self.number, request).await {
                Some((read, number)) => (self.body, self.number) = (read.body, number),
                None => return Some((Err(error), self)),
            }
        }
    }
}

impl Mirrored {
    /// Adds mirrors to a storage, in the order in which they are asked.
    pub fn new(storage: StorageClient, mirrors: impl IntoIterator<Item = StorageClient>) -> Self {
        let member = |storage: StorageClient| {
            let counters = Arc::clone(storage.counters());
            Arc::new(Member { storage: Arc::new(storage), counters, breaker: Breaker::new() })
        };
        let members = [storage].into_iter().chain(mirrors).map(member).collect();
        Self { group: Arc::new(Group { members }) }
    }

    async fn read_now(&self, request: ReadRequest<'_>) -> Result<Read, StorageError> {
        let key = request.key;
        let use_of_mirrors = UseOfMirrors::of(request.version);
        let (mut read, number) =
            self.group.ask(use_of_mirrors, |storage| storage.read(request.clone())).await?;
        let body = Body {
            group: Arc::clone(&self.group),
            key: key.clone(),
            version: read.object.version.clone(),
            body: read.body,
            at: read.range.start,
            end: read.range.end,
            number,
            left: self.group.members.len(),
        };
        read.body = stream::unfold(body, Body::next).boxed();
        Ok(read)
    }

    /// Lists a page. A later page comes from the member that the page before came from, because no
    /// other one understands its token.
    async fn list_now(&self, request: ListRequest<'_>) -> Result<Listing, StorageError> {
        let (mut page, number) = match request.after {
            None => self.group.ask(UseOfMirrors::WhileFailing, |storage| storage.list(request)).await?,
            Some(token) => {
                let unknown = || StorageError::NotFound(request.folder.to_string());
                let (number, token) = token.as_str().split_once(':').ok_or_else(unknown)?;
                let number: usize = number.parse().map_err(|_| unknown())?;
                let member = self.group.members.get(number).ok_or_else(unknown)?;
                let token = PageToken::new(token);
                let listed = member.storage.list(request.after(Some(&token))).await;
                member.note(&listed);
                (listed?, number)
            }
        };
        page.next = page.next.map(|token| PageToken::new(format!("{number}:{}", token.as_str())));
        Ok(page)
    }
}

impl Storage for Mirrored {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        self.read_now(request).boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.list_now(request).boxed()
    }

    /// Returns the location of the storage itself, whose name the cache uses too.
    fn describe(&self) -> String {
        self.group.members.first().map(|own| own.storage.describe()).unwrap_or_default()
    }
}
