//! Measurements of request–response streams, and of plain downloads beside them.

use super::{Histogram, Requests, add};
use crate::micros::micros;
use latemux_client::http::{ChunkTally, ChunkedFetch};
use serde::{Deserialize, Serialize};

/// Resources that were fetched in chunks over several connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamResults {
    /// The number of resources, such as segments, of which at least a part arrived.
    pub resources: u64,
    /// Resources that were cut off at the end of their play-out time.
    pub truncated: u64,
    /// Bytes that arrived in order, and so were of use.
    pub bytes: u64,
    /// Bytes that truncated resources lack.
    pub missing: u64,
    /// The sum of the times in which the resources were fetched, in microseconds.
    pub busy: u64,
    /// The bytes of use of each resource over the time in which it was fetched, in bits per second.
    pub goodput: Histogram,
    /// Requests for chunks.
    pub requests: u64,
    /// The time from the request for each chunk to its last byte, in microseconds.
    pub chunk_times: Histogram,
    /// Chunks that did not arrive within their time-out.
    pub timeouts: u64,
    /// Bytes that arrived in vain: twice, or on a connection that failed.
    pub duplicated: u64,
    /// Requests behind the end of a resource, made before its length was known.
    pub behind_end: u64,
    /// Connections that were opened, except for requests that were cancelled.
    pub opened: u64,
    /// Requests whose connection failed.
    pub failed: u64,
    /// The maximum number of streams that one player gave up.
    pub given_up: u64,
    /// Resources whose play-out time was not longer than the gap between requests.
    pub long_gaps: u64,
}

impl StreamResults {
    /// Adds the measurements of a resource, and the resource itself if it arrived.
    pub(crate) fn add(&mut self, tally: &ChunkTally, chunked: Option<&ChunkedFetch>) {
        self.requests += tally.requests;
        tally.times.iter().for_each(|time| self.chunk_times.record(micros(*time)));
        self.timeouts += tally.timeouts;
        self.duplicated += tally.duplicated;
        self.behind_end += tally.behind_end;
        self.opened += tally.opened;
        self.failed += tally.failed;
        self.given_up = self.given_up.max(tally.given_up);
        let Some(chunked) = chunked else { return };
        let busy = micros(chunked.fetched.transfer);
        self.resources += 1;
        self.truncated += u64::from(chunked.is_truncated());
        self.bytes += chunked.fetched.bytes;
        self.missing += chunked.length.saturating_sub(chunked.fetched.bytes);
        self.busy += busy;
        self.goodput.record(chunked.fetched.bytes.saturating_mul(8_000_000) / busy.max(1));
    }

    /// Returns the bytes per second of use of one player while it fetched; `None` if nothing was
    /// fetched.
    pub fn rate(&self) -> Option<f64> {
        rate(self.bytes, self.busy)
    }

    pub(super) fn merge(&mut self, other: &Self) -> Option<()> {
        add(&mut self.resources, other.resources)?;
        add(&mut self.truncated, other.truncated)?;
        add(&mut self.bytes, other.bytes)?;
        add(&mut self.missing, other.missing)?;
        add(&mut self.busy, other.busy)?;
        self.goodput.merge(&other.goodput);
        add(&mut self.requests, other.requests)?;
        self.chunk_times.merge(&other.chunk_times);
        add(&mut self.timeouts, other.timeouts)?;
        add(&mut self.duplicated, other.duplicated)?;
        add(&mut self.behind_end, other.behind_end)?;
        add(&mut self.opened, other.opened)?;
        add(&mut self.failed, other.failed)?;
        self.given_up = self.given_up.max(other.given_up);
        add(&mut self.long_gaps, other.long_gaps)
    }
}

/// Plain downloads beside the streams, each over one connection. They do not count in the other
/// results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompetingResults {
    /// The number of downloads at a time.
    pub downloads: u64,
    /// Bytes that arrived until the end of the run.
    pub bytes: u64,
    /// The sum of the times of the downloads until the end of the run, in microseconds.
    pub busy: u64,
    /// The requests that ended.
    pub requests: Requests,
}

impl CompetingResults {
    /// Returns the mean rate of one download in bytes per second; `None` if there was none.
    pub fn rate(&self) -> Option<f64> {
        rate(self.bytes, self.busy)
    }

    pub(super) fn merge(&mut self, other: &Self) -> Option<()> {
        add(&mut self.downloads, other.downloads)?;
        add(&mut self.bytes, other.bytes)?;
        add(&mut self.busy, other.busy)?;
        self.requests.merge(&other.requests)
    }
}

/// Returns bytes per second; `None` if there were none.
fn rate(bytes: u64, micros: u64) -> Option<f64> {
    (bytes > 0 && micros > 0).then(|| bytes as f64 * 1e6 / micros as f64)
}

/// Returns the fairness ratio: the rate of the streams of one player over the mean rate of one
/// plain download. 1 is fair. `None` if one of them is not known.
pub fn fairness(streams: &StreamResults, competing: &CompetingResults) -> Option<f64> {
    Some(streams.rate()? / competing.rate()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_compares_one_player_with_one_download() {
        // Two players of 3 MB in 2 s each, and three downloads of 1 MB in 2 s each.
        let streams = StreamResults { bytes: 6_000_000, busy: 4_000_000, ..StreamResults::default() };
        let competing = CompetingResults {
            downloads: 3,
            bytes: 3_000_000,
            busy: 6_000_000,
            ..CompetingResults::default()
        };
        assert_eq!((streams.rate(), competing.rate()), (Some(1_500_000.0), Some(500_000.0)));
        assert_eq!(fairness(&streams, &competing), Some(3.0));
        assert_eq!(fairness(&streams, &CompetingResults::default()), None);
    }
}
