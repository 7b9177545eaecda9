//! Values of measurements.

use crate::{driver::Measured, experiment::Quantity};

/// Returns a value of a measurement, if it has one.
pub(super) fn value(quantity: Quantity, measured: &Measured) -> Option<f64> {
    let rate = |count: u64| (measured.seconds > 0.0).then(|| count as f64 / measured.seconds);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    match quantity {
        Quantity::RequestRate => rate(measured.requests),
        Quantity::ByteRate => rate(measured.bytes).map(|bytes| bytes / 1e6),
        Quantity::Latency => Some(measured.latency),
        Quantity::StartUp => measured.startup,
        Quantity::StartUpMedian => measured.startup_median,
        Quantity::StorageRequests => Some(measured.storage_requests as f64),
        Quantity::StorageRequestsPerRequest => {
            (measured.requests > 0).then(|| measured.storage_requests as f64 / measured.requests as f64)
        }
        Quantity::StorageBytes => Some(megabytes(measured.storage_bytes)),
        Quantity::LinkBytes => Some(megabytes(measured.link_bytes)),
        Quantity::StorageConnections => Some(measured.storage_connections as f64),
        Quantity::Efficiency => measured.efficiency(),
        Quantity::Cached => Some(megabytes(measured.cached)),
        Quantity::OriginTime => {
            (measured.bytes > 0).then(|| measured.origin_time() * 1e9 / measured.bytes as f64)
        }
        Quantity::HitRatio => measured.hit_ratio(),
        Quantity::HitRatioByLru => Some(measured.hit_ratio()? / measured.lru.filter(|lru| *lru > 0.0)?),
    }
}
