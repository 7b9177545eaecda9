//! Indexed files and the objects that hold their media.

use crate::title::references::ObjectRef;
use latemux_index::MediaIndex;
use latemux_storage::{Key, Version};
use std::sync::Arc;

/// An object whose index is known. Immutable: a changed object gets a new value.
#[derive(Debug)]
pub struct IndexedObject {
    pub(crate) source: ObjectRef,
    /// Version of the object that the index describes. Every read of its media is pinned to it.
    pub version: Version,
    /// Index of the object.
    pub index: Arc<MediaIndex>,
    /// File that the index was read from: the object itself or an index MP4.
    pub(crate) file: ObjectRef,
    /// Number of this version of the object, unique in this process.
    pub(crate) id: u64,
}

impl IndexedObject {
    /// Returns the object's key in its storage.
    pub fn key(&self) -> &Key {
        &self.source.key
    }

    /// Returns the bytes of memory this value holds.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.key().as_str().len() + self.index.heap_bytes()
    }
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
}

impl IndexedFile {
    /// Returns the objects that hold the file's media.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<IndexedObject>> {
        self.parts.iter().map(|(_, object)| object)
    }

    /// Returns the bytes of memory the objects hold.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.objects().map(|object| object.heap_bytes()).sum()
    }
}
