//! A title with the objects it was made of.

use crate::{
    Error,
    keys::TitleKeys,
    title::checks::Checks,
    title::indexed::{IndexedFile, IndexedObject, PinnedObject},
    title::quick_work::is_quick,
    title::references::ObjectRef,
    title::sources::ChosenTracks,
    title::waiting_inputs::Input,
    title::work_queue::Work,
};
use latemux_index::{MediaIndex, Title};
use latemux_packager::Protection;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Pause after the source of a title's keys failed.
const KEYS_PAUSE: Duration = Duration::from_secs(1);

/// A title with the objects it was made of.
#[derive(Debug)]
pub struct LoadedTitle {
    /// Base of the title in URLs.
    pub base: String,
    /// The title.
    pub title: Arc<Title>,
    /// Objects of the title, in the order of [`Title::objects`].
    pub objects: Arc<[Arc<IndexedObject>]>,
    /// The same objects without their indexes, for responses.
    pub(crate) pinned: Arc<[Arc<PinnedObject>]>,
    /// For each object, the 1-based number of the requested file it came from: the media file
    /// itself or an index MP4 that points to the object.
    pub files: Arc<[u32]>,
    /// The files that the objects came from. The title counts their memory.
    pub(super) indexed: Box<[Arc<IndexedFile>]>,
    /// Tracks that a server manifest chose.
    pub(super) chosen: Option<ChosenTracks>,
    /// Number of this version of the title, unique in this process.
    pub(crate) id: u64,
    /// Comparisons with storage.
    pub(crate) checks: Arc<Checks>,
    /// Keys, or the error of all requests for a title whose keys are missing. `None` if the title
    /// is sent clear.
    pub(super) keys: Result<Option<Arc<TitleKeys>>, Error>,
    /// The time at which the keys were asked for.
    pub(super) keys_asked: Instant,
}

impl LoadedTitle {
    /// Returns the keys of the title. `None` if the title is sent clear.
    ///
    /// # Errors
    /// The error of all requests for an encrypted title whose keys are missing.
    pub(crate) fn keys(&self) -> Result<Option<&TitleKeys>, Error> {
        self.keys.as_ref().map(Option::as_deref).map_err(Clone::clone)
    }

    /// Returns true if the source of the keys failed, and has had a pause since.
    pub(super) fn wants_keys(&self) -> bool {
        matches!(&self.keys, Err(error) if error.is_of_keys()) && self.keys_asked.elapsed() >= KEYS_PAUSE
    }

    /// Returns true if the keys are those that their source states, as far as is known.
    pub(super) fn has_current_keys(&self) -> bool {
        match &self.keys {
            Ok(keys) => keys.as_ref().is_none_or(|keys| keys.are_current()),
            Err(error) => !error.is_of_keys() || self.keys_asked.elapsed() < KEYS_PAUSE,
        }
    }

    /// Returns the protection of the title. `None` if the title is sent clear.
    ///
    /// # Errors
    /// The error of all requests for an encrypted title whose keys are missing.
    pub fn protection(&self) -> Result<Option<&Protection>, Error> {
        Ok(self.keys()?.map(|keys| &keys.protection))
    }

    /// Returns the work of making a manifest. `None` if it is quick.
    pub(crate) fn manifest_work(&self) -> Option<Work> {
        let tracks = || self.title.tracks().iter();
        let segments: u64 = tracks().map(|track| u64::from(track.segment_count())).sum();
        let samples = tracks().map(|track| self.title.track(track).sample_count()).sum();
        // Sizes, times and text of each segment.
        let work = || Work {
            samples,
            bytes: (64 << 10) + segments * 256,
            input: Input::new(self, self.heap_bytes() as u64),
        };
        (!is_quick(samples, segments)).then(work)
    }

    /// Returns the requested files that the title's objects came from.
    pub(super) fn requested_files(&self) -> impl Iterator<Item = ObjectRef> {
        self.objects.iter().map(|object| object.file.clone())
    }

    /// Returns the bytes of memory this title holds, files and objects included.
    pub(super) fn heap_bytes(&self) -> usize {
        let files: usize = self.indexed.iter().map(|file| size_of_val(file) + file.heap_bytes()).sum();
        // A server manifest may state languages, which takes indexes of the title's own.
        let indexes = self.objects.iter().zip(self.title.objects());
        let own = indexes.filter(|(object, index)| !Arc::ptr_eq(&object.index, index));
        let own: usize = own.map(|(_, index)| size_of::<MediaIndex>() + index.heap_bytes()).sum();
        let lists = size_of_val(&*self.objects)
            + size_of_val(&*self.pinned)
            + size_of_val(&*self.files)
            + self.base.len();
        size_of::<Self>() + lists + files + own + self.title.heap_bytes()
    }
}
