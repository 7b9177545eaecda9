//! Why a request cannot be planned.

use latemux_isobmff::FourCc;

/// A request that cannot be planned. [`PackError::reason`] is the stable word for logs and answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// No track of that name in the title.
    #[error("no track '{0}'")]
    NoSuchTrack(String),
    /// Several tracks where each is a file of its own.
    #[error("'{0}' is more than one track: in CMAF each has its own segments")]
    SeveralTracks(String),
    /// No segment of that number or time.
    #[error("no segment {segment} in track '{track}'")]
    NoSuchSegment {
        /// Track name(s).
        track: String,
        /// Number or time as asked.
        segment: String,
    },
    /// The protocol cannot carry any track of the title, or this one.
    #[error("{protocol} cannot carry {format}")]
    CannotCarry {
        /// Protocol and container.
        protocol: &'static str,
        /// Coding name.
        format: FourCc,
    },
    /// The filter is true of no track.
    #[error("the filter selects no track")]
    NothingSelected,
    /// The clip has no sample: the title has ended before it begins, or begins after it ends.
    #[error("there is nothing in the clip")]
    NothingInClip,
    /// The segment would be too large to address or hold (e.g. more than 4 GiB of samples in one `trun`).
    #[error("segment too large: {0}")]
    TooLarge(&'static str),
}

impl PackError {
    /// A stable word for logs, metrics and answers.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchTrack(_) => "no_such_track",
            Self::SeveralTracks(_) => "several_tracks",
            Self::NoSuchSegment { .. } => "no_such_segment",
            Self::CannotCarry { .. } => "cannot_carry",
            Self::NothingSelected => "filter_selects_nothing",
            Self::NothingInClip => "clip_empty",
            Self::TooLarge(_) => "segment_too_large",
        }
    }
}
