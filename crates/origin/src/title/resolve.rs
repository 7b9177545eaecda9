//! Finds the files that a base names.

use crate::Error;
use futures_util::StreamExt;
use latemux_index::title::TitleProblem;
use latemux_packager::manifest::server::{MAX_BYTES, ManifestError, ServerManifest, parse};
use latemux_storage::{Key, ListRequest, Listing, ReadRequest, Storage, StorageError};
use latemux_text::{FileName, TextFormat};
use std::collections::BTreeSet;

/// Extensions of media files.
const MEDIA: [&str; 14] =
    ["mp4", "m4v", "m4a", "mov", "3gp", "3g2", "f4v", "cmfv", "cmfa", "cmft", "ismv", "isma", "ismt", "mp4a"];

/// Most names of a folder that are listed to find its media files.
const MAX_NAMES: usize = 10_000;
/// Most pages of such a listing. A bucket may send pages with few names or none.
const MAX_PAGES: usize = 20;

/// The end of a comma list.
const LIST: &str = ".urlset";

/// Files that make a title.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Resolved {
    /// All tracks of these files, in order: the media file itself, or the files of a comma list.
    Files(Vec<Key>),
    /// The media files of a folder by name. Each comes with its size in bytes if the listing gave
    /// it.
    Folder(Vec<(Key, Option<u64>)>),
    /// All tracks of a media file, and the files of text beside it, as in [`Self::Folder`].
    Beside {
        file: Key,
        texts: Vec<(Key, Option<u64>)>,
        /// The reason why the folder could not be searched.
        problem: Option<TitleProblem>,
    },
    /// The tracks that a server manifest names.
    Manifest { key: Key, manifest: ServerManifest },
}

impl Resolved {
    /// Returns the bytes of memory this value alone holds.
    pub(crate) fn heap_bytes(&self) -> usize {
        let listed = |files: &[(Key, Option<u64>)]| -> usize {
            files.iter().map(|file| size_of_val(file) + file.0.as_str().len()).sum()
        };
        match self {
            Self::Files(files) => files.iter().map(|key| size_of_val(key) + key.as_str().len()).sum(),
            Self::Folder(files) => listed(files),
            Self::Beside { file, texts, .. } => file.as_str().len() + listed(texts),
            Self::Manifest { key, manifest } => {
                let elements = manifest.elements.iter().map(|element| {
                    let texts = [&element.tiles, &element.label, &element.name];
                    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
                    let captions = element.captions.as_ref().map_or(0, |captions| size_of_val(&**captions));
                    size_of_val(element) + element.src.len() + texts + captions
                });
                key.as_str().len() + elements.sum::<usize>()
            }
        }
    }
}

/// Limits of a base.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResolveLimits {
    /// Most files of one title.
    pub(crate) max_files: usize,
    /// True if a base that is not a folder may be a media file with any extension.
    pub(crate) any_extension: bool,
    /// True if files of text beside a media file are part of its title.
    pub(crate) text_beside: bool,
}

/// Finds the files of a base.
pub(crate) async fn resolve(
    storage: &dyn Storage,
    base: &str,
    limits: ResolveLimits,
) -> Result<Resolved, Error> {
    let limit = limits.max_files;
    let check = |count| match count {
        0 => Err(Error::NoMedia(base.to_owned())),
        count if count > limit => Err(Error::TooManyObjects { count, limit }),
        _ => Ok(()),
    };
    if let Some(list) = base.strip_suffix(LIST) {
        return Ok(Resolved::Files(comma_list(list, limit)?));
    }
    let key = Key::new(base).ok_or(Error::BadPath)?;
    if limits.text_beside && is_media(base) {
        let (texts, problem) = match texts_beside(storage, &key).await {
            Ok(texts) => (texts, None),
            // A folder that cannot be listed is no reason to refuse its films.
            Err(error) if is_unlistable(&error) => {
                let detail = format!("text beside the file is not looked for: {error}");
                (Vec::new(), Some(TitleProblem { object: None, reason: error.reason(), detail }))
            }
            Err(error) => return Err(error),
        };
        check(texts.len() + 1)?;
        return Ok(Resolved::Beside { file: key, texts, problem });
    }
    if is_media(base) || is_text(base) {
        return Ok(Resolved::Files(vec![key]));
    }
    if is_manifest(base) {
        let manifest = read_manifest(storage, &key).await?;
        return Ok(Resolved::Manifest { key, manifest });
    }
    let listing = match list_media(storage, &key, limit).await {
        Ok(listing) => listing,
        Err(Error::Storage(error)) => return not_a_folder(key, error, limits.any_extension),
        Err(error) => return Err(error),
    };
    // A size of 0 means that an HTML listing did not give the size.
    let listed = |(name, size): (&str, u64)| Some((key.join(name)?, Some(size).filter(|&size| size > 0)));
    let mut files: Vec<_> = media_files(&listing).filter_map(listed).collect();
    check(files.len())?;
    let objects = listing.objects.iter().map(|(name, size)| (name.as_str(), *size));
    files.extend(objects.filter(|(name, _)| is_text(name)).filter_map(listed));
    check(files.len())?;
    Ok(Resolved::Folder(files))
}

/// Lists a folder until it is known whether it has more than `limit` media files. A folder may hold
/// any number of other files, so no more than [`MAX_NAMES`] names are listed.
async fn list_media(storage: &dyn Storage, folder: &Key, limit: usize) -> Result<Listing, Error> {
    let mut all = Listing::default();
    let mut names = 0;
    for page in 0..MAX_PAGES {
        let after = all.next.take();
        let mut request = ListRequest::new(folder).after(after.as_ref());
        // The first page tells most folders apart. A storage that can send the rest at once does.
        if page > 0 {
            request = request.limited(MAX_NAMES - names);
        }
        let found = storage.list(request).await?;
        names += found.len();
        all.objects.extend(found.objects.into_iter().filter(|(name, _)| is_media(name) || is_text(name)));
        // Of all files with one stem, an index MP4 or at least one other is part of the title,
        // whatever the pages that follow hold.
        let media = all.objects.iter().filter(|(name, _)| is_media(name));
        let stems: BTreeSet<&str> = media.map(|(name, _)| media_stem(name)).collect();
        if stems.len() > limit {
            return Err(Error::TooManyObjects { count: stems.len(), limit });
        }
        if found.next.is_none() {
            all.objects.sort();
            return Ok(all);
        }
        if names >= MAX_NAMES {
            break;
        }
        all.next = found.next;
    }
    Err(StorageError::FolderTooLarge { key: folder.to_string(), limit: names }.into())
}

/// Returns true for the error of a folder that is too large, or must not be listed.
fn is_unlistable(error: &Error) -> bool {
    use StorageError::{CannotList, Denied, FolderTooLarge};
    matches!(error, Error::Storage(CannotList(_) | Denied(_) | FolderTooLarge { .. }))
}

/// Returns the files of text that belong to a media file by their names, sorted, each with its size
/// in bytes if the listing gave it. Fails if the folder cannot be listed, or has more than
/// [`MAX_NAMES`] names.
async fn texts_beside(storage: &dyn Storage, media: &Key) -> Result<Vec<(Key, Option<u64>)>, Error> {
    let (folder, name) = media.split();
    let stem = media_stem(name);
    let mut texts = Vec::new();
    let mut names = 0;
    let mut after = None;
    for _ in 0..MAX_PAGES {
        let request = ListRequest::new(&folder).after(after.as_ref()).limited(MAX_NAMES - names);
        let found = storage.list(request).await?;
        names += found.len();
        let objects = found.objects.iter();
        let beside = objects.filter(|(name, _)| is_text(name) && FileName::is_beside(name, stem));
        texts.extend(
            beside
                .filter_map(|(name, size)| Some((folder.join(name)?, Some(*size).filter(|&size| size > 0)))),
        );
        after = found.next;
        if after.is_none() {
            texts.sort();
            return Ok(texts);
        }
        if names >= MAX_NAMES {
            break;
        }
    }
    Err(StorageError::FolderTooLarge { key: folder.to_string(), limit: names }.into())
}

/// Returns the name of a media file without its extension, or without `.index.mp4`.
fn media_stem(name: &str) -> &str {
    let stem = || name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    indexed_stem(name).unwrap_or_else(stem)
}

/// Returns what a base names that cannot be listed.
fn not_a_folder(key: Key, error: StorageError, any_extension: bool) -> Result<Resolved, Error> {
    let is_missing = matches!(error, StorageError::NotFound(_) | StorageError::CannotList(_));
    if any_extension && !key.as_str().is_empty() && (is_missing || matches!(error, StorageError::Denied(_))) {
        return Ok(Resolved::Files(vec![key]));
    }
    // The answer is the same whether such a file exists or not: it must not tell what else the
    // storage holds.
    let name = key.split().1;
    match name.rsplit_once('.') {
        Some((stem, extension)) if is_missing && !stem.is_empty() && !extension.is_empty() => {
            let extension = extension.to_owned();
            Err(Error::UnknownExtension { base: key.to_string(), extension, media: &MEDIA })
        }
        _ => Err(error.into()),
    }
}

/// Reads a server manifest, but no more than [`MAX_BYTES`] of it.
async fn read_manifest(storage: &dyn Storage, key: &Key) -> Result<ServerManifest, Error> {
    let refuse = |error| Error::Manifest { key: key.to_string(), error };
    let limit = MAX_BYTES as u64;
    let mut read = storage.read(ReadRequest::head(key, limit)).await?;
    if read.object.size > limit {
        return Err(refuse(ManifestError::TooLarge { what: "bytes of a server manifest", limit: MAX_BYTES }));
    }
    let mut bytes = Vec::new();
    while let Some(frame) = read.body.next().await {
        bytes.extend_from_slice(&frame?);
        if bytes.len() > MAX_BYTES {
            return Err(Error::Internal("storage sent more bytes than requested"));
        }
    }
    parse(&bytes).map_err(refuse)
}

/// Returns the names and sizes of the media files in a folder, in the order of its listing. An
/// index MP4 (`film.index.mp4`) hides the files it may be the index of (`film.mp4`, `film.cmfv`).
pub(crate) fn media_files(listing: &Listing) -> impl Iterator<Item = (&str, u64)> {
    let objects = || listing.objects.iter().map(|(name, size)| (name.as_str(), *size));
    let media = || objects().filter(|(name, _)| is_media(name));
    let indexed: BTreeSet<&str> = media().filter_map(|(name, _)| indexed_stem(name)).collect();
    media().filter(move |(name, _)| indexed_stem(name).is_some() || !indexed.contains(media_stem(name)))
}

/// Returns the name of an index MP4's media, without extension. Returns `None` for the name of any
/// other file.
pub(crate) fn indexed_stem(name: &str) -> Option<&str> {
    name.strip_suffix(".index.mp4").filter(|stem| !stem.is_empty())
}

/// Returns the name of a file's index MP4: `film.index.mp4` for `film.mp4`.
pub(crate) fn index_name(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
    format!("{stem}.index.mp4")
}

/// Returns the key of a file's index MP4, which lies beside the file.
pub(crate) fn index_key(media: &Key) -> Option<Key> {
    let (folder, name) = media.split();
    folder.join(&index_name(name))
}

/// Returns true for the name of a server manifest.
pub(crate) fn is_manifest(name: &str) -> bool {
    has_extension(name, "ism")
}

/// Returns true for a base that lists its files.
pub(crate) fn is_list(base: &str) -> bool {
    base.ends_with(LIST)
}

/// Returns true for the name of a media file.
pub(crate) fn is_media(name: &str) -> bool {
    MEDIA.iter().any(|extension| has_extension(name, extension))
}

/// Returns true for the name of a file of text.
pub(crate) fn is_text(name: &str) -> bool {
    TextFormat::of_name(name).is_some()
}

fn has_extension(name: &str, extension: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.').is_some_and(|(stem, e)| !stem.is_empty() && e.eq_ignore_ascii_case(extension))
}

/// Expands `prefix,mid1,mid2,suffix`: the text before the first comma and the text after the last
/// one are common to all names. Keeps each name once: a title does not have a file twice.
fn comma_list(list: &str, limit: usize) -> Result<Vec<Key>, Error> {
    let (Some((prefix, rest)), Some((_, suffix))) = (list.split_once(','), list.rsplit_once(',')) else {
        return Err(Error::NoSuchUrl);
    };
    // A list with one comma has no middle.
    let Some(middles) = rest.strip_suffix(suffix).and_then(|m| m.strip_suffix(',')) else {
        return Err(Error::NoSuchUrl);
    };
    let count = middles.split(',').count();
    if count > limit {
        return Err(Error::TooManyObjects { count, limit });
    }
    let mut names = BTreeSet::new();
    let names = middles.split(',').filter(|middle| names.insert(*middle));
    let keys = names.map(|middle| Key::new(&format!("{prefix}{middle}{suffix}")));
    keys.collect::<Option<Vec<_>>>().ok_or(Error::BadPath)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        comma_list(list, 4).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_comma_list_expands_to_prefix_middle_and_suffix() {
        assert_eq!(names("d/x_,360,720,.mp4"), ["d/x_360.mp4", "d/x_720.mp4"]);
        assert_eq!(names("x,a.mp4,"), ["xa.mp4"]);
        assert_eq!(names("d/,a/v.mp4,b/v.mp4,"), ["d/a/v.mp4", "d/b/v.mp4"]);
        // An empty middle names the file `prefix` + `suffix`.
        assert_eq!(names("x,,_2,.mp4"), ["x.mp4", "x_2.mp4"]);
        assert!(matches!(comma_list("x.mp4", 4), Err(Error::NoSuchUrl)));
        assert!(matches!(comma_list("x,.mp4", 4), Err(Error::NoSuchUrl)));
        assert!(matches!(comma_list("x/,..,a,/y.mp4", 4), Err(Error::BadPath)));
    }

    #[test]
    fn a_file_that_a_list_names_several_times_is_in_the_title_once() {
        assert_eq!(names("x,2,1,2,1,.mp4"), ["x2.mp4", "x1.mp4"]);
        // The limit counts names as written, before any is expanded.
        let error = comma_list("x,1,1,1,1,1,.mp4", 4).unwrap_err();
        assert!(matches!(error, Error::TooManyObjects { count: 5, limit: 4 }), "{error}");
    }

    #[test]
    fn an_index_mp4_hides_its_media_in_a_folder() {
        let names = ["a.index.mp4", "a.mp4", "b.mp4", "c.cmfv", "c.index.mp4", "notes.txt", ".index.mp4"];
        let objects = names.map(|name| (name.to_owned(), 1)).to_vec();
        let listing = Listing { objects, ..Listing::default() };
        let media: Vec<&str> = media_files(&listing).map(|(name, _)| name).collect();
        assert_eq!(media, ["a.index.mp4", "b.mp4", "c.index.mp4", ".index.mp4"]);
    }

    #[test]
    fn media_files_are_recognised_by_their_extension() {
        assert!(is_media("a.mp4") && is_media("d.x/A.MOV") && is_media("x.cmfv"));
        assert!(!is_media("a.mp4/b") && !is_media("mp4") && !is_media("d/.mp4") && !is_media("a.ism"));
    }
}
