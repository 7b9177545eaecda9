//! The errors of indexing an object and of making a title.

use latemux_isobmff::FourCc;
use std::borrow::Cow;

/// The reason why an object or a title cannot be served. [`IndexError::reason`] is its stable word
/// in logs and responses.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The object is not an ISO base media file.
    #[error("not an MP4 file: {0}")]
    NotMp4(String),
    /// The file ends before its boxes say.
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
        /// The part of the index that exceeds it.
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
    #[error("no media in it")]
    NoMedia,
}

impl IndexError {
    /// Returns the stable word for logs, metrics and responses.
    #[must_use]
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
#[non_exhaustive]
pub enum TrackProblem {
    /// The source is encrypted.
    #[error("track {track} is encrypted ({scheme})")]
    Encrypted {
        /// Track ID.
        track: u32,
        /// Protection scheme.
        scheme: FourCc,
    },
    /// No protocol served here carries the codec.
    #[error("track {track} is coded in {format}, which no protocol here carries")]
    UnsupportedCodec {
        /// Track ID.
        track: u32,
        /// Coding name, or handler type.
        format: FourCc,
    },
    /// The track has no samples, or none that the edit list plays.
    #[error("track {track} has no samples")]
    Empty {
        /// Track ID.
        track: u32,
    },
    /// A video track has no sync sample to start at.
    #[error("track {track} has no sync sample")]
    NoSyncSample {
        /// Track ID.
        track: u32,
    },
    /// The tables contradict each other or the object.
    #[error("track {track}: {what}")]
    Malformed {
        /// Track ID, or 0 if it could not be read.
        track: u32,
        /// The contradiction.
        what: String,
    },
    /// Samples lie beyond the end of the object, as in a file that was cut off.
    #[error("track {track}: sample {sample} ends at byte {end}, the object at {object_size}")]
    Truncated {
        /// Track ID.
        track: u32,
        /// 1-based number of the sample, or of the last one of its chunk.
        sample: u32,
        /// End of that sample, in bytes from the start of the object.
        end: u64,
        /// Size of the object in bytes.
        object_size: u64,
    },
    /// The track is valid but not supported: several sample entries are in use, its fragments are
    /// in another file, or its edit list has several parts or speeds.
    #[error("track {track}: {what} is not supported")]
    Unsupported {
        /// Track ID.
        track: u32,
        /// The unsupported structure.
        what: Cow<'static, str>,
    },
}

impl TrackProblem {
    /// Returns the track's ID, or 0 if it could not be read.
    #[must_use]
    pub fn track(&self) -> u32 {
        match self {
            Self::Encrypted { track, .. }
            | Self::UnsupportedCodec { track, .. }
            | Self::Empty { track }
            | Self::NoSyncSample { track }
            | Self::Malformed { track, .. }
            | Self::Truncated { track, .. }
            | Self::Unsupported { track, .. } => *track,
        }
    }

    /// Returns the stable word for logs, metrics and responses.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Encrypted { .. } => "encrypted_source",
            Self::UnsupportedCodec { .. } => "unsupported_codec",
            Self::Empty { .. } => "empty_track",
            Self::NoSyncSample { .. } => "no_sync_sample",
            Self::Malformed { .. } => "malformed",
            Self::Truncated { .. } => "truncated",
            Self::Unsupported { .. } => "unsupported_structure",
        }
    }
}
