//! What can go wrong with storage, by what the caller can do.

use std::time::Duration;

/// A read or listing that failed. [`StorageError::reason`] is the stable word for logs and answers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// No such object or folder.
    #[error("{0}: not found")]
    NotFound(String),
    /// The object is no longer the version asked for: index it anew.
    #[error("{0}: changed since it was indexed")]
    Changed(String),
    /// The range does not lie in the object.
    #[error("{0}: range not in the object")]
    OutOfRange(String),
    /// Storage refuses us: credentials, permissions.
    #[error("{0}: access denied by storage")]
    Denied(String),
    /// Storage asks us to slow down; retries are spent.
    #[error("{key}: throttled by storage")]
    Throttled {
        /// Object.
        key: String,
        /// How long it asks us to wait.
        retry_after: Option<Duration>,
    },
    /// As many requests as may be are under way, and none of them ended in time.
    #[error("{key}: no request to storage could be made within {after:?}")]
    Busy {
        /// Object.
        key: String,
        /// How long we waited.
        after: Duration,
    },
    /// No answer in time.
    #[error("{key}: storage did not answer within {after:?}")]
    TimedOut {
        /// Object.
        key: String,
        /// How long we waited.
        after: Duration,
    },
    /// Storage failed (5xx, connection refused or reset, broken off half-way); retries are spent.
    #[error("{key}: {detail}")]
    Unavailable {
        /// Object.
        key: String,
        /// What happened.
        detail: String,
    },
    /// Storage answered something HTTP or S3 does not allow: a range we did not ask for, no size, …
    #[error("{key}: {detail}")]
    BadAnswer {
        /// Object.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// This storage cannot list folders.
    #[error("{0}: this storage cannot list folders")]
    CannotList(String),
}

impl StorageError {
    /// A stable word for logs, metrics and answers.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "source_not_found",
            Self::Changed(_) => "source_changed",
            Self::OutOfRange(_) => "source_range",
            Self::Denied(_) => "storage_denied",
            Self::Throttled { .. } => "storage_throttled",
            Self::Busy { .. } => "storage_busy",
            Self::TimedOut { .. } => "storage_timeout",
            Self::Unavailable { .. } => "storage_unavailable",
            Self::BadAnswer { .. } => "storage_bad_answer",
            Self::CannotList(_) => "cannot_list",
        }
    }

    /// Whether storage did not do its part, rather than said that the object is not there, not ours or another.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Throttled { .. }
            | Self::TimedOut { .. }
            | Self::Unavailable { .. }
            | Self::BadAnswer { .. } => true,
            Self::NotFound(_)
            | Self::Changed(_)
            | Self::OutOfRange(_)
            | Self::Denied(_)
            | Self::Busy { .. }
            | Self::CannotList(_) => false,
        }
    }
}
