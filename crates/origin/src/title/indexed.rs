//! Indexed files and the objects that hold their media.

use crate::title::{
    checks::{SETTLING, lacks_tracks},
    references::ObjectRef,
};
use latemux_index::{
    MediaIndex,
    media::{TrackKind, cut_box::CutBoxPlace},
};
use latemux_storage::{Key, Version};
use std::sync::{Arc, Weak, atomic::AtomicBool};
use tokio::time::Instant;

/// An object whose index is known. Immutable: a changed object gets a new value.
#[derive(Debug)]
pub struct IndexedObject {
    /// The object at the version that the index describes.
    pub(crate) pinned: Arc<PinnedObject>,
    /// Index of the object.
    pub index: Arc<MediaIndex>,
    /// File that the index was read from: the object itself or an index MP4.
    pub(crate) file: ObjectRef,
    /// Cuts of its video in that file, if it may have any.
    pub(crate) cut_box: Option<Box<CutBox>>,
    /// Number of this version of the object, unique in this process.
    pub(crate) id: u64,
}

/// One version of an object. Every read of its media is pinned to it. Responses hold this value and
/// not the index, which takes much more memory.
#[derive(Debug)]
pub(crate) struct PinnedObject {
    pub(crate) source: ObjectRef,
    pub(crate) version: Version,
}

impl PinnedObject {
    /// Returns the object's key in its storage.
    pub(crate) fn key(&self) -> &Key {
        &self.source.key
    }
}

/// The box with cuts in an index MP4, which was not read yet.
#[derive(Debug)]
pub(crate) struct CutBox {
    pub(crate) place: CutBoxPlace,
    /// Version of the index MP4.
    pub(crate) version: Version,
    /// Set once cuts of it were not those of the media. No others are used then.
    pub(crate) differs: Arc<AtomicBool>,
    /// True once a log line said that its cuts are not used.
    pub(crate) has_warned: AtomicBool,
}

impl IndexedObject {
    /// Returns the object's key in its storage.
    pub fn key(&self) -> &Key {
        self.pinned.key()
    }

    /// Returns the version of the object that the index describes.
    pub fn version(&self) -> &Version {
        &self.pinned.version
    }

    pub(crate) fn source(&self) -> &ObjectRef {
        &self.pinned.source
    }

    /// Returns true if the other value describes the same version of the same object alike.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let of = |object: &Self| (object.source().clone(), object.file.clone(), object.version().clone());
        let index = |object: &Self| (object.index.fingerprint, object.index.left_out.clone());
        self.id == other.id || (of(self) == of(other) && index(self) == index(other))
    }

    /// Returns the bytes of memory this value holds.
    fn heap_bytes(&self) -> usize {
        let cut_box = self.cut_box.as_ref().map_or(0, |cut_box| {
            size_of::<CutBox>() + ARC + size_of::<AtomicBool>() + version_bytes(&cut_box.version)
        });
        let names = self.source().heap_bytes() + self.file.heap_bytes() + version_bytes(self.version());
        ARC + size_of::<Self>()
            + ARC
            + size_of::<PinnedObject>()
            + names
            + cut_box
            + ARC
            + size_of::<MediaIndex>()
            + self.index.heap_bytes()
    }
}

/// Bytes of the two reference counts of an `Arc`.
const ARC: usize = 2 * size_of::<usize>();

/// Returns the bytes of memory that a version alone holds.
pub(super) fn version_bytes(version: &Version) -> usize {
    version.etag.as_ref().map_or(0, |etag| etag.len())
}

/// One indexed file: the media itself, or an index MP4 with the media objects it points to.
#[derive(Debug)]
pub(crate) struct IndexedFile {
    /// The requested file. If that is an outdated index MP4 that will be replaced, this is its
    /// media instead.
    pub(crate) file: ObjectRef,
    pub(crate) version: Version,
    /// Objects that hold the media, each with its location as written in the file. The location is
    /// `None` for the file itself.
    pub(crate) parts: Vec<(Option<Arc<str>>, Arc<IndexedObject>)>,
    /// Time at which the file was indexed.
    pub(crate) indexed_at: Instant,
}

impl IndexedFile {
    pub(crate) fn new(
        file: ObjectRef,
        version: Version,
        parts: Vec<(Option<Arc<str>>, Arc<IndexedObject>)>,
    ) -> Self {
        Self { file, version, parts, indexed_at: Instant::now() }
    }

    /// Returns true if a track of the file, which may be video or audio, is left out.
    pub(crate) fn lacks_media(&self) -> bool {
        let mut left_out = self.objects().flat_map(|object| &object.index.left_out);
        left_out.any(|problem| match problem.handler {
            Some(handler) => {
                matches!(TrackKind::of_handler(handler), Some(TrackKind::Video | TrackKind::Audio))
            }
            None => true,
        })
    }

    /// Returns the number of tracks that are left out.
    pub(crate) fn left_out(&self) -> usize {
        self.objects().map(|object| object.index.left_out.len()).sum()
    }

    /// Returns true if the file lacks tracks that may become readable.
    pub(crate) fn lacks_tracks(&self) -> bool {
        self.objects().any(|object| lacks_tracks(&object.index))
    }

    /// Returns true while the index has to be read again to find tracks that were not readable.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.lacks_tracks() && self.indexed_at.elapsed() < SETTLING
    }

    /// Returns true if both files have the same indexes and versions.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.file == other.file
            && self.version == other.version
            && self.parts.len() == other.parts.len()
            && self.objects().zip(other.objects()).all(|(one, another)| one.equals(another))
    }

    /// Returns the objects that hold the file's media.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<IndexedObject>> {
        self.parts.iter().map(|(_, object)| object)
    }

    /// Returns the bytes of memory this value holds, objects included.
    pub(crate) fn heap_bytes(&self) -> usize {
        let parts = self.parts.iter().map(|part| {
            let (location, object) = part;
            size_of_val(part) + location.as_ref().map_or(0, |text| ARC + text.len()) + object.heap_bytes()
        });
        let names = self.file.heap_bytes() + version_bytes(&self.version);
        ARC + size_of::<Self>() + names + parts.sum::<usize>()
    }
}

/// An indexed file in the cache of files. Its memory is counted once: by the titles in memory that
/// were made of it, or else here.
#[derive(Debug, Clone)]
pub(crate) enum KeptFile {
    /// No title holds the file.
    Alone(Arc<IndexedFile>),
    /// A title holds the file. Once that title leaves memory, so does the file.
    OfTitle(Weak<IndexedFile>),
}

impl KeptFile {
    /// Returns the file, if it is still in memory.
    pub(crate) fn get(&self) -> Option<Arc<IndexedFile>> {
        match self {
            Self::Alone(file) => Some(file.clone()),
            Self::OfTitle(file) => file.upgrade(),
        }
    }

    /// Returns the bytes of memory this value holds.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Alone(file) => file.heap_bytes(),
            Self::OfTitle(_) => 0,
        }
    }
}
