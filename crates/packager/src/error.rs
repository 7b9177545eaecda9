//! The reasons why a request cannot be planned.

use latemux_isobmff::FourCc;
use latemux_protect::CutError;

/// The reason why a request cannot be planned. [`Self::reason`] is the stable word for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The title has no track of that name.
    #[error("no track '{0}'")]
    NoSuchTrack(String),
    /// The URL names several tracks, but each track has a resource of its own.
    #[error("'{0}' is more than one track: in CMAF each has its own segments")]
    SeveralTracks(String),
    /// The track has no segment of that number or time.
    #[error("no segment {segment} in track '{track}'")]
    NoSuchSegment {
        /// Name of the track or tracks.
        track: String,
        /// Number or time, as in the request.
        segment: String,
    },
    /// The protocol carries no track of the title, or not the requested one.
    #[error("{protocol} cannot carry {format}")]
    CannotCarry {
        /// Name of the protocol and container.
        protocol: &'static str,
        /// FourCC of the sample entry.
        format: FourCc,
    },
    /// The filter matches no track.
    #[error("the filter selects no track")]
    NothingSelected,
    /// The clip contains no sample: it begins after the title ends or ends before the title begins.
    #[error("there is nothing in the clip")]
    NothingInClip,
    /// The title must be encrypted, and one of its tracks has no key.
    #[error("there is no key for track '{0}'")]
    NoKey(String),
    /// Neither the key of a track nor the configuration states the IV that FairPlay needs.
    #[error("the key of track '{0}' states no IV, which FairPlay needs")]
    NoIv(String),
    /// Several keys match one track.
    #[error("several keys match track '{0}'")]
    AmbiguousKey(String),
    /// The title must be encrypted, which the rule does not configure, or latemux does not support,
    /// for this protocol or form.
    #[error("the title must be encrypted, which is not configured or not supported for {0}")]
    CannotProtect(&'static str),
    /// The slices of a video sample cannot be found, so that nobody could decrypt it.
    #[error("the video of track '{track}' cannot be encrypted: {problem}")]
    CannotCut {
        /// Name of the track.
        track: String,
        /// The reason.
        problem: CutError,
    },
    /// The segment is too large to address or to hold, such as a `trun` of more than 4 GiB.
    #[error("segment too large: {0}")]
    TooLarge(&'static str),
    /// The manifest would be longer than manifests are made.
    #[error("the manifest has more than {limit} bytes")]
    ManifestTooLarge {
        /// Largest size of a manifest in bytes.
        limit: usize,
    },
}

impl PackError {
    /// Returns the stable word for logs, metrics and responses.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchTrack(_) => "no_such_track",
            Self::SeveralTracks(_) => "several_tracks",
            Self::NoSuchSegment { .. } => "no_such_segment",
            Self::CannotCarry { .. } => "cannot_carry",
            Self::NothingSelected => "filter_selects_nothing",
            Self::NothingInClip => "clip_empty",
            Self::NoKey(_) => "no_key",
            Self::NoIv(_) => "no_iv",
            Self::AmbiguousKey(_) => "ambiguous_key",
            Self::CannotProtect(_) => "cannot_protect",
            Self::CannotCut { .. } => "cannot_cut",
            Self::TooLarge(_) => "segment_too_large",
            Self::ManifestTooLarge { .. } => "manifest_too_large",
        }
    }
}
