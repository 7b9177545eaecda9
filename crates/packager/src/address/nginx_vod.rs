//! URLs as nginx-vod-module has them, for those who come from there: under a prefix per protocol, tracks by number.
//!
//! ```text
//! URL      = PREFIX FILE PARAM "/" NAME
//! FILE     = a title's base, as in the native form; with ".urlset" a list of files
//! PARAM    = ["/clipFrom/" MS] ["/clipTo/" MS] ["/tracks/" PICK *("-" PICK)]      anywhere in the path, printed behind FILE
//! NAME     = "master" PICKS ".m3u8"                                   HLS multivariant playlist
//!          | "index" PICKS ".m3u8"                                    HLS media playlist
//!          | "iframes" PICKS ".m3u8"                                  HLS I-frame playlist
//!          | "seg-" N PICKS (".ts" | ".m4s")                          HLS segment
//!          | "init" PICKS ".mp4"                                      HLS or DASH init segment
//!          | "iframe-" N PICKS (".ts" | ".m4s")                       the I-frame an HLS segment starts with
//!          | "manifest" PICKS ".mpd"                                  DASH manifest
//!          | ("fragment-" | "frag-") N PICKS ".m4s"                   DASH segment
//!          | "manifest" PICKS                                         Smooth Streaming client manifest
//!          | "QualityLevels(" BITRATE ")/Fragments(" STEM "=" TIME ")"
//!          | "manifest" PICKS ".f4m"                                  HDS manifest
//!          | "bootstrap" PICKS ".abst"                                HDS bootstrap information
//!          | "frag" PICKS "-Seg1-Frag" N                              HDS fragment
//! PICKS    = *("-" PICK) ["-x" N]                                     the latter in DASH only, and ignored
//! PICK     = "f" N | ("v" | "a" | "t") (N | "0")
//! ```
//!
//! `fN` names a file of the title, `vN` its Nth video track; numbers are those of the file, whatever is selected. `v0` is all video. The
//! names before the first hyphen can be configured ([`Names`]). Queries are those of the native form.
//!
//! What a URL names is known once its title is: [`Places`] turns references into the native form's [`Resource`]s, so that both forms have
//! one plan and the same bytes.

mod form;
mod picks;
mod places;
mod settings;

pub use form::Form;
pub use picks::{Pick, Picks};
pub use places::{Places, Resolved};
pub use settings::{Names, Prefixes, Settings};

use super::{
    Address, AddressError, Clip, HlsContainer, Profile, RESERVED_IN_BASE, Resource, Selection,
    native::{self, HDS_FRAGMENT, decode, number, smooth_fragment},
    query::{self, Options},
};
use crate::{PackError, carry::Protocol};
use latemux_index::{Title, title::TrackName};
use percent_encoding::utf8_percent_encode;
use settings::Served;
use std::{sync::Arc, time::Duration};

/// The placeholder for a track in DASH templates.
const REPRESENTATION: &str = "$RepresentationID$";
/// Longest accepted path, in bytes.
pub const MAX_PATH: usize = 8192;
/// A second name of DASH segments: the module's documentation and its code differ.
const DASH_FRAGMENT_TOO: &str = "frag";
const IFRAME: &str = "iframe";
const BOOTSTRAP: &str = "bootstrap";
pub(super) const CLIP_FROM: &str = "clipFrom";
pub(super) const CLIP_TO: &str = "clipTo";
const TRACKS: &str = "tracks";

/// A resource of a title, as a URL of this form names it before the title is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NginxVodAddress {
    /// The base, as in [`crate::Address::base`].
    pub base: String,
    /// The selection: times from the path, in whole milliseconds, the rest from the query.
    pub selection: Selection,
    /// The tracks that exist for this URL. An empty list means all.
    pub tracks: Picks,
    /// The requested resource.
    pub file: File,
}

/// A resource that can be requested of a title. Numbers are 1-based.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum File {
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
    /// `init-v1.mp4` under the prefix of HLS, unless DASH has the same prefix.
    HlsInit(Picks),
    /// `iframe-N-v1.ts`
    HlsIFrameTs(Picks, u32),
    /// `iframe-N-v1.m4s`
    HlsIFrameCmaf(Picks, u32),
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

impl NginxVodAddress {
    /// Parses a URL path (with its leading `/`, percent-encoded) and query.
    ///
    /// Returns `None` if no configured prefix covers the path, which then is of the native form.
    /// Below a prefix no path is of the native form, except below `/`: paths without a name of this
    /// form are left to the native form there. Unknown query parameters are ignored.
    ///
    /// # Errors
    /// [`AddressError`] if the path is below a prefix but does not follow this grammar.
    pub fn parse(settings: &Settings, path: &str, query: Option<&str>) -> Option<Result<Self, AddressError>> {
        let (prefix, rest, served) = settings.below(path)?;
        let parsed = Self::below(settings, served, rest, query.unwrap_or_default());
        (prefix != "/" || parsed != Err(AddressError::NoSuchUrl)).then_some(parsed)
    }

    fn below(settings: &Settings, served: Served, path: &str, query: &str) -> Result<Self, AddressError> {
        if path.len() > MAX_PATH {
            return Err(AddressError::TooLong { what: "bytes of path", limit: MAX_PATH });
        }
        let components: Option<Vec<_>> = path.split('/').map(decode).collect();
        let components = components.ok_or(AddressError::NoSuchUrl)?;
        let (name, folders) = components.split_last().ok_or(AddressError::NoSuchUrl)?;
        let options = Options::or(settings.container, query);
        let level = folders.last().filter(|_| served.mss && name.starts_with("Fragments("));
        let (file, folders) = match level.and_then(|level| smooth_fragment(level, name)) {
            Some(Resource::SmoothFragment(track, time)) => {
                (File::SmoothFragment(track, time), folders.split_last().map_or(folders, |(_, rest)| rest))
            }
            _ => (File::parse(settings, served, name, options.container)?, folders),
        };
        let mut address =
            Self { base: String::new(), selection: options.selection()?, tracks: Picks::default(), file };
        if !address.selection.clip.is_everything() {
            let problem = format!("/{CLIP_FROM}/ and /{CLIP_TO}/ say it in these URLs");
            return Err(AddressError::Malformed { parameter: query::BEGIN, problem });
        }
        let (mut from, mut to) = (None, None);
        let mut base: Vec<&str> = Vec::new();
        let mut folders = folders.iter().map(|folder| &**folder);
        while let Some(folder) = folders.next() {
            match folder {
                CLIP_FROM => millis(CLIP_FROM, &mut from, folders.next())?,
                CLIP_TO => millis(CLIP_TO, &mut to, folders.next())?,
                TRACKS => {
                    let picks = Picks::listed(folders.next().unwrap_or_default())?;
                    if !address.tracks.is_empty() {
                        return Err(AddressError::BadTracks(TRACKS.to_owned()));
                    }
                    address.tracks = picks;
                }
                "" | "." | ".." => return Err(AddressError::NoSuchUrl),
                folder => base.push(folder),
            }
        }
        address.base = base.join("/");
        let parameter = if to.is_some() { CLIP_TO } else { CLIP_FROM };
        address.selection.clip = Clip::new(from, to)
            .map_err(|problem| AddressError::Malformed { parameter, problem: problem.to_owned() })?;
        Ok(address)
    }

    /// Returns the URL path and query from the root, with the leading `/`. `None` if the protocol
    /// has no prefix.
    #[must_use]
    pub fn to_url(&self, settings: &Settings) -> Option<String> {
        let mut url = settings.prefix(self.file.protocol())?.to_owned();
        if !self.base.is_empty() {
            for component in self.base.split('/') {
                url.extend(utf8_percent_encode(component, RESERVED_IN_BASE));
                url.push('/');
            }
        }
        Some(url + &self.relative_to_base(settings))
    }

    /// Returns the URL relative to the base (`PREFIX/FILE/`), parameters and query included.
    fn relative_to_base(&self, settings: &Settings) -> String {
        let mut url = String::new();
        let clip = self.selection.clip;
        for (name, time) in [(CLIP_FROM, clip.begin()), (CLIP_TO, clip.end())] {
            if let Some(time) = time {
                url += &format!("{name}/{}/", time.as_millis());
            }
        }
        if !self.tracks.is_empty() {
            let picks = self.tracks.to_string();
            url += &format!("{TRACKS}/{}/", picks.trim_start_matches('-'));
        }
        url + &self.file.url(settings, &self.selection)
    }

    /// Resolves the numbers in this URL to the tracks of the title at the base. `files` holds the
    /// 1-based number of each object's file ([`TrackNumbers::new`]).
    ///
    /// # Errors
    /// The errors of [`TrackNumbers::resolve`].
    pub fn address(
        &self,
        title: &Title,
        files: &[u32],
        settings: &Arc<Settings>,
    ) -> Result<Address, PackError> {
        let places = Places::new(title, files);
        let Resolved { resource, tracks } = places.resolve(&self.file, &self.tracks)?;
        let name = |i: usize| title.tracks().get(i).map(|track| track.name.clone());
        let tracks = tracks.map(|tracks| tracks.into_iter().filter_map(name).collect());
        let asked = self.relative_to_base(settings);
        Ok(Address {
            profile: Profile::NginxVod(Form::new(settings.clone(), places, asked)),
            base: self.base.clone(),
            resource,
            selection: Selection { tracks, ..self.selection.clone() },
        })
    }
}

/// Parses the milliseconds that follow a parameter, which may occur once.
fn millis(
    parameter: &'static str,
    field: &mut Option<Duration>,
    text: Option<&str>,
) -> Result<(), AddressError> {
    let malformed = |problem: &str| AddressError::Malformed { parameter, problem: problem.to_owned() };
    let time = text.and_then(number).ok_or_else(|| malformed("not a number of milliseconds"))?;
    if field.replace(Duration::from_millis(time)).is_some() {
        return Err(malformed("said twice"));
    }
    Ok(())
}

/// Returns the part of a selection that the query states. The path states times and tracks.
pub(super) fn in_query(selection: &Selection) -> Selection {
    Selection { clip: Clip::default(), tracks: None, ..selection.clone() }
}

impl File {
    /// Returns the protocol of the URL. HLS with TS and HLS with CMAF have one prefix.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::HlsMaster(..) | Self::HlsIndex(..) | Self::HlsIFrames(..) => Protocol::HlsTs,
            Self::HlsTs(..) | Self::HlsIFrameTs(..) => Protocol::HlsTs,
            Self::HlsSegment(..) | Self::HlsInit(_) | Self::HlsIFrameCmaf(..) => Protocol::HlsCmaf,
            Self::DashManifest(_) | Self::DashInit(_) | Self::DashSegment(..) => Protocol::Dash,
            Self::SmoothManifest(_) | Self::SmoothFragment(..) => Protocol::Smooth,
            Self::HdsManifest(_) | Self::HdsBootstrap(_) | Self::HdsFragment(..) => Protocol::Hds,
        }
    }

    /// True for manifests and playlists.
    #[must_use]
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

    fn parse(
        settings: &Settings,
        served: Served,
        name: &str,
        container: HlsContainer,
    ) -> Result<Self, AddressError> {
        let found = [
            // If both have one prefix, init segments are those of DASH, which carries every codec
            // that HLS carries.
            served.dash.then(|| Self::dash(&settings.names, name)),
            served.hls.then(|| Self::hls(&settings.names, name, container)),
            served.mss.then(|| Self::mss(&settings.names, name)),
            served.hds.then(|| Self::hds(&settings.names, name)),
        ];
        found.into_iter().flatten().flatten().next().unwrap_or(Err(AddressError::NoSuchUrl))
    }

    /// Returns `None` if the protocol has no such name.
    fn hls(names: &Names, name: &str, container: HlsContainer) -> Option<Result<Self, AddressError>> {
        if let Some(stem) = name.strip_suffix(".m3u8") {
            let file = |name: &str, make: fn(Picks, HlsContainer) -> Self| {
                Some(Picks::parse(behind(stem, name)?).map(|picks| make(picks, container)))
            };
            return file(&names.hls_master, Self::HlsMaster)
                .or_else(|| file(&names.hls_index, Self::HlsIndex))
                .or_else(|| file(&names.hls_iframes, Self::HlsIFrames));
        }
        if let Some(stem) = name.strip_suffix(".mp4") {
            return Some(Picks::parse(behind(stem, &names.hls_init)?).map(Self::HlsInit));
        }
        type Make = fn(Picks, u32) -> File;
        let (stem, makes): (_, [Make; 2]) = match name.strip_suffix(".ts") {
            Some(stem) => (stem, [Self::HlsTs, Self::HlsIFrameTs]),
            None => (name.strip_suffix(".m4s")?, [Self::HlsSegment, Self::HlsIFrameCmaf]),
        };
        let [segment, iframe] = makes;
        let file =
            |name: &str, make: Make| Some(numbered(behind(stem, name)?)?.map(|(n, picks)| make(picks, n)));
        file(&names.hls_segment, segment).or_else(|| file(IFRAME, iframe))
    }

    fn dash(names: &Names, name: &str) -> Option<Result<Self, AddressError>> {
        if let Some(stem) = name.strip_suffix(".mpd") {
            return Some(Picks::parse(behind(stem, &names.dash_manifest)?).map(Self::DashManifest));
        }
        if let Some(stem) = name.strip_suffix(".mp4") {
            return Some(Picks::parse(without_x(behind(stem, &names.dash_init)?)).map(Self::DashInit));
        }
        let stem = name.strip_suffix(".m4s")?;
        let rest = behind(stem, &names.dash_fragment).or_else(|| behind(stem, DASH_FRAGMENT_TOO))?;
        Some(numbered(without_x(rest))?.map(|(n, picks)| Self::DashSegment(picks, n)))
    }

    fn mss(names: &Names, name: &str) -> Option<Result<Self, AddressError>> {
        // Players use both spellings.
        let rest = behind(name, &names.mss_manifest).or_else(|| behind(name, "Manifest"))?;
        Some(Picks::parse(rest).map(Self::SmoothManifest))
    }

    fn hds(names: &Names, name: &str) -> Option<Result<Self, AddressError>> {
        if let Some(stem) = name.strip_suffix(".f4m") {
            return Some(Picks::parse(behind(stem, &names.hds_manifest)?).map(Self::HdsManifest));
        }
        if let Some(stem) = name.strip_suffix(".abst") {
            return Some(Picks::parse(behind(stem, BOOTSTRAP)?).map(Self::HdsBootstrap));
        }
        let (stem, n) = name.rsplit_once(HDS_FRAGMENT)?;
        let picks = Picks::parse(behind(stem, &names.hds_fragment)?);
        Some(picks.and_then(|picks| match number(n) {
            Some(0) => Err(AddressError::IndexZero),
            Some(n) => Ok(Self::HdsFragment(picks, n)),
            None => Err(AddressError::NoSuchUrl),
        }))
    }

    /// Returns the URL relative to a manifest of the same title, with the part of the selection
    /// that the query states. All files of a title are in one folder.
    #[must_use]
    pub fn url(&self, settings: &Settings, selection: &Selection) -> String {
        let container = match self {
            Self::HlsMaster(_, c) | Self::HlsIndex(_, c) | Self::HlsIFrames(_, c) => *c,
            _ => settings.container,
        };
        let option = match container {
            same if same == settings.container => None,
            HlsContainer::Cmaf => Some("hls_fmp4"),
            HlsContainer::Auto => Some("hls_fmp4=false"),
        };
        self.path(settings) + &query::with(option, &in_query(selection))
    }

    fn path(&self, settings: &Settings) -> String {
        let names = &settings.names;
        match self {
            Self::HlsMaster(picks, _) => format!("{}{picks}.m3u8", names.hls_master),
            Self::HlsIndex(picks, _) => format!("{}{picks}.m3u8", names.hls_index),
            Self::HlsIFrames(picks, _) => format!("{}{picks}.m3u8", names.hls_iframes),
            Self::HlsTs(picks, n) => format!("{}-{n}{picks}.ts", names.hls_segment),
            Self::HlsSegment(picks, n) => format!("{}-{n}{picks}.m4s", names.hls_segment),
            Self::HlsInit(picks) => format!("{}{picks}.mp4", names.hls_init),
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
fn behind<'a>(stem: &'a str, name: &str) -> Option<&'a str> {
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

/// Removes the `-x3` that the module appends to its representations.
fn without_x(rest: &str) -> &str {
    match rest.rsplit_once("-x") {
        Some((before, n)) if number::<u32>(n).is_some() => before,
        _ => rest,
    }
}

#[cfg(test)]
mod tests;
