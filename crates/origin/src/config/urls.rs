//! Forms of URL served beside the native one.

use latemux_packager::address::{
    HlsContainer,
    nginx_vod::{Names, Prefixes, Settings},
};
use latemux_quantity::TimeSpan;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Forms of URL served beside the native one. By default there are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UrlsConfig {
    /// Longest value of the parameter `hls_minimum_fragment_length`, which joins HLS segments until
    /// each lasts at least so long. Longer values get status 400, because a request takes memory in
    /// proportion to the length of its segment. Since 0.2.0.
    #[serde(with = "TimeSpan")]
    pub max_joined: Duration,
    /// URLs in the form of nginx-vod-module. A protocol without a prefix is not served in this
    /// form.
    pub nginx_vod: NginxVodConfig,
}

impl Default for UrlsConfig {
    fn default() -> Self {
        Self { max_joined: Duration::from_secs(30), nginx_vod: NginxVodConfig::default() }
    }
}

/// URLs in the form of nginx-vod-module. Each protocol is served below a prefix such as `/hls/`,
/// and a protocol without a prefix is not served in this form. Below a prefix only this form is
/// understood, and the path after the prefix is looked up in storage. Protocols may share a prefix.
/// Below the prefix `/` the native form is served too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NginxVodConfig {
    /// Prefix of HLS, such as `/hls/`.
    pub hls: Option<String>,
    /// Prefix of DASH, such as `/dash/`.
    pub dash: Option<String>,
    /// Prefix of Smooth Streaming, such as `/mss/`.
    pub mss: Option<String>,
    /// Prefix of HDS, such as `/hds/`.
    pub hds: Option<String>,
    /// If true, HLS playlists point at CMAF unless the query says `hls_fmp4=false`.
    pub hls_fmp4: bool,
    /// Names of the files in these URLs, without extension.
    #[serde(with = "NamesConfig")]
    pub names: Names,
}

/// Text form of [`Names`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Names", default = "Names::default", deny_unknown_fields)]
struct NamesConfig {
    /// Name in `master.m3u8`.
    hls_master: String,
    /// Name in `index-v1-a1.m3u8`.
    hls_index: String,
    /// Name in `iframes-v1.m3u8`.
    hls_iframes: String,
    /// Name in `seg-1-v1-a1.ts`.
    hls_segment: String,
    /// Name in the `init-v1.mp4` of HLS.
    hls_init: String,
    /// Name in `manifest.mpd`.
    dash_manifest: String,
    /// Name in `fragment-1-v1.m4s`.
    dash_fragment: String,
    /// Name in the `init-v1.mp4` of DASH.
    dash_init: String,
    /// Name of the Smooth Streaming manifest.
    mss_manifest: String,
    /// Name in `manifest.f4m`.
    hds_manifest: String,
    /// Name in `frag-v1-a1-Seg1-Frag1`.
    hds_fragment: String,
}

impl NginxVodConfig {
    /// Gives every protocol without a prefix its usual one: `/hls/`, `/dash/`, `/mss/` or `/hds/`.
    pub fn enable(&mut self) {
        let fields = [&mut self.hls, &mut self.dash, &mut self.mss, &mut self.hds];
        for (field, prefix) in fields.into_iter().zip(["/hls/", "/dash/", "/mss/", "/hds/"]) {
            field.get_or_insert_with(|| prefix.to_owned());
        }
    }

    /// Returns these settings as the packager takes them.
    pub fn settings(&self) -> Settings {
        let Self { hls, dash, mss, hds, hls_fmp4, names } = self.clone();
        Settings {
            prefixes: Prefixes { hls, dash, mss, hds },
            names,
            container: if hls_fmp4 { HlsContainer::Cmaf } else { HlsContainer::Auto },
        }
    }
}

impl UrlsConfig {
    /// Checks prefixes and names.
    ///
    /// # Errors
    /// Returns a sentence for the operator that names the first key whose prefix or name no URL can
    /// have.
    pub fn check(&self) -> Result<(), String> {
        self.nginx_vod.settings().check().map_err(|why| format!("urls.nginx_vod: {why}"))
    }
}
