//! Records of requests: the access log, debug headers and metrics.

pub(crate) mod access;
pub(crate) mod metrics;
pub(crate) mod trace;
