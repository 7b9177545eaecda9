//! The resources of a title, and the names of their files.

use super::{Names, Picks, Settings, settings::PrefixProtocols};
use crate::{
    address::{
        AddressError, HlsContainer, IFrameNumber, Resource,
        native::{self, HDS_FRAGMENT, number},
        query,
    },
    carry::Protocol,
    selection::{Clip, Selection},
};
use latemux_index::title::TrackName;

/// A second name of DASH segments: the module's documentation and its code differ.
const DASH_FRAGMENT_ALIAS: &str = "frag";
const IFRAME: &str = "iframe";
/// The name of init segments of a clear lead.
const LEAD_INIT: &str = "lead";
const BOOTSTRAP: &str = "bootstrap";

/// A resource that can be requested of a title. Numbers are 1-based.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VodResource {
    /// `master.m3u8`
    HlsMaster(Picks, HlsContainer),
    /// `index-v1-a1.m3u8`
    HlsIndex(Picks, HlsContainer),
    /// `iframes-v1.m3u8`
    HlsIFrames(Picks, HlsContainer),
    /// `seg-N-v1-a1.ts`
    HlsTs(Picks, u32),
    /// `seg-N-v1.m4s`
    HlsSegment(Picks, u32),
    /// `seg-N-t1.vtt`
    HlsText(Picks, u32, HlsContainer),
    /// `init-v1.mp4` under the prefix of HLS, unless DASH has the same prefix.
    HlsInit(Picks),
    /// `lead-v1.mp4`: the init segment of the clear lead of an encrypted track.
    HlsLeadInit(Picks),
    /// `iframe-N[-PLACE]-v1.ts`
    HlsIFrameTs(Picks, IFrameNumber),
    /// `iframe-N[-PLACE]-v1.m4s`
    HlsIFrameCmaf(Picks, IFrameNumber),
    /// `manifest.mpd`
    DashManifest(Picks),
    /// `init-v1.mp4`
    DashInit(Picks),
    /// `fragment-N-v1.m4s`
    DashSegment(Picks, u32),
    /// `manifest`
    SmoothManifest(Picks),
    /// `QualityLevels(BITRATE)/Fragments(STEM=TIME)`, as in the native form.
    SmoothFragment(TrackName, u64),
    /// `manifest.f4m`
    HdsManifest(Picks),
    /// `bootstrap-v1-a1.abst`
    HdsBootstrap(Picks),
    /// `frag-v1-a1-Seg1-FragN`
    HdsFragment(Picks, u32),
}

impl VodResource {
    /// Returns the protocol of the URL. HLS with TS and HLS with CMAF have one prefix.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::HlsMaster(..) | Self::HlsIndex(..) | Self::HlsIFrames(..) => Protocol::HlsTs,
            Self::HlsTs(..) | Self::HlsText(..) | Self::HlsIFrameTs(..) => Protocol::HlsTs,
            Self::HlsSegment(..) | Self::HlsInit(_) | Self::HlsLeadInit(_) | Self::HlsIFrameCmaf(..) => {
                Protocol::HlsCmaf
            }
            Self::DashManifest(_) | Self::DashInit(_) | Self::DashSegment(..) => Protocol::Dash,
            Self::SmoothManifest(_) | Self::SmoothFragment(..) => Protocol::Smooth,
            Self::HdsManifest(_) | Self::HdsBootstrap(_) | Self::HdsFragment(..) => Protocol::Hds,
        }
    }

    /// True for manifests and playlists.
    pub fn is_manifest(&self) -> bool {
        matches!(
            self,
            Self::HlsMaster(..)
                | Self::HlsIndex(..)
                | Self::HlsIFrames(..)
                | Self::DashManifest(_)
                | Self::SmoothManifest(_)
                | Self::HdsManifest(_)
                | Self::HdsBootstrap(_)
        )
    }

    pub(super) fn parse(
        settings: &Settings,
        protocols: PrefixProtocols,
        name: &str,
        container: HlsContainer,
    ) -> Result<Self, AddressError> {
        let parsed = [
            // If HLS and DASH share a prefix, init segments belong to DASH, which carries every
            // codec that HLS carries.
            protocols.dash.then(|| Self::dash(&settings.names, name)),
            protocols.hls.then(|| Self::hls(&settings.names, name, container)),
            protocols.mss.then(|| Self::mss(&settings.names, name)),
            protocols.hds.then(|| Self::hds(&settings.names, name)),
        ];
        parsed.into_iter().flatten().flatten().next().unwrap_or(Err(AddressError::NoSuchUrl))
    }

    /// Returns `None` if the protocol has no such name.
    fn hls(names: &Names, name: &str, container: HlsContainer) -> Option<Result<Self, AddressError>> {
        if let Some(stem) = name.strip_suffix(".m3u8") {
            let file = |name: &str, make: fn(Picks, HlsContainer) -> Self| {
                Some(Picks::parse(rest_after(stem, name)?).map(|picks| make(picks, container)))
            };
            return file(&names.hls_master, Self::HlsMaster)
                .or_else(|| file(&names.hls_index, Self::HlsIndex))
                .or_else(|| file(&names.hls_iframes, Self::HlsIFrames));
        }
        if let Some(stem) = name.strip_suffix(".mp4") {
            let file =
                |name: &str, make: fn(Picks) -> Self| Some(Picks::parse(rest_after(stem, name)?).map(make));
            return file(&names.hls_init, Self::HlsInit).or_else(|| file(LEAD_INIT, Self::HlsLeadInit));
        }
        if let Some(stem) = name.strip_suffix(".vtt") {
            let found = rest_after(stem, &names.hls_segment).and_then(numbered)?;
            return Some(found.map(|(n, picks)| Self::HlsText(picks, n, container)));
        }
        type Make<N> = fn(Picks, N) -> VodResource;
        let (stem, segment, iframe): (_, Make<u32>, Make<IFrameNumber>) = match name.strip_suffix(".ts") {
            Some(stem) => (stem, Self::HlsTs, Self::HlsIFrameTs),
            None => (name.strip_suffix(".m4s")?, Self::HlsSegment, Self::HlsIFrameCmaf),
        };
        if let Some(found) = rest_after(stem, &names.hls_segment).and_then(numbered) {
            return Some(found.map(|(n, picks)| segment(picks, n)));
        }
        Some(iframe_number(rest_after(stem, IFRAME)?)?.map(|(number, picks)| iframe(picks, number)))
    }

    fn dash(names: &Names, name: &str) -> Option<Result<Self, AddressError>> {
        if let Some(stem) = name.strip_suffix(".mpd") {
            return Some(Picks::parse(rest_after(stem, &names.dash_manifest)?).map(Self::DashManifest));
        }
        if let Some(stem) = name.strip_suffix(".mp4") {
            return Some(Picks::parse(without_x(rest_after(stem, &names.dash_init)?)).map(Self::DashInit));
        }
        let stem = name.strip_suffix(".m4s")?;
        let rest =
            rest_after(stem, &names.dash_fragment).or_else(|| rest_after(stem, DASH_FRAGMENT_ALIAS))?;
        Some(numbered(without_x(rest))?.map(|(n, picks)| Self::DashSegment(picks, n)))
    }

    fn mss(names: &Names, name: &str) -> Option<Result<Self, AddressError>> {
        // Players use both spellings.
        let rest = rest_after(name, &names.mss_manifest).or_else(|| rest_after(name, "Manifest"))?;
        Some(Picks::parse(rest).map(Self::SmoothManifest))
    }

    fn hds(names: &Names, name: &str) -> Option<Result<Self, AddressError>> {
        if let Some(stem) = name.strip_suffix(".f4m") {
            return Some(Picks::parse(rest_after(stem, &names.hds_manifest)?).map(Self::HdsManifest));
        }
        if let Some(stem) = name.strip_suffix(".abst") {
            return Some(Picks::parse(rest_after(stem, BOOTSTRAP)?).map(Self::HdsBootstrap));
        }
        let (stem, n) = name.rsplit_once(HDS_FRAGMENT)?;
        let picks = Picks::parse(rest_after(stem, &names.hds_fragment)?);
        Some(picks.and_then(|picks| match number(n) {
            Some(0) => Err(AddressError::IndexZero),
            Some(n) => Ok(Self::HdsFragment(picks, n)),
            None => Err(AddressError::NoSuchUrl),
        }))
    }

    /// Returns the URL relative to a manifest of the same title, with the part of the selection
    /// that the query states. All files of a title are in one folder.
    pub fn url(&self, settings: &Settings, selection: &Selection) -> String {
        let container = match self {
            Self::HlsMaster(_, c) | Self::HlsIndex(_, c) | Self::HlsIFrames(_, c) | Self::HlsText(.., c) => {
                *c
            }
            _ => settings.container,
        };
        let option = match container {
            default if default == settings.container => None,
            HlsContainer::Cmaf => Some("hls_fmp4"),
            HlsContainer::Auto => Some("hls_fmp4=false"),
        };
        // The path states the clip and the tracks.
        let in_query = Selection { clip: Clip::default(), tracks: None, ..selection.clone() };
        self.path(settings) + &query::with(option, &in_query)
    }

    fn path(&self, settings: &Settings) -> String {
        let names = &settings.names;
        match self {
            Self::HlsMaster(picks, _) => format!("{}{picks}.m3u8", names.hls_master),
            Self::HlsIndex(picks, _) => format!("{}{picks}.m3u8", names.hls_index),
            Self::HlsIFrames(picks, _) => format!("{}{picks}.m3u8", names.hls_iframes),
            Self::HlsTs(picks, n) => format!("{}-{n}{picks}.ts", names.hls_segment),
            Self::HlsSegment(picks, n) => format!("{}-{n}{picks}.m4s", names.hls_segment),
            Self::HlsText(picks, n, _) => format!("{}-{n}{picks}.vtt", names.hls_segment),
            Self::HlsInit(picks) => format!("{}{picks}.mp4", names.hls_init),
            Self::HlsLeadInit(picks) => format!("{LEAD_INIT}{picks}.mp4"),
            Self::HlsIFrameTs(picks, n) => format!("{IFRAME}-{n}{picks}.ts"),
            Self::HlsIFrameCmaf(picks, n) => format!("{IFRAME}-{n}{picks}.m4s"),
            Self::DashManifest(picks) => format!("{}{picks}.mpd", names.dash_manifest),
            Self::DashInit(picks) => format!("{}{picks}.mp4", names.dash_init),
            Self::DashSegment(picks, n) => format!("{}-{n}{picks}.m4s", names.dash_fragment),
            Self::SmoothManifest(picks) => format!("{}{picks}", names.mss_manifest),
            Self::SmoothFragment(track, time) => {
                native::path(&Resource::SmoothFragment(track.clone(), *time), "", Clip::default())
            }
            Self::HdsManifest(picks) => format!("{}{picks}.f4m", names.hds_manifest),
            Self::HdsBootstrap(picks) => format!("{BOOTSTRAP}{picks}.abst"),
            Self::HdsFragment(picks, n) => format!("{}{picks}{HDS_FRAGMENT}{n}", names.hds_fragment),
        }
    }
}

/// Returns the text that follows a name, if the name ends there or before a hyphen.
fn rest_after<'a>(stem: &'a str, name: &str) -> Option<&'a str> {
    stem.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Parses `-N` and the references that follow. Returns `None` if there is no number.
fn numbered(rest: &str) -> Option<Result<(u32, Picks), AddressError>> {
    let rest = rest.strip_prefix('-')?;
    let (n, picks) = rest.split_at(rest.find('-').unwrap_or(rest.len()));
    match number(n)? {
        0 => Some(Err(AddressError::IndexZero)),
        n => Some(Picks::parse(picks).map(|picks| (n, picks))),
    }
}

/// Parses `-N[-PLACE]` and the references that follow. Returns `None` if there is no number.
fn iframe_number(rest: &str) -> Option<Result<(IFrameNumber, Picks), AddressError>> {
    let after = rest.strip_prefix('-')?;
    let (n, picks) = after.split_at(after.find('-').unwrap_or(after.len()));
    let place = picks.get(1..).is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()));
    if !place {
        return Some(numbered(rest)?.map(|(n, picks)| (IFrameNumber::first_of(n), picks)));
    }
    let segment = number(n).filter(|&n| n > 0)?;
    let (place, picks) = numbered(picks)?.ok()?;
    // The first place has one spelling.
    (place > 1).then_some(Ok((IFrameNumber { segment, place }, picks)))
}

/// Removes the `-x3` that the module appends to its representations.
fn without_x(rest: &str) -> &str {
    match rest.rsplit_once("-x") {
        Some((before, n)) if number::<u32>(n).is_some() => before,
        _ => rest,
    }
}
