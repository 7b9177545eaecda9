//! Which tracks the elements of a server manifest name.

use crate::{
    Error,
    title::index::{Object, Objects, Parts},
    title::places::Place,
};
use futures_util::future::join_all;
use latemux_index::{
    IndexError, MediaIndex, Track,
    media::TrackKind,
    title::{NamedTrack, TitleProblem},
};
use latemux_isobmff::boxes::mdhd::Language;
use latemux_packager::manifest::server::{Element, ServerManifest};
use latemux_storage::Key;
use std::sync::Arc;

/// The objects of a title, and what is said of them.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) objects: Vec<Arc<Object>>,
    /// Of each object, the 1-based number of the file it is of.
    pub(crate) files: Vec<u32>,
    /// What is left out.
    pub(crate) broken: Vec<TitleProblem>,
    /// `None`: all tracks.
    pub(crate) chosen: Option<Named>,
}

impl Sources {
    /// The parts of a file.
    pub(crate) fn add(&mut self, file: u32, parts: &Parts) {
        self.files.extend(parts.iter().map(|_| file));
        self.objects.extend(parts.iter().cloned());
    }
}

/// Tracks a server manifest chose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) tracks: Vec<NamedTrack>,
    /// Languages the media does not state, by object and track.
    languages: Vec<(usize, usize, Language)>,
}

impl Named {
    /// Puts in languages that only the manifest knows.
    pub(crate) fn tell_languages(&self, indexes: &mut [Arc<MediaIndex>]) {
        for (object, track, language) in &self.languages {
            if let Some(index) = indexes.get_mut(*object) {
                *index = Arc::new(MediaIndex::clone(index).with_language(*track, language.clone()));
            }
        }
    }
}

impl Objects {
    /// The files a server manifest names, each once, and their tracks. What is wrong with any of them refuses the title: whoever wrote
    /// the manifest meant them all.
    pub(crate) async fn named_by(
        self: &Arc<Self>,
        key: &Key,
        manifest: &ServerManifest,
    ) -> Result<Sources, Error> {
        let from = self.served(key.clone());
        let at = |element: &Element| {
            let (key, element) = (key.to_string(), element.describe());
            move |error| Error::Element { key, element, error: Box::new(error) }
        };
        let mut files: Vec<(Place, &Element)> = Vec::new();
        let mut file_of = Vec::with_capacity(manifest.elements.len());
        for element in &manifest.elements {
            let place = self.places.find(&from, &element.src).map_err(at(element))?;
            let known = files.iter().position(|(known, _)| *known == place);
            file_of.push(known.unwrap_or(files.len()));
            if known.is_none() {
                files.push((place, element));
            }
        }
        let loads = files
            .iter()
            .map(|(place, element)| async { self.current(place, None).await.map_err(at(element)) });
        let parts: Vec<Parts> = join_all(loads).await.into_iter().collect::<Result<_, _>>()?;

        let mut sources =
            Sources { objects: Vec::new(), files: Vec::new(), broken: Vec::new(), chosen: None };
        let mut first_of = Vec::with_capacity(parts.len());
        for (number, parts) in (1..).zip(&parts) {
            first_of.push(sources.objects.len());
            sources.add(number, parts);
        }
        let mut named = Named { tracks: Vec::new(), languages: Vec::new() };
        let mut left_out = None;
        for (element, file) in manifest.elements.iter().zip(file_of) {
            let (Some(parts), Some(first)) = (parts.get(file), first_of.get(file)) else { continue };
            match find(element, parts).map_err(at(element))? {
                Found::Track(part, number, track) => {
                    let object = first + part;
                    if let (Some(language), false) = (&element.language, track.language.is_known()) {
                        named.languages.push((object, number, language.clone()));
                    }
                    let name = element.track_name(&track.language);
                    named.tracks.push(NamedTrack { object, track: number, name });
                }
                Found::LeftOut(error) => {
                    let detail = format!("{} is left out: {error}", element.describe());
                    sources.broken.push(TitleProblem { object: None, reason: error.reason(), detail });
                    left_out.get_or_insert_with(|| at(element)(Error::index(element.src.clone(), error)));
                }
            }
        }
        match left_out {
            Some(error) if named.tracks.is_empty() => Err(error),
            _ => Ok(Sources { chosen: Some(named), ..sources }),
        }
    }
}

/// What an element names.
enum Found<'a> {
    /// Number of the part, and of the track in it.
    Track(usize, usize, &'a Track),
    /// A track that cannot be served.
    LeftOut(IndexError),
}

fn find<'a>(element: &Element, parts: &'a Parts) -> Result<Found<'a>, Error> {
    let wrong = |problem| Err(Error::WrongTrackId { problem });
    let id = element.track_id;
    let mut ids = Vec::new();
    for (part, object) in parts.iter().enumerate() {
        for (number, track) in object.index.tracks.iter().enumerate() {
            if track.id == id && track.kind == element.kind {
                return Ok(Found::Track(part, number, track));
            }
            if track.id == id {
                return wrong(format!("track {id} is {}", what(track.kind)));
            }
            ids.push(track.id.to_string());
        }
    }
    let left_out = parts.iter().flat_map(|object| &object.index.left_out);
    if let Some(problem) = left_out.clone().find(|problem| problem.track == id) {
        return Ok(Found::LeftOut(IndexError::NoTracks(problem.clone())));
    }
    ids.truncate(16);
    wrong(format!(
        "there is no track {id}, but {}",
        if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
    ))
}

fn what(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "video",
        TrackKind::Audio => "audio",
        TrackKind::Text => "text",
    }
}
