//! `/api/library`: the titles there are, as far as a bounded look finds them.

use crate::{
    Error,
    route::entry_points,
    title::resolve::{indexed_stem, is_manifest, media_files},
};
use futures_util::{StreamExt, stream};
use latemux_storage::{Key, Listing, Storage, StorageError};
use serde::Serialize;

/// What is served.
#[derive(Debug, Serialize)]
pub(crate) struct Library {
    /// Where the titles are.
    storage: String,
    /// Whether storage can say what it holds; where not, titles play all the same.
    listable: bool,
    /// There is more than the limits here let us look at.
    truncated: bool,
    titles: Vec<Entry>,
}

/// A title.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Entry {
    /// Base, decoded.
    base: String,
    /// For people: the last part of the base, without extension.
    name: String,
    /// `file`, `folder` or `manifest`.
    kind: &'static str,
    /// Number of media files.
    files: usize,
    /// DASH manifest.
    dash: String,
    /// HLS multivariant playlist.
    hls: String,
    /// The same with CMAF segments.
    hls_cmaf: String,
    /// Smooth Streaming client manifest.
    smooth: String,
    /// HDS manifest.
    hds: String,
}

/// Levels of folders looked into.
const DEPTH: usize = 3;
/// Folders looked into.
const MAX_FOLDERS: usize = 256;
/// Titles named.
const MAX_TITLES: usize = 1000;
/// Folders listed at one time.
const AT_ONCE: usize = 8;

/// Names of the server manifests in a folder.
fn manifests(listing: &Listing) -> impl Iterator<Item = &str> {
    listing.objects.iter().map(|(name, _)| name.as_str()).filter(|name| is_manifest(name))
}

/// Looks for titles: each server manifest, each media file at the root, each folder below that holds media directly and no server
/// manifest.
///
/// # Errors
/// What listing the root says.
pub(crate) async fn look(storage: &dyn Storage) -> Result<Library, Error> {
    let mut library =
        Library { storage: storage.describe(), listable: true, truncated: false, titles: Vec::new() };
    let root = match storage.list(&Key::root()).await {
        Ok(listing) => listing,
        Err(StorageError::CannotList(_)) => {
            library.listable = false;
            return Ok(library);
        }
        // Nothing there yet.
        Err(StorageError::NotFound(_)) => return Ok(library),
        Err(error) => return Err(error.into()),
    };
    library.titles.extend(manifests(&root).map(|name| entry(name, "manifest", 1)));
    library.titles.extend(media_files(&root).map(|(name, _)| entry(name, "file", 1)));
    let mut level = children(&Key::root(), &root);
    let mut looked = 0;
    for _ in 0..DEPTH {
        let room = MAX_FOLDERS.saturating_sub(looked);
        library.truncated |= level.len() > room;
        level.truncate(room);
        looked += level.len();
        let listings: Vec<_> = stream::iter(level)
            .map(|folder| async move {
                let listing = storage.list(&folder).await;
                (folder, listing)
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        level = Vec::new();
        for (folder, listing) in listings {
            // A folder that cannot be read now is not in the list; the others are.
            let Ok(listing) = listing else { continue };
            let named = library.titles.len();
            let bases = manifests(&listing).filter_map(|name| folder.join(name));
            library.titles.extend(bases.map(|base| entry(base.as_str(), "manifest", 1)));
            match media_files(&listing).count() {
                // What plays is what the manifests say.
                _ if library.titles.len() > named => {}
                0 => level.extend(children(&folder, &listing)),
                files => library.titles.push(entry(folder.as_str(), "folder", files)),
            }
        }
    }
    library.truncated |= !level.is_empty() || library.titles.len() > MAX_TITLES;
    library.titles.truncate(MAX_TITLES);
    Ok(library)
}

fn children(folder: &Key, listing: &Listing) -> Vec<Key> {
    let seen = listing.folders.iter().filter(|name| !name.starts_with('.'));
    seen.filter_map(|name| folder.join(name)).collect()
}

fn entry(base: &str, kind: &'static str, files: usize) -> Entry {
    let [dash, hls, hls_cmaf, smooth, hds] = entry_points(base);
    let last = base.rsplit('/').next().unwrap_or(base);
    let name = match last.rsplit_once('.') {
        Some((stem, _)) if kind != "folder" => indexed_stem(last).unwrap_or(stem),
        _ => last,
    };
    Entry { base: base.to_owned(), name: name.to_owned(), kind, files, dash, hls, hls_cmaf, smooth, hds }
}
