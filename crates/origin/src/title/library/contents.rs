//! The contents of a folder as the library shows them. No file is read for it, so names decide.

use crate::{
    config::FolderTitles,
    title::renditions::are_named_as_renditions,
    title::resolve::{indexed_stem, is_manifest, is_media, media_files},
};
use latemux_packager::{
    Address, Resource,
    address::{DashTemplate, HlsContainer},
};
use latemux_storage::{Key, Listing};
use serde::Serialize;

/// Most names that one listing asks for.
pub(super) const LISTING_NAMES: usize = 500;
/// Most listings for one page, of which only the last has anything to show.
pub(super) const MAX_LISTINGS: usize = 4;

/// A page of a folder.
#[derive(Debug, Serialize)]
pub(super) struct Contents {
    folder: String,
    /// True if the storage can be listed. If not, its titles can be played, but not found.
    listable: bool,
    folders: Vec<Folder>,
    titles: Vec<LibraryTitle>,
    /// Token of the next page. A page without entries may have one too.
    next: Option<String>,
}

/// A folder to look into.
#[derive(Debug, Serialize)]
struct Folder {
    folder: String,
    name: String,
}

/// A title of the library.
#[derive(Debug, Serialize)]
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

/// Settings of what is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    pub(super) folders: FolderTitles,
    /// Most files of one title.
    pub(super) max_files: usize,
}

/// Returns true if there is anything to show of a listing.
pub(super) fn has_entries(listing: &Listing) -> bool {
    visible(listing).next().is_some()
        || listing.objects.iter().any(|(name, _)| is_media(name) || is_manifest(name))
}

fn visible(listing: &Listing) -> impl Iterator<Item = &String> {
    listing.folders.iter().filter(|name| !name.starts_with('.'))
}

impl Contents {
    /// Returns an empty page of the root.
    pub(super) fn empty() -> Self {
        Self { folder: String::new(), listable: true, folders: Vec::new(), titles: Vec::new(), next: None }
    }

    /// Returns the page of a storage that cannot be listed.
    pub(super) fn unlisted(folder: &Key) -> Self {
        Self { folder: folder.to_string(), listable: false, ..Self::empty() }
    }

    /// Returns what a listing shows. `is_whole` states that it is all of the folder.
    pub(super) fn of(folder: &Key, listing: &Listing, is_whole: bool, shown: Shown) -> Self {
        let folders = visible(listing)
            .filter_map(|name| Some(Folder { folder: folder.join(name)?.to_string(), name: name.clone() }));
        let title = |name: &str, kind| Some(LibraryTitle::new(folder.join(name)?.as_str(), kind, 1));
        let names = listing.objects.iter().map(|(name, _)| name.as_str());
        let manifests: Vec<&str> = names.filter(|name| is_manifest(name)).collect();
        let mut files: Vec<&str> = media_files(listing).map(|(name, _)| name).collect();
        // A server manifest says which files are a title.
        files.retain(|file| !manifests.iter().any(|manifest| is_file_of(manifest, file)));
        let mut titles: Vec<_> = manifests.iter().filter_map(|name| title(name, "manifest")).collect();
        let is_one = is_whole && !folder.as_str().is_empty() && shown.is_one_title(&files);
        match (is_one, manifests.is_empty()) {
            (true, true) => titles.push(LibraryTitle::new(folder.as_str(), "folder", files.len())),
            // The files of the server manifests, under names of their own.
            (true, false) => {}
            (false, _) => titles.extend(files.iter().filter_map(|name| title(name, "file"))),
        }
        Self { folder: folder.to_string(), folders: folders.collect(), titles, ..Self::empty() }
    }

    /// Adds the token of the next page.
    pub(super) fn followed_by(self, next: Option<String>) -> Self {
        Self { next, ..self }
    }
}

impl Shown {
    /// Returns true if the media files of a folder, with these names, are shown as one title.
    fn is_one_title(self, files: &[&str]) -> bool {
        match self.folders {
            _ if files.is_empty() || files.len() > self.max_files => false,
            FolderTitles::Always => true,
            FolderTitles::Never => false,
            FolderTitles::ByName => are_named_as_renditions(files),
        }
    }
}

/// Returns true if the name of a media file is that of a server manifest, or begins with it:
/// `film.mp4` and `film-720p.mp4` for `film.ism`.
fn is_file_of(manifest: &str, file: &str) -> bool {
    let stem = manifest.rsplit_once('.').map_or(manifest, |(stem, _)| stem);
    file.strip_prefix(stem).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

impl LibraryTitle {
    fn new(base: &str, kind: &'static str, files: usize) -> Self {
        let url = |resource| Address::new(base, resource).to_url();
        let last = base.rsplit('/').next().unwrap_or(base);
        let name = match last.rsplit_once('.') {
            Some((stem, _)) if kind != "folder" => indexed_stem(last).unwrap_or(stem),
            _ => last,
        };
        Self {
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
}
