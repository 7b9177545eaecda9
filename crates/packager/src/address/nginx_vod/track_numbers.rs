//! The numbers of a title's tracks: from a reference to a track and back.

use super::{Pick, Picks, VodResource};
use crate::{
    PackError,
    address::{DashTemplate, Resource},
};
use latemux_index::{
    Title,
    media::TrackKind,
    title::{TitleTrack, TrackName},
};

/// The number of each track of a title.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TrackNumbers {
    /// The name and number of each track of the title.
    tracks: Vec<(TrackName, TrackNumber)>,
    /// True if the title has more than one file, so that references name the file.
    several: bool,
}

/// The number of one track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TrackNumber {
    /// 1-based number of its file.
    file: u32,
    kind: TrackKind,
    /// 1-based number among the tracks of its kind in the file.
    number: u32,
}

impl TrackNumber {
    /// True if a reference names the track: file and kind are optional, number 0 means all.
    fn matches(&self, file: Option<u32>, kind: Option<TrackKind>, number: u32) -> bool {
        file.is_none_or(|file| self.file == file)
            && kind.is_none_or(|kind| self.kind == kind)
            && (number == 0 || self.number == number)
    }
}

/// The native form of a URL of this form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The requested resource.
    pub resource: Resource,
    /// The tracks that a manifest lists, as indexes into [`Title::tracks`]; `None` for all of them.
    pub tracks: Option<Vec<usize>>,
}

impl TrackNumbers {
    /// Numbers the tracks of a title. `files` holds, for each object, the 1-based number of the
    /// file that it belongs to. An object without an entry is a file by itself.
    pub fn new(title: &Title, files: &[u32]) -> Self {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let file = |object: usize| files.get(object).copied().unwrap_or_else(|| count(object + 1));
        let number_of = |object: usize, track: usize| {
            let kind = title.objects().get(object)?.tracks.get(track)?.kind;
            let alike = |object: usize, end: usize| {
                let tracks = title.objects().get(object).map_or(&[][..], |object| &object.tracks);
                tracks.iter().take(end).filter(|track| track.kind == kind).count()
            };
            let same = (0..object).filter(|&other| file(other) == file(object));
            let before = same.map(|other| alike(other, usize::MAX)).sum::<usize>() + alike(object, track);
            Some(TrackNumber { file: file(object), kind, number: count(before + 1) })
        };
        let named = |track: &TitleTrack| Some((track.name.clone(), number_of(track.object, track.track)?));
        let tracks = title.tracks().iter().filter_map(named).collect();
        let several = (1..title.objects().len()).any(|object| file(object) != file(0));
        Self { tracks, several }
    }

    /// Returns the text for digests, which must not change.
    pub(super) fn digest_text(&self) -> String {
        let tracks = self.tracks.iter().map(|(name, TrackNumber { file, kind, number })| {
            format!("({name:?}, Place {{ file: {file}, kind: {kind:?}, number: {number} }})")
        });
        let tracks: Vec<String> = tracks.collect();
        format!("Places {{ tracks: [{}], several: {} }}", tracks.join(", "), self.several)
    }

    /// Returns references to tracks, video first, naming files if there are several.
    pub fn picks(&self, names: &[TrackName]) -> Picks {
        let number_of =
            |name: &TrackName| self.tracks.iter().find(|(other, _)| other == name).map(|(_, number)| *number);
        let mut numbers: Vec<TrackNumber> = names.iter().filter_map(number_of).collect();
        numbers.sort_by_key(|track| track.kind);
        let mut picks = Vec::new();
        let mut file = None;
        for track in numbers {
            if self.several && file != Some(track.file) {
                picks.push(Pick::File(track.file));
                file = Some(track.file);
            }
            picks.push(Pick::Track(track.kind, track.number));
        }
        Picks::new(picks)
    }

    /// Returns the native form of a resource. Only the tracks that `among` names exist for it.
    ///
    /// # Errors
    /// [`PackError::NoSuchTrack`] if a reference matches no track, [`PackError::SeveralTracks`] if
    /// the resource is of one track and the references name more.
    pub fn resolve(&self, resource: &VodResource, among: &Picks) -> Result<Resolved, PackError> {
        let allowed = self.all_of(among)?;
        let manifest = |picks: &Picks, resource: Resource| {
            let mut tracks = self.all_of(picks)?;
            tracks.retain(|track| allowed.contains(track));
            if tracks.is_empty() {
                return Err(no_such(picks));
            }
            let all = tracks.len() == self.tracks.len();
            Ok(Resolved { resource, tracks: (!all).then_some(tracks) })
        };
        let names = |tracks: &[usize]| -> Vec<TrackName> {
            tracks.iter().filter_map(|&i| self.tracks.get(i)).map(|(name, _)| name.clone()).collect()
        };
        let together = |picks: &Picks| self.together(picks, &allowed).map(|tracks| names(&tracks));
        let one = |picks: &Picks| match <[TrackName; 1]>::try_from(together(picks)?) {
            Ok([track]) => Ok(track),
            Err(_) => Err(PackError::SeveralTracks(shown(picks))),
        };
        // The module writes the URLs of I-frame playlists with both video and audio.
        let video = |picks: &Picks| {
            let mut tracks = self.together(picks, &allowed)?;
            tracks.retain(|&i| self.tracks.get(i).is_some_and(|(_, track)| track.kind == TrackKind::Video));
            names(&tracks).into_iter().next().ok_or_else(|| no_such(picks))
        };
        let resource = match resource {
            VodResource::HlsMaster(picks, container) => {
                return manifest(picks, Resource::HlsMultivariant(*container));
            }
            VodResource::DashManifest(picks) => {
                return manifest(picks, Resource::DashManifest(DashTemplate::Number));
            }
            VodResource::SmoothManifest(picks) => return manifest(picks, Resource::SmoothManifest),
            VodResource::HdsManifest(picks) => return manifest(picks, Resource::HdsManifest),
            VodResource::HlsIndex(picks, container) => Resource::HlsPlaylist(together(picks)?, *container),
            VodResource::HlsIFrames(picks, container) => {
                Resource::HlsIFramePlaylist(video(picks)?, *container)
            }
            VodResource::HlsTs(picks, n) => Resource::HlsTsSegment(together(picks)?, *n),
            VodResource::HlsSegment(picks, n) => Resource::HlsSegment(together(picks)?, *n),
            VodResource::HlsText(picks, n, container) => Resource::HlsText(one(picks)?, *n, *container),
            VodResource::HlsInit(picks) => Resource::HlsInit(together(picks)?),
            VodResource::HlsLeadInit(picks) => Resource::HlsLeadInit(one(picks)?),
            VodResource::HlsIFrameTs(picks, n) => Resource::HlsIFrameTs(video(picks)?, *n),
            VodResource::HlsIFrameCmaf(picks, n) => Resource::HlsIFrameCmaf(video(picks)?, *n),
            // If HLS and DASH share a prefix, this may be an init segment of HLS. In DASH, every
            // track has its own init segment.
            VodResource::DashInit(picks) => match one(picks) {
                Err(PackError::SeveralTracks(_)) => Resource::HlsInit(together(picks)?),
                track => Resource::DashInit(track?),
            },
            VodResource::DashSegment(picks, n) => Resource::DashSegment(one(picks)?, *n),
            VodResource::SmoothFragment(track, time) => Resource::SmoothFragment(track.clone(), *time),
            VodResource::HdsBootstrap(picks) => Resource::HdsBootstrap(together(picks)?),
            VodResource::HdsFragment(picks, n) => Resource::HdsFragment(together(picks)?, *n),
        };
        Ok(Resolved { resource, tracks: None })
    }

    /// Returns all tracks that any reference names, in the title's order; all for an empty list.
    fn all_of(&self, picks: &Picks) -> Result<Vec<usize>, PackError> {
        let everything = || 0..self.tracks.len();
        if picks.is_empty() {
            return Ok(everything().collect());
        }
        let mut chosen = vec![false; self.tracks.len()];
        let mut file = None;
        let mut picks = picks.as_slice().iter().peekable();
        while let Some(&pick) = picks.next() {
            let (kind, number) = match pick {
                Pick::File(n) => {
                    file = Some(n);
                    if matches!(picks.peek(), Some(Pick::Track(..))) {
                        continue;
                    }
                    // A file without a track after it means all its tracks.
                    (None, 0)
                }
                Pick::Track(kind, number) => (Some(kind), number),
            };
            let mut found = false;
            for (chosen, (_, track)) in chosen.iter_mut().zip(&self.tracks) {
                let matches = track.matches(file, kind, number);
                *chosen |= matches;
                found |= matches;
            }
            if !found {
                return Err(no_such(&Picks::new(
                    [file.map(Pick::File), Some(pick)].into_iter().flatten().collect(),
                )));
            }
        }
        Ok(everything().filter(|&i| chosen.get(i) == Some(&true)).collect())
    }

    /// Returns the tracks that play together, one for each reference to a track. If no reference
    /// names a track, these are the first video and the first audio track of the file.
    fn together(&self, picks: &Picks, allowed: &[usize]) -> Result<Vec<usize>, PackError> {
        let first = |file: Option<u32>, kind: TrackKind, number: u32| {
            let tracks = self.tracks.iter().enumerate();
            let matching = tracks
                .filter(|(i, (_, track))| allowed.contains(i) && track.matches(file, Some(kind), number));
            // Files come in the order of their numbers, whatever the order in the title.
            matching.min_by_key(|(_, (_, track))| (track.file, track.number)).map(|(i, _)| i)
        };
        let mut file = None;
        let mut tracks = Vec::new();
        for &pick in picks.as_slice() {
            match pick {
                Pick::File(n) => file = Some(n),
                Pick::Track(kind, number) => {
                    tracks.push(first(file, kind, number).ok_or_else(|| no_such(picks))?);
                }
            }
        }
        if tracks.is_empty() {
            let kinds = [TrackKind::Video, TrackKind::Audio];
            tracks.extend(kinds.into_iter().filter_map(|kind| first(file, kind, 0)));
        }
        if tracks.is_empty() { Err(no_such(picks)) } else { Ok(tracks) }
    }
}

/// Returns references as text for error messages.
fn shown(picks: &Picks) -> String {
    picks.to_string().trim_start_matches('-').to_owned()
}

fn no_such(picks: &Picks) -> PackError {
    PackError::NoSuchTrack(shown(picks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::nginx_vod::{NginxVodUrls, Settings};
    use std::sync::Arc;

    #[test]
    fn the_text_of_digests_never_changes() {
        let name = TrackName { stem: "video".to_owned(), bitrate: 400_000 };
        let number = TrackNumber { file: 1, kind: TrackKind::Video, number: 2 };
        let numbers = TrackNumbers { tracks: vec![(name.clone(), number), (name, number)], several: true };
        let urls = NginxVodUrls::new(Arc::new(Settings::default()), numbers, "manifest.mpd".to_owned());
        let track =
            "(TrackName { stem: \"video\", bitrate: 400000 }, Place { file: 1, kind: Video, number: 2 })";
        assert_eq!(
            urls.digest_text(),
            format!(
                "Form {{ settings: Settings {{ prefixes: Prefixes {{ hls: None, dash: None, mss: None, \
                 hds: None }}, names: Names {{ hls_master: \"master\", hls_index: \"index\", \
                 hls_iframes: \"iframes\", hls_segment: \"seg\", hls_init: \"init\", \
                 dash_manifest: \"manifest\", dash_fragment: \"fragment\", dash_init: \"init\", \
                 mss_manifest: \"manifest\", hds_manifest: \"manifest\", hds_fragment: \"frag\" }}, \
                 container: Auto }}, places: Places {{ tracks: [{track}, {track}], several: true }}, \
                 asked: \"manifest.mpd\" }}"
            )
        );
    }
}
