//! Errors of reading persisted indexes, and the number of their format.

/// Number of the format. It must change with every change of the layout, and of the index that
/// [`crate::locate::Locator`] makes of an object: persisted bytes must yield the same index as the
/// object.
pub const FORMAT: u16 = 12;

/// The reason why bytes cannot be read as a persisted index. The object must be indexed again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PersistError {
    /// They do not start as expected, or hold something other than requested.
    #[error("these bytes are not {0}")]
    NotThis(&'static str),
    /// They were written by an older or a newer version.
    #[error("they have format {found}, but this program reads format {FORMAT}")]
    OtherFormat {
        /// The [`FORMAT`] they state.
        found: u16,
    },
    /// Bytes are missing, left over or changed.
    #[error("damaged: {0}")]
    Damaged(&'static str),
}

impl PersistError {
    /// Returns the stable word for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotThis(_) => "not_an_index",
            Self::OtherFormat { .. } => "other_format",
            Self::Damaged(_) => "damaged",
        }
    }
}
