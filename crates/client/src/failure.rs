//! What can go wrong with a request, by stable reasons.

use std::fmt;

/// Why an answer does not count as a good one. Its text in reports is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Nothing listens there.
    Refused,
    /// No way there: name, route, or no answer to the connection.
    Unreachable,
    /// No TLS.
    Tls,
    /// The connection ended before an answer began.
    Closed,
    /// What came is no HTTP.
    BadResponse,
    /// The whole answer was not there in time.
    Timeout,
    /// The connection ended in the middle of the body.
    ShortBody,
    /// Another length than the request's range has.
    WrongLength,
    /// Another range than the one asked for, or all of it.
    WrongRange,
    /// More bytes than are read of such a body.
    TooLarge,
    /// More redirects than are followed, or one that leads nowhere.
    Redirects,
    /// Another host, which is not among those allowed.
    HostNotAllowed,
    /// A status that is no success.
    Status(u16),
    /// A manifest, playlist or index that cannot be played; the text is that of [`crate::manifest::ManifestError::reason`].
    Manifest(&'static str),
    /// No sound ISO base media boxes.
    BadBoxes,
    /// No sound transport stream: packets, tables.
    BadTs,
    /// Transport stream packets are missing.
    TsContinuity,
    /// No sound FLV tags.
    BadFlv,
    /// No sound elementary stream.
    BadAudio,
    /// No document of timed text.
    BadText,
    /// The media begins at another time than its manifest says.
    WrongTime,
    /// The media does not begin where the segment before it ends.
    TimelineGap,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Refused => "connection_refused",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::Closed => "closed",
            Self::BadResponse => "bad_response",
            Self::Timeout => "timeout",
            Self::ShortBody => "short_body",
            Self::WrongLength => "wrong_length",
            Self::WrongRange => "wrong_range",
            Self::TooLarge => "body_too_large",
            Self::Redirects => "redirects",
            Self::HostNotAllowed => "host_not_allowed",
            Self::Status(status) => return write!(out, "status_{status}"),
            Self::Manifest(reason) => reason,
            Self::BadBoxes => "bad_boxes",
            Self::BadTs => "bad_ts",
            Self::TsContinuity => "ts_continuity",
            Self::BadFlv => "bad_flv",
            Self::BadAudio => "bad_audio",
            Self::BadText => "bad_text",
            Self::WrongTime => "wrong_time",
            Self::TimelineGap => "timeline_gap",
        })
    }
}

/// A reason and what it looked like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Failure {
    /// Stable.
    pub reason: Reason,
    /// For people.
    pub detail: String,
}

impl Failure {
    /// Makes a failure of a reason and its details.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}
