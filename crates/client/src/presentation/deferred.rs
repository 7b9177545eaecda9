//! Lists of segments that another resource than the manifest holds.

use super::{Resource, Segments};
use crate::manifest_error::ManifestError;
use std::{fmt::Debug, sync::Arc};
use url::Url;

/// The maximum number of bytes of a manifest, playlist or segment index.
pub const MAX_BYTES: usize = 16 << 20;

/// Reads a list of segments in the format of one protocol.
pub(crate) trait ReadSegments: Debug + Send + Sync {
    /// Reads the list that `resource` names. `url` is its address after redirects.
    fn read(&self, url: &Url, resource: &Resource, body: &[u8]) -> Result<Segments, ManifestError>;
}

/// A list of segments that must be fetched separately.
#[derive(Debug, Clone)]
pub struct Deferred {
    /// The address of the list.
    pub resource: Resource,
    reader: Arc<dyn ReadSegments>,
}

impl Deferred {
    pub(crate) fn new(resource: Resource, reader: impl ReadSegments + 'static) -> Self {
        Self { resource, reader: Arc::new(reader) }
    }

    /// Reads the list. `url` is its address after redirects.
    ///
    /// # Errors
    /// - [`ManifestError::Invalid`] if the list is damaged
    /// - [`ManifestError::Unsupported`] if it uses a feature that is not supported
    /// - [`ManifestError::TooMuch`] if a limit is exceeded
    pub fn read(&self, url: &Url, body: &[u8]) -> Result<Segments, ManifestError> {
        if body.len() > MAX_BYTES {
            return Err(ManifestError::TooMuch { what: "bytes", limit: MAX_BYTES });
        }
        self.reader.read(url, &self.resource, body)
    }
}
