//! The files of a title that can be served.

use crate::{
    Error,
    title::indexed::{IndexedFile, IndexedObject},
    title::renditions::{FileFacts, contradiction},
};
use latemux_index::{
    IndexError, MediaIndex,
    media::{Captions, Purpose, TrackKind},
    title::{NamedTrack, TitleProblem},
};
use latemux_isobmff::boxes::mdhd::Language;
use std::sync::Arc;

/// Objects from which a title is made.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) objects: Vec<Arc<IndexedObject>>,
    /// The files that these objects came from.
    pub(crate) indexed: Vec<Arc<IndexedFile>>,
    /// For each object, the 1-based number of the requested file it came from.
    pub(crate) files: Vec<u32>,
    /// Files and tracks that are left out of the title.
    pub(crate) left_out: Vec<TitleProblem>,
    /// Tracks that a server manifest chose. `None` stands for all tracks.
    pub(crate) chosen: Option<ChosenTracks>,
}

impl Sources {
    /// Returns true if an object has video.
    pub(crate) fn has_video(&self) -> bool {
        let mut tracks = self.objects.iter().flat_map(|object| &object.index.tracks);
        tracks.any(|track| track.kind == TrackKind::Video)
    }

    /// Adds the objects of the file with a 1-based number.
    pub(crate) fn add(&mut self, number: u32, file: &Arc<IndexedFile>) {
        self.files.extend(file.objects().map(|_| number));
        self.objects.extend(file.objects().cloned());
        self.indexed.push(file.clone());
    }
}

/// Tracks that a server manifest chose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ChosenTracks {
    pub(crate) tracks: Vec<NamedTrack>,
    /// Languages that only the manifest states, by object and track.
    pub(super) languages: Vec<(usize, usize, Language)>,
    /// Purposes and labels of tracks for which the manifest states some, by object and track.
    pub(super) purposes: Vec<(usize, usize, Purpose, Option<Arc<str>>)>,
    /// Closed captions that the manifest declares, by object and track.
    pub(super) captions: Vec<(usize, usize, Arc<[Captions]>)>,
    /// Grids of tiles that the manifest states, by object and track of thumbnails.
    pub(super) tiles: Vec<(usize, usize, String)>,
}

impl ChosenTracks {
    /// Sets what the manifest states of its tracks.
    pub(crate) fn set_properties(&self, indexes: &mut [Arc<MediaIndex>]) {
        for (object, track, language) in &self.languages {
            if let Some(index) = indexes.get_mut(*object) {
                *index = Arc::new(MediaIndex::clone(index).with_language(*track, language.clone()));
            }
        }
        for (object, track, purpose, label) in &self.purposes {
            if let Some(index) = indexes.get_mut(*object) {
                let altered = MediaIndex::clone(index).with_purpose(*track, *purpose, label.clone());
                *index = Arc::new(altered);
            }
        }
        for (object, track, captions) in &self.captions {
            if let Some(index) = indexes.get_mut(*object) {
                *index = Arc::new(MediaIndex::clone(index).with_captions(*track, captions.clone()));
            }
        }
        for (object, track, tiles) in &self.tiles {
            if let Some(index) = indexes.get_mut(*object) {
                *index = Arc::new(MediaIndex::clone(index).with_tiles_of(*track, tiles));
            }
        }
    }
}

/// Collects the files of a title that can be served. An unusable file is left out, by every node.
/// If no video remains, the title fails, because that file may have held the video. A failure of
/// storage fails the title too, because another node, or this one a moment later, may not see it.
pub(crate) fn usable_sources(files: Vec<Result<Arc<IndexedFile>, Error>>) -> Result<Sources, Error> {
    let mut sources = Sources::default();
    let mut first = None;
    let mut of_text = None;
    for (number, file) in (1..).zip(files) {
        match file {
            Ok(file) => sources.add(number, &file),
            Err(error) if is_left_out(&error) => {
                let detail = format!("left out: {error}");
                sources.left_out.push(TitleProblem { object: None, reason: error.reason(), detail });
                // Text is no reason to refuse the rest of a title.
                let is_text = matches!(&error, Error::Index { error: IndexError::Text { .. }, .. });
                let kept = if is_text { &mut of_text } else { &mut first };
                kept.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match first.or(of_text.filter(|_| sources.objects.is_empty())) {
        Some(error) if !sources.has_video() => Err(error),
        _ => Ok(sources),
    }
}

/// Returns true for the error of a file that is left out of its title.
pub(crate) fn is_left_out(error: &Error) -> bool {
    matches!(error, Error::Index { .. } | Error::LocationRefused { .. })
}

/// Checks that the usable files of a folder are renditions of one film.
pub(crate) fn check_one_film<'a>(
    base: &str,
    files: impl Iterator<Item = (&'a str, &'a Result<Arc<IndexedFile>, Error>)>,
) -> Result<(), Error> {
    let usable = files.filter_map(|(name, file)| Some((name, file.as_ref().ok()?)));
    let facts: Vec<_> = usable
        .map(|(name, file)| FileFacts::new(name, file.objects().map(|object| &*object.index)))
        .collect();
    match contradiction(&facts) {
        Some(why) => Err(Error::NotOneTitle { base: base.to_owned(), why }),
        None => Ok(()),
    }
}
