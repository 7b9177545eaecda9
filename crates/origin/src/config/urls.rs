//! Forms of URL that are served beside the native one.

use latemux_packager::address::{
    HlsContainer,
    nginx_vod::{Names, Prefixes, Settings},
};
use serde::{Deserialize, Serialize};

/// Forms of URL that are served beside the native one. By default none is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UrlsConfig {
    /// That of nginx-vod-module.
    pub nginx_vod: NginxVodConfig,
}

/// URLs as nginx-vod-module has them, each protocol's under a prefix such as `/hls/`; a protocol without one has none. Below a prefix,
/// URLs are of this form alone: what is behind the prefix is looked for in storage. Protocols may share one. Below `/` the native form
/// is there too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NginxVodConfig {
    /// Prefix of HLS.
    pub hls: Option<String>,
    /// Prefix of DASH.
    pub dash: Option<String>,
    /// Prefix of Smooth Streaming.
    pub mss: Option<String>,
    /// Prefix of HDS.
    pub hds: Option<String>,
    /// HLS playlists point at CMAF where the query does not say `hls_fmp4=false`.
    pub hls_fmp4: bool,
    /// What files are called, without extension.
    #[serde(with = "NamesConfig")]
    pub names: Names,
}

/// [`Names`], as written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Names", default, deny_unknown_fields)]
struct NamesConfig {
    hls_master: String,
    hls_index: String,
    hls_iframes: String,
    hls_segment: String,
    hls_init: String,
    dash_manifest: String,
    dash_fragment: String,
    dash_init: String,
    mss_manifest: String,
    hds_manifest: String,
    hds_fragment: String,
}

impl Default for NamesConfig {
    fn default() -> Self {
        let Names {
            hls_master,
            hls_index,
            hls_iframes,
            hls_segment,
            hls_init,
            dash_manifest,
            dash_fragment,
            dash_init,
            mss_manifest,
            hds_manifest,
            hds_fragment,
        } = Names::default();
        Self {
            hls_master,
            hls_index,
            hls_iframes,
            hls_segment,
            hls_init,
            dash_manifest,
            dash_fragment,
            dash_init,
            mss_manifest,
            hds_manifest,
            hds_fragment,
        }
    }
}

impl NginxVodConfig {
    /// `/hls/`, `/dash/`, `/mss/` and `/hds/`, where nothing else is said.
    pub fn enable(&mut self) {
        let fields = [&mut self.hls, &mut self.dash, &mut self.mss, &mut self.hds];
        for (field, prefix) in fields.into_iter().zip(["/hls/", "/dash/", "/mss/", "/hds/"]) {
            field.get_or_insert_with(|| prefix.to_owned());
        }
    }

    /// As the packager wants it.
    #[must_use]
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
    /// What is wrong with it, with the name of the key.
    ///
    /// # Errors
    /// For people.
    pub fn check(&self) -> Result<(), String> {
        self.nginx_vod.settings().check().map_err(|why| format!("urls.nginx_vod: {why}"))
    }
}
