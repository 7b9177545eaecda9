//! Every URL in one function.

use crate::{Error, observe::metrics::RequestLabels};
use http::{Method, Uri};
use latemux_index::Title;
use latemux_packager::{
    Address, PackError, Resource,
    address::{
        DashTemplate, HlsContainer,
        nginx_vod::{NginxVodAddress, Settings},
    },
};
use percent_encoding::percent_decode_str;
use std::{borrow::Cow, sync::Arc};

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Something of a title.
    Title(Box<Asked>),
    /// A file of the player page.
    Page(String),
    /// The titles there are.
    Library,
    /// Whether this process lives, or (`ready`) takes new work.
    Health { ready: bool },
    /// A CORS preflight, or any other OPTIONS.
    Options,
}

/// What is asked of a title, in the words of the URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Native(Address),
    /// What it names is known once the title is.
    NginxVod(NginxVodAddress),
}

impl Asked {
    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Native(address) => &address.base,
            Self::NginxVod(address) => &address.base,
        }
    }

    /// Manifests are made from the index alone and are not immutable as segments are: more titles may have come.
    pub(crate) fn is_manifest(&self) -> bool {
        match self {
            Self::Native(address) => address.resource.is_manifest(),
            Self::NginxVod(address) => address.resource.is_manifest(),
        }
    }

    /// The address in a title whose objects are of files of these numbers.
    pub(crate) fn of<'a>(
        &'a self,
        title: &Title,
        files: &[u32],
        settings: &Arc<Settings>,
    ) -> Result<Cow<'a, Address>, PackError> {
        match self {
            Self::Native(address) => Ok(Cow::Borrowed(address)),
            Self::NginxVod(address) => address.address(title, files, settings).map(Cow::Owned),
        }
    }
}

impl Route {
    /// What it counts as, as far as the URL alone tells.
    pub(crate) fn kind(&self) -> Option<RequestLabels> {
        match self {
            Self::Title(asked) => match &**asked {
                Asked::Native(address) => Some(RequestLabels::of(&address.resource)),
                // What it names is known once the title is.
                Asked::NginxVod(_) => None,
            },
            Self::Page(_) | Self::Library | Self::Health { .. } => Some(RequestLabels::PAGE),
            Self::Options => Some(RequestLabels::default()),
        }
    }
}

/// Folder of the page's files: no title's base can be in it.
const PAGE: &str = "/_/";

/// What a method and URL ask for. Under the prefixes of `settings`, URLs are of nginx-vod-module's form.
///
/// # Errors
/// [`Error::BadPath`], [`Error::MethodNotAllowed`], [`Error::NoSuchUrl`], [`Error::Query`].
pub(crate) fn route(method: &Method, uri: &Uri, settings: &Settings) -> Result<Route, Error> {
    let path = uri.path();
    if method == Method::OPTIONS {
        return Ok(Route::Options);
    }
    check(path)?;
    if method != Method::GET && method != Method::HEAD {
        return Err(Error::MethodNotAllowed);
    }
    match path {
        "/" => Ok(Route::Page("index.html".to_owned())),
        "/healthz" | "/healthz/live" => Ok(Route::Health { ready: false }),
        "/healthz/ready" => Ok(Route::Health { ready: true }),
        "/api/library" => Ok(Route::Library),
        _ if path.starts_with(PAGE) => Ok(Route::Page(path.trim_start_matches('/').to_owned())),
        _ => Ok(Route::Title(Box::new(match NginxVodAddress::parse(settings, path, uri.query()) {
            Some(address) => Asked::NginxVod(address?),
            None => Asked::Native(Address::parse(path, uri.query())?),
        }))),
    }
}

/// Refuses what no address has, in any encoding: nothing else may be tried with such a path.
fn check(path: &str) -> Result<(), Error> {
    // Most paths are what they look like.
    if path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%' && byte != b'\\') {
        return if has_dots(path) { Err(Error::BadPath) } else { Ok(()) };
    }
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| Error::BadPath)?;
    let hidden_slash = path.as_bytes().windows(3).any(|escape| escape.eq_ignore_ascii_case(b"%2f"));
    let dots = has_dots(&decoded);
    let foreign = decoded.contains(|c: char| c == '\\' || c.is_control());
    if hidden_slash || dots || foreign { Err(Error::BadPath) } else { Ok(()) }
}

/// Whether a segment of a path, which begins with `/`, is `.` or `..`.
fn has_dots(path: &str) -> bool {
    let is_dots =
        |rest: &[u8]| matches!(rest, [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..]);
    let bytes = path.as_bytes();
    bytes.iter().enumerate().any(|(at, &byte)| byte == b'/' && bytes.get(at + 1..).is_some_and(is_dots))
}

/// The URLs a player of a title starts with: DASH, HLS, HLS with CMAF segments, Smooth Streaming, HDS.
pub(crate) fn entry_points(base: &str) -> [String; 5] {
    let url = |resource| Address::new(base, resource).to_url();
    [
        url(Resource::DashManifest(DashTemplate::Time)),
        url(Resource::HlsMultivariant(HlsContainer::Auto)),
        url(Resource::HlsMultivariant(HlsContainer::Cmaf)),
        url(Resource::SmoothManifest),
        url(Resource::HdsManifest),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Result<Route, Error> {
        route(&Method::GET, &path.parse().unwrap(), &Settings::default())
    }

    #[test]
    fn no_spelling_of_a_parent_passes() {
        for path in [
            "/../etc/passwd/.mpd",
            "/a/../../b.mp4/.mpd",
            "/%2e%2e/b.mp4/.mpd",
            "/%2E%2e/b.mp4/.mpd",
            "/..%2fb.mp4/.mpd",
            "/..%5cb.mp4/.mpd",
            "/a%2f..%2fb.mp4/.mpd",
            "/./b.mp4/.mpd",
            "/a%00.mp4/.mpd",
            "/a\\..\\b.mp4/.mpd",
            "/a%ff.mp4/.mpd",
            "/a%0a.mp4/.mpd",
            "/a/..",
            "/a/.",
            "/a/%2e.",
            "/a/./b.mp4/.mpd",
            "/_/../secret",
            "/_/%2e%2e/secret",
        ] {
            let Ok(uri) = path.parse::<Uri>() else { continue };
            assert!(matches!(route(&Method::GET, &uri, &Settings::default()), Err(Error::BadPath)), "{path}");
        }
    }

    #[test]
    fn each_url_has_one_meaning() {
        assert_eq!(get("/").unwrap(), Route::Page("index.html".into()));
        assert_eq!(get("/_/app.js").unwrap(), Route::Page("_/app.js".into()));
        // Names may begin with dots.
        assert!(matches!(get("/..a/.../.mpd").unwrap(), Route::Title(a) if a.base() == "..a/..."));
        assert_eq!(get("/api/library").unwrap(), Route::Library);
        assert!(matches!(get("/x.mp4/.mpd").unwrap(), Route::Title(a) if a.base() == "x.mp4"));
        assert!(matches!(get("/x.mp4"), Err(Error::NoSuchUrl)));
        let post = route(&Method::POST, &"/x.mp4/.mpd".parse().unwrap(), &Settings::default());
        assert!(matches!(post, Err(Error::MethodNotAllowed)));
        assert_eq!(entry_points("a b")[2], "/a%20b/.m3u8?hls_fmp4");
    }
}
