//! The URLs in a manifest: of other manifests, which carry its selection on, and of segments.
//!
//! The URL of a segment states only what its bytes depend on. A segment that is the same in a clip
//! as in the whole title has one URL and ETag in both; if the form states clips in paths, it has
//! two URLs and one ETag.

use super::{
    Address, DashTemplate, HlsContainer, Profile, Resource,
    key::{KEY_EXTENSION, KEYS, LICENCE},
    name_of, native, query, rep_id,
};
use crate::selection::{DashText, Extent, Selection};
use latemux_index::title::TrackName;
use latemux_protect::KeyId;

/// Builds the URLs that the manifest at an address holds, relative to that manifest.
#[derive(Debug)]
pub(crate) struct Links<'a> {
    profile: &'a Profile,
    name: String,
    manifest: &'a Resource,
    selection: &'a Selection,
}

impl<'a> Links<'a> {
    pub(crate) fn new(address: &'a Address) -> Self {
        Self {
            profile: &address.profile,
            name: name_of(&address.base),
            manifest: &address.resource,
            selection: &address.selection,
        }
    }

    /// Returns the percent-encoded NAME that URLs of the title carry.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text that players put in place of `$RepresentationID$`.
    pub(crate) fn representation_id(&self, track: &TrackName) -> String {
        match self.profile {
            Profile::Native => rep_id(track),
            Profile::NginxVod(urls) => urls.representation_id(track),
        }
    }

    /// Returns the form of text in DASH. Only native URLs can state one.
    pub(crate) fn text(&self) -> DashText {
        if self.profile == &Profile::Native { self.selection.text } else { DashText::Stored }
    }

    /// Returns `SegmentTemplate@initialization` of tracks that are sent in a form of text.
    pub(crate) fn dash_initialization(&self, text: DashText) -> String {
        match self.profile {
            Profile::Native => {
                let selection = Selection { text, ..Selection::default() };
                native::dash_initialization(&self.name) + &query::with(None, &selection)
            }
            Profile::NginxVod(urls) => urls.dash_initialization(),
        }
    }

    /// Returns `SegmentTemplate@media` of tracks that are sent in a form of text.
    pub(crate) fn dash_media(&self, template: DashTemplate, extent: Extent, text: DashText) -> String {
        match self.profile {
            Profile::Native => {
                let selection = Selection { text, ..self.for_segments(extent) };
                native::dash_media(template, &self.name) + &query::with(None, &selection)
            }
            Profile::NginxVod(urls) => urls.dash_media(),
        }
    }

    pub(crate) fn hls_playlist(&self, tracks: Vec<TrackName>, container: HlsContainer) -> String {
        self.url(&Resource::HlsPlaylist(tracks, container), self.selection)
    }

    pub(crate) fn hls_iframe_playlist(&self, track: TrackName, container: HlsContainer) -> String {
        self.url(&Resource::HlsIFramePlaylist(track, container), self.selection)
    }

    pub(crate) fn hls_init(&self, tracks: Vec<TrackName>) -> String {
        self.url(&Resource::HlsInit(tracks), &Selection::default())
    }

    /// Returns the URL of the init segment of a track's clear lead.
    pub(crate) fn hls_lead_init(&self, track: TrackName) -> String {
        self.url(&Resource::HlsLeadInit(track), &Selection::default())
    }

    /// Returns the URL of a media segment, which may be joined.
    pub(crate) fn hls_segment(&self, segment: &Resource, extent: Extent) -> String {
        let selection = self.for_segments(extent);
        let minimum_segment = self.selection.minimum_segment.filter(|_| extent == Extent::Selected);
        self.url(segment, &Selection { minimum_segment, ..selection })
    }

    /// Returns the URL of an I-frame, which is the same in clips.
    pub(crate) fn hls_iframe(&self, frame: &Resource) -> String {
        self.url(frame, &Selection::default())
    }

    /// Returns `SegmentTemplate@initialization` and `@media` of the I-frames of a track. `None` for
    /// forms of URLs that have no such frames.
    pub(crate) fn dash_iframes(&self, track: &TrackName) -> Option<(String, String)> {
        match self.profile {
            Profile::Native => Some(native::dash_iframes(&self.name, track)),
            Profile::NginxVod(_) => None,
        }
    }

    /// Returns true for forms of URLs that have thumbnails.
    pub(crate) fn has_thumbnails(&self) -> bool {
        self.profile == &Profile::Native
    }

    /// Returns the URL of a sheet of thumbnails (1-based), which is the same in clips.
    pub(crate) fn thumbnail_sheet(&self, track: &TrackName, number: u32) -> String {
        self.url(&Resource::ThumbnailSheet(track.clone(), number), &Selection::default())
    }

    /// Returns `SegmentTemplate@media` of the sheets of thumbnails.
    pub(crate) fn thumbnail_template(&self, track: &TrackName) -> String {
        native::thumbnail_template(&self.name, track)
    }

    pub(crate) fn thumbnail_playlist(&self, track: TrackName) -> String {
        self.url(&Resource::ThumbnailPlaylist(track), self.selection)
    }

    /// Returns the URL of the key with an ID, below the base of the title.
    pub(crate) fn key(&self, id: KeyId) -> String {
        let is_below =
            self.profile == &Profile::Native && matches!(self.manifest, Resource::HlsIFramePlaylist(..));
        format!("{}{KEYS}/{id}{KEY_EXTENSION}", if is_below { "../" } else { "" })
    }

    /// Returns the URL at which the licences of Clear Key are, below the base of the title.
    pub(crate) fn clear_key_licence(&self) -> String {
        format!("{KEYS}/{LICENCE}")
    }

    /// Returns `StreamIndex@Url` of tracks with a stem, with placeholders that a player fills in.
    pub(crate) fn smooth_url(&self, stem: &str, extent: Extent) -> String {
        match self.profile {
            Profile::Native => native::smooth_url(stem) + &self.query(extent),
            Profile::NginxVod(_) => native::smooth_url(stem),
        }
    }

    /// Returns `media@url`, to which players append `SegX-FragN`.
    pub(crate) fn hds_url(&self, tracks: &[TrackName], extent: Extent) -> String {
        match self.profile {
            Profile::Native => native::hds_url(&self.name, tracks, self.for_segments(extent).clip),
            Profile::NginxVod(urls) => urls.hds_url(tracks),
        }
    }

    /// Returns the query that follows the path of a template.
    fn query(&self, extent: Extent) -> String {
        query::with(None, &self.for_segments(extent))
    }

    fn for_segments(&self, extent: Extent) -> Selection {
        match extent {
            Extent::Whole => Selection::default(),
            Extent::Selected => self.selection.for_segments(),
        }
    }

    /// Returns the URL of a resource relative to the manifest: the playlists of I-frames and of
    /// thumbnails are one folder below the base, all other manifests directly under it.
    fn url(&self, resource: &Resource, selection: &Selection) -> String {
        match self.profile {
            Profile::NginxVod(urls) => urls.url(resource, selection),
            Profile::Native => {
                let query = query::of(resource, selection);
                let path = native::path(resource, &self.name, selection.clip);
                let folder = match self.manifest {
                    Resource::HlsIFramePlaylist(..) => native::KEYFRAMES,
                    Resource::ThumbnailPlaylist(_) => native::IMAGES,
                    _ => return path + &query,
                };
                match path.strip_prefix(folder) {
                    Some(beside) => format!("{beside}{query}"),
                    None => format!("../{path}{query}"),
                }
            }
        }
    }
}
