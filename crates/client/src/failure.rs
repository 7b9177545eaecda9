//! The reasons for which a request can fail. Their names in reports are stable.

use std::fmt;

/// The reason why a request failed. [`Display`](fmt::Display) writes its stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The connection was refused.
    Refused,
    /// The host name could not be resolved, or the server could not be reached.
    Unreachable,
    /// The TLS handshake failed.
    Tls,
    /// The connection ended before the response began.
    Closed,
    /// The response was not valid HTTP.
    BadResponse,
    /// The response did not end within the timeout.
    Timeout,
    /// The connection ended within the body.
    ShortBody,
    /// The body has another length than the requested range.
    WrongLength,
    /// The response has another range than the requested one, or the whole resource.
    WrongRange,
    /// The body is longer than the limit for its kind.
    TooLarge,
    /// There were too many redirects, or one without a valid target.
    Redirects,
    /// The URL is on a host that is not allowed.
    HostNotAllowed,
    /// The status is not a success.
    Status(u16),
    /// A manifest, playlist or segment index cannot be played. The name is that of
    /// [`ManifestError::reason`](crate::manifest::ManifestError::reason).
    Manifest(&'static str),
    /// The ISO base media boxes are damaged.
    BadBoxes,
    /// The packets or tables of a transport stream are damaged.
    BadTs,
    /// Packets of a transport stream are missing.
    TsContinuity,
    /// The FLV tags are damaged.
    BadFlv,
    /// The audio frames are damaged.
    BadAudio,
    /// The body is not a document of timed text.
    BadText,
    /// The media begins at another time than its manifest states.
    WrongTime,
    /// The media does not begin where the segment before it ended.
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

/// A reason with its details.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Failure {
    /// The stable reason.
    pub reason: Reason,
    /// A sentence for people, such as the URL and what was wrong.
    pub detail: String,
}

impl Failure {
    /// Makes a failure of a reason and its details.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}
