//! The URLs a manifest holds: of other manifests, which carry its selection on, and of segments.
//!
//! A segment's URL says no more than its bytes depend on. One that is the same in a clip as in the whole title has one URL in both.

use super::{
    Address, DashTemplate, HlsContainer, Profile, Resource, Selection, name_of, native, nginx_vod, query,
    rep_id,
};
use latemux_index::title::TrackName;

/// Whether a segment is one of the whole title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// It is, whatever else is left out.
    Whole,
    /// There is none such without the selection: cut off, or joined.
    Selected,
}

/// The URLs that the manifest at an address holds, relative to it.
#[derive(Debug)]
pub struct Links<'a> {
    profile: &'a Profile,
    name: String,
    manifest: &'a Resource,
    selection: &'a Selection,
    segments: Selection,
}

impl<'a> Links<'a> {
    /// The URLs in the manifest at `address`.
    #[must_use]
    pub fn new(address: &'a Address) -> Self {
        Self {
            profile: &address.profile,
            name: name_of(&address.base),
            manifest: &address.resource,
            selection: &address.selection,
            segments: address.selection.of_segments(),
        }
    }

    /// The NAME that URLs of the title carry, encoded.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the manifest lists a track.
    #[must_use]
    pub fn lists(&self, track: &TrackName) -> bool {
        self.selection.lists(track)
    }

    /// What `$RepresentationID$` stands for.
    #[must_use]
    pub fn representation_id(&self, track: &TrackName) -> String {
        match self.profile {
            Profile::Native => rep_id(track),
            Profile::NginxVod(form) => form.representation_id(track),
        }
    }

    /// `SegmentTemplate@initialization`.
    #[must_use]
    pub fn dash_initialization(&self) -> String {
        match self.profile {
            Profile::Native => native::dash_initialization(&self.name),
            Profile::NginxVod(form) => form.dash_initialization(),
        }
    }

    /// `SegmentTemplate@media`.
    #[must_use]
    pub fn dash_media(&self, template: DashTemplate, extent: Extent) -> String {
        let path = match self.profile {
            Profile::Native => native::dash_media(template, &self.name),
            Profile::NginxVod(form) => form.dash_media(),
        };
        path + &self.query(extent)
    }

    /// A media playlist, of this selection.
    #[must_use]
    pub fn hls_playlist(&self, tracks: Vec<TrackName>, container: HlsContainer) -> String {
        self.url(&Resource::HlsPlaylist(tracks, container), self.selection)
    }

    /// An I-frame playlist, of this selection.
    #[must_use]
    pub fn hls_iframe_playlist(&self, track: TrackName, container: HlsContainer) -> String {
        self.url(&Resource::HlsIFramePlaylist(track, container), self.selection)
    }

    /// An init segment.
    #[must_use]
    pub fn hls_init(&self, track: TrackName) -> String {
        self.url(&Resource::HlsInit(track), &Selection::default())
    }

    /// A media segment, or an I-frame.
    #[must_use]
    pub fn hls_segment(&self, segment: &Resource, extent: Extent) -> String {
        match extent {
            Extent::Whole => self.url(segment, &Selection::default()),
            Extent::Selected => self.url(segment, &self.segments),
        }
    }

    /// `StreamIndex@Url` of tracks with a stem, with the places a player fills in.
    #[must_use]
    pub fn smooth_url(&self, stem: &str, extent: Extent) -> String {
        let path = match self.profile {
            Profile::Native | Profile::NginxVod(_) => native::smooth_url(stem),
        };
        path + &self.query(extent)
    }

    /// `media@url`, which players put `SegX-FragN` behind.
    #[must_use]
    pub fn hds_url(&self, tracks: &[TrackName], extent: Extent) -> String {
        let path = match self.profile {
            Profile::Native => native::hds_url(&self.name, tracks),
            Profile::NginxVod(form) => form.hds_url(tracks),
        };
        path + &self.query(extent)
    }

    /// What a template has behind its path.
    fn query(&self, extent: Extent) -> String {
        match extent {
            Extent::Whole => String::new(),
            Extent::Selected => match self.profile {
                Profile::Native => query::of_selection(&self.segments),
                Profile::NginxVod(_) => query::of_selection(&nginx_vod::in_query(&self.segments)),
            },
        }
    }

    /// I-frame playlists are one folder below the base, all other manifests directly under it.
    fn url(&self, resource: &Resource, selection: &Selection) -> String {
        match self.profile {
            Profile::NginxVod(form) => form.url(resource, selection),
            Profile::Native => {
                let query = query::of(resource, selection);
                let path = native::path(resource, &self.name);
                if !matches!(self.manifest, Resource::HlsIFramePlaylist(..)) {
                    return path + &query;
                }
                match path.strip_prefix(native::KEYFRAMES) {
                    Some(beside) => format!("{beside}{query}"),
                    None => format!("../{path}{query}"),
                }
            }
        }
    }
}
