//! The source bytes that an origin has read and used, from its metrics.

use super::part::wall_clock;
use crate::http;
use serde::{Deserialize, Serialize};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// The time between two readings of the metrics.
const INTERVAL: Duration = Duration::from_millis(250);

/// The longest time for a reading that is followed by others. A task must end soon after SIGINT.
const SHORT: Duration = Duration::from_secs(1);

/// The source bytes of an origin until some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// The time in seconds since 1970.
    pub time: f64,
    /// The source bytes that went into responses.
    pub used: u64,
    /// The bytes of media that were read from storage.
    pub read: u64,
}

/// Readings of the metrics of an origin.
#[derive(Debug)]
pub(super) struct Readings {
    /// The address of the metrics.
    pub(super) admin: SocketAddr,
    next: Instant,
    pub(super) all: Vec<Sources>,
}

impl Readings {
    /// Reads nothing yet.
    pub(super) fn new(admin: SocketAddr) -> Self {
        Self { admin, next: Instant::now(), all: Vec::new() }
    }

    /// Reads the metrics if it is time to do so.
    pub(super) fn read_when_due(&mut self) {
        if self.next <= Instant::now() {
            self.next = Instant::now() + INTERVAL;
            self.read(SHORT);
        }
    }

    /// Reads the metrics for the last time.
    pub(super) fn read_last(&mut self) {
        self.read(http::PATIENCE);
    }

    /// Reads the metrics. Keeps the reading only if it differs from the last one.
    fn read(&mut self, patience: Duration) {
        let text = http::get(self.admin, "/metrics", patience);
        let Some((used, read)) = text.and_then(|text| parse(&text)) else {
            return;
        };
        if self.all.last().is_none_or(|last| (last.used, last.read) != (used, read)) {
            self.all.push(Sources { time: wall_clock(), used, read });
        }
    }
}

/// Finds the source bytes that were used and read in metrics in the text format of Prometheus.
fn parse(metrics: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("} "))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let used = value("latemux_media_used_bytes_total{")?;
    Some((used, value("latemux_storage_read_bytes_total{kind=\"media\"")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_among_other_metrics() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# TYPE latemux_media_used_bytes counter\n\
                    latemux_media_used_bytes_total{} 12\nlatemux_storage_read_bytes_total{kind=\"index\"} 7\n\
                    latemux_storage_read_bytes_total{kind=\"media\"} 34\n# EOF\n";
        assert_eq!(parse(text), Some((12, 34)));
        assert_eq!(parse(&text.replace("media\"", "other\"")), None);
    }
}
