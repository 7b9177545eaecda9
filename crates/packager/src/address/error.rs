//! The reasons why a URL is refused.

use super::parameter;

/// The reason why a URL is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The path matches no grammar.
    #[error("no such URL")]
    NoSuchUrl,
    /// A file or segment has number 0, but counting starts at 1.
    #[error("files and segments are counted from 1")]
    IndexZero,
    /// The text is not a list of references to tracks.
    #[error("'{0}' is no track: f1, v1, a1 and t1 are a file, its video, audio and text")]
    BadTracks(String),
    /// The URL is longer than that of any title.
    #[error("too long: more than {limit} {what}")]
    TooLong {
        /// Description of the limited items, in the plural.
        what: &'static str,
        /// The highest number allowed.
        limit: usize,
    },
    /// A parameter has a value without a meaning.
    #[error("{parameter}: {problem}")]
    Malformed {
        /// Name of the parameter.
        parameter: &'static str,
        /// Description of the problem, for people.
        problem: String,
    },
}

impl AddressError {
    /// Returns the stable word for logs, metrics and responses.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchUrl => "no_such_url",
            Self::IndexZero => "index_zero",
            Self::BadTracks(_) => "bad_tracks",
            Self::TooLong { .. } => "url_too_long",
            Self::Malformed { parameter: parameter::FILTER, .. } => "filter_malformed",
            Self::Malformed {
                parameter: parameter::BEGIN | parameter::END | parameter::CLIP_FROM | parameter::CLIP_TO,
                ..
            } => "clip_malformed",
            Self::Malformed { .. } => "parameter_malformed",
        }
    }
}
