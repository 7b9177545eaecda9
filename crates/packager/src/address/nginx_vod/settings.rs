//! The configuration of this form: the prefix of each protocol and the names of files.

use crate::{address::HlsContainer, carry::Protocol};

/// The configuration of this form. By default it has no prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Prefix of each protocol's URLs.
    pub prefixes: Prefixes,
    /// Names of the files.
    pub names: Names,
    /// The container of HLS segments if the query does not name one.
    pub container: HlsContainer,
}

/// Prefixes of URLs. They begin and end with `/`. Protocols may share one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Prefixes {
    /// Prefix of HLS.
    pub hls: Option<String>,
    /// Prefix of DASH.
    pub dash: Option<String>,
    /// Prefix of Smooth Streaming.
    pub mss: Option<String>,
    /// Prefix of HDS.
    pub hds: Option<String>,
}

/// Names of files without extension. The defaults are those of the module.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Names {
    /// Name in `master.m3u8`.
    pub hls_master: String,
    /// Name in `index-v1-a1.m3u8`.
    pub hls_index: String,
    /// Name in `iframes-v1.m3u8`.
    pub hls_iframes: String,
    /// Name in `seg-1-v1-a1.ts`.
    pub hls_segment: String,
    /// Name in the `init-v1.mp4` of HLS.
    pub hls_init: String,
    /// Name in `manifest.mpd`.
    pub dash_manifest: String,
    /// Name in `fragment-1-v1.m4s`.
    pub dash_fragment: String,
    /// Name in the `init-v1.mp4` of DASH.
    pub dash_init: String,
    /// Name of the Smooth Streaming manifest.
    pub mss_manifest: String,
    /// Name in `manifest.f4m`.
    pub hds_manifest: String,
    /// Name in `frag-v1-a1-Seg1-Frag1`.
    pub hds_fragment: String,
}

impl Default for Names {
    fn default() -> Self {
        let name = str::to_owned;
        Self {
            hls_master: name("master"),
            hls_index: name("index"),
            hls_iframes: name("iframes"),
            hls_segment: name("seg"),
            hls_init: name("init"),
            dash_manifest: name("manifest"),
            dash_fragment: name("fragment"),
            dash_init: name("init"),
            mss_manifest: name("manifest"),
            hds_manifest: name("manifest"),
            hds_fragment: name("frag"),
        }
    }
}

/// The protocols that share one prefix.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PrefixProtocols {
    pub(super) hls: bool,
    pub(super) dash: bool,
    pub(super) mss: bool,
    pub(super) hds: bool,
}

impl Settings {
    /// Returns the prefix of a protocol.
    pub fn prefix(&self, protocol: Protocol) -> Option<&str> {
        let Prefixes { hls, dash, mss, hds } = &self.prefixes;
        match protocol {
            Protocol::HlsCmaf | Protocol::HlsTs => hls.as_deref(),
            Protocol::Dash => dash.as_deref(),
            Protocol::Smooth => mss.as_deref(),
            Protocol::Hds => hds.as_deref(),
        }
    }

    /// Returns the longest prefix that a path begins with, the rest of the path, and the prefix's
    /// protocols.
    pub(super) fn below<'a>(&self, path: &'a str) -> Option<(&str, &'a str, PrefixProtocols)> {
        let Prefixes { hls, dash, mss, hds } = &self.prefixes;
        let all = [hls, dash, mss, hds].into_iter().flatten().map(String::as_str);
        let prefix = all.filter(|prefix| path.starts_with(prefix)).max_by_key(|prefix| prefix.len())?;
        let is = |one: &Option<String>| one.as_deref() == Some(prefix);
        let protocols = PrefixProtocols { hls: is(hls), dash: is(dash), mss: is(mss), hds: is(hds) };
        Some((prefix, path.get(prefix.len()..)?, protocols))
    }

    /// Checks the prefixes and names.
    ///
    /// # Errors
    /// A sentence that names the first setting which no URL can have, or which cannot be told apart
    /// from another one.
    pub fn check(&self) -> Result<(), String> {
        let Prefixes { hls, dash, mss, hds } = &self.prefixes;
        for (key, prefix) in [("hls", hls), ("dash", dash), ("mss", mss), ("hds", hds)] {
            let Some(prefix) = prefix else { continue };
            let is_folder = |name: &str| is_name(name) && name != "." && name != "..";
            let inner = prefix.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
            if prefix != "/" && !inner.is_some_and(|inner| inner.split('/').all(is_folder)) {
                return Err(format!(
                    "{key} = '{prefix}': a prefix begins and ends with '/' and holds letters, digits and -._~"
                ));
            }
            if ["/_/", "/api/", "/healthz/"].contains(&prefix.as_str()) {
                return Err(format!("{key} = '{prefix}': this folder has another meaning"));
            }
        }
        let names = &self.names;
        let files = [
            ("hls_master", &names.hls_master, "m3u8"),
            ("hls_index", &names.hls_index, "m3u8"),
            ("hls_iframes", &names.hls_iframes, "m3u8"),
            ("hls_segment", &names.hls_segment, "segment"),
            ("hls_init", &names.hls_init, "HLS init"),
            ("dash_manifest", &names.dash_manifest, "mpd"),
            ("dash_fragment", &names.dash_fragment, "segment"),
            ("dash_init", &names.dash_init, "DASH init"),
            ("mss_manifest", &names.mss_manifest, "Smooth manifest"),
            ("hds_manifest", &names.hds_manifest, "f4m"),
            ("hds_fragment", &names.hds_fragment, "HDS fragment"),
        ];
        for (at, (key, name, kind)) in files.iter().enumerate() {
            if !is_name(name) || name.starts_with('.') {
                return Err(format!("{key} = '{name}': a name holds letters, digits and -._~"));
            }
            let begins_with =
                |a: &str, b: &str| a.strip_prefix(b).is_some_and(|r| r.is_empty() || r.starts_with('-'));
            let same = |(_, other, of): &&(&str, &String, &str)| {
                of == kind && (begins_with(name, other) || begins_with(other, name))
            };
            if let Some((other, ..)) = files.iter().take(at).find(same) {
                return Err(format!("{key} = '{name}' cannot be told apart from {other}"));
            }
        }
        Ok(())
    }
}

/// True if the text is not empty and holds unreserved characters only (RFC 3986 §2.3).
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
}
