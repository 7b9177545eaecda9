//! The URLs that the manifests of a title hold in this form.

use super::{Settings, TrackNumbers, VodResource};
use crate::{
    address::{
        Resource,
        native::{HDS_ADDED, HDS_FRAGMENT},
    },
    selection::Selection,
};
use latemux_index::title::TrackName;
use std::{slice::from_ref, sync::Arc};

/// The placeholder for a track in DASH templates.
const REPRESENTATION: &str = "$RepresentationID$";
/// The spelling of a title's URLs in this form, and the URL that was requested.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NginxVodUrls {
    settings: Arc<Settings>,
    numbers: TrackNumbers,
    requested: String,
}

impl NginxVodUrls {
    /// Creates the spelling of URLs. `requested` is the requested URL, relative to the base.
    pub(super) fn new(settings: Arc<Settings>, numbers: TrackNumbers, requested: String) -> Self {
        Self { settings, numbers, requested }
    }

    /// Returns the canonical form of the requested URL, relative to the base, with its query.
    pub(in crate::address) fn requested(&self) -> &str {
        &self.requested
    }

    /// Returns the text that stands for this spelling in digests.
    ///
    /// ETags are made from it. It must not change when something in the code is renamed.
    pub(crate) fn digest_text(&self) -> String {
        let settings = &self.settings;
        format!(
            "Form {{ settings: {settings:?}, places: {}, asked: {:?} }}",
            self.numbers.digest_text(),
            self.requested
        )
    }

    pub(in crate::address) fn prefix(&self, resource: &Resource) -> &str {
        self.settings.prefix(self.in_this_form(resource).protocol()).unwrap_or("/")
    }

    /// Returns the URL of a resource relative to any manifest of the title.
    pub(in crate::address) fn url(&self, resource: &Resource, selection: &Selection) -> String {
        self.in_this_form(resource).url(&self.settings, selection)
    }

    /// Returns a representation's ID, such as `f2-v1`.
    pub(in crate::address) fn representation_id(&self, track: &TrackName) -> String {
        self.numbers.picks(from_ref(track)).to_string().trim_start_matches('-').to_owned()
    }

    pub(in crate::address) fn dash_initialization(&self) -> String {
        format!("{}-{REPRESENTATION}.mp4", self.settings.names.dash_init)
    }

    pub(in crate::address) fn dash_media(&self) -> String {
        format!("{}-$Number$-{REPRESENTATION}.m4s", self.settings.names.dash_fragment)
    }

    pub(in crate::address) fn hds_url(&self, tracks: &[TrackName]) -> String {
        let added = HDS_FRAGMENT.strip_suffix(HDS_ADDED).unwrap_or_default();
        format!("{}{}{added}", self.settings.names.hds_fragment, self.numbers.picks(tracks))
    }

    fn in_this_form(&self, resource: &Resource) -> VodResource {
        let several = |tracks: &[TrackName]| self.numbers.picks(tracks);
        let one = |track: &TrackName| self.numbers.picks(from_ref(track));
        match resource {
            Resource::DashManifest(_) => VodResource::DashManifest(several(&[])),
            Resource::DashInit(track) => VodResource::DashInit(one(track)),
            // These URLs hold no times, and no manifest prints a segment by its time in this form.
            Resource::DashSegmentAt(track, _) | Resource::DashIFrame(track, _) => {
                VodResource::DashInit(one(track))
            }
            Resource::DashSegment(track, n) => VodResource::DashSegment(one(track), *n),
            Resource::HlsMultivariant(container) => VodResource::HlsMaster(several(&[]), *container),
            Resource::HlsPlaylist(tracks, container) => VodResource::HlsIndex(several(tracks), *container),
            Resource::HlsTsSegment(tracks, n) => VodResource::HlsTs(several(tracks), *n),
            Resource::HlsInit(tracks) => VodResource::HlsInit(several(tracks)),
            Resource::HlsLeadInit(track) => VodResource::HlsLeadInit(one(track)),
            Resource::HlsSegment(tracks, n) => VodResource::HlsSegment(several(tracks), *n),
            Resource::HlsText(track, n, container) => VodResource::HlsText(one(track), *n, *container),
            Resource::HlsIFramePlaylist(track, container) => VodResource::HlsIFrames(one(track), *container),
            Resource::HlsIFrameTs(track, n) => VodResource::HlsIFrameTs(one(track), *n),
            Resource::HlsIFrameCmaf(track, n) => VodResource::HlsIFrameCmaf(one(track), *n),
            // No manifest of this form prints these.
            Resource::ThumbnailSheet(..) | Resource::ThumbnailPlaylist(_) | Resource::Storyboard => {
                VodResource::DashManifest(several(&[]))
            }
            Resource::SmoothManifest => VodResource::SmoothManifest(several(&[])),
            Resource::SmoothFragment(track, time) => VodResource::SmoothFragment(track.clone(), *time),
            Resource::HdsManifest => VodResource::HdsManifest(several(&[])),
            Resource::HdsBootstrap(tracks) => VodResource::HdsBootstrap(several(tracks)),
            Resource::HdsFragment(tracks, n) => VodResource::HdsFragment(several(tracks), *n),
        }
    }
}
