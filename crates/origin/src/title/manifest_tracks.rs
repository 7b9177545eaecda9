//! Finds the tracks that the elements of a server manifest name.

use crate::{
    Error,
    title::index_store::IndexStore,
    title::indexed::IndexedFile,
    title::references::ObjectRef,
    title::sources::{ChosenTracks, Sources},
};
use futures_util::future::join_all;
use latemux_index::{
    IndexError, Track,
    media::TrackKind,
    title::{NamedTrack, TitleProblem, TrackName},
};
use latemux_packager::manifest::server::{Element, ServerManifest};
use latemux_storage::Key;
use std::sync::Arc;

/// Indexes the files that a server manifest names, each once, and finds their tracks. A wrong file
/// or track fails the whole title, because the manifest's author meant all of them. Tracks that no
/// protocol carries are left out instead, unless none remains.
pub(crate) async fn manifest_sources(
    store: &Arc<IndexStore>,
    key: &Key,
    manifest: &ServerManifest,
) -> Result<Sources, Error> {
    let from = store.indexer.references.served(key.clone());
    let at = |element: &Element| {
        let key = key.to_string();
        let element = element.describe();
        move |error| Error::Element { key, element, error: Box::new(error) }
    };
    let (files, file_of) = files_of(store, &from, manifest, at)?;
    let loads =
        files.iter().map(|(file, element)| async { store.current(file, None).await.map_err(at(element)) });
    let files: Vec<Arc<IndexedFile>> = join_all(loads).await.into_iter().collect::<Result<_, _>>()?;

    let mut sources = Sources::default();
    let mut first_object = Vec::with_capacity(files.len());
    for (number, file) in (1..).zip(&files) {
        first_object.push(sources.objects.len());
        sources.add(number, file);
    }
    let mut chosen = ChosenTracks::default();
    let mut first_error = None;
    for (element, file) in manifest.elements.iter().zip(file_of) {
        let (Some(file), Some(first)) = (files.get(file), first_object.get(file)) else { continue };
        match find_track(element, file).map_err(at(element))? {
            ElementTrack::Found { part, number, track } => {
                choose(&mut chosen, element, first + part, number, track);
            }
            ElementTrack::Thumbnails { part, number } => {
                let object = first + part;
                chosen.tiles.extend(element.tiles.clone().map(|tiles| (object, number, tiles)));
                let name = TrackName { stem: "thumbs".to_owned(), bitrate: element.bitrate };
                chosen.tracks.push(NamedTrack { object, track: number, name, is_thumbnails: true });
            }
            ElementTrack::LeftOut(error) => {
                let detail = format!("{} is left out: {error}", element.describe());
                sources.left_out.push(TitleProblem { object: None, reason: error.reason(), detail });
                first_error.get_or_insert_with(|| at(element)(Error::index(element.src.clone(), error)));
            }
        }
    }
    match first_error {
        Some(error) if chosen.tracks.is_empty() => Err(error),
        _ => Ok(Sources { chosen: Some(chosen), ..sources }),
    }
}

/// The files of a server manifest, each once with the first element that names it, and for each
/// element the index of its file.
type ElementFiles<'a> = (Vec<(ObjectRef, &'a Element)>, Vec<usize>);

/// Returns the files that the elements name. `at` adds an element to an error.
fn files_of<'a, F: FnOnce(Error) -> Error>(
    store: &IndexStore,
    from: &ObjectRef,
    manifest: &'a ServerManifest,
    at: impl Fn(&Element) -> F,
) -> Result<ElementFiles<'a>, Error> {
    let mut files: Vec<(ObjectRef, &Element)> = Vec::new();
    let mut file_of = Vec::with_capacity(manifest.elements.len());
    for element in &manifest.elements {
        let file = store.indexer.references.find(from, &element.src).map_err(at(element))?;
        let known = files.iter().position(|(known, _)| *known == file);
        file_of.push(known.unwrap_or(files.len()));
        if known.is_none() {
            files.push((file, element));
        }
    }
    Ok((files, file_of))
}

/// Chooses a track, with the properties that its element states.
fn choose(chosen: &mut ChosenTracks, element: &Element, object: usize, number: usize, track: &Track) {
    if let (Some(language), false) = (&element.language, track.language.is_known()) {
        chosen.languages.push((object, number, language.clone()));
    }
    chosen.captions.extend(element.captions.clone().map(|captions| (object, number, captions)));
    let (purpose, label) = element.purpose(track);
    if (purpose, &label) != (track.purpose, &track.label) {
        chosen.purposes.push((object, number, purpose, label));
    }
    let name = element.track_name(&track.language);
    chosen.tracks.push(NamedTrack { object, track: number, name, is_thumbnails: false });
}

/// Track that an element of a server manifest names.
enum ElementTrack<'a> {
    Found {
        /// Index of the object in [`IndexedFile::parts`].
        part: usize,
        /// Index of the track in the object.
        number: usize,
        track: &'a Track,
    },
    Thumbnails {
        /// Index of the object in [`IndexedFile::parts`].
        part: usize,
        /// Index of the track of thumbnails in the object.
        number: usize,
    },
    /// No protocol carries the track.
    LeftOut(IndexError),
}

fn find_track<'a>(element: &Element, file: &'a IndexedFile) -> Result<ElementTrack<'a>, Error> {
    let wrong = |problem| Err(Error::WrongTrackId { problem });
    let id = element.track_id;
    let mut ids = Vec::new();
    for (part, object) in file.objects().enumerate() {
        for (number, track) in object.index.tracks.iter().enumerate() {
            if track.id == id && track.kind == element.kind {
                return Ok(ElementTrack::Found { part, number, track });
            }
            if track.id == id {
                return wrong(format!("track {id} is {}", kind_name(track.kind)));
            }
            ids.push(track.id.to_string());
        }
        let mut thumbnails = object.index.thumbnails.iter();
        if element.kind == TrackKind::Video
            && let Some(number) = thumbnails.position(|of| of.track.id == id)
        {
            return Ok(ElementTrack::Thumbnails { part, number });
        }
    }
    let mut left_out = file.objects().flat_map(|object| &object.index.left_out);
    if let Some(problem) = left_out.find(|problem| problem.track == id) {
        let error = IndexError::Track(problem.clone());
        if problem.is_uncarried() {
            return Ok(ElementTrack::LeftOut(error));
        }
        return Err(Error::index(element.src.clone(), error));
    }
    ids.truncate(16);
    let ids = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
    wrong(format!("there is no track {id}; the IDs of tracks in the file are: {ids}"))
}

fn kind_name(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "video",
        TrackKind::Audio => "audio",
        TrackKind::Text => "text",
    }
}
