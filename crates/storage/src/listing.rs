//! Listings of folders, a page at a time.

use crate::{Key, Storage, StorageError};
use std::collections::BTreeMap;

/// Most names in a page of S3. Readers that set no limit get as many from every storage.
pub(crate) const PAGE: usize = 1000;
/// Most pages of one listing. A service may send pages with few names or none.
const MAX_PAGES: usize = 1000;

/// A request for a page of the direct contents of a folder.
#[derive(Debug, Clone, Copy)]
pub struct ListRequest<'a> {
    /// The folder. The empty key is the root.
    pub folder: &'a Key,
    /// The page before, whose [`Listing::next`] this is. `None` for the first page.
    pub after: Option<&'a PageToken>,
    /// Most names of the page, at least 1. A bucket sends at most 1000.
    pub limit: usize,
}

impl<'a> ListRequest<'a> {
    /// Requests the first page.
    pub fn new(folder: &'a Key) -> Self {
        Self { folder, after: None, limit: PAGE }
    }

    /// Requests the page after another one.
    #[must_use]
    pub fn after(self, after: Option<&'a PageToken>) -> Self {
        Self { after, ..self }
    }

    /// Limits the number of names.
    #[must_use]
    pub fn limited(self, limit: usize) -> Self {
        Self { limit: limit.max(1), ..self }
    }
}

/// The place where the next page of a listing begins. Only the storage that made it understands it.
/// It may hold parts of the storage's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageToken(Box<str>);

impl PageToken {
    /// Creates the token that has this text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A page of the contents of a folder, one level deep, each list sorted by name in byte order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Names of the objects directly in it, with their sizes in bytes.
    pub objects: Vec<(String, u64)>,
    /// Names of the folders directly in it.
    pub folders: Vec<String>,
    /// Token of the next page. `None` if this page is the last. Pages before the last may have few
    /// names or none.
    pub next: Option<PageToken>,
}

impl Listing {
    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.objects.len() + self.folders.len()
    }

    /// Returns true if the page has no names.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.folders.is_empty()
    }

    /// Returns this page as the response to a request.
    ///
    /// # Errors
    /// [`StorageError::NotFound`] if it shows that the folder is empty or missing.
    pub(crate) fn or_not_found(self, request: ListRequest<'_>) -> Result<Self, StorageError> {
        if self.is_empty() && self.next.is_none() && request.after.is_none() {
            return Err(StorageError::NotFound(request.folder.to_string()));
        }
        Ok(self)
    }

    /// Cuts the page that a request asks for out of a complete listing. The token is the last name
    /// of the page before.
    pub(crate) fn cut(self, request: ListRequest<'_>) -> Result<Self, StorageError> {
        let objects = self.objects.into_iter().map(|(name, size)| ((name, false), Some(size)));
        let folders = self.folders.into_iter().map(|name| ((name, true), None));
        let mut all: BTreeMap<(String, bool), Option<u64>> = objects.chain(folders).collect();
        if let Some(after) = request.after {
            all.retain(|(name, _), _| name.as_str() > after.as_str());
        }
        let mut page = Self::default();
        let mut last = None;
        while let Some(((name, is_folder), size)) = all.pop_first() {
            // An object and a folder may have one name, which no two pages share.
            if page.len() >= request.limit && last.as_ref() != Some(&name) {
                page.next = last.map(PageToken::new);
                break;
            }
            last = Some(name.clone());
            if is_folder {
                page.folders.push(name);
            } else {
                page.objects.push((name, size.unwrap_or(0)));
            }
        }
        page.or_not_found(request)
    }
}

/// Lists all of a folder, page by page.
///
/// # Errors
/// [`StorageError::FolderTooLarge`] as soon as more than `most` names are listed, and the errors of
/// [`Storage::list`].
pub async fn list_all(storage: &dyn Storage, folder: &Key, most: usize) -> Result<Listing, StorageError> {
    let mut all = Listing::default();
    for _ in 0..MAX_PAGES {
        let after = all.next.take();
        let left = most.saturating_sub(all.len()).saturating_add(1);
        let request = ListRequest::new(folder).limited(left).after(after.as_ref());
        let page = storage.list(request).await?;
        all.objects.extend(page.objects);
        all.folders.extend(page.folders);
        if all.len() > most {
            break;
        }
        all.next = page.next;
        if all.next.is_none() {
            all.objects.sort();
            all.folders.sort();
            return all.or_not_found(ListRequest::new(folder));
        }
    }
    Err(StorageError::FolderTooLarge { key: folder.to_string(), limit: most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_listing_have_each_name_once() {
        let objects: Vec<_> = ["a", "b", "c", "e"].map(|name| (name.to_owned(), 7)).to_vec();
        let folders = vec!["b".to_owned(), "d".to_owned()];
        let all = Listing { objects, folders, next: None };
        let root = Key::root();
        for limit in 1..8 {
            let mut joined = Listing::default();
            loop {
                let after = joined.next.take();
                let request = ListRequest::new(&root).limited(limit).after(after.as_ref());
                let page = all.clone().cut(request).unwrap();
                // One more if an object and a folder at the end have one name.
                assert!((1..=limit + 1).contains(&page.len()), "{limit}: {page:?}");
                joined.objects.extend(page.objects);
                joined.folders.extend(page.folders);
                joined.next = page.next;
                if joined.next.is_none() {
                    break;
                }
            }
            assert_eq!(joined, all, "{limit}");
        }
    }
}
