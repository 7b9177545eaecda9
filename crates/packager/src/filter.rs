//! `filter=`: which tracks of a title a manifest lists.

/// An expression over what is known of a track.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter(());
