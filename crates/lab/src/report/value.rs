//! Values of measurements.

use crate::{
    driver::{Measured, Tcp},
    experiment::Quantity,
};

/// Returns a value of a measurement, if it has one.
pub(super) fn value(quantity: Quantity, measured: &Measured) -> Option<f64> {
    let rate = |count: u64| (measured.seconds > 0.0).then(|| count as f64 / measured.seconds);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let opened = |tcp: Option<Tcp>| tcp.map(|tcp| tcp.opened as f64);
    let retransmitted = |tcp: Option<Tcp>| tcp.map(|tcp| tcp.retransmitted as f64);
    match quantity {
        Quantity::RequestRate => rate(measured.requests),
        Quantity::ByteRate => rate(measured.bytes).map(|bytes| bytes / 1e6),
        Quantity::Latency => Some(measured.latency),
        Quantity::LatencyMedian => measured.latency_median,
        Quantity::LatencyP99 => measured.latency_p99,
        Quantity::FirstByte => measured.first_byte,
        Quantity::StartUp => measured.startup,
        Quantity::StartUpMedian => measured.startup_median,
        Quantity::Stalls => measured.startup.map(|_| measured.stalls as f64),
        Quantity::Stalled => measured.stalled,
        Quantity::Shown => measured.shown,
        Quantity::Truncated => measured.truncated.map(|segments| segments as f64),
        Quantity::Arrived => measured.arrived,
        Quantity::StorageRequests => Some(measured.storage_requests as f64),
        Quantity::StorageRequestsPerRequest => {
            (measured.requests > 0).then(|| measured.storage_requests as f64 / measured.requests as f64)
        }
        Quantity::StorageBytes => Some(megabytes(measured.storage_bytes)),
        Quantity::LinkBytes => Some(megabytes(measured.link_bytes)),
        Quantity::StorageConnections => Some(measured.storage_connections as f64),
        Quantity::ClientHostConnections => opened(measured.client_tcp),
        Quantity::StorageHostConnections => opened(measured.storage_tcp),
        Quantity::ClientHostRetransmits => retransmitted(measured.client_tcp),
        Quantity::StorageHostRetransmits => retransmitted(measured.storage_tcp),
        Quantity::Efficiency => measured.efficiency(),
        Quantity::WireEfficiency => measured.wire_efficiency(),
        Quantity::Cached => Some(megabytes(measured.cached)),
        Quantity::CacheHits => measured.cache_hit_ratio(),
        Quantity::OriginBytes => Some(megabytes(measured.origin.sent)),
        Quantity::OriginRequests => Some(measured.origin.storage_requests as f64),
        Quantity::OriginRead => Some(megabytes(measured.origin.storage_bytes)),
        Quantity::Joins => Some(measured.origin.joins as f64),
        Quantity::OriginTime => {
            (measured.bytes > 0).then(|| measured.origin_time() * 1e9 / measured.bytes as f64)
        }
        Quantity::HitRatio => measured.hit_ratio(),
        Quantity::HitRatioByLru => Some(measured.hit_ratio()? / measured.lru.filter(|lru| *lru > 0.0)?),
        Quantity::StorageRequestsByModel => {
            measured.model_requests.map(|stated| by_model(measured.storage_requests, stated))
        }
        Quantity::StorageBytesByModel => {
            measured.model_bytes.map(|stated| by_model(measured.storage_bytes, stated))
        }
        Quantity::EfficiencyByModel => Some(measured.efficiency()? / measured.model_efficiency?),
    }
}

/// Returns a count divided by that of the model. If the model states none, each one that was
/// counted is one too many.
fn by_model(counted: u64, stated: u64) -> f64 {
    if stated == 0 { 1.0 + counted as f64 } else { counted as f64 / stated as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_compared_with_those_of_the_model() {
        let measured = |counted, stated| Measured {
            storage_requests: counted,
            storage_bytes: 2 * counted,
            model_requests: stated,
            model_bytes: stated,
            ..Measured::default()
        };
        let both = |counted, stated| {
            let measured = measured(counted, stated);
            [Quantity::StorageRequestsByModel, Quantity::StorageBytesByModel].map(|of| value(of, &measured))
        };
        assert_eq!(both(6, Some(4)), [Some(1.5), Some(3.0)]);
        assert_eq!(both(0, Some(0)), [Some(1.0), Some(1.0)]);
        assert_eq!(both(1, Some(0)), [Some(2.0), Some(3.0)]);
        assert_eq!(both(6, None), [None, None]);
    }
}
