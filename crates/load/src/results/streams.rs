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
    /// Resources that were truncated when their duration was over.
    pub truncated: u64,
    /// Bytes that arrived in order, and so were of use.
    pub bytes: u64,
    /// Bytes that truncated resources lack.
    pub missing: u64,
    /// The sum of the times in which the resources were fetched, in microseconds.
    pub busy: u64,
    /// The bytes of use of each resource over the time in which it was fetched, in bits per second.
    pub goodput: Histogram,
    /// The maximum number of streams of a player. This and other fields that have a default are
    /// missing in results of older versions.
    #[serde(default)]
    pub streams: u64,
    /// Requests for chunks.
    pub requests: u64,
    /// The time from the request for each chunk to its last byte, in microseconds.
    pub chunk_times: Histogram,
    /// Chunks that did not arrive within their timeout.
    pub timeouts: u64,
    /// Of these, the chunks of the stream that had most of them; the sum over all players.
    #[serde(default)]
    pub most_timeouts: u64,
    /// Bytes that arrived in vain: twice, or on a connection that failed.
    pub duplicated: u64,
    /// Requests beyond the end of a resource, made before its length was known.
    #[serde(alias = "behind_end")]
    pub beyond_end: u64,
    /// Connections that were opened, except for requests that were cancelled.
    pub opened: u64,
    /// Connections that were opened because the server had not kept the last one of the stream.
    #[serde(default)]
    pub reopened: u64,
    /// Requests whose connection failed.
    pub failed: u64,
    /// Requests that were answered with 503 or 429 while others succeeded.
    #[serde(default)]
    pub refused: u64,
    /// The maximum number of streams that one player gave up while it kept others.
    pub given_up: u64,
    /// Resources whose duration was not longer than the gap between requests.
    pub long_gaps: u64,
    /// True if the server also offers HTTP/2.
    #[serde(default)]
    pub is_http2_offered: bool,
}

impl StreamResults {
    /// Adds the measurements of a resource, and the resource itself if it arrived.
    pub(crate) fn add(&mut self, tally: &ChunkTally, chunked: Option<&ChunkedFetch>) {
        self.streams = self.streams.max(tally.streams);
        self.requests += tally.requests;
        tally.times.iter().for_each(|time| self.chunk_times.record(micros(*time)));
        self.timeouts += tally.timeouts;
        self.most_timeouts += tally.most_timeouts;
        self.duplicated += tally.duplicated;
        self.beyond_end += tally.beyond_end;
        self.opened += tally.opened;
        self.reopened += tally.reopened;
        self.failed += tally.failed;
        self.refused += tally.refused;
        // If all of them were given up, the server does not serve a number of streams, but none.
        if tally.given_up < tally.streams {
            self.given_up = self.given_up.max(tally.given_up);
        }
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
        self.streams = self.streams.max(other.streams);
        self.is_http2_offered |= other.is_http2_offered;
        add(&mut self.requests, other.requests)?;
        self.chunk_times.merge(&other.chunk_times);
        add(&mut self.timeouts, other.timeouts)?;
        add(&mut self.most_timeouts, other.most_timeouts)?;
        add(&mut self.duplicated, other.duplicated)?;
        add(&mut self.beyond_end, other.beyond_end)?;
        add(&mut self.opened, other.opened)?;
        add(&mut self.reopened, other.reopened)?;
        add(&mut self.failed, other.failed)?;
        add(&mut self.refused, other.refused)?;
        self.given_up = self.given_up.max(other.given_up);
        add(&mut self.long_gaps, other.long_gaps)
    }
}

/// Plain downloads beside a run, each over one connection. They do not count in the other results.
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
pub(super) fn rate(bytes: u64, micros: u64) -> Option<f64> {
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

    #[test]
    fn every_number_of_streams_is_added() {
        let mut tally = ChunkTally { streams: 5, given_up: 2, ..ChunkTally::default() };
        let numbers = [
            &mut tally.requests,
            &mut tally.timeouts,
            &mut tally.most_timeouts,
            &mut tally.duplicated,
            &mut tally.beyond_end,
            &mut tally.opened,
            &mut tally.reopened,
            &mut tally.failed,
            &mut tally.refused,
        ];
        (1..).zip(numbers).for_each(|(value, number)| *number = value);
        let mut one = StreamResults { is_http2_offered: true, ..StreamResults::default() };
        one.add(&tally, None);
        let mut all = StreamResults::default();
        all.merge(&one).unwrap();
        assert_eq!(all, one);
        all.merge(&one).unwrap();
        let sums = |results: &StreamResults| {
            [
                results.requests,
                results.timeouts,
                results.most_timeouts,
                results.duplicated,
                results.beyond_end,
                results.opened,
                results.reopened,
                results.failed,
                results.refused,
            ]
        };
        assert_eq!(sums(&one), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(sums(&all), sums(&one).map(|sum| 2 * sum));
        assert_eq!((all.streams, all.given_up), (5, 2), "of one player");
        all.add(&ChunkTally { streams: 5, given_up: 5, ..ChunkTally::default() }, None);
        assert_eq!(all.given_up, 2, "a server that is gone is no limit");
    }

    #[test]
    fn results_of_older_versions_are_read() {
        let mut value = serde_json::to_value(StreamResults::default()).unwrap();
        for new in ["streams", "most_timeouts", "reopened", "refused", "is_http2_offered"] {
            assert!(value.as_object_mut().unwrap().remove(new).is_some(), "{new}");
        }
        let renamed = value.as_object_mut().unwrap().remove("beyond_end").unwrap();
        value["behind_end"] = renamed;
        assert_eq!(serde_json::from_value::<StreamResults>(value).unwrap(), StreamResults::default());
    }
}
