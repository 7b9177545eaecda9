//! A player that starts from a URL only: it reads playlists with `m3u8-rs` and fetches the URLs in
//! them.

use latemux_packager::{Address, PackError};
use latemux_testmedia::origin::{NAME, Origin, Response};
use m3u8_rs::{MasterPlaylist, MediaPlaylist, Playlist};

/// Base URL of the title.
pub(crate) const BASE: &str = "/a/x.mp4/";

/// Fetches a URL: a path with its query.
pub(crate) fn fetch(origin: &mut Origin, url: &str) -> Result<Response, PackError> {
    let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let address = Address::parse(path, query).unwrap_or_else(|error| panic!("{url}: {error}"));
    assert_eq!(address.base, "a/x.mp4");
    assert_eq!(address.to_url(), url, "written as it was parsed");
    let base = NAME.to_owned();
    origin.get_address(&Address { base, ..address })
}

/// Resolves a URL relative to another (RFC 3986 §5.2, as far as playlists use it).
pub(crate) fn resolve(base: &str, relative: &str) -> String {
    let base = base.split('?').next().unwrap();
    let mut folder: Vec<&str> = base.split('/').collect();
    folder.pop();
    let mut rest = relative;
    while let Some(up) = rest.strip_prefix("../") {
        folder.pop();
        rest = up;
    }
    format!("{}/{rest}", folder.join("/"))
}

/// A media or I-frame playlist with its init segment and all its segments.
pub(crate) struct Presentation {
    pub(crate) text: String,
    pub(crate) playlist: MediaPlaylist,
    pub(crate) init: Option<Vec<u8>>,
    pub(crate) segments: Vec<Vec<u8>>,
    /// Duration of every segment in microseconds.
    pub(crate) durations: Vec<u64>,
}

impl Presentation {
    /// Returns the init segment and all segments as one file.
    pub(crate) fn whole(&self) -> Vec<u8> {
        let init = self.init.iter().flatten();
        init.chain(self.segments.iter().flatten()).copied().collect()
    }
}

/// Returns the multivariant playlist, as text and parsed.
pub(crate) fn multivariant(origin: &mut Origin, query: &str) -> (String, MasterPlaylist) {
    let text = String::from_utf8(fetch(origin, &format!("{BASE}.m3u8{query}")).unwrap().bytes).unwrap();
    match m3u8_rs::parse_playlist_res(text.as_bytes()) {
        Ok(Playlist::MasterPlaylist(playlist)) => (text, playlist),
        other => panic!("{text}\n{other:?}"),
    }
}

/// Plays a media playlist of the multivariant playlist, with all its segments.
pub(crate) fn play(origin: &mut Origin, uri: &str) -> Presentation {
    let url = resolve(BASE, uri);
    let text = String::from_utf8(fetch(origin, &url).unwrap().bytes).unwrap();
    let Ok(Playlist::MediaPlaylist(playlist)) = m3u8_rs::parse_playlist_res(text.as_bytes()) else {
        panic!("{text}")
    };
    let map = playlist.segments.first().and_then(|segment| segment.map.as_ref());
    let init = map.map(|map| fetch(origin, &resolve(&url, &map.uri)).unwrap().bytes);
    let segments: Vec<Vec<u8>> = playlist
        .segments
        .iter()
        .map(|segment| fetch(origin, &resolve(&url, &segment.uri)).unwrap().bytes)
        .collect();
    // m3u8-rs keeps durations in 32-bit floats.
    let durations: Vec<u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#EXTINF:")?.strip_suffix(','))
        .map(|seconds| {
            let (whole, fraction) = seconds.split_once('.').unwrap();
            assert_eq!(fraction.len(), 6);
            whole.parse::<u64>().unwrap() * 1_000_000 + fraction.parse::<u64>().unwrap()
        })
        .collect();
    assert_eq!(durations.len(), segments.len());
    Presentation { text, playlist, init, segments, durations }
}
