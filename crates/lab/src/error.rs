//! Errors of the lab.

use std::path::Path;

/// A reason not to start, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{0}")]
    File(String),
    /// A file, document or parameter is not valid.
    #[error("{0}")]
    Invalid(String),
    /// The machine lacks what the plan needs, such as room on the disk.
    #[error("{0}")]
    Lacking(String),
}

impl Error {
    /// Returns an error about the content of a file or document.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }

    /// Returns an error about access to a file.
    pub(crate) fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::File(format!("{}: {error}", path.display()))
    }

    /// Returns this error with the name of a file in front.
    pub(crate) fn within(self, place: &str) -> Self {
        let add = |text: String| format!("{place}: {text}");
        match self {
            Self::File(text) => Self::File(add(text)),
            Self::Invalid(text) => Self::Invalid(add(text)),
            Self::Lacking(text) => Self::Lacking(add(text)),
        }
    }

    /// Returns the stable word for this kind of error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Invalid(_) => "invalid",
            Self::Lacking(_) => "lacking",
        }
    }
}
