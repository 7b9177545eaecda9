//! Errors of requests, and the one table from errors to status codes.

use http::StatusCode;
use latemux_index::IndexError;
use latemux_packager::{AddressError, PackError, manifest::server::ManifestError};
use latemux_storage::StorageError;
use serde::Serialize;
use std::time::Duration;

/// Failure of a request. [`Error::reason`] gives its stable word in responses, metrics and log.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path that no resource can have: it has `..`, NUL, a backslash or an encoded `/`, or is not
    /// UTF-8.
    #[error("the path is not allowed")]
    BadPath,
    /// A request that names no host, or more than one.
    #[error("a request needs exactly one Host, and a valid one")]
    BadHost,
    /// A URL in a form that no resource has.
    #[error("no such URL")]
    NoSuchUrl,
    /// A query parameter that is malformed or not supported.
    #[error(transparent)]
    Query(AddressError),
    /// A method other than GET, HEAD and OPTIONS.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// `If-Match` names another ETag.
    #[error("If-Match does not name the ETag of the response")]
    PreconditionFailed,
    /// A range without any byte of the response.
    #[error("the requested range contains no byte of the response, which has {length} bytes")]
    RangeNotSatisfiable {
        /// Length of the whole response in bytes.
        length: u64,
    },
    /// A folder without media files.
    #[error("no media files in '{0}'")]
    NoMedia(String),
    /// A base that is no folder, and has an extension that no media file has.
    #[error("'{base}' is not a folder, and files with the extension .{extension} are not served: the \
             extension of media must be one of {}", media.join(", "))]
    UnknownExtension {
        /// Base of the title.
        base: String,
        /// Its extension.
        extension: String,
        /// Extensions of media files.
        media: &'static [&'static str],
    },
    /// A folder that holds several films.
    #[error(
        "the folder '{base}' holds more than one film: {why}. Request one of its files, or name \
             the files that belong together in a comma list or in an .ism"
    )]
    NotOneTitle {
        /// Base of the title.
        base: String,
        /// Files that contradict each other, and how.
        why: String,
    },
    /// More objects than one title may have.
    #[error("the title has at least {count} objects, more than the limit of {limit}")]
    TooManyObjects {
        /// Number of objects found so far.
        count: usize,
        /// Most objects of one title.
        limit: usize,
    },
    /// An object without a usable index, or a title without tracks.
    #[error("{key}: {error}")]
    Index {
        /// Name of the object, or base of the title.
        key: String,
        /// Cause.
        error: IndexError,
    },
    /// A location in an index MP4 or server manifest that is malformed or not allowed.
    #[error("{file}: it points to '{location}', which is refused: {why}")]
    LocationRefused {
        /// File that holds the location.
        file: String,
        /// Location as written.
        location: String,
        /// Reason for the refusal.
        why: &'static str,
    },
    /// A server manifest that cannot be used.
    #[error("{key}: {error}")]
    Manifest {
        /// Key of the manifest.
        key: String,
        /// Cause.
        error: ManifestError,
    },
    /// A server manifest names a track its file does not have.
    #[error("{problem}")]
    WrongTrackId {
        /// Description that names the tracks the file has.
        problem: String,
    },
    /// An element of a server manifest that cannot be used.
    #[error("{key}: {element}: {error}")]
    Element {
        /// Key of the manifest.
        key: String,
        /// Description of the element.
        element: String,
        /// Cause.
        error: Box<Error>,
    },
    /// A request that cannot be planned.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// An index that points beyond the end of its object.
    #[error("{key}: the index points to byte {end}, but the object ends at {size}")]
    BeyondEnd {
        /// Key of the object.
        key: String,
        /// End of the range, in bytes from the start of the object.
        end: u64,
        /// Size of the object in bytes.
        size: u64,
    },
    /// A segment whose samples lie so far apart that reading it takes too many requests.
    #[error("reading the segment takes {requests} requests to storage, more than the limit of {limit}")]
    Scattered {
        /// Number of requests that the segment takes.
        requests: usize,
        /// Most requests for one response.
        limit: usize,
    },
    /// The keys of an encrypted title could not be read.
    #[error("the keys of the title are not available")]
    KeysUnavailable,
    /// The source of keys refuses them.
    #[error("the keys of the title were refused")]
    KeysDenied,
    /// The source of keys states them in a form that cannot be used.
    #[error("the keys of the title cannot be used: {0}")]
    KeysMalformed(String),
    /// A request for a key without the right token.
    #[error("the key needs a token")]
    KeyDenied,
    /// The body of a licence request of Clear Key does not have the form of the standard.
    #[error("the body is not a licence request of Clear Key")]
    BadLicenceRequest,
    /// A key that the title does not have.
    #[error("the title has no such key")]
    NoSuchKey,
    /// A failed read or listing of storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Indexing took too long.
    #[error("'{base}' could not be indexed within {after:?}")]
    LoadTimedOut {
        /// Base of the title, or name of the file.
        base: String,
        /// Time limit.
        after: Duration,
    },
    /// The memory for responses is used up.
    #[error("too many responses are on their way to clients")]
    TooBusy,
    /// More requests of one client in flight than allowed.
    #[error("more than {limit} requests of this client are in flight")]
    TooManyRequests {
        /// Most requests of one client in flight.
        limit: usize,
    },
    /// All connections are in use. Only health checks are answered on further ones.
    #[error("too many connections are open")]
    TooManyConnections,
    /// Too many titles and manifests are being made.
    #[error("no place to make the title or manifest within {after:?}: too many others are being made")]
    TitleBusy {
        /// Time limit.
        after: Duration,
    },
    /// Titles and indexes whose requests wait for a place take too much memory.
    #[error("titles and indexes that wait for other work take too much memory")]
    TitlesWait,
    /// A defect of this program.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

/// Party that is responsible for an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// The client requested something that does not exist or is not allowed.
    Client,
    /// The media at the source cannot be served.
    Source,
    /// Storage failed.
    Storage,
    /// More is requested than the limits of this process allow.
    Load,
    /// This program has a defect.
    Origin,
}

impl Error {
    /// Returns the index error of an object or title.
    pub fn index(key: impl Into<String>, error: IndexError) -> Self {
        Self::Index { key: key.into(), error }
    }

    /// Returns the stable word that names the error in responses, metrics and log.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadPath => "bad_path",
            Self::BadHost => "bad_host",
            Self::NoSuchUrl => "no_such_url",
            Self::Query(error) => error.reason(),
            Self::MethodNotAllowed => "method_not_allowed",
            Self::PreconditionFailed => "precondition_failed",
            Self::RangeNotSatisfiable { .. } => "range_not_satisfiable",
            Self::NoMedia(_) => "no_media",
            Self::UnknownExtension { .. } => "unknown_extension",
            Self::NotOneTitle { .. } => "not_one_title",
            Self::TooManyObjects { .. } => "too_many_objects",
            Self::Index { error, .. } => error.reason(),
            Self::LocationRefused { .. } => "location_refused",
            Self::Manifest { error, .. } => error.reason(),
            Self::WrongTrackId { .. } => "wrong_track_id",
            Self::Element { error, .. } => error.reason(),
            Self::Pack(error) => error.reason(),
            Self::BeyondEnd { .. } => "truncated",
            Self::Scattered { .. } => "segment_scattered",
            Self::KeysUnavailable => "keys_unavailable",
            Self::KeysDenied => "keys_denied",
            Self::KeysMalformed(_) => "keys_malformed",
            Self::KeyDenied => "key_denied",
            Self::BadLicenceRequest => "bad_licence_request",
            Self::NoSuchKey => "no_such_key",
            Self::Storage(error) => error.reason(),
            Self::LoadTimedOut { .. } => "load_timeout",
            Self::TooBusy => "too_busy",
            Self::TooManyRequests { .. } => "too_many_requests",
            Self::TooManyConnections => "too_many_connections",
            Self::TitleBusy { .. } | Self::TitlesWait => "title_busy",
            Self::Internal(_) => "internal",
        }
    }

    /// Returns the status code and the party responsible. An error after the head of a response was
    /// sent aborts the connection instead.
    pub fn status(&self) -> (StatusCode, Fault) {
        use Fault::{Client, Load, Origin, Source, Storage};
        match self {
            Self::BadPath | Self::BadHost | Self::Query(_) => (StatusCode::BAD_REQUEST, Client),
            Self::NoSuchUrl | Self::NoMedia(_) | Self::UnknownExtension { .. } => {
                (StatusCode::NOT_FOUND, Client)
            }
            Self::KeysUnavailable => (StatusCode::SERVICE_UNAVAILABLE, Origin),
            Self::KeysDenied | Self::KeysMalformed(_) => (StatusCode::BAD_GATEWAY, Origin),
            Self::KeyDenied => (StatusCode::UNAUTHORIZED, Client),
            Self::BadLicenceRequest => (StatusCode::BAD_REQUEST, Client),
            Self::NoSuchKey => (StatusCode::NOT_FOUND, Client),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, Client),
            Self::PreconditionFailed => (StatusCode::PRECONDITION_FAILED, Client),
            Self::RangeNotSatisfiable { .. } => (StatusCode::RANGE_NOT_SATISFIABLE, Client),
            Self::TooManyObjects { .. }
            | Self::NotOneTitle { .. }
            | Self::BeyondEnd { .. }
            | Self::Scattered { .. }
            | Self::LocationRefused { .. }
            | Self::Manifest { .. }
            | Self::WrongTrackId { .. } => (StatusCode::UNPROCESSABLE_ENTITY, Source),
            Self::Element { error, .. } => error.status(),
            Self::Index { error, .. } => (index_status(error.reason()), Source),
            Self::Pack(error) => match error {
                PackError::CannotCarry { .. } | PackError::CannotProtect(_) => {
                    (StatusCode::UNSUPPORTED_MEDIA_TYPE, Source)
                }
                PackError::TooLarge(_)
                | PackError::ManifestTooLarge { .. }
                | PackError::NoKey(_)
                | PackError::NoIv(_)
                | PackError::CannotCut { .. }
                | PackError::AmbiguousKey(_) => (StatusCode::UNPROCESSABLE_ENTITY, Source),
                // No such track or segment. A new variant with another status needs its own arm.
                _ => (StatusCode::NOT_FOUND, Client),
            },
            Self::Storage(error) => match error {
                StorageError::NotFound(_) => (StatusCode::NOT_FOUND, Client),
                StorageError::CannotList(_) => (StatusCode::UNPROCESSABLE_ENTITY, Storage),
                StorageError::FolderTooLarge { .. } => (StatusCode::UNPROCESSABLE_ENTITY, Source),
                StorageError::Changed(_) | StorageError::Throttled { .. } | StorageError::Busy { .. } => {
                    (StatusCode::SERVICE_UNAVAILABLE, Storage)
                }
                StorageError::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, Storage),
                // Denied, WrongCredentials, NoBucket, OutOfRange, Unavailable and BadResponse.
                _ => (StatusCode::BAD_GATEWAY, Storage),
            },
            Self::LoadTimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, Storage),
            Self::TooBusy | Self::TooManyConnections | Self::TitleBusy { .. } | Self::TitlesWait => {
                (StatusCode::SERVICE_UNAVAILABLE, Load)
            }
            Self::TooManyRequests { .. } => (StatusCode::TOO_MANY_REQUESTS, Load),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, Origin),
        }
    }

    /// Returns the value of `Retry-After` in whole seconds, if the client should retry.
    pub fn retry_after(&self) -> Option<u64> {
        match self.cause() {
            Self::Storage(StorageError::Throttled { retry_after, .. }) => {
                Some(retry_after.map_or(1, |d| d.as_secs().max(1)))
            }
            Self::Storage(StorageError::Changed(_) | StorageError::Busy { .. })
            | Self::KeysUnavailable
            | Self::TooBusy
            | Self::TooManyRequests { .. }
            | Self::TooManyConnections
            | Self::TitleBusy { .. }
            | Self::TitlesWait => Some(1),
            _ => None,
        }
    }

    /// Returns true if the source of keys failed, which may be over a moment later.
    pub(crate) fn is_of_keys(&self) -> bool {
        matches!(self, Self::KeysUnavailable | Self::KeysDenied | Self::KeysMalformed(_))
    }

    /// Returns true if an object has changed since it was indexed and must be indexed again.
    pub fn is_changed(&self) -> bool {
        matches!(self.cause(), Self::Storage(StorageError::Changed(_)))
    }

    /// Returns true if storage failed, so that nothing is known of the object. The failure may be
    /// over a moment later.
    pub fn is_outage(&self) -> bool {
        match self.cause() {
            Self::Storage(StorageError::Busy { .. } | StorageError::WrongCredentials { .. }) => true,
            Self::Storage(error) => error.is_fault(),
            Self::LoadTimedOut { .. } => true,
            _ => false,
        }
    }

    /// Returns true if the object may have grown since it was indexed: the title has no such track
    /// or segment, or an object ends before one.
    pub(crate) fn is_missing_media(&self) -> bool {
        match self {
            Self::BeyondEnd { .. } => true,
            Self::Pack(_) => self.status().0 == StatusCode::NOT_FOUND,
            _ => false,
        }
    }

    /// Returns true if the cause is the object itself: it is changed, gone or denied, or has no
    /// such bytes. Other failures of storage may be over a moment later.
    pub fn is_caused_by_object(&self) -> bool {
        matches!(
            self.cause(),
            Self::Storage(
                StorageError::Changed(_)
                    | StorageError::NotFound(_)
                    | StorageError::Denied(_)
                    | StorageError::OutOfRange(_)
            )
        )
    }

    /// Returns the cause of an element's error, and any other error itself.
    fn cause(&self) -> &Self {
        match self {
            Self::Element { error, .. } => error.cause(),
            other => other,
        }
    }

    /// Returns the sentence for clients. Unlike the text for the log, it names neither hosts nor
    /// addresses nor absolute paths of the storage.
    fn public_detail(&self) -> String {
        match self {
            Self::Storage(error) => match error {
                StorageError::Denied(_) | StorageError::WrongCredentials { .. } => {
                    "storage denies access".to_owned()
                }
                StorageError::NoBucket(_) => "the bucket with the media does not exist".to_owned(),
                StorageError::Unavailable { .. } => "storage failed or cannot be reached".to_owned(),
                StorageError::BadResponse { .. } => "storage sent an unusable response".to_owned(),
                // The others name only the key and a time.
                other => other.to_string(),
            },
            Self::Index { key, error } => {
                format!("{}: {}", public_name(key), without_addresses(&error.to_string()))
            }
            Self::BeyondEnd { key, end, size } => {
                Self::BeyondEnd { key: public_name(key).to_owned(), end: *end, size: *size }.to_string()
            }
            Self::LoadTimedOut { base, after } => {
                Self::LoadTimedOut { base: public_name(base).to_owned(), after: *after }.to_string()
            }
            Self::LocationRefused { file, why, .. } => {
                format!("{}: it points to a location that is refused: {why}", public_name(file))
            }
            Self::Element { key, element, error } => {
                format!("{key}: {}: {}", without_addresses(element), error.public_detail())
            }
            other => without_addresses(&other.to_string()),
        }
    }

    /// Returns the body of the error response: one line of JSON.
    pub fn body(&self) -> String {
        #[derive(Serialize)]
        struct Body<'a> {
            reason: &'a str,
            detail: &'a str,
        }
        let detail = self.public_detail();
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

/// Returns the part of an object's name that a client may see: the key in the served storage, or
/// only the file name of an object elsewhere.
fn public_name(name: &str) -> &str {
    let is_elsewhere = (name.starts_with('/') && name.len() > 1) || name.contains("://");
    if is_elsewhere { name.rsplit('/').next().unwrap_or_default() } else { name }
}

/// Replaces addresses, and absolute paths in quotes, which files may name, by the file name alone.
fn without_addresses(text: &str) -> String {
    let quotes = ['"', '\''];
    let pieces = text.split_inclusive(quotes).enumerate().flat_map(|(number, piece)| {
        // Without quotes around it, an address ends at a space.
        let is_quoted = number > 0 && piece.ends_with(quotes) && !piece.starts_with(' ');
        let words = if is_quoted { vec![piece] } else { piece.split_inclusive(' ').collect() };
        words.into_iter().map(public_name)
    });
    pieces.collect()
}

/// Returns status 415 for kinds of media that cannot be packaged, and 422 for damaged files.
fn index_status(reason: &str) -> StatusCode {
    match reason {
        "not_mp4" | "encrypted_source" | "unsupported_codec" => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_named_addresses_and_paths_that_files_refer_to() {
        let element = |src: &str| Error::Element {
            key: "a/film.ism".to_owned(),
            element: format!("<video src=\"{src}\"> in line 3"),
            error: Box::new(Error::index(src, IndexError::NoMedia)),
        };
        let slow = |base: &str| Error::LoadTimedOut { base: base.to_owned(), after: Duration::from_secs(1) };
        for (error, detail) in [
            (
                element("http://10.0.0.5:9000/in side/v.mp4"),
                "a/film.ism: <video src=\"v.mp4\"> in line 3: v.mp4: there are no tracks",
            ),
            (
                element("file:///mnt/nas/v.mp4"),
                "a/film.ism: <video src=\"v.mp4\"> in line 3: v.mp4: there are no tracks",
            ),
            (
                element("/mnt/my nas/v.mp4"),
                "a/film.ism: <video src=\"v.mp4\"> in line 3: v.mp4: there are no tracks",
            ),
            (
                element("../b/v.mp4"),
                "a/film.ism: <video src=\"../b/v.mp4\"> in line 3: ../b/v.mp4: there are no tracks",
            ),
            (slow("https://10.0.0.5/a/v.mp4"), "'v.mp4' could not be indexed within 1s"),
            (slow("a/v.mp4"), "'a/v.mp4' could not be indexed within 1s"),
            (
                Error::WrongTrackId {
                    problem: "s3://b/c/v.mp4 and http://h/d/w.mp4 have no track".to_owned(),
                },
                "v.mp4 and w.mp4 have no track",
            ),
        ] {
            assert_eq!(error.public_detail(), detail);
        }
    }
}
