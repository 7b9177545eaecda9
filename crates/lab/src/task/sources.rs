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

/// The counters of an origin at some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// The time in seconds since 1970.
    pub time: f64,
    /// The source bytes that went into responses.
    pub used: u64,
    /// The bytes of media that were read from storage.
    pub read: u64,
    /// The counters beside them.
    #[serde(default)]
    pub counters: Counters,
}

/// Counters of an origin, from its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// The bytes of bodies that were sent to clients.
    pub sent: u64,
    /// The requests to storage.
    pub storage_requests: u64,
    /// The bytes of bodies that storage sent.
    pub storage_bytes: u64,
    /// The waits for work that another request had started.
    pub joins: u64,
    /// The bytes that the caches of source bytes and segments keep, which can also shrink.
    pub cached: u64,
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
        let Some(state) = text.and_then(|text| parse(&text)) else {
            return;
        };
        if self.all.last().is_none_or(|last| Sources { time: 0.0, ..*last } != state) {
            self.all.push(Sources { time: wall_clock(), ..state });
        }
    }
}

/// Finds the counters in metrics in the text format of Prometheus. The time is not set.
fn parse(metrics: &str) -> Option<Sources> {
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("} "))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let sum = |name: &str, label: &str| -> u64 {
        let lines = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let lines =
            lines.filter_map(|line| line.split_once("} ")).filter(|(labels, _)| labels.contains(label));
        lines.filter_map(|(_, number)| number.split_whitespace().next()?.parse::<u64>().ok()).sum()
    };
    let cached = |cache: &str| sum("latemux_cache_bytes", &format!("cache=\"{cache}\""));
    Some(Sources {
        time: 0.0,
        used: value("latemux_media_used_bytes_total{")?,
        read: value("latemux_storage_read_bytes_total{kind=\"media\"")?,
        counters: Counters {
            sent: sum("latemux_response_bytes_total", ""),
            storage_requests: sum("latemux_storage_requests_total", ""),
            storage_bytes: sum("latemux_storage_read_bytes_total", ""),
            joins: sum("latemux_cache_joins_total", ""),
            cached: cached("range") + cached("segment"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_among_other_metrics() {
        let text = "HTTP/1.0 200 OK\r\n\r\n# TYPE latemux_media_used_bytes counter\n\
                    latemux_media_used_bytes_total{} 12\nlatemux_storage_read_bytes_total{kind=\"index\"} 7\n\
                    latemux_storage_read_bytes_total{kind=\"media\"} 34\n\
                    latemux_response_bytes_total{protocol=\"dash\",class=\"media\"} 5\n\
                    latemux_response_bytes_total{protocol=\"hls\",class=\"media\"} 6\n\
                    latemux_storage_requests_total{kind=\"media\"} 3\n\
                    latemux_cache_joins_total{cache=\"range\",tier=\"memory\"} 2\n\
                    latemux_cache_bytes{cache=\"range\",tier=\"memory\"} 40\n\
                    latemux_cache_bytes{cache=\"segment\",tier=\"memory\"} 50\n\
                    latemux_cache_bytes{cache=\"index\",tier=\"memory\"} 60\n# EOF\n";
        let counters = Counters { sent: 11, storage_requests: 3, storage_bytes: 41, joins: 2, cached: 90 };
        assert_eq!(parse(text), Some(Sources { time: 0.0, used: 12, read: 34, counters }));
        assert_eq!(parse(&text.replace("media\"", "other\"")), None);
    }
}
