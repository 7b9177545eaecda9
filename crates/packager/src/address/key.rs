//! URLs of keys: `BASE/keys/KID.key`, beside the manifests of a title.

use super::{
    Address,
    nginx_vod::{NginxVodAddress, Settings},
};
use latemux_protect::KeyId;

/// The folder of keys below a base.
pub(super) const KEYS: &str = "keys";
/// The extension of keys.
pub(super) const KEY_EXTENSION: &str = ".key";

/// The file below [`KEYS`] to which players post requests for licences of Clear Key.
pub(super) const LICENCE: &str = "clearkey";

/// A key of a title, or its licences, as a URL names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAddress {
    /// The base of the title, as in [`Address::base`].
    pub base: String,
    /// The key. `None` for the licences of Clear Key.
    pub id: Option<KeyId>,
}

impl KeyAddress {
    /// Returns true for the URL path of licences of Clear Key.
    pub fn is_licence(path: &str) -> bool {
        path.strip_suffix(LICENCE)
            .and_then(|path| path.strip_suffix('/'))
            .is_some_and(|path| path.strip_suffix(KEYS).is_some_and(|path| path.ends_with('/')))
    }

    /// Parses a URL path (with its leading `/`, percent-encoded) of either form. `None` if it names
    /// no key.
    pub fn parse(settings: &Settings, path: &str) -> Option<Self> {
        let (folders, file) = path.rsplit_once('/')?;
        let id = match file {
            LICENCE => None,
            file => Some(file.strip_suffix(KEY_EXTENSION)?.parse().ok()?),
        };
        let title = folders.strip_suffix(KEYS)?.strip_suffix('/')?;
        // A manifest lies where the folder of keys lies, so its URL tells the base.
        let playlist = format!("{title}/{}.m3u8", settings.names.hls_master);
        let base = match NginxVodAddress::parse(settings, &playlist, None) {
            Some(address) => address.ok()?.base,
            None => Address::parse(&playlist, None).ok()?.base,
        };
        Some(Self { base, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::nginx_vod::Prefixes;

    #[test]
    fn keys_lie_beside_the_manifests_of_a_title() {
        let prefixes = Prefixes { hls: Some("/hls/".to_owned()), ..Prefixes::default() };
        let settings = Settings { prefixes, ..Settings::default() };
        let kid = "00112233445566778899aabbccddeeff";
        for (path, base) in [
            (format!("/a/film.mp4/keys/{kid}.key"), Some("a/film.mp4")),
            (format!("/a%20b/keys/{kid}.key"), Some("a b")),
            (format!("/keys/keys/{kid}.key"), Some("keys")),
            (format!("/hls/a/film.mp4/clipFrom/1000/keys/{kid}.key"), Some("a/film.mp4")),
            (format!("/a/film.mp4/{kid}.key"), None),
            (format!("/a/film.mp4/keys/{kid}"), None),
            ("/a/film.mp4/keys/0.key".to_owned(), None),
            (format!("/a/film.mp4/keyskeys/{kid}.key"), None),
            (format!("/a/../film.mp4/keys/{kid}.key"), None),
        ] {
            let parsed = KeyAddress::parse(&settings, &path);
            assert_eq!(parsed.as_ref().map(|key| key.base.as_str()), base, "{path}");
            assert!(parsed.is_none_or(|key| key.id.is_some_and(|id| id.to_string() == kid)));
        }
    }

    #[test]
    fn licences_lie_beside_the_keys() {
        let parsed = KeyAddress::parse(&Settings::default(), "/a/film.mp4/keys/clearkey").unwrap();
        assert_eq!((parsed.base.as_str(), parsed.id), ("a/film.mp4", None));
        assert!(KeyAddress::is_licence("/a/film.mp4/keys/clearkey"));
        for path in ["/a/film.mp4/clearkey", "/a/xkeys/clearkey", "/a/keys/xclearkey", "keys/clearkey"] {
            assert!(!KeyAddress::is_licence(path), "{path}");
        }
    }
}
