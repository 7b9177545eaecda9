//! Records of requests: the access log, debug headers and metrics. Nothing here imports a stage.

pub(crate) mod access;
pub(crate) mod log_sampler;
pub(crate) mod meter;
pub(crate) mod metrics;
pub(crate) mod trace;
