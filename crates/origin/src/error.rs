//! What can go wrong with a request, and what the client is told: the one table of status codes.

use http::StatusCode;
use latemux_index::IndexError;
use latemux_packager::{AddressError, PackError, manifest::server::ManifestError};
use latemux_storage::StorageError;
use serde::Serialize;
use std::time::Duration;

/// A request that is not answered as asked. [`Error::reason`] is the stable word for logs and answers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path that no address can have: `..`, NUL, backslash, an encoded `/`, not UTF-8.
    #[error("the path is not allowed")]
    BadPath,
    /// Nothing has this form of URL.
    #[error("no such URL")]
    NoSuchUrl,
    /// A parameter of the query that means nothing.
    #[error(transparent)]
    Query(AddressError),
    /// Neither GET nor HEAD nor OPTIONS.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// `If-Match` names another version.
    #[error("the answer has another ETag")]
    PreconditionFailed,
    /// A range that begins beyond the end.
    #[error("no byte of the range exists, the answer has {length}")]
    RangeNotSatisfiable {
        /// Length of the whole answer in bytes.
        length: u64,
    },
    /// A folder without media files.
    #[error("no media files in '{0}'")]
    NoMedia(String),
    /// More objects than one title may have.
    #[error("{count} objects in one title, more than {limit}")]
    TooManyObjects {
        /// How many.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// An object without a usable index, or a title without tracks.
    #[error("{key}: {error}")]
    Index {
        /// Object or title.
        key: String,
        /// Why.
        error: IndexError,
    },
    /// A name in an index MP4 or server manifest that leads where it may not.
    #[error("{file}: '{location}' is refused: {why}")]
    LocationRefused {
        /// The file it stands in.
        file: String,
        /// As written.
        location: String,
        /// Why.
        why: &'static str,
    },
    /// A server manifest that cannot be used.
    #[error("{key}: {error}")]
    Manifest {
        /// The manifest.
        key: String,
        /// Why.
        error: ManifestError,
    },
    /// A server manifest names a track its file does not have.
    #[error("{problem}")]
    WrongTrackId {
        /// What is there instead.
        problem: String,
    },
    /// What an element of a server manifest names cannot be used.
    #[error("{key}: {element}: {error}")]
    Element {
        /// The manifest.
        key: String,
        /// The element.
        element: String,
        /// Why.
        error: Box<Error>,
    },
    /// A request that cannot be planned.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The index points beyond the end of its object.
    #[error("{key}: the index points to byte {end}, the object has {size}")]
    BeyondEnd {
        /// Object.
        key: String,
        /// End of the range, in bytes from the start of the object.
        end: u64,
        /// Size of the object in bytes.
        size: u64,
    },
    /// A segment whose samples lie so far apart that reading it takes too many requests.
    #[error("reading the segment takes {requests} requests to storage, more than {limit}")]
    Scattered {
        /// How many.
        requests: usize,
        /// The limit.
        limit: usize,
    },
    /// Storage failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Indexing took too long.
    #[error("'{base}' could not be indexed within {after:?}")]
    LoadTimedOut {
        /// The title's base.
        base: String,
        /// The limit.
        after: Duration,
    },
    /// A defect of this program.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

/// Whose doing an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// The client asked for what is not there.
    Client,
    /// The media at the source cannot be served.
    Source,
    /// Storage did not do its part.
    Storage,
    /// This program did not.
    Origin,
}

impl Error {
    /// An index error of an object or title.
    #[must_use]
    pub fn index(key: impl Into<String>, error: IndexError) -> Self {
        Self::Index { key: key.into(), error }
    }

    /// A stable word for logs, metrics and answers.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadPath => "bad_path",
            Self::NoSuchUrl => "no_such_url",
            Self::Query(error) => error.reason(),
            Self::MethodNotAllowed => "method_not_allowed",
            Self::PreconditionFailed => "precondition_failed",
            Self::RangeNotSatisfiable { .. } => "range_not_satisfiable",
            Self::NoMedia(_) => "no_media",
            Self::TooManyObjects { .. } => "too_many_objects",
            Self::Index { error, .. } => error.reason(),
            Self::LocationRefused { .. } => "location_refused",
            Self::Manifest { error, .. } => error.reason(),
            Self::WrongTrackId { .. } => "wrong_track_id",
            Self::Element { error, .. } => error.reason(),
            Self::Pack(error) => error.reason(),
            Self::BeyondEnd { .. } => "truncated",
            Self::Scattered { .. } => "segment_scattered",
            Self::Storage(error) => error.reason(),
            Self::LoadTimedOut { .. } => "load_timeout",
            Self::Internal(_) => "internal",
        }
    }

    /// Status of the answer, and whose doing it is. An error that comes after the head of an answer was sent breaks
    /// the connection off instead.
    #[must_use]
    pub fn status(&self) -> (StatusCode, Fault) {
        use Fault::{Client, Origin, Source, Storage};
        match self {
            Self::BadPath | Self::Query(_) => (StatusCode::BAD_REQUEST, Client),
            Self::NoSuchUrl | Self::NoMedia(_) => (StatusCode::NOT_FOUND, Client),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, Client),
            Self::PreconditionFailed => (StatusCode::PRECONDITION_FAILED, Client),
            Self::RangeNotSatisfiable { .. } => (StatusCode::RANGE_NOT_SATISFIABLE, Client),
            Self::TooManyObjects { .. }
            | Self::BeyondEnd { .. }
            | Self::Scattered { .. }
            | Self::LocationRefused { .. }
            | Self::Manifest { .. }
            | Self::WrongTrackId { .. } => (StatusCode::UNPROCESSABLE_ENTITY, Source),
            Self::Element { error, .. } => error.status(),
            Self::Index { error, .. } => (index_status(error.reason()), Source),
            Self::Pack(error) => match error {
                PackError::CannotCarry { .. } => (StatusCode::UNSUPPORTED_MEDIA_TYPE, Source),
                PackError::TooLarge(_) => (StatusCode::UNPROCESSABLE_ENTITY, Source),
                // No such track or segment; what is added later says otherwise here.
                _ => (StatusCode::NOT_FOUND, Client),
            },
            Self::Storage(error) => match error {
                StorageError::NotFound(_) => (StatusCode::NOT_FOUND, Client),
                StorageError::CannotList(_) => (StatusCode::UNPROCESSABLE_ENTITY, Storage),
                StorageError::Changed(_) | StorageError::Throttled { .. } | StorageError::Busy { .. } => {
                    (StatusCode::SERVICE_UNAVAILABLE, Storage)
                }
                StorageError::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, Storage),
                // Denied, OutOfRange, Unavailable, BadResponse.
                _ => (StatusCode::BAD_GATEWAY, Storage),
            },
            Self::LoadTimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, Storage),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, Origin),
        }
    }

    /// When to come back, in whole seconds: `Retry-After`.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Storage(StorageError::Throttled { retry_after, .. }) => {
                Some(retry_after.map_or(1, |d| d.as_secs().max(1)))
            }
            Self::Storage(StorageError::Changed(_) | StorageError::Busy { .. }) => Some(1),
            Self::Element { error, .. } => error.retry_after(),
            _ => None,
        }
    }

    /// The object is another version by now: index it anew.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        match self {
            Self::Storage(StorageError::Changed(_)) => true,
            Self::Element { error, .. } => error.is_changed(),
            _ => false,
        }
    }

    /// The object is not what it was, or not there: more than a moment's failure.
    #[must_use]
    pub fn is_of_object(&self) -> bool {
        match self {
            Self::Storage(error) => matches!(
                error,
                StorageError::Changed(_)
                    | StorageError::NotFound(_)
                    | StorageError::Denied(_)
                    | StorageError::OutOfRange(_)
            ),
            Self::Element { error, .. } => error.is_of_object(),
            _ => false,
        }
    }

    /// One line of JSON.
    #[must_use]
    pub fn body(&self) -> String {
        #[derive(Serialize)]
        struct Body<'a> {
            reason: &'a str,
            detail: &'a str,
        }
        let detail = self.to_string();
        let body = Body { reason: self.reason(), detail: &detail };
        let mut line = serde_json::to_string(&body).unwrap_or_default();
        line.push('\n');
        line
    }
}

impl From<AddressError> for Error {
    fn from(error: AddressError) -> Self {
        match error {
            AddressError::NoSuchUrl => Self::NoSuchUrl,
            other => Self::Query(other),
        }
    }
}

/// What cannot be packaged: 415 for kinds of media, 422 for files that are not sound.
fn index_status(reason: &str) -> StatusCode {
    match reason {
        "not_mp4" | "encrypted_source" | "unsupported_codec" => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}
