//! The order of audio and text: the track that plays by default comes first.
//!
//! A server manifest states the order, and so does a comma list: its files come in its order, and
//! in each file the tracks that `tkhd` enables come first. Otherwise the media decide, by these
//! rules in turn:
//!
//! 1. A track that `tkhd` enables comes before one that it does not.
//! 2. A track in a file that also has video comes before one in a file without.
//! 3. A track in the language of the video, if one is stated, comes before the others.
//! 4. If no video states a language, a track in the most frequent language of its kind comes
//!    before the others: a title has several tracks of its main language, such as stereo,
//!    surround and a commentary.
//! 5. Plain text and audio comes before that for the deaf or the blind, then forced text, then
//!    commentaries.
//! 6. What is left is in the order of the files by name, and of the tracks in a file.

use super::TitleTrack;
use crate::media::{MediaIndex, Track, TrackKind};
use latemux_isobmff::boxes::mdhd::Language;
use std::{collections::BTreeMap, sync::Arc};

/// The meaning of the order of a title's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectOrder {
    /// The order of names, as in a folder.
    ByName,
    /// The order of a comma list.
    Listed,
}

/// Sorts audio and text within their kinds. `tracks` are sorted by kind, and video stays in place.
pub(super) fn sort(objects: &[Arc<MediaIndex>], tracks: &mut [TitleTrack], order: ObjectOrder) {
    let track = |t: &TitleTrack| -> &Track { &objects[t.object].tracks[t.track] };
    let video = tracks.iter().map(track).filter(|track| track.kind == TrackKind::Video);
    let spoken = video.map(|track| &track.language).find(|language| language.is_known()).cloned();
    let main = [TrackKind::Audio, TrackKind::Text].map(|kind| {
        let of_kind = tracks.iter().map(track).filter(|track| track.kind == kind);
        let main = spoken.clone().or_else(|| most_frequent(of_kind.map(|track| &track.language)));
        (kind, main)
    });
    let has_video = |object: usize| objects[object].tracks.iter().any(|t| t.kind == TrackKind::Video);
    // The sort is stable.
    tracks.sort_by_key(|title_track| {
        let own = track(title_track);
        let is_apart = !has_video(title_track.object);
        let of_kind = main.iter().find(|(kind, _)| *kind == own.kind);
        let is_foreign =
            of_kind.and_then(|(_, main)| main.as_ref()).is_some_and(|main| *main != own.language);
        match (own.kind, order) {
            (TrackKind::Video, _) => (own.kind, 0, false, false, false, 0),
            (_, ObjectOrder::Listed) => (own.kind, title_track.object, !own.enabled, false, false, 0),
            (_, ObjectOrder::ByName) => (own.kind, 0, !own.enabled, is_apart, is_foreign, own.purpose.rank()),
        }
    });
}

/// Returns the language that more tracks have than any other. `None` if there is no such language,
/// or if it is not known.
fn most_frequent<'a>(languages: impl Iterator<Item = &'a Language>) -> Option<Language> {
    let mut counts: BTreeMap<&Language, usize> = BTreeMap::new();
    for language in languages {
        *counts.entry(language).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    let mut frequent = counts.into_iter().filter(|&(_, count)| count == most).map(|(language, _)| language);
    frequent.next().filter(|language| language.is_known() && frequent.next().is_none()).cloned()
}

#[cfg(test)]
#[path = "default_order_tests.rs"]
mod tests;
