//! Errors of reading persisted indexes, and the number of their format.

/// Number of the format. It changes with every change of the layout, and of what [`crate::locate::Locator`] finds in an object: an index
/// that would come out otherwise today is not to be read from yesterday's bytes.
pub const FORMAT: u16 = 3;

/// Bytes that are no index of this version: to be discarded, and the index made anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// They do not start as these do, or hold something else than what is asked for.
    #[error("these bytes are not {0}")]
    NotThis(&'static str),
    /// Written by an older or a newer version.
    #[error("format {found} is not {FORMAT}")]
    OtherFormat {
        /// Their [`FORMAT`].
        found: u16,
    },
    /// Fewer or more bytes than there were, or other ones.
    #[error("damaged: {0}")]
    Damaged(&'static str),
}

impl PersistError {
    /// A stable word for logs and metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotThis(_) => "not_an_index",
            Self::OtherFormat { .. } => "other_format",
            Self::Damaged(_) => "damaged",
        }
    }
}
