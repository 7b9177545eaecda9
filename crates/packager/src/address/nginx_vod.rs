//! URLs in the form of nginx-vod-module: under a prefix per protocol, tracks by number.
//!
//! ```text
//! URL      = PREFIX FILE PARAM "/" NAME
//! FILE     = a title's base, as in the native form; with ".urlset" a list of files
//! PARAM    = ["/clipFrom/" MS] ["/clipTo/" MS] ["/tracks/" PICK *("-" PICK)]
//!            anywhere in the path, printed behind FILE
//! NAME     = "master" PICKS ".m3u8"                HLS multivariant playlist
//!          | "index" PICKS ".m3u8"                 HLS media playlist
//!          | "iframes" PICKS ".m3u8"               HLS I-frame playlist
//!          | "seg-" N PICKS (".ts" | ".m4s")       HLS segment
//!          | "init" PICKS ".mp4"                   HLS or DASH init segment
//!          | "iframe-" N PICKS (".ts" | ".m4s")    the I-frame an HLS segment starts with
//!          | "manifest" PICKS ".mpd"               DASH manifest
//!          | ("fragment-" | "frag-") N PICKS ".m4s"    DASH segment
//!          | "manifest" PICKS                      Smooth Streaming client manifest
//!          | "QualityLevels(" BITRATE ")/Fragments(" STEM "=" TIME ")"
//!          | "manifest" PICKS ".f4m"               HDS manifest
//!          | "bootstrap" PICKS ".abst"             HDS bootstrap information
//!          | "frag" PICKS "-Seg1-Frag" N           HDS fragment
//! PICKS    = *("-" PICK) ["-x" N]                  the latter in DASH only, and ignored
//! PICK     = "f" N | ("v" | "a" | "t") (N | "0")
//! ```
//!
//! `fN` names a file of the title, `vN` its Nth video track. Tracks are numbered within their file,
//! regardless of the selection. `v0` is all video. The names before the first hyphen can be
//! configured ([`Names`]). Queries are those of the native form.
//!
//! A URL can only be resolved with its title: [`TrackNumbers`] turns references into resources of
//! the native form, so that both forms have the same plans and bytes.

mod picks;
mod resource;
mod settings;
mod track_numbers;
mod urls;

pub use picks::{Pick, Picks};
pub use resource::VodResource;
pub use settings::{Names, Prefixes, Settings};
pub use track_numbers::{Resolved, TrackNumbers};
pub use urls::NginxVodUrls;

use super::{
    Address, AddressError, Profile, Resource,
    name::push_base,
    native::{decode, number, smooth_fragment},
    parameter::{BEGIN, CLIP_FROM, CLIP_TO},
    query::QueryOptions,
};
use crate::{
    PackError,
    selection::{Clip, Selection},
};
use latemux_index::Title;
use settings::PrefixProtocols;
use std::{sync::Arc, time::Duration};

/// Longest accepted path, in bytes.
pub const MAX_PATH: usize = 8192;
/// Folder that precedes the references to the tracks that exist for a URL.
const TRACKS: &str = "tracks";

/// A resource of a title, as a URL of this form names it before the title is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NginxVodAddress {
    /// The base, as in [`crate::Address::base`].
    pub base: String,
    /// The selection: times from the path, in whole milliseconds, the rest from the query.
    pub selection: Selection,
    /// The tracks that this URL can name. An empty list stands for all tracks.
    pub tracks: Picks,
    /// The requested resource.
    pub resource: VodResource,
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
        let (prefix, rest, protocols) = settings.below(path)?;
        let parsed = Self::below(settings, protocols, rest, query.unwrap_or_default());
        (prefix != "/" || parsed != Err(AddressError::NoSuchUrl)).then_some(parsed)
    }

    fn below(
        settings: &Settings,
        protocols: PrefixProtocols,
        path: &str,
        query: &str,
    ) -> Result<Self, AddressError> {
        if path.len() > MAX_PATH {
            return Err(AddressError::TooLong { what: "bytes of path", limit: MAX_PATH });
        }
        let components: Option<Vec<_>> = path.split('/').map(decode).collect();
        let components = components.ok_or(AddressError::NoSuchUrl)?;
        let (name, folders) = components.split_last().ok_or(AddressError::NoSuchUrl)?;
        let options = QueryOptions::with_container(settings.container, query);
        let level = folders.last().filter(|_| protocols.mss && name.starts_with("Fragments("));
        let (resource, folders) = match level.and_then(|level| smooth_fragment(level, name)) {
            Some(Resource::SmoothFragment(track, time)) => {
                let fragment = VodResource::SmoothFragment(track, time);
                (fragment, folders.split_last().map_or(folders, |(_, rest)| rest))
            }
            _ => (VodResource::parse(settings, protocols, name, options.container)?, folders),
        };
        let selection = options.selection()?;
        let mut address = Self { base: String::new(), selection, tracks: Picks::default(), resource };
        if !address.selection.clip.is_everything() {
            let problem = format!("use /{CLIP_FROM}/ and /{CLIP_TO}/ in URLs of this form");
            return Err(AddressError::Malformed { parameter: BEGIN, problem });
        }
        let mut from = None;
        let mut to = None;
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

    /// Returns the URL path and query from the root. `None` if the protocol has no prefix.
    pub fn to_url(&self, settings: &Settings) -> Option<String> {
        let mut url = settings.prefix(self.resource.protocol())?.to_owned();
        push_base(&mut url, &self.base);
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
        url + &self.resource.url(settings, &self.selection)
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
        let numbers = TrackNumbers::new(title, files);
        let Resolved { resource, tracks } = numbers.resolve(&self.resource, &self.tracks)?;
        let name = |i: usize| title.tracks().get(i).map(|track| track.name.clone());
        let tracks = tracks.map(|tracks| tracks.into_iter().filter_map(name).collect());
        let requested = self.relative_to_base(settings);
        Ok(Address {
            profile: Profile::NginxVod(NginxVodUrls::new(settings.clone(), numbers, requested)),
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
        return Err(malformed("given twice"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
