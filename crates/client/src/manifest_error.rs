//! The reasons why a manifest cannot be played.

/// The reason why a manifest cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The manifest is damaged, or does not follow its standard.
    #[error("{0}")]
    Invalid(String),
    /// The manifest is valid, but uses a feature that is not supported.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The manifest exceeds a limit.
    #[error("more than {limit} {what}")]
    TooMuch {
        /// The kind of items of which there are too many.
        what: &'static str,
        /// The maximum number of such items.
        limit: usize,
    },
}

impl ManifestError {
    /// Returns the stable name for reports.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "manifest_invalid",
            Self::Unsupported(_) => "manifest_unsupported",
            Self::TooMuch { .. } => "manifest_too_large",
        }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }

    /// Refuses a time, a bit rate, a byte or a segment number that is too large for any media.
    pub(crate) fn beyond(what: &str) -> Self {
        Self::Invalid(format!("{what} that is too large"))
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }
}
