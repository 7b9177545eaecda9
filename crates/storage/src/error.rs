//! Errors of storage, distinguished by what the caller can do about them.

use std::time::Duration;

/// The error of a read or listing. [`StorageError::reason`] is its stable word for logs and
/// responses.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The object or folder does not exist.
    #[error("{0}: not found")]
    NotFound(String),
    /// The object no longer has the requested version, and must be indexed anew.
    #[error("{0}: changed since it was indexed")]
    Changed(String),
    /// The range is not inside the object.
    #[error("{0}: the range is not inside the object")]
    OutOfRange(String),
    /// Storage denies access because of credentials or permissions.
    #[error("{0}: access denied by storage")]
    Denied(String),
    /// Storage refuses the credentials themselves, there are none, or they permit nothing.
    #[error("{key}: access denied by storage: {detail}")]
    WrongCredentials {
        /// Name of the object.
        key: String,
        /// Code that storage sent, why there are no credentials, or what they do not permit.
        detail: String,
    },
    /// The bucket itself does not exist.
    #[error("{0}: the bucket does not exist")]
    NoBucket(String),
    /// Storage asks us to slow down, and no retries are left.
    #[error("{key}: throttled by storage")]
    Throttled {
        /// Name of the object.
        key: String,
        /// Time that storage asks us to wait.
        retry_after: Option<Duration>,
    },
    /// The maximum number of requests is in flight, and none of them ended in time.
    #[error("{key}: no permit for a request to storage within {after:?}")]
    Busy {
        /// Name of the object.
        key: String,
        /// Time spent waiting.
        after: Duration,
    },
    /// Storage did not respond in time.
    #[error("{key}: storage did not respond within {after:?}")]
    TimedOut {
        /// Name of the object.
        key: String,
        /// Time spent waiting.
        after: Duration,
    },
    /// Storage failed (5xx, connection refused, reset or broken off), and no retries are left.
    #[error("{key}: {detail}")]
    Unavailable {
        /// Name of the object.
        key: String,
        /// Description of the failure.
        detail: String,
    },
    /// The response violates HTTP or S3: a range that was not requested, no size, …
    #[error("{key}: {detail}")]
    BadResponse {
        /// Name of the object.
        key: String,
        /// Description of the violation.
        detail: String,
    },
    /// This storage cannot list folders.
    #[error("{0}: this storage cannot list folders")]
    CannotList(String),
    /// The folder holds too many names to be listed.
    #[error("{key}: the folder holds more than {limit} names")]
    FolderTooLarge {
        /// Name of the folder.
        key: String,
        /// Most names that are listed.
        limit: usize,
    },
}

impl StorageError {
    /// Returns a stable word for logs, metrics and responses.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "source_not_found",
            Self::Changed(_) => "source_changed",
            Self::OutOfRange(_) => "source_range",
            Self::Denied(_) | Self::WrongCredentials { .. } => "storage_denied",
            Self::NoBucket(_) => "no_bucket",
            Self::Throttled { .. } => "storage_throttled",
            Self::Busy { .. } => "storage_busy",
            Self::TimedOut { .. } => "storage_timeout",
            Self::Unavailable { .. } => "storage_unavailable",
            Self::BadResponse { .. } => "storage_bad_answer",
            Self::CannotList(_) => "cannot_list",
            Self::FolderTooLarge { .. } => "folder_too_large",
        }
    }

    /// Returns true if storage has said that its settings are wrong: no retry and no other object
    /// helps.
    pub fn is_misconfiguration(&self) -> bool {
        matches!(self, Self::WrongCredentials { .. } | Self::NoBucket(_))
    }

    /// Returns true if storage failed. A missing, forbidden or changed object is not a failure.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Throttled { .. }
                | Self::TimedOut { .. }
                | Self::Unavailable { .. }
                | Self::BadResponse { .. }
        )
    }
}
