//! Routing: turns a URL into the resource that it requests. One function handles all URLs.

use crate::{Error, observe::metrics::RequestLabels};
use http::{Method, Uri};
use latemux_index::Title;
use latemux_packager::{
    Address, AddressError, PackError,
    address::{
        KeyAddress, MINIMUM_SEGMENT,
        nginx_vod::{NginxVodAddress, Settings},
    },
    selection::Selection,
};
use latemux_quantity::TimeSpan;
use percent_encoding::percent_decode_str;
use std::{borrow::Cow, sync::Arc, time::Duration};

/// Meaning of a request's method and URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A manifest or segment of a title.
    Title(Box<TitleRequest>),
    /// A file of the player page.
    Page(String),
    /// A key of a title.
    Key(KeyAddress),
    /// The list of titles.
    Library,
    /// A health check.
    Health {
        /// True if the check is for readiness: does this process take new requests? Otherwise the
        /// check is for liveness: does the process run?
        is_readiness: bool,
    },
    /// A CORS preflight, or any other OPTIONS.
    Options,
}

/// Request for a manifest or segment of a title, as the URL states it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TitleRequest {
    Native(Address),
    /// A URL of nginx-vod-module. Its resource is known only once the title is loaded.
    NginxVod(NginxVodAddress),
}

impl TitleRequest {
    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Native(address) => &address.base,
            Self::NginxVod(address) => &address.base,
        }
    }

    /// Refuses segments that are joined until they last longer than `longest`.
    pub(crate) fn check_joined(&self, longest: Duration) -> Result<(), Error> {
        if self.selection().minimum_segment.is_none_or(|minimum| minimum <= longest) {
            return Ok(());
        }
        let problem = format!("longer than {}, the limit of this server", TimeSpan(longest));
        Err(Error::Query(AddressError::Malformed { parameter: MINIMUM_SEGMENT, problem }))
    }

    fn selection(&self) -> &Selection {
        match self {
            Self::Native(address) => &address.selection,
            Self::NginxVod(address) => &address.selection,
        }
    }

    pub(crate) fn is_manifest(&self) -> bool {
        match self {
            Self::Native(address) => address.resource.is_manifest(),
            Self::NginxVod(address) => address.resource.is_manifest(),
        }
    }

    /// Returns the address of the requested manifest, if it is the same in every title of this
    /// base. That of a clip depends on where the title is cut.
    pub(crate) fn manifest_address(&self) -> Option<&Address> {
        match self {
            Self::Native(address) if address.resource.is_manifest() => {
                Some(address).filter(|address| address.selection.clip.is_everything())
            }
            _ => None,
        }
    }

    /// Returns the address in a loaded title. `files` holds the 1-based file number of each object.
    pub(crate) fn address<'a>(
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
    /// Returns the labels of the request in metrics, if the URL alone determines them.
    pub(crate) fn labels(&self) -> Option<RequestLabels> {
        match self {
            Self::Title(wanted) => match &**wanted {
                TitleRequest::Native(address) => Some(RequestLabels::of(&address.resource)),
                TitleRequest::NginxVod(_) => None,
            },
            Self::Page(_) | Self::Library | Self::Health { .. } => Some(RequestLabels::PAGE),
            Self::Key(_) | Self::Options => Some(RequestLabels::default()),
        }
    }
}

/// Path prefix of the page's files. No title can be served below it.
const PAGE: &str = "/_/";

/// Routes a request. URLs below the prefixes of `settings` have the form of nginx-vod-module.
pub(crate) fn route(method: &Method, uri: &Uri, settings: &Settings) -> Result<Route, Error> {
    let path = uri.path();
    if method == Method::OPTIONS {
        return Ok(Route::Options);
    }
    check_path(path)?;
    if KeyAddress::is_licence(path) {
        let licence = (method == Method::POST).then(|| KeyAddress::parse(settings, path));
        return licence.ok_or(Error::MethodNotAllowed)?.map(Route::Key).ok_or(Error::NoSuchUrl);
    }
    if method != Method::GET && method != Method::HEAD {
        return Err(Error::MethodNotAllowed);
    }
    match path {
        "/" => Ok(Route::Page("index.html".to_owned())),
        "/healthz" | "/healthz/live" => Ok(Route::Health { is_readiness: false }),
        "/healthz/ready" => Ok(Route::Health { is_readiness: true }),
        "/api/library" => Ok(Route::Library),
        _ if path.starts_with(PAGE) => Ok(Route::Page(path.trim_start_matches('/').to_owned())),
        _ if path.ends_with(".key") => {
            KeyAddress::parse(settings, path).map(Route::Key).ok_or(Error::NoSuchUrl)
        }
        _ => Ok(Route::Title(Box::new(match NginxVodAddress::parse(settings, path, uri.query()) {
            Some(address) => TitleRequest::NginxVod(address?),
            None => TitleRequest::Native(Address::parse(path, uri.query())?),
        }))),
    }
}

/// Returns true if the path is that of a health check.
pub(crate) fn is_health_check(path: &str) -> bool {
    matches!(path, "/healthz" | "/healthz/live" | "/healthz/ready")
}

/// Refuses paths that no resource can have, in any encoding, before anything else reads them.
fn check_path(path: &str) -> Result<(), Error> {
    // Most paths have no escapes and need no decoding.
    if path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%' && byte != b'\\') {
        return if has_dots(path) { Err(Error::BadPath) } else { Ok(()) };
    }
    let decoded = percent_decode_str(path).decode_utf8().map_err(|_| Error::BadPath)?;
    let hidden_slash = path.as_bytes().windows(3).any(|escape| escape.eq_ignore_ascii_case(b"%2f"));
    let has_forbidden = decoded.contains(|c: char| c == '\\' || c.is_control());
    if hidden_slash || has_forbidden || has_dots(&decoded) { Err(Error::BadPath) } else { Ok(()) }
}

/// Returns true if a component of a path that begins with `/` is `.` or `..`.
fn has_dots(path: &str) -> bool {
    let is_dots =
        |rest: &[u8]| matches!(rest, [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..]);
    let bytes = path.as_bytes();
    bytes.iter().enumerate().any(|(at, &byte)| byte == b'/' && bytes.get(at + 1..).is_some_and(is_dots))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Result<Route, Error> {
        route(&Method::GET, &path.parse().unwrap(), &Settings::default())
    }

    #[test]
    fn no_spelling_of_a_parent_folder_is_routed() {
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
    fn each_url_is_routed_once() {
        assert_eq!(get("/").unwrap(), Route::Page("index.html".into()));
        assert_eq!(get("/_/app.js").unwrap(), Route::Page("_/app.js".into()));
        // A name may begin with dots.
        assert!(matches!(get("/..a/.../.mpd").unwrap(), Route::Title(a) if a.base() == "..a/..."));
        assert_eq!(get("/api/library").unwrap(), Route::Library);
        assert!(matches!(get("/x.mp4/.mpd").unwrap(), Route::Title(a) if a.base() == "x.mp4"));
        assert!(matches!(get("/x.mp4"), Err(Error::NoSuchUrl)));
        let post = route(&Method::POST, &"/x.mp4/.mpd".parse().unwrap(), &Settings::default());
        assert!(matches!(post, Err(Error::MethodNotAllowed)));
    }
}
