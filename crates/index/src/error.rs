//! The errors of indexing an object and of making a title.

use latemux_isobmff::{Error as BoxError, FourCc};
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
    #[error("the size of {what} is {value} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The part of the index that exceeds the limit.
        what: &'static str,
        /// The size of that part in bytes.
        value: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// More of something than is read.
    #[error("more than {limit} {what}")]
    OverLimit {
        /// The things that are too many, in the plural.
        what: &'static str,
        /// The largest number that is read.
        limit: u64,
    },
    /// A fragment of this track cannot be read.
    #[error(transparent)]
    Track(TrackProblem),
    /// The title cannot be served because of its tracks: at least one problem, the cause first.
    #[error("{}", listed(.0))]
    Refused(Vec<TitleProblem>),
    /// An index MP4 was made from another version of its media.
    #[error("the index was made from another version of its media: {0}")]
    Stale(String),
    /// The object has no tracks at all.
    #[error("there are no tracks")]
    NoMedia,
    /// A file of text is refused.
    #[error("{detail}")]
    Text {
        /// The stable word for the cause.
        reason: &'static str,
        /// The cause, for people.
        detail: String,
    },
}

impl IndexError {
    /// Returns the stable word for logs, metrics and responses.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotMp4(_) => "not_mp4",
            Self::Truncated(_) => "truncated",
            Self::TooLarge { .. } | Self::OverLimit { .. } | Self::Box(BoxError::OverLimit { .. }) => {
                "index_too_large"
            }
            Self::Malformed(_) | Self::Box(_) => "malformed",
            Self::Track(problem) => problem.reason(),
            Self::Refused(problems) => problems.first().map_or("no_media", |problem| problem.reason),
            Self::Stale(_) => "index_stale",
            Self::NoMedia => "no_media",
            Self::Text { reason, .. } => reason,
        }
    }
}

/// A problem that does not keep a title from playing, or one of those for which it is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TitleProblem {
    /// Index of the object, if the problem concerns a single one.
    pub object: Option<usize>,
    /// Stable word.
    pub reason: &'static str,
    /// Description for people.
    pub detail: String,
}

impl TitleProblem {
    /// Returns the problem of a track of an object, by the object's index.
    pub fn of_track(object: usize, problem: &TrackProblem) -> Self {
        Self { object: Some(object), reason: problem.reason(), detail: problem.to_string() }
    }
}

/// Returns the problems as one text. A file may have a thousand.
fn listed(problems: &[TitleProblem]) -> String {
    const MOST: usize = 16;
    let details: Vec<&str> = problems.iter().take(MOST).map(|problem| problem.detail.as_str()).collect();
    let more = match problems.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{}{more}", details.join("; "))
}

/// The reason why one track of an object is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("track {}{}: {kind}", track_number(*track), track_coding(*handler, *coding))]
pub struct TrackProblem {
    /// Track ID, or 0 if it could not be read.
    pub track: u32,
    /// Handler type, if it is known.
    pub handler: Option<FourCc>,
    /// Coding name of its samples, before encryption, if it is known.
    pub coding: Option<FourCc>,
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
    /// No output protocol carries this coding name.
    #[error("coded in {0}, which no output protocol carries")]
    UnsupportedCodec(FourCc),
    /// The track has no samples, or none that the edit list plays.
    #[error("no samples that play")]
    Empty,
    /// A video track has no sync sample to start at.
    #[error("no sync sample to start at")]
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
    /// Something in the track exceeds a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The pictures of the track cannot be shown as thumbnails, for this reason.
    #[error("not shown as thumbnails: {0}")]
    Thumbnails(String),
}

fn track_number(track: u32) -> String {
    if track == 0 { "without an ID".to_owned() } else { track.to_string() }
}

/// Returns e.g. ` (video, avc1)`.
fn track_coding(handler: Option<FourCc>, coding: Option<FourCc>) -> String {
    let handler = handler.map(|handler| match &handler.0 {
        b"vide" => "video".to_owned(),
        b"soun" => "audio".to_owned(),
        _ => handler.to_string(),
    });
    let coding = coding.map(|coding| coding.to_string()).filter(|coding| Some(coding) != handler.as_ref());
    match (handler, coding) {
        (Some(handler), Some(coding)) => format!(" ({handler}, {coding})"),
        (Some(one), None) | (None, Some(one)) => format!(" ({one})"),
        (None, None) => String::new(),
    }
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
            TrackProblemKind::TooLarge(_) => "index_too_large",
            TrackProblemKind::Thumbnails(_) => "bad_thumbnails",
        }
    }

    /// Returns true if a title is whole without the track: its coding has no mapping, it has no
    /// samples, or it holds thumbnails.
    pub fn is_uncarried(&self) -> bool {
        use TrackProblemKind::{Empty, Thumbnails, UnsupportedCodec};
        matches!(self.kind, UnsupportedCodec(_) | Empty | Thumbnails(_))
    }
}

impl TrackProblemKind {
    /// Returns the problem of the track with this ID, of which no more is known.
    pub(crate) fn of(self, track: u32) -> TrackProblem {
        TrackProblem { track, handler: None, coding: None, kind: self }
    }

    /// Returns the problem of a box of the track that cannot be read.
    pub(crate) fn of_box(error: &BoxError) -> Self {
        match error {
            BoxError::OverLimit { .. } => Self::TooLarge(error.to_string()),
            _ => Self::Malformed(error.to_string()),
        }
    }

    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }
}
