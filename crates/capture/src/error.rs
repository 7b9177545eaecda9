//! The errors that end a capture.

use latemux_client::{failure::Failure, manifest::ManifestError, presentation::Resource};
use std::io::Error;
use url::Url;

/// An error that ends a capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A request failed, or its body is damaged.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The manifest at this URL cannot be played.
    #[error("{0}: {1}")]
    Manifest(Url, ManifestError),
    /// The stream cannot be saved in any format.
    #[error("{0} cannot be captured")]
    Unsupported(String),
    /// The stream cannot be saved in the chosen format.
    #[error("{stream} cannot be saved as .{format}, only as .mp4")]
    WrongFormat {
        /// Description of the stream.
        stream: String,
        /// Extension of the format.
        format: &'static str,
    },
    /// The output cannot be written.
    #[error("cannot write")]
    Write(#[from] Error),
    /// The list of requests cannot be written.
    #[error("cannot write the trace")]
    Trace(#[source] Error),
}

/// Adds the URL of a body to its failure.
pub(crate) fn at(resource: &Resource, failure: Failure) -> Failure {
    let Failure { reason, detail } = failure;
    Failure { reason, detail: format!("{}: {detail}", resource.url) }
}

impl CaptureError {
    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }

    /// Adds the URL of the body that failed.
    pub(crate) fn of(self, resource: &Resource) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(at(resource, failure)),
            other => other,
        }
    }
}
