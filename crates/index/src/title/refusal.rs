//! Titles that cannot be served because of their tracks.

use crate::{
    error::{IndexError, TitleProblem, TrackProblem},
    media::{MediaIndex, TrackKind},
};

/// Returns the error if a title of these objects is refused: no track can be served, or the title
/// would not be whole, since all of its video, or all of its audio, is damaged, encrypted or of an
/// unsupported structure. A track is left out instead if its coding has no mapping, if another one
/// of its kind can be served, or if it is text or data.
pub fn refusal<'a>(objects: impl Iterator<Item = &'a MediaIndex> + Clone) -> Option<IndexError> {
    let has = |kind| objects.clone().flat_map(|object| &object.tracks).any(|track| track.kind == kind);
    let is_lacking = |kind| {
        let mut left_out = objects.clone().flat_map(|object| &object.left_out);
        left_out.any(|problem| lacking(problem) == Some(kind)) && !has(kind)
    };
    let is_empty = objects.clone().all(|object| object.tracks.is_empty());
    let is_refused = is_empty || [TrackKind::Video, TrackKind::Audio].into_iter().any(is_lacking);
    is_refused.then(|| refused(objects))
}

/// Returns the kind of media that a title lacks if it has no other track of that kind. `None` for
/// tracks without which a title is still whole. A track whose handler cannot be read may be the
/// video.
fn lacking(problem: &TrackProblem) -> Option<TrackKind> {
    let kind = problem.handler.map_or(Some(TrackKind::Video), TrackKind::of_handler);
    kind.filter(|&kind| kind != TrackKind::Text && !problem.is_uncarried())
}

/// Returns the error of objects that are refused: the problems of all tracks, those of video first.
pub(super) fn refused<'a>(objects: impl Iterator<Item = &'a MediaIndex>) -> IndexError {
    let mut problems: Vec<(usize, &TrackProblem)> = Vec::new();
    for (number, object) in objects.enumerate() {
        problems.extend(object.left_out.iter().map(|problem| (number, problem)));
    }
    if problems.is_empty() {
        return IndexError::NoMedia;
    }
    // The sort is stable: equal problems stay in the order of objects and tracks.
    let none = |kind: Option<TrackKind>| (kind.is_none(), kind);
    problems.sort_by_key(|(_, problem)| {
        (none(lacking(problem)), none(problem.handler.and_then(TrackKind::of_handler)))
    });
    let problems = problems.into_iter().map(|(object, problem)| TitleProblem::of_track(object, problem));
    IndexError::Refused(problems.collect())
}
