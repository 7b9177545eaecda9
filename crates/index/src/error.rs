//! The errors of indexing an object and of making a title.

use latemux_isobmff::FourCc;
use std::borrow::Cow;

/// The reason why an object or a title cannot be served.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The object is not an ISO base media file.
    #[error("not an MP4 file: {0}")]
    NotMp4(String),
    /// The file ends earlier than its boxes state.
    #[error("truncated: {0}")]
    Truncated(String),
    /// A box cannot be read, or contradicts another one.
    #[error("{0}")]
    Malformed(String),
    /// A box cannot be parsed.
    #[error(transparent)]
    Box(#[from] latemux_isobmff::Error),
    /// The index exceeds a limit.
    #[error("{what} of {value} bytes is more than the limit of {limit}")]
    TooLarge {
        /// The part of the index that exceeds the limit.
        what: &'static str,
        /// The size of that part in bytes.
        value: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// All tracks are left out. The problem is the first track's.
    #[error("no track can be served: {0}")]
    NoTracks(TrackProblem),
    /// An index MP4 was made from another version of its media.
    #[error("the index is older than its media: {0}")]
    Stale(String),
    /// The object has no tracks at all.
    #[error("there are no tracks")]
    NoMedia,
}

impl IndexError {
    /// Returns the stable word for logs, metrics and responses.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotMp4(_) => "not_mp4",
            Self::Truncated(_) => "truncated",
            Self::Malformed(_) | Self::Box(_) => "malformed",
            Self::TooLarge { .. } => "index_too_large",
            Self::NoTracks(problem) => problem.reason(),
            Self::Stale(_) => "index_stale",
            Self::NoMedia => "no_media",
        }
    }
}

/// The reason why one track of an object is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("track {track}: {kind}")]
pub struct TrackProblem {
    /// Track ID, or 0 if it could not be read.
    pub track: u32,
    /// The kind of problem.
    pub kind: TrackProblemKind,
}

/// A kind of problem for which a track is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrackProblemKind {
    /// The source is encrypted with this protection scheme.
    #[error("encrypted ({0})")]
    Encrypted(FourCc),
    /// No output protocol carries this coding name or handler type.
    #[error("coded in {0}, which no output protocol carries")]
    UnsupportedCodec(FourCc),
    /// The track has no samples, or none that the edit list plays.
    #[error("no samples")]
    Empty,
    /// A video track has no sync sample to start at.
    #[error("no sync sample")]
    NoSyncSample,
    /// The tables contradict each other or the object in this way.
    #[error("{0}")]
    Malformed(String),
    /// Samples lie beyond the end of the object, as in a file that was cut off.
    #[error("sample {sample} ends at byte {end}, but the object ends at {object_size}")]
    Truncated {
        /// 1-based number of the sample, or of the last one of its chunk.
        sample: u32,
        /// End of that sample, in bytes from the start of the object.
        end: u64,
        /// Size of the object in bytes.
        object_size: u64,
    },
    /// The track is valid but has this unsupported structure: several sample entries in use,
    /// fragments in another file, or an edit list with several parts or speeds.
    #[error("{0} is not supported")]
    Unsupported(Cow<'static, str>),
}

impl TrackProblem {
    /// Returns the stable word for logs, metrics and responses.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            TrackProblemKind::Encrypted(_) => "encrypted_source",
            TrackProblemKind::UnsupportedCodec(_) => "unsupported_codec",
            TrackProblemKind::Empty => "empty_track",
            TrackProblemKind::NoSyncSample => "no_sync_sample",
            TrackProblemKind::Malformed(_) => "malformed",
            TrackProblemKind::Truncated { .. } => "truncated",
            TrackProblemKind::Unsupported(_) => "unsupported_structure",
        }
    }
}

impl TrackProblemKind {
    /// Returns the problem of the track with this ID.
    pub(crate) fn of(self, track: u32) -> TrackProblem {
        TrackProblem { track, kind: self }
    }

    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }
}
