//! The protection of a title: how each protocol is encrypted, and which key encrypts each track.
//!
//! A title with a protection is never sent clear because something is missing: a protocol without a
//! scheme is refused, and so is a title with a track that has no key. Timed text is always clear.

mod cover;
mod track_key;

use crate::{
    Address, PackError, Resource,
    address::HlsContainer,
    carry::Protocol,
    clear_lead::ClearLead,
    digest::extended,
    plan::{Class, Planned},
    segment::ts,
    selection::SampleOrder,
};
use cover::KeyText;
pub(crate) use cover::{Cover, Seal};
use latemux_index::{Title, media::TrackKind, title::TrackName};
use latemux_protect::{ContentKey, CutReader, DrmSystem, KeyId, Scheme};
use std::{sync::Arc, time::Duration};
pub use track_key::{KeyTracks, TrackKey};

/// The scheme of each protocol. A protocol without one is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schemes {
    /// DASH.
    pub dash: Option<Scheme>,
    /// HLS with CMAF segments.
    pub hls_cmaf: Option<Scheme>,
    /// HLS with TS segments.
    pub hls_ts: Option<Scheme>,
    /// Smooth Streaming.
    pub smooth: Option<Scheme>,
}

impl Schemes {
    /// Returns the schemes that some protocol has, each once.
    pub fn all(&self) -> impl Iterator<Item = Scheme> + use<> {
        let all = [self.dash, self.hls_cmaf, self.hls_ts, self.smooth];
        (0..all.len()).filter_map(move |i| all[i].filter(|_| !all[..i].contains(&all[i])))
    }

    /// Returns the scheme of a protocol.
    pub const fn of(&self, protocol: Protocol) -> Option<Scheme> {
        match protocol {
            Protocol::HlsCmaf => self.hls_cmaf,
            Protocol::HlsTs => self.hls_ts,
            Protocol::Dash => self.dash,
            Protocol::Smooth => self.smooth,
            Protocol::Hds => None,
        }
    }
}

/// The URL at which players get a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyUri {
    /// `keys/KID.key` below the base of the title.
    Own,
    /// A URL, in which `{kid}` stands for the 32 digits of the KID.
    Template(String),
}

/// Settings of FairPlay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FairPlay {
    /// URI of keys in playlists, in which `{kid}` stands for the 32 digits of the KID. Without it,
    /// `skd://{kid}`.
    pub uri: Option<String>,
    /// IV of the samples of keys that state none.
    pub iv: Option<FairPlayIv>,
}

/// The IV of samples whose key states none. The licence must state the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FairPlayIv {
    /// The KID of the key.
    Kid,
    /// These bytes.
    Bytes([u8; 16]),
}

/// The protection of one title.
#[derive(Debug)]
pub struct Protection {
    schemes: Schemes,
    systems: Vec<DrmSystem>,
    tracks: Vec<ProtectedTrack>,
    uri: KeyUri,
    /// Template of the URIs of FairPlay keys, if it is not the usual one.
    fairplay_uri: Option<String>,
    /// True if thumbnails are sent clear on purpose. They cannot be encrypted.
    has_clear_thumbnails: bool,
    lead: ClearLead,
}

#[derive(Debug)]
struct ProtectedTrack {
    name: TrackName,
    kind: TrackKind,
    /// False for video whose slices cannot be found, so that its samples cannot be encrypted.
    has_cuts: bool,
    /// True if transport streams carry it with encrypted samples.
    fits_sample_aes: bool,
    /// The key in each scheme. `None` for a track that is clear on purpose.
    keys: Option<Vec<(Scheme, Arc<ContentKey>)>>,
}

impl ProtectedTrack {
    fn key(&self, scheme: Scheme) -> Option<&Arc<ContentKey>> {
        let mut keys = self.keys.iter().flatten();
        keys.find(|(of, _)| *of == scheme).map(|(_, key)| key)
    }
}

impl Protection {
    /// Chooses the key of each track of a title. Tracks of the kinds in `clear`, and timed text,
    /// need none. `systems` are those that manifests and init segments name.
    ///
    /// # Errors
    /// [`PackError::NoKey`] and [`PackError::AmbiguousKey`] for a track with no key or several.
    pub fn new(
        title: &Title,
        (schemes, systems): (Schemes, Vec<DrmSystem>),
        keys: &[TrackKey],
        clear: &[TrackKind],
        uri: KeyUri,
    ) -> Result<Self, PackError> {
        let keys_of = |index: usize, name: &TrackName| {
            let for_track: Vec<&TrackKey> =
                keys.iter().filter(|key| key.tracks.include(title, index)).collect();
            let key_of = |scheme: Scheme| {
                let fits = |key: &&&TrackKey| key.scheme.is_none_or(|of| of == scheme.of_keys());
                let mut found = for_track.iter().filter(fits);
                let key = found.next().ok_or_else(|| PackError::NoKey(name.to_string()))?;
                match found.next() {
                    None => Ok((scheme, key.key.clone())),
                    Some(_) => Err(PackError::AmbiguousKey(name.to_string())),
                }
            };
            schemes.all().map(key_of).collect::<Result<Vec<_>, _>>()
        };
        let track = |(index, named): (usize, &latemux_index::title::TitleTrack)| {
            let kind = title.track(named).kind;
            let is_clear = kind == TrackKind::Text || clear.contains(&kind);
            let keys = if is_clear { None } else { Some(keys_of(index, &named.name)?) };
            let codec = &title.track(named).codec;
            let has_cuts = kind != TrackKind::Video || CutReader::new(codec).is_some();
            let fits_sample_aes = ts::can_encrypt(title.track(named));
            Ok(ProtectedTrack { name: named.name.clone(), kind, has_cuts, fits_sample_aes, keys })
        };
        let tracks = title.tracks().iter().enumerate().map(track).collect::<Result<_, PackError>>()?;
        let lead = ClearLead::default();
        Ok(Self { schemes, systems, tracks, uri, fairplay_uri: None, has_clear_thumbnails: false, lead })
    }

    /// Returns the same protection with the settings of FairPlay.
    ///
    /// # Errors
    /// [`PackError::NoIv`] if FairPlay is one of the systems and a key has no IV: players get the
    /// IV with the licence.
    pub fn with_fairplay(mut self, fairplay: &FairPlay) -> Result<Self, PackError> {
        self.fairplay_uri.clone_from(&fairplay.uri);
        if !self.systems.contains(&DrmSystem::FairPlay) {
            return Ok(self);
        }
        for track in &mut self.tracks {
            for (scheme, key) in track.keys.iter_mut().flatten() {
                if !matches!(scheme, Scheme::Cbcs | Scheme::SampleAes) || key.iv().is_some() {
                    continue;
                }
                let iv = match fairplay.iv {
                    None => return Err(PackError::NoIv(track.name.to_string())),
                    Some(FairPlayIv::Kid) => *key.id().bytes(),
                    Some(FairPlayIv::Bytes(iv)) => iv,
                };
                *key = Arc::new(key.with_iv(iv));
            }
        }
        Ok(self)
    }

    /// Returns the same protection with thumbnails that are sent clear on purpose. Without this,
    /// they are not sent.
    #[must_use]
    pub fn with_clear_thumbnails(mut self, is_clear: bool) -> Self {
        self.has_clear_thumbnails = is_clear;
        self
    }

    /// Returns the same protection with a clear lead of at most this length, counted from the start
    /// of the title. `title` is that of [`Self::new`]. Smooth Streaming has no lead.
    #[must_use]
    pub fn with_clear_lead(mut self, title: &Title, longest: Duration) -> Self {
        self.lead = ClearLead::new(title, longest);
        self
    }

    /// Returns the length of the clear lead. It ends where segments begin. 0 for no lead.
    pub fn clear_lead(&self) -> Duration {
        self.lead.length()
    }

    /// Returns the clear lead in a protocol.
    pub(crate) fn lead_in(&self, protocol: Protocol) -> ClearLead {
        match protocol {
            Protocol::Dash | Protocol::HlsCmaf | Protocol::HlsTs => self.lead,
            // A fragment names no sample entry, and manifests describe one for the whole title.
            Protocol::Smooth | Protocol::Hds => ClearLead::default(),
        }
    }

    /// Returns true if thumbnails are sent clear.
    pub(crate) fn has_clear_thumbnails(&self) -> bool {
        self.has_clear_thumbnails
    }

    /// Returns the scheme of each protocol.
    pub fn schemes(&self) -> Schemes {
        self.schemes
    }

    /// Returns the tracks with their key in each scheme. Tracks without keys are clear on purpose.
    pub fn tracks(&self) -> impl Iterator<Item = (&TrackName, &[(Scheme, Arc<ContentKey>)])> {
        self.tracks.iter().map(|track| (&track.name, track.keys.as_deref().unwrap_or_default()))
    }

    /// Returns the key with an ID, if a track has it.
    pub fn key(&self, id: KeyId) -> Option<&ContentKey> {
        let mut keys = self.tracks.iter().flat_map(|track| track.keys.iter().flatten());
        keys.find(|(_, key)| key.id() == id).map(|(_, key)| &**key)
    }

    /// Returns the DRM systems that manifests and init segments name.
    pub fn systems(&self) -> &[DrmSystem] {
        &self.systems
    }

    /// Returns the URL at which players get keys.
    pub(crate) fn uri(&self) -> &KeyUri {
        &self.uri
    }

    /// Returns the URI of a key in FairPlay.
    pub(crate) fn fairplay_uri(&self, id: KeyId) -> String {
        self.fairplay_uri.as_deref().unwrap_or("skd://{kid}").replace("{kid}", &id.to_string())
    }

    /// Returns the address that is served in place of another one, if any. If a URL does not state
    /// the container, it is one that has a scheme.
    pub(crate) fn readdressed(&self, address: &Address) -> Option<Address> {
        if self.schemes.hls_ts.is_some() {
            return None;
        }
        let mut address = address.clone();
        match &mut address.resource {
            Resource::HlsMultivariant(container)
            | Resource::HlsPlaylist(_, container)
            | Resource::HlsIFramePlaylist(_, container) => *container = HlsContainer::Cmaf,
            _ => return None,
        }
        Some(address)
    }

    /// Returns the cover of tracks that are sent together: that of the video, if it has one. `None`
    /// if all of them are clear on purpose. Fails with [`PackError::CannotProtect`] if the protocol
    /// has no scheme.
    pub(crate) fn cover(
        &self,
        protocol: Protocol,
        names: &[TrackName],
    ) -> Result<Option<Cover<'_>>, PackError> {
        let scheme = self.schemes.of(protocol);
        let find = |name: &TrackName| {
            let track = self.tracks.iter().find(|track| track.name == *name);
            track.ok_or_else(|| PackError::NoSuchTrack(name.to_string()))
        };
        let tracks = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let keyed = tracks.iter().filter(|track| track.keys.is_some()).min_by_key(|track| track.kind);
        match (keyed, scheme) {
            (Some(_), Some(scheme)) if scheme.is_common_encryption() && tracks.len() > 1 => {
                Err(PackError::CannotProtect("segments of several tracks"))
            }
            (Some(_), Some(scheme))
                if scheme.is_common_encryption() && !tracks.iter().all(|t| t.has_cuts) =>
            {
                Err(PackError::CannotProtect("video other than AVC, HEVC, AV1 or VP9"))
            }
            (Some(_), Some(Scheme::SampleAes)) if !tracks.iter().all(|track| track.fits_sample_aes) => {
                Err(PackError::CannotProtect("transport streams of other than AVC, AAC and AC-3"))
            }
            (Some(track), Some(scheme)) => {
                let key = track.key(scheme).ok_or_else(|| PackError::NoKey(track.name.to_string()))?;
                Ok(Some(Cover { scheme, key, systems: &self.systems, lead: self.lead_in(protocol) }))
            }
            // Timed text of HLS is always clear, so it needs no scheme of its own.
            (None, _) if self.is_served(protocol) => Ok(None),
            _ => Err(PackError::CannotProtect(protocol.name())),
        }
    }

    /// Returns the cover of all tracks of a title in Smooth Streaming. Fails with
    /// [`PackError::CannotProtect`] if they have several keys: manifests state one.
    pub(crate) fn smooth_cover(&self, names: &[TrackName]) -> Result<Option<Cover<'_>>, PackError> {
        let covers = names.iter().map(|name| self.cover(Protocol::Smooth, std::slice::from_ref(name)));
        let covers = covers.filter_map(Result::transpose).collect::<Result<Vec<_>, _>>()?;
        let first = covers.first().copied();
        match covers.iter().all(|cover| first.is_some_and(|first| cover.key.id() == first.key.id())) {
            true => Ok(first),
            false => Err(PackError::CannotProtect("Smooth Streaming with several keys")),
        }
    }

    /// Checks that a protocol has a scheme in some container.
    pub(crate) fn must_serve(&self, protocol: Protocol) -> Result<(), PackError> {
        if self.is_served(protocol) { Ok(()) } else { Err(PackError::CannotProtect(protocol.name())) }
    }

    fn is_served(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::HlsCmaf | Protocol::HlsTs => {
                self.schemes.hls_cmaf.is_some() || self.schemes.hls_ts.is_some()
            }
            other => self.schemes.of(other).is_some(),
        }
    }

    /// Returns the cover of the resource at an address. `None` for manifests, and for tracks that
    /// are clear on purpose. Fails with [`PackError::CannotProtect`] for what has no scheme.
    pub(crate) fn cover_of(&self, address: &Address) -> Result<Option<Cover<'_>>, PackError> {
        use std::slice::from_ref;
        let cover = match &address.resource {
            Resource::DashManifest(_) => self.must_serve(Protocol::Dash).map(|()| None),
            Resource::SmoothManifest => self.must_serve(Protocol::Smooth).map(|()| None),
            Resource::HdsManifest | Resource::HdsBootstrap(_) => {
                self.must_serve(Protocol::Hds).map(|()| None)
            }
            Resource::HlsMultivariant(_) | Resource::HlsPlaylist(..) | Resource::HlsIFramePlaylist(..) => {
                self.must_serve(Protocol::HlsCmaf).map(|()| None)
            }
            Resource::ThumbnailSheet(..) | Resource::ThumbnailPlaylist(_) | Resource::Storyboard => {
                let problem = PackError::CannotProtect("thumbnails");
                if self.has_clear_thumbnails { Ok(None) } else { Err(problem) }
            }
            Resource::DashInit(track)
            | Resource::DashSegmentAt(track, _)
            | Resource::DashIFrame(track, _)
            | Resource::DashSegment(track, _) => self.cover(Protocol::Dash, from_ref(track)),
            Resource::HlsInit(tracks) | Resource::HlsSegment(tracks, _) => {
                self.cover(Protocol::HlsCmaf, tracks)
            }
            Resource::HlsIFrameCmaf(track, _) => self.cover(Protocol::HlsCmaf, from_ref(track)),
            // It describes clear segments.
            Resource::HlsLeadInit(track) => self.cover(Protocol::HlsCmaf, from_ref(track)).map(|_| None),
            // Text is always clear.
            Resource::HlsText(track, ..) => self.cover(Protocol::HlsCmaf, from_ref(track)),
            Resource::HlsTsSegment(tracks, _) => self.cover(Protocol::HlsTs, tracks),
            Resource::HlsIFrameTs(track, _) => self.cover(Protocol::HlsTs, from_ref(track)),
            Resource::SmoothFragment(track, _) => self.cover(Protocol::Smooth, from_ref(track)),
            Resource::HdsFragment(tracks, _) => self.cover(Protocol::Hds, tracks),
        }?;
        if cover.is_some() && address.selection.order == SampleOrder::Priority {
            return Err(PackError::CannotProtect("order=priority"));
        }
        Ok(cover)
    }

    /// Completes the plan of the resource at an address, see [`Self::cover_of`].
    pub(crate) fn complete(&self, planned: Planned, cover: Option<&Cover<'_>>) -> Planned {
        match (planned, cover) {
            (Planned::Ready(mut plan), _) if plan.class == Class::Manifest => {
                plan.digest = extended(plan.digest, format_args!("{}", self.text()));
                Planned::Ready(plan)
            }
            // The planner has encrypted the samples.
            (planned, Some(cover)) if cover.scheme.is_of_samples() => planned,
            (Planned::Ready(plan), Some(cover)) if plan.class == Class::Media => {
                Planned::Ready(cover.seal(plan.digest).seal(plan))
            }
            (Planned::NeedsMedia(media), Some(cover)) => Planned::NeedsMedia(media.sealed(cover)),
            (planned, _) => planned,
        }
    }

    /// Returns the text of everything that manifests depend on.
    fn text(&self) -> String {
        let mut text = format!("{:?} {:?} {:?}", self.schemes, self.systems, self.uri);
        if self.has_clear_thumbnails {
            text.push_str(" thumbnails");
        }
        if !self.lead.is_empty() {
            text.push_str(&self.lead.text());
        }
        text.extend(self.fairplay_uri.iter().flat_map(|uri| [" fairplay ", uri]));
        for track in &self.tracks {
            match &track.keys {
                Some(keys) => {
                    let texts = keys.iter().map(|(_, key)| format!(" {}", KeyText(key)));
                    text.extend(texts);
                }
                None => text.push_str(" clear"),
            }
        }
        text
    }
}
