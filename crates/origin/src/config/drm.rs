//! Encryption of titles.

use http::Uri;
use latemux_protect::{DrmSystem, key::parse_iv, speke::Contract};
use latemux_quantity::TimeSpan;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

/// Encryption of titles as they are sent. The first rule that matches a title applies. A title
/// without a match is sent clear. Nodes behind the same URLs need the same rules and keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DrmRule {
    /// Patterns such as `films/**`: `*` stands for any characters but `/`, `**` for any characters.
    /// A rule matches a title if one of its patterns matches the title's base, or the name in
    /// storage of one of its files. Since 0.2.0.
    pub titles: Vec<String>,
    /// Scheme of DASH: `cenc` or `cbcs`. Without a scheme, requests for DASH are refused. Since
    /// 0.2.0.
    pub dash: Option<String>,
    /// Scheme of HLS with TS segments: `sample-aes` or `aes-128`. Without a scheme, requests for
    /// this form are refused. Since 0.2.0.
    pub hls_ts: Option<String>,
    /// Scheme of HLS with CMAF segments: `cbcs`, `cenc` or `aes-128`. Without a scheme, requests
    /// for this form are refused. Since 0.2.0.
    pub hls_fmp4: Option<String>,
    /// Scheme of Smooth Streaming: `piff`. Without a scheme, requests for Smooth Streaming are
    /// refused. Since 0.2.0.
    pub mss: Option<String>,
    /// DRM systems that manifests and init segments name, except with `aes-128`: `widevine`,
    /// `playready`, `fairplay` and `clearkey`. If none is named, it is `clearkey`. Since 0.2.0.
    pub systems: Vec<String>,
    /// Kinds of tracks that are sent clear on purpose: `audio` and `thumbnails`. Timed text is
    /// always sent clear. Thumbnails cannot be encrypted, so they are sent only if they are named
    /// here. Since 0.2.0.
    pub clear: Vec<String>,
    /// Longest part at the start of a title that is sent clear, so that players can start before
    /// they have a licence. A segment is clear only if the next one starts no later than this time.
    /// With `0s`, no segment is clear. Smooth Streaming is always encrypted from the start. Since
    /// 0.2.0.
    #[serde(with = "TimeSpan")]
    pub clear_lead: Duration,
    /// URL at which players get keys. `{kid}` in it stands for the 32 digits of the KID. Without
    /// such a URL, playlists point at the keys that `serve_keys` serves. Since 0.2.0.
    pub key_uri: Option<String>,
    /// Serves keys at `BASE/keys/KID.key`. `env:NAME`: to clients that send the token that this
    /// environment variable holds. `open`: to everybody, for demonstrations only. Since 0.2.0.
    pub serve_keys: Option<String>,
    /// Settings of FairPlay, allowed only with `fairplay` among `systems`.
    pub fairplay: FairPlayConfig,
    /// Source of the keys: exactly one of these.
    pub keys: KeysConfig,
}

/// Settings of FairPlay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FairPlayConfig {
    /// URI of keys in playlists, `skd://{kid}` by default. It begins with `skd://` and has `{kid}`,
    /// which stands for the 32 digits of the KID. Keys from CPIX with `HLSSignalingData` keep the
    /// URI that it states. Since 0.2.0.
    pub uri: Option<String>,
    /// IV of keys that state none: 32 hexadecimal digits, or `kid` for the KID of the key. The
    /// licence server must send the same IV with the key. Without this setting, titles with such
    /// keys for `cbcs` or `sample-aes` are refused. Needed with `derive`. Since 0.2.0.
    pub iv: Option<String>,
}

impl FairPlayConfig {
    /// The value of [`Self::iv`] that stands for the KID.
    pub(crate) const KID: &str = "kid";

    fn problem(&self) -> Option<String> {
        let is_uri = |uri: &String| uri.starts_with("skd://") && uri.contains("{kid}");
        if self.uri.as_ref().is_some_and(|uri| !is_uri(uri)) {
            return Some("fairplay.uri must begin with skd:// and hold {kid}".to_owned());
        }
        let is_iv = |iv: &String| iv == Self::KID || parse_iv(iv).is_ok();
        if self.iv.as_ref().is_some_and(|iv| !is_iv(iv)) {
            return Some("fairplay.iv must be 32 hexadecimal digits, or kid".to_owned());
        }
        None
    }
}

/// Source of the keys: exactly one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeysConfig {
    /// File with keys, read at the start. [docs/encryption.md](encryption.md) shows its form. Since
    /// 0.2.0.
    pub file: Option<PathBuf>,
    /// `env:NAME`, an environment variable with a secret of at least 16 characters. The key of each
    /// title is derived from it and from the title's base. Since 0.2.0.
    pub derive: Option<String>,
    /// CPIX document: a path, or a URL (`https://`). `{title}` in it stands for the base of the
    /// title. A path without `{title}` is read at the start. Since 0.2.0.
    pub cpix: Option<String>,
    /// If true, keys are read from the CPIX document `film.cpix` beside `film.mp4`, `film.ism` or
    /// the folder `film`. Since 0.2.0.
    pub beside: bool,
    /// URL of a server that returns keys in the JSON form of nginx-vod-module. `{title}` in it
    /// stands for the base of the title. Since 0.2.0.
    pub json: Option<String>,
    /// URL of a key server that speaks SPEKE 2.0. Since 0.2.0.
    pub speke: Option<String>,
    /// ID of the content for `speke`, by default the base of the title. `{title}` in it stands for
    /// this base. Since 0.2.0.
    pub id: Option<String>,
    /// Keys to request by `speke`: `shared`, or one of `video-1`, `video-2` and `video-3` with one
    /// of `audio-1` and `audio-2`. The default is `video-1,audio-1`. Since 0.2.0.
    pub contract: Option<String>,
    /// File with certificates (PEM) of the authorities that may have signed the certificate of the
    /// key server, instead of those of the system. Since 0.2.0.
    pub ca: Option<PathBuf>,
    /// File with the client certificate (PEM) for the key server. Since 0.2.0.
    pub client_cert: Option<PathBuf>,
    /// File with the private key (PEM) of `client_cert`. Since 0.2.0.
    pub client_key: Option<PathBuf>,
    /// Headers of requests for keys. A value `env:NAME` stands for the value of that environment
    /// variable. Since 0.2.0.
    pub headers: BTreeMap<String, String>,
    /// Region of AWS, such as `eu-central-1`, if the key server is behind an Amazon API Gateway
    /// that checks signatures (SigV4). The access key is in the environment:
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`. Since 0.2.0.
    pub aws_region: Option<String>,
}

impl DrmRule {
    /// The start of a value that names an environment variable.
    pub const ENV: &str = "env:";
    /// The value of [`Self::serve_keys`] that needs no token.
    pub(crate) const OPEN: &str = "open";

    /// Checks the values that no type rules out. `number` is the 0-based number of the rule.
    pub(super) fn check(&self, number: usize) -> Result<(), String> {
        self.problem().map_or(Ok(()), |problem| Err(format!("drm, rule {}: {problem}", number + 1)))
    }

    /// Returns true if playlists hold URLs of keys.
    fn uses_key_urls(&self) -> bool {
        let is_whole = |scheme: &Option<String>| scheme.as_deref() == Some("aes-128");
        let is_clear_key = self.systems.is_empty() || self.systems.iter().any(|name| name == "clearkey");
        is_clear_key || is_whole(&self.hls_ts) || is_whole(&self.hls_fmp4)
    }

    fn problem(&self) -> Option<String> {
        self.scheme_problem()
            .or_else(|| self.system_problem())
            .or_else(|| self.fairplay_problem())
            .or_else(|| self.missing_system())
            .or_else(|| self.coverage_problem())
            .or_else(|| self.delivery_problem())
            .or_else(|| self.keys.problem())
            .or_else(|| {
                let mut schemes = self.schemes().into_iter().filter_map(|(_, scheme)| scheme.as_deref());
                (self.keys.speke.is_some() && schemes.any(|name| name == "aes-128"))
                    .then(|| "keys.speke has keys of cenc and cbcs only".to_owned())
            })
    }

    /// Returns the key and the scheme of each protocol. Smooth Streaming comes last.
    fn schemes(&self) -> [(&'static str, &Option<String>); 4] {
        [("dash", &self.dash), ("hls_ts", &self.hls_ts), ("hls_fmp4", &self.hls_fmp4), ("mss", &self.mss)]
    }

    fn has(&self, system: &str) -> bool {
        self.systems.iter().any(|name| name == system)
    }

    fn is_sample_aes(&self) -> bool {
        self.hls_ts.as_deref() == Some("sample-aes")
    }

    fn scheme_problem(&self) -> Option<String> {
        let known: [&[&str]; 4] =
            [&["cenc", "cbcs"], &["sample-aes", "aes-128"], &["cbcs", "cenc", "aes-128"], &["piff"]];
        self.schemes().into_iter().zip(known).find_map(|((key, scheme), known)| {
            let scheme = scheme.as_ref().filter(|scheme| !known.contains(&scheme.as_str()))?;
            Some(format!("{key} must be {}, not '{scheme}'", known.join(" or ")))
        })
    }

    fn system_problem(&self) -> Option<String> {
        if let Some(system) = self.systems.iter().find(|name| DrmSystem::of_name(name).is_none()) {
            return Some(format!("systems may hold widevine, playready, fairplay, clearkey, not '{system}'"));
        }
        let mut schemes = self.schemes().into_iter().filter_map(|(_, scheme)| scheme.as_deref());
        let encrypts_samples = schemes.any(|name| name != "aes-128");
        (!self.systems.is_empty() && !encrypts_samples)
            .then(|| "systems need cenc, cbcs, sample-aes or piff".to_owned())
    }

    fn fairplay_problem(&self) -> Option<String> {
        if !self.has("fairplay") {
            let is_set = self.fairplay != FairPlayConfig::default();
            return is_set.then(|| "[drm.fairplay] needs fairplay among systems".to_owned());
        }
        if self.hls_fmp4.as_deref() != Some("cbcs") && !self.is_sample_aes() {
            return Some("fairplay needs hls_fmp4 = \"cbcs\" or hls_ts = \"sample-aes\"".to_owned());
        }
        // Derived keys have no IV of their own.
        if self.keys.derive.is_some() && self.fairplay.iv.is_none() {
            return Some("fairplay with derived keys needs iv in [drm.fairplay]".to_owned());
        }
        self.fairplay.problem()
    }

    /// Finds a scheme that needs a system that is not named.
    fn missing_system(&self) -> Option<String> {
        let gives_keys = self.systems.is_empty() || self.has("fairplay") || self.has("clearkey");
        if self.is_sample_aes() && !gives_keys {
            return Some("hls_ts = \"sample-aes\" needs fairplay or clearkey among systems".to_owned());
        }
        (self.mss.is_some() && !self.has("playready"))
            .then(|| "mss = \"piff\" needs playready among systems".to_owned())
    }

    /// Checks what the rule covers: titles, protocols, tracks and times.
    fn coverage_problem(&self) -> Option<String> {
        let schemes = self.schemes();
        if self.titles.is_empty() || self.titles.iter().any(String::is_empty) {
            return Some("titles must name at least one pattern, such as films/**".to_owned());
        }
        if schemes.iter().all(|(_, scheme)| scheme.is_none()) {
            return Some("dash, hls_ts, hls_fmp4 or mss must name a scheme, or nothing is served".to_owned());
        }
        if let Some(kind) = self.clear.iter().find(|kind| !["audio", "thumbnails"].contains(&kind.as_str())) {
            return Some(format!("clear may hold audio and thumbnails, not '{kind}'"));
        }
        (!self.clear_lead.is_zero() && schemes[..3].iter().all(|(_, scheme)| scheme.is_none()))
            .then(|| "clear_lead needs dash, hls_ts or hls_fmp4: Smooth Streaming has none".to_owned())
    }

    /// Checks how players get keys.
    fn delivery_problem(&self) -> Option<String> {
        match &self.key_uri {
            Some(uri) if !uri.contains("{kid}") => {
                return Some("key_uri must hold {kid}, in whose place the KID is put".to_owned());
            }
            None if self.serve_keys.is_none() && self.uses_key_urls() => {
                return Some("players need key_uri or serve_keys to get keys".to_owned());
            }
            _ => {}
        }
        let is_env = |value: &str| value.strip_prefix(Self::ENV).is_some_and(|name| !name.is_empty());
        // Values are not repeated, because a secret may stand where its name belongs.
        let is_wrong = |value: &String| value != Self::OPEN && !is_env(value);
        self.serve_keys
            .as_ref()
            .is_some_and(is_wrong)
            .then(|| "serve_keys must be open, or env: and the name of an environment variable".to_owned())
    }
}

impl KeysConfig {
    fn problem(&self) -> Option<String> {
        let is_env = |value: &str| value.strip_prefix(DrmRule::ENV).is_some_and(|name| !name.is_empty());
        let urls = [&self.json, &self.speke].into_iter().flatten();
        let mut urls = urls.chain(self.cpix.iter().filter(|place| place.contains("://")));
        let sources = [
            self.file.is_some(),
            self.derive.is_some(),
            self.cpix.is_some(),
            self.beside,
            self.json.is_some(),
            self.speke.is_some(),
        ];
        if sources.iter().filter(|is_named| **is_named).count() != 1 {
            return Some("keys must have one of file, derive, cpix, beside, json and speke".to_owned());
        }
        if self.derive.as_ref().is_some_and(|value| !is_env(value)) {
            return Some("keys.derive must be env: and the name of an environment variable".to_owned());
        }
        if let Some(region) = &self.aws_region {
            if urls.clone().next().is_none() {
                return Some("keys.aws_region needs a URL in speke, cpix or json".to_owned());
            }
            if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return Some("keys.aws_region must be the name of a region, such as eu-central-1".to_owned());
            }
        }
        if let Some(problem) = urls.find_map(|url| url_problem(url)) {
            return Some(problem);
        }
        match &self.contract {
            Some(contract) => Contract::parse(contract).err().map(|problem| format!("keys.{problem}")),
            None => None,
        }
    }
}

/// Returns a problem of the URL of a key server: keys travel over HTTPS, or within the machine. The
/// URL is not repeated, because it may hold a token.
fn url_problem(text: &str) -> Option<String> {
    let problem = || Some("the URL of a key server begins with https://, or http://localhost".to_owned());
    let Ok(uri) = text.replace("{title}", "title").parse::<Uri>() else { return problem() };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") if !host.is_empty() => None,
        Some("http") if is_local => None,
        _ => problem(),
    }
}

#[cfg(test)]
mod tests {
    use super::url_problem;

    #[test]
    fn keys_travel_over_https_or_within_the_machine() {
        for text in [
            "https://keys.example/v2",
            "https://keys.example/{title}?a=b",
            "http://localhost:80/",
            "http://127.0.0.1:9/{title}",
            "http://[::1]:9/",
        ] {
            assert_eq!(url_problem(text), None, "{text}");
        }
        for text in ["", "keys", "http://keys.example/", "http://127.0.0.1.example/", "ftp://localhost/"] {
            assert!(url_problem(text).is_some(), "{text}");
        }
    }
}
