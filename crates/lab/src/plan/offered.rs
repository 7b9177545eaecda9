//! The load that a cell offers at a fixed rate of requests.

use crate::{experiment::Title, function::Function, graph::Node};
use latemux_quantity::TimeSpan;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The target duration of segments, unless the experiment states one. It is the origin's default.
const SEGMENT: Duration = Duration::from_secs(4);

/// The load that a cell offers at a fixed rate of requests, whether or not the functions keep up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offered {
    /// The requests per second.
    pub requests: f64,
    /// Requests per second × segment duration × bit rate of the title, in bytes per second.
    pub bytes: f64,
}

impl Offered {
    /// Returns the load that the functions of a cell offer, if it has a rate.
    pub(super) fn of(nodes: &[Node], title: &Title) -> Option<Self> {
        let stated = |function, name: &str| {
            let node = nodes.iter().find(|node| node.function == function)?;
            node.parameters.get(name).map(String::as_str)
        };
        let requests: f64 = stated(Function::Load, "rate")?.parse().ok()?;
        let segment = segment(stated(Function::Origin, "segment-duration"));
        let rate = title.highest() as f64 / f64::from(title.seconds);
        Some(Self { requests, bytes: requests * segment.as_secs_f64() * rate })
    }
}

fn segment(stated: Option<&str>) -> Duration {
    stated.and_then(|text| text.parse::<TimeSpan>().ok()).map_or(SEGMENT, |span| span.0)
}

/// Returns the number of segments of a title that have the whole target duration. Audio is a little
/// longer than the video, so its last segment often is shorter.
pub(super) fn whole_segments(title: &Title, format: &str, stated: Option<&str>) -> u64 {
    let of_track = u64::from(title.seconds) * 1_000_000 / micros(segment(stated));
    // In these formats, video and audio have segments of their own.
    let tracks = if matches!(format, "dash" | "smooth") { 2 } else { 1 };
    (of_track * tracks).max(1)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1)
}
