//! `/api/library`: the folders and titles of a storage, one folder and one page at a time.

mod contents;
mod page_token;

use crate::{
    Error,
    config::OriginConfig,
    title::memory_cache::MemoryCache,
    title::refused::{Refused, weight},
    title::single_flight::SingleFlight,
};
use bytes::Bytes;
use contents::{Contents, LISTING_NAMES, MAX_LISTINGS, Shown};
use futures_util::FutureExt;
use latemux_packager::AddressError;
use latemux_storage::{Key, ListRequest, Listing, PageToken, Storage, StorageError};
use page_token::TokenSeal;
use percent_encoding::percent_decode_str;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::Instant, time::timeout};

/// Most memory of the pages that are remembered, in bytes.
const CAPACITY: u64 = 16 << 20;
/// Most listings for the library at one time.
const CONCURRENT_LISTINGS: usize = 8;
/// Longest time that a request waits for its turn to list.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// A page of a folder, as a URL names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PageRequest {
    folder: Key,
    after: Option<PageToken>,
}

impl PageRequest {
    fn len(&self) -> usize {
        self.folder.as_str().len() + self.after.as_ref().map_or(0, |after| after.as_str().len())
    }
}

/// The pages of the library, each kept for some time.
#[derive(Debug)]
pub(crate) struct Library {
    storage: Arc<dyn Storage>,
    seal: TokenSeal,
    /// Pages as JSON, and the times at which they were made.
    pages: MemoryCache<PageRequest, (Instant, Bytes)>,
    refused: Refused<PageRequest>,
    /// Each page is listed once, whatever the number of requests for it.
    flights: SingleFlight<PageRequest, Result<Bytes, Error>>,
    turns: Semaphore,
    kept_for: Duration,
    shown: Shown,
}

impl Library {
    pub(crate) fn new(storage: Arc<dyn Storage>, config: &OriginConfig) -> Self {
        let kept_for = config.recheck_after;
        Self {
            seal: TokenSeal::new(&storage.describe()),
            storage,
            pages: MemoryCache::new(CAPACITY, |page, (_, json)| page.len() + json.len()),
            refused: Refused::new(kept_for, |page, (_, error)| page.len() + weight(error)),
            flights: SingleFlight::new(),
            turns: Semaphore::new(CONCURRENT_LISTINGS),
            kept_for,
            shown: Shown { folders: config.library.folders, max_files: config.max_objects },
        }
    }

    /// Parses the query of a request, `folder=a/b&after=TOKEN`. Other parameters are ignored.
    ///
    /// # Errors
    /// [`Error::Query`] for a folder that is not a valid name, and for a token that this program
    /// has not made for the folder.
    pub(crate) fn parse(&self, query: Option<&str>) -> Result<PageRequest, Error> {
        let malformed = |parameter, problem: &str| {
            Error::Query(AddressError::Malformed { parameter, problem: problem.to_owned() })
        };
        let parameters = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let find = |wanted: &str| {
            let mut found = parameters.clone().filter(|(name, _)| *name == wanted);
            found.next().map(|(_, value)| value.replace('+', " "))
        };
        let folder = find("folder").unwrap_or_default();
        let folder = percent_decode_str(&folder).decode_utf8().ok();
        let folder = folder.and_then(|folder| Key::new(&folder));
        let folder = folder.ok_or_else(|| malformed("folder", "not the name of a folder"))?;
        let after = match find("after") {
            None => None,
            Some(text) => {
                let token = self.seal.open(&folder, &text);
                Some(token.ok_or_else(|| malformed("after", "not a token of this folder"))?)
            }
        };
        Ok(PageRequest { folder, after })
    }

    /// Returns a page as JSON.
    pub(crate) async fn page(self: &Arc<Self>, wanted: PageRequest) -> Result<Bytes, Error> {
        if let Some((_, json)) = self.pages.get(&wanted).filter(|(made, _)| made.elapsed() < self.kept_for) {
            return Ok(json);
        }
        self.refused.check(&wanted)?;
        let this = self.clone();
        let page = wanted.clone();
        let make = move || {
            async move {
                let made = this.make(&page).await;
                match &made {
                    Ok(json) => this.pages.insert(page, (Instant::now(), json.clone())),
                    Err(error) => this.refused.remember(page, error),
                }
                made
            }
            .boxed()
        };
        self.flights.run(wanted, make).await
    }

    async fn make(&self, page: &PageRequest) -> Result<Bytes, Error> {
        let folder = page.folder.to_string();
        let busy = || StorageError::Busy { key: folder.clone(), after: QUEUE_TIMEOUT };
        let turn = timeout(QUEUE_TIMEOUT, self.turns.acquire()).await;
        let _turn = turn.ok().and_then(Result::ok).ok_or_else(busy)?;
        let contents = match self.list(page).await {
            Ok(listing) => {
                let next = listing.next.as_ref().map(|token| self.seal.seal(&page.folder, token));
                let is_whole = page.after.is_none() && next.is_none();
                Contents::of(&page.folder, &listing, is_whole, self.shown).followed_by(next)
            }
            Err(StorageError::CannotList(_)) => Contents::unlisted(&page.folder),
            // The storage is empty.
            Err(StorageError::NotFound(_)) if folder.is_empty() => Contents::empty(),
            Err(error) => return Err(error.into()),
        };
        let json = serde_json::to_vec(&contents);
        json.map(Bytes::from).map_err(|_| Error::Internal("the library cannot be written as JSON"))
    }

    /// Lists a page, and the next ones for as long as there is nothing to show.
    async fn list(&self, page: &PageRequest) -> Result<Listing, StorageError> {
        let mut after = page.after.clone();
        let mut listings = 1;
        loop {
            let request = ListRequest::new(&page.folder).limited(LISTING_NAMES).after(after.as_ref());
            let listing = self.storage.list(request).await?;
            if listing.next.is_none() || listings >= MAX_LISTINGS || contents::has_entries(&listing) {
                return Ok(listing);
            }
            after = listing.next;
            listings += 1;
        }
    }
}
