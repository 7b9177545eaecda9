//! `/api/library`: the titles that a limited search of the storage finds.

use crate::{
    Error,
    title::resolve::{indexed_stem, is_manifest, media_files},
};
use futures_util::{StreamExt, stream};
use latemux_packager::{
    Address, Resource,
    address::{DashTemplate, HlsContainer},
};
use latemux_storage::{Key, Listing, Storage, StorageError};
use serde::Serialize;

/// Titles of a storage.
#[derive(Debug, Serialize)]
pub(crate) struct Library {
    /// True if the storage can be listed. If not, its titles can be played, but not found.
    listable: bool,
    /// True if a limit ended the search early.
    truncated: bool,
    titles: Vec<LibraryTitle>,
}

/// A title of the library.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct LibraryTitle {
    /// Base, decoded.
    base: String,
    /// Name for display: the last component of the base, without extension.
    name: String,
    /// `file`, `folder` or `manifest`.
    kind: &'static str,
    files: usize,
    // URLs of the manifests. For HLS, that of the multivariant playlist.
    dash: String,
    hls: String,
    hls_cmaf: String,
    smooth: String,
    hds: String,
}

/// Most levels of folders below the root that are listed.
const MAX_DEPTH: usize = 3;
/// Most folders that are listed.
const MAX_FOLDERS: usize = 256;
/// Most titles of the library.
const MAX_TITLES: usize = 1000;
/// Most folders listed at one time.
const CONCURRENT_LISTINGS: usize = 8;

/// Returns the names of the server manifests in a folder.
fn manifests(listing: &Listing) -> impl Iterator<Item = &str> {
    listing.objects.iter().map(|(name, _)| name.as_str()).filter(|name| is_manifest(name))
}

/// Finds the titles of a storage: each server manifest, each media file at the root, and each
/// folder below the root that holds media files and no server manifest.
pub(crate) async fn find_titles(storage: &dyn Storage) -> Result<Library, Error> {
    let mut library = Library { listable: true, truncated: false, titles: Vec::new() };
    let root = match storage.list(&Key::root()).await {
        Ok(listing) => listing,
        Err(StorageError::CannotList(_)) => {
            library.listable = false;
            return Ok(library);
        }
        // The storage is empty.
        Err(StorageError::NotFound(_)) => return Ok(library),
        Err(error) => return Err(error.into()),
    };
    library.titles.extend(manifests(&root).map(|name| entry(name, "manifest", 1)));
    library.titles.extend(media_files(&root).map(|(name, _)| entry(name, "file", 1)));
    let mut level = children(&Key::root(), &root);
    let mut listed = 0;
    for _ in 0..MAX_DEPTH {
        let room = MAX_FOLDERS - listed;
        library.truncated |= level.len() > room;
        level.truncate(room);
        listed += level.len();
        let listings: Vec<_> = stream::iter(level)
            .map(|folder| async move {
                let listing = storage.list(&folder).await;
                (folder, listing)
            })
            .buffered(CONCURRENT_LISTINGS)
            .collect()
            .await;
        level = Vec::new();
        for (folder, listing) in listings {
            // A folder that cannot be listed is left out.
            let Ok(listing) = listing else { continue };
            let before = library.titles.len();
            let bases = manifests(&listing).filter_map(|name| folder.join(name));
            library.titles.extend(bases.map(|base| entry(base.as_str(), "manifest", 1)));
            match media_files(&listing).count() {
                // A folder with server manifests is not a title itself.
                _ if library.titles.len() > before => {}
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
    let visible = listing.folders.iter().filter(|name| !name.starts_with('.'));
    visible.filter_map(|name| folder.join(name)).collect()
}

fn entry(base: &str, kind: &'static str, files: usize) -> LibraryTitle {
    let url = |resource| Address::new(base, resource).to_url();
    let last = base.rsplit('/').next().unwrap_or(base);
    let name = match last.rsplit_once('.') {
        Some((stem, _)) if kind != "folder" => indexed_stem(last).unwrap_or(stem),
        _ => last,
    };
    LibraryTitle {
        base: base.to_owned(),
        name: name.to_owned(),
        kind,
        files,
        dash: url(Resource::DashManifest(DashTemplate::Time)),
        hls: url(Resource::HlsMultivariant(HlsContainer::Auto)),
        hls_cmaf: url(Resource::HlsMultivariant(HlsContainer::Cmaf)),
        smooth: url(Resource::SmoothManifest),
        hds: url(Resource::HdsManifest),
    }
}
