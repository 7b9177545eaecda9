//! Why an object has no index, or a title no tracks.

use latemux_isobmff::FourCc;
use std::borrow::Cow;

/// An object or title that cannot be served. [`IndexError::reason`] is the stable word for logs and answers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Not an ISO base media file.
    #[error("not an MP4 file: {0}")]
    NotMp4(String),
    /// The file ends before what its boxes promise.
    #[error("truncated: {0}")]
    Truncated(String),
    /// A box that cannot be read, or contradicts another.
    #[error("{0}")]
    Malformed(String),
    /// Malformed at a box.
    #[error(transparent)]
    Box(#[from] latemux_isobmff::Error),
    /// The index alone would pass a limit.
    #[error("{what} of {value} bytes is more than the limit of {limit}")]
    TooLarge {
        /// Which part.
        what: &'static str,
        /// Its size in bytes.
        value: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// All tracks are left out; the first one's reason.
    #[error("no track can be served: {0}")]
    NoTracks(TrackProblem),
    /// An index MP4 whose media is another than the one it was made of.
    #[error("the index is older than its media: {0}")]
    Stale(String),
    /// Nothing to serve in it: no tracks at all.
    #[error("no media in it")]
    NoMedia,
}

impl IndexError {
    /// A stable word for logs, metrics and answers.
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

/// Why one track of an object is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrackProblem {
    /// Encrypted at the source.
    #[error("track {track} is encrypted ({scheme})")]
    Encrypted {
        /// Track ID.
        track: u32,
        /// Protection scheme.
        scheme: FourCc,
    },
    /// No protocol here carries it.
    #[error("track {track} is coded in {format}, which no protocol here carries")]
    UnsupportedCodec {
        /// Track ID.
        track: u32,
        /// Coding name or handler.
        format: FourCc,
    },
    /// No samples, or none that the edit list plays.
    #[error("track {track} has no samples")]
    Empty {
        /// Track ID.
        track: u32,
    },
    /// Video without a sync sample to start at.
    #[error("track {track} has no sync sample")]
    NoSyncSample {
        /// Track ID.
        track: u32,
    },
    /// Tables that contradict each other, or lie.
    #[error("track {track}: {what}")]
    Malformed {
        /// Track ID, 0 where it could not be read.
        track: u32,
        /// What is wrong.
        what: String,
    },
    /// Samples beyond the end of the object: it was cut off.
    #[error("track {track}: sample {sample} ends at byte {end}, the object at {object_size}")]
    Truncated {
        /// Track ID.
        track: u32,
        /// Number of the sample, from 1, or of the last one of its chunk.
        sample: u32,
        /// Where it would end, in bytes from the start of the object.
        end: u64,
        /// Size of the object in bytes.
        object_size: u64,
    },
    /// Valid, but not something this origin serves (several sample entries in use, fragments in another file, an
    /// edit list with several parts or speeds).
    #[error("track {track}: {what} is not supported")]
    Unsupported {
        /// Track ID.
        track: u32,
        /// What.
        what: Cow<'static, str>,
    },
}

impl TrackProblem {
    /// The track's ID, 0 where it could not be read.
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

    /// A stable word for logs, metrics and answers.
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
