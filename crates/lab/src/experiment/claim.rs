//! Statements that results decide.

use super::Scalar;
use crate::Error;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// A statement about the results of an experiment, with the bounds that decide it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The statement, in one sentence.
    pub text: String,
    /// The value that is compared.
    pub value: Quantity,
    /// The cells that it is taken from: those with these values of axes.
    #[serde(default)]
    pub of: BTreeMap<String, Scalar>,
    /// The axis values of the reference cells. The value of each cell is divided by that of the
    /// cell that has these axis values and is otherwise the same. Without them, the value itself is
    /// compared with the bounds.
    pub against: Option<BTreeMap<String, Scalar>>,
    /// The model to which the values of the cells are fitted. The bounds are then those of R², the
    /// coefficient of determination.
    #[serde(default)]
    pub fit: Option<Model>,
    /// The lower bound.
    pub at_least: Option<f64>,
    /// The upper bound.
    pub at_most: Option<f64>,
    /// The published finding.
    pub published: Option<String>,
}

impl Claim {
    /// Returns what the bounds are about: the value itself, a ratio of it, or R² of a fit.
    pub(crate) fn measure(&self) -> String {
        match (&self.against, self.fit) {
            (_, Some(Model::Offered)) => format!("R² of {}", self.value),
            (Some(_), None) => format!("ratio of {}", self.value),
            (None, None) => self.value.to_string(),
        }
    }
}

/// A model of the values of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Model {
    /// The value is proportional to rate of requests × segment duration × bit rate, in all cells
    /// that are not saturated.
    #[serde(rename = "R × S × B")]
    Offered,
}

/// A value of a measurement that can be summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Quantity {
    /// Requests of clients per second.
    #[serde(rename = "requests/s")]
    RequestRate,
    /// Bytes to clients per second.
    #[serde(rename = "MB/s")]
    ByteRate,
    /// The mean latency.
    #[serde(rename = "latency ms")]
    Latency,
    /// The median latency.
    #[serde(rename = "latency p50 ms")]
    LatencyMedian,
    /// The latency that 99 % of the requests do not exceed.
    #[serde(rename = "latency p99 ms")]
    LatencyP99,
    /// The mean latency to the head of a response.
    #[serde(rename = "first byte ms")]
    FirstByte,
    /// The mean start-up delay of players.
    #[serde(rename = "start-up ms")]
    StartUp,
    /// The median start-up delay of players.
    #[serde(rename = "start-up p50 ms")]
    StartUpMedian,
    /// The number of stalls of players.
    #[serde(rename = "stalls")]
    Stalls,
    /// The duration of all stalls of simulated players.
    #[serde(rename = "stalled s")]
    Stalled,
    /// The duration of the media that simulated players played.
    #[serde(rename = "shown s")]
    Shown,
    /// The segments that were truncated at their deadline.
    #[serde(rename = "truncated segments")]
    Truncated,
    /// The share of the bytes of segments over request-response streams that arrived in order.
    #[serde(rename = "arrived share")]
    Arrived,
    /// The requests to storage.
    #[serde(rename = "storage requests")]
    StorageRequests,
    /// The requests to storage for each request of a client.
    #[serde(rename = "storage requests per request")]
    StorageRequestsPerRequest,
    /// The bytes from storage.
    #[serde(rename = "storage MB")]
    StorageBytes,
    /// The bytes on the link that carried most.
    #[serde(rename = "link MB")]
    LinkBytes,
    /// The connections to storage.
    #[serde(rename = "storage connections")]
    StorageConnections,
    /// The connections that the client's host opened or accepted.
    #[serde(rename = "client host connections")]
    ClientHostConnections,
    /// The connections that storage's host opened or accepted.
    #[serde(rename = "storage host connections")]
    StorageHostConnections,
    /// The segments of TCP that the client's host sent again.
    #[serde(rename = "client host retransmits")]
    ClientHostRetransmits,
    /// The segments of TCP that storage's host sent again.
    #[serde(rename = "storage host retransmits")]
    StorageHostRetransmits,
    /// The bytes to clients for each byte from storage.
    #[serde(rename = "efficiency")]
    Efficiency,
    /// The bytes of bodies to clients for each byte from storage, heads included.
    #[serde(rename = "wire efficiency")]
    WireEfficiency,
    /// The bytes that caches keep.
    #[serde(rename = "cached MB")]
    Cached,
    /// The share of the responses of nginx as a cache that came from the cache.
    #[serde(rename = "cache hits")]
    CacheHits,
    /// The bytes that origins sent.
    #[serde(rename = "origin MB")]
    OriginBytes,
    /// The requests to storage that origins count.
    #[serde(rename = "origin requests")]
    OriginRequests,
    /// The bytes from storage that origins count.
    #[serde(rename = "origin read MB")]
    OriginRead,
    /// The waits in origins for work that another request had started.
    #[serde(rename = "joins")]
    Joins,
    /// The processor time of all origins for each byte to clients.
    #[serde(rename = "origin s/GB")]
    OriginTime,
    /// The hit ratio of the range caches of all origins.
    #[serde(rename = "hit ratio")]
    HitRatio,
    /// The hit ratio, divided by the one that an LRU cache of the same size would have had.
    #[serde(rename = "hit ratio / LRU")]
    HitRatioByLru,
    /// The requests to storage, divided by those that the cost model states.
    #[serde(rename = "storage requests / model")]
    StorageRequestsByModel,
    /// The bytes from storage, divided by those that the cost model states.
    #[serde(rename = "storage bytes / model")]
    StorageBytesByModel,
    /// The efficiency, divided by the one that the cost model states.
    #[serde(rename = "efficiency / model")]
    EfficiencyByModel,
}

impl Quantity {
    /// All quantities, in the order of columns.
    pub const ALL: [Self; 36] = [
        Self::RequestRate,
        Self::ByteRate,
        Self::Latency,
        Self::LatencyMedian,
        Self::LatencyP99,
        Self::FirstByte,
        Self::StartUp,
        Self::StartUpMedian,
        Self::Stalls,
        Self::Stalled,
        Self::Shown,
        Self::Truncated,
        Self::Arrived,
        Self::StorageRequests,
        Self::StorageRequestsPerRequest,
        Self::StorageBytes,
        Self::LinkBytes,
        Self::StorageConnections,
        Self::ClientHostConnections,
        Self::StorageHostConnections,
        Self::ClientHostRetransmits,
        Self::StorageHostRetransmits,
        Self::Efficiency,
        Self::WireEfficiency,
        Self::Cached,
        Self::CacheHits,
        Self::OriginBytes,
        Self::OriginRequests,
        Self::OriginRead,
        Self::Joins,
        Self::OriginTime,
        Self::HitRatio,
        Self::HitRatioByLru,
        Self::StorageRequestsByModel,
        Self::StorageBytesByModel,
        Self::EfficiencyByModel,
    ];

    /// Returns the name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestRate => "requests/s",
            Self::ByteRate => "MB/s",
            Self::Latency => "latency ms",
            Self::LatencyMedian => "latency p50 ms",
            Self::LatencyP99 => "latency p99 ms",
            Self::FirstByte => "first byte ms",
            Self::StartUp => "start-up ms",
            Self::StartUpMedian => "start-up p50 ms",
            Self::Stalls => "stalls",
            Self::Stalled => "stalled s",
            Self::Shown => "shown s",
            Self::Truncated => "truncated segments",
            Self::Arrived => "arrived share",
            Self::StorageRequests => "storage requests",
            Self::StorageRequestsPerRequest => "storage requests per request",
            Self::StorageBytes => "storage MB",
            Self::LinkBytes => "link MB",
            Self::StorageConnections => "storage connections",
            Self::ClientHostConnections => "client host connections",
            Self::StorageHostConnections => "storage host connections",
            Self::ClientHostRetransmits => "client host retransmits",
            Self::StorageHostRetransmits => "storage host retransmits",
            Self::Efficiency => "efficiency",
            Self::WireEfficiency => "wire efficiency",
            Self::Cached => "cached MB",
            Self::CacheHits => "cache hits",
            Self::OriginBytes => "origin MB",
            Self::OriginRequests => "origin requests",
            Self::OriginRead => "origin read MB",
            Self::Joins => "joins",
            Self::OriginTime => "origin s/GB",
            Self::HitRatio => "hit ratio",
            Self::HitRatioByLru => "hit ratio / LRU",
            Self::StorageRequestsByModel => "storage requests / model",
            Self::StorageBytesByModel => "storage bytes / model",
            Self::EfficiencyByModel => "efficiency / model",
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Claim {
    /// Checks the claim against the axes of its experiment.
    pub(super) fn check(&self, matrix: &BTreeMap<String, Vec<Scalar>>) -> Result<(), Error> {
        let refused = |why: &str| Err(Error::invalid(format!("claim '{}': {why}", self.text)));
        for (axis, value) in self.of.iter().chain(self.against.iter().flatten()) {
            let within = |error: Error| error.within(&format!("claim '{}'", self.text));
            super::check_value(matrix, axis, value).map_err(within)?;
        }
        if self.fit.is_some() && self.against.is_some() {
            return refused("fit and against exclude each other");
        }
        match (self.at_least, self.at_most) {
            (None, None) => refused("needs at_least or at_most"),
            (Some(least), Some(most)) if least.is_nan() || most.is_nan() || least > most => {
                refused("at_least is above at_most")
            }
            _ => Ok(()),
        }
    }
}
