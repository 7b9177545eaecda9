//! The reasons for which a request can fail. Their names in reports are stable.

/// The reason why a request failed. [`Display`](std::fmt::Display) writes its stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Reason {
    /// The connection was refused.
    #[error("connection_refused")]
    Refused,
    /// The host name cannot be resolved, or the server cannot be reached.
    #[error("unreachable")]
    Unreachable,
    /// The TLS handshake failed.
    #[error("tls")]
    Tls,
    /// The connection ended before the response began.
    #[error("closed")]
    Closed,
    /// The response was not valid HTTP.
    #[error("bad_response")]
    BadResponse,
    /// The response did not end within the timeout.
    #[error("timeout")]
    Timeout,
    /// The connection ended within the body.
    #[error("short_body")]
    ShortBody,
    /// The body has another length than the requested range.
    #[error("wrong_length")]
    WrongLength,
    /// The response does not have the requested range, or has a range although none was requested.
    #[error("wrong_range")]
    WrongRange,
    /// The resource changed between two of its chunks.
    #[error("changed")]
    Changed,
    /// The body is longer than the limit for its kind.
    #[error("body_too_large")]
    TooLarge,
    /// There were too many redirects, or a redirect had no valid target.
    #[error("redirects")]
    Redirects,
    /// The URL is on a host that is not allowed.
    #[error("host_not_allowed")]
    HostNotAllowed,
    /// The status is not one of success.
    #[error("status_{0}")]
    Status(u16),
    /// A manifest, playlist or segment index cannot be played. The field is the
    /// [`ManifestError::reason`](crate::manifest::ManifestError::reason).
    #[error("{0}")]
    Manifest(&'static str),
    /// The ISO base media boxes are damaged.
    #[error("bad_boxes")]
    BadBoxes,
    /// The packets or tables of a transport stream are damaged.
    #[error("bad_ts")]
    BadTs,
    /// Packets of a transport stream are missing.
    #[error("ts_continuity")]
    TsContinuity,
    /// The FLV tags are damaged.
    #[error("bad_flv")]
    BadFlv,
    /// The audio frames are damaged.
    #[error("bad_audio")]
    BadAudio,
    /// The body is not a document of timed text.
    #[error("bad_text")]
    BadText,
    /// The media begins at another time than its manifest states.
    #[error("wrong_time")]
    WrongTime,
    /// The media does not begin at the time at which the segment before it ended.
    #[error("timeline_gap")]
    TimelineGap,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_reasons_are_stable() {
        let names = [
            (Reason::Refused, "connection_refused"),
            (Reason::Unreachable, "unreachable"),
            (Reason::Tls, "tls"),
            (Reason::Closed, "closed"),
            (Reason::BadResponse, "bad_response"),
            (Reason::Timeout, "timeout"),
            (Reason::ShortBody, "short_body"),
            (Reason::WrongLength, "wrong_length"),
            (Reason::WrongRange, "wrong_range"),
            (Reason::Changed, "changed"),
            (Reason::TooLarge, "body_too_large"),
            (Reason::Redirects, "redirects"),
            (Reason::HostNotAllowed, "host_not_allowed"),
            (Reason::Status(404), "status_404"),
            (Reason::Manifest("manifest_invalid"), "manifest_invalid"),
            (Reason::BadBoxes, "bad_boxes"),
            (Reason::BadTs, "bad_ts"),
            (Reason::TsContinuity, "ts_continuity"),
            (Reason::BadFlv, "bad_flv"),
            (Reason::BadAudio, "bad_audio"),
            (Reason::BadText, "bad_text"),
            (Reason::WrongTime, "wrong_time"),
            (Reason::TimelineGap, "timeline_gap"),
        ];
        for (reason, name) in names {
            assert_eq!(reason.to_string(), name);
        }
        assert_eq!(Failure::new(Reason::Tls, "why").to_string(), "tls: why");
    }
}
