//! The `Cache-Control` header.

use http::HeaderValue;
use latemux_packager::plan::Class;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Value of the `Cache-Control` header for each kind of response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheControlConfig {
    /// Value for manifests and playlists.
    #[serde(with = "header")]
    pub manifest: Option<HeaderValue>,
    /// Value for init segments.
    #[serde(with = "header")]
    pub init: Option<HeaderValue>,
    /// Value for media segments.
    #[serde(with = "header")]
    pub media: Option<HeaderValue>,
}

impl Default for CacheControlConfig {
    fn default() -> Self {
        let day = Some(HeaderValue::from_static("public, max-age=86400"));
        let minute = Some(HeaderValue::from_static("public, max-age=60"));
        Self { manifest: minute, init: day.clone(), media: day }
    }
}

impl CacheControlConfig {
    /// Returns the value for a class of resource.
    pub(crate) fn of(&self, class: Class) -> Option<HeaderValue> {
        match class {
            Class::Manifest => self.manifest.clone(),
            Class::Init => self.init.clone(),
            Class::Media => self.media.clone(),
        }
    }
}

/// Serde of a header's value as text, which is empty if no header is sent.
mod header {
    use super::{Deserialize, Deserializer, Error, HeaderValue, Serializer};

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(value: &Option<HeaderValue>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.as_ref().and_then(|v| v.to_str().ok()).unwrap_or_default())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<HeaderValue>, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(None);
        }
        HeaderValue::try_from(text).map(Some).map_err(D::Error::custom)
    }
}
