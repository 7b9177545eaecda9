//! The URLs that the manifests of a title hold in this form.

use super::{File, Places, REPRESENTATION, Settings};
use crate::address::{
    Resource, Selection,
    native::{HDS_ADDED, HDS_FRAGMENT},
};
use latemux_index::title::TrackName;
use std::{slice::from_ref, sync::Arc};

/// The spelling of a title's URLs in this form, and the URL that was requested.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Form {
    settings: Arc<Settings>,
    places: Places,
    asked: String,
}

impl Form {
    /// Creates the spelling of URLs. `requested` is the requested URL, relative to the base.
    pub(super) fn new(settings: Arc<Settings>, places: Places, asked: String) -> Self {
        Self { settings, places, asked }
    }

    /// Returns the canonical form of the requested URL, relative to the base, parameters and query
    /// included.
    pub(in crate::address) fn asked(&self) -> &str {
        &self.asked
    }

    /// Returns the prefix of a resource's URL.
    pub(in crate::address) fn prefix(&self, resource: &Resource) -> &str {
        self.settings.prefix(self.file(resource).protocol()).unwrap_or("/")
    }

    /// Returns the URL of a resource relative to any manifest of the title.
    pub(in crate::address) fn url(&self, resource: &Resource, selection: &Selection) -> String {
        self.file(resource).url(&self.settings, selection)
    }

    /// Returns a representation's ID, such as `f2-v1`.
    pub(in crate::address) fn representation_id(&self, track: &TrackName) -> String {
        self.places.picks(from_ref(track)).to_string().trim_start_matches('-').to_owned()
    }

    /// Returns `SegmentTemplate@initialization`.
    pub(in crate::address) fn dash_initialization(&self) -> String {
        format!("{}-{REPRESENTATION}.mp4", self.settings.names.dash_init)
    }

    /// Returns `SegmentTemplate@media`.
    pub(in crate::address) fn dash_media(&self) -> String {
        format!("{}-$Number$-{REPRESENTATION}.m4s", self.settings.names.dash_fragment)
    }

    /// Returns `media@url`.
    pub(in crate::address) fn hds_url(&self, tracks: &[TrackName]) -> String {
        let added = HDS_FRAGMENT.strip_suffix(HDS_ADDED).unwrap_or_default();
        format!("{}{}{added}", self.settings.names.hds_fragment, self.places.picks(tracks))
    }

    fn file(&self, resource: &Resource) -> File {
        let several = |tracks: &[TrackName]| self.places.picks(tracks);
        let one = |track: &TrackName| self.places.picks(from_ref(track));
        match resource {
            Resource::DashManifest(_) => File::DashManifest(several(&[])),
            Resource::DashInit(track) => File::DashInit(one(track)),
            // These URLs hold no times, and no manifest prints a segment by its time in this form.
            Resource::DashSegmentAt(track, _) => File::DashInit(one(track)),
            Resource::DashSegment(track, n) => File::DashSegment(one(track), *n),
            Resource::HlsMultivariant(container) => File::HlsMaster(several(&[]), *container),
            Resource::HlsPlaylist(tracks, container) => File::HlsIndex(several(tracks), *container),
            Resource::HlsTsSegment(tracks, n) => File::HlsTs(several(tracks), *n),
            Resource::HlsInit(tracks) => File::HlsInit(several(tracks)),
            Resource::HlsSegment(tracks, n) => File::HlsSegment(several(tracks), *n),
            Resource::HlsIFramePlaylist(track, container) => File::HlsIFrames(one(track), *container),
            Resource::HlsIFrameTs(track, n) => File::HlsIFrameTs(one(track), *n),
            Resource::HlsIFrameCmaf(track, n) => File::HlsIFrameCmaf(one(track), *n),
            Resource::SmoothManifest => File::SmoothManifest(several(&[])),
            Resource::SmoothFragment(track, time) => File::SmoothFragment(track.clone(), *time),
            Resource::HdsManifest => File::HdsManifest(several(&[])),
            Resource::HdsBootstrap(tracks) => File::HdsBootstrap(several(tracks)),
            Resource::HdsFragment(tracks, n) => File::HdsFragment(several(tracks), *n),
        }
    }
}
