//! The access log: one line for each request, written when its body has ended, completely or not.
//! It also counts the request in the metrics.

use crate::{
    Error,
    error::Fault,
    observe::metrics::{ResponseSeries, Responses, SeriesId},
    observe::trace::Trace,
};
use http::{HeaderMap, StatusCode, Uri, request::Parts};
use std::sync::atomic::Ordering::Relaxed;

/// The log line of a request. It is written when this value is dropped, so that no request is
/// missed.
#[derive(Debug)]
pub(crate) struct AccessLog {
    trace: Trace,
    request: Parts,
    status: Option<StatusCode>,
    /// Series in which the response is counted, once its status is known.
    series: Option<SeriesId>,
    reason: &'static str,
    bytes: u64,
}

/// Reason of a request whose client left before the response was complete.
const CLIENT_GONE: &str = "client_gone";

impl AccessLog {
    /// Starts the log line of a request. It is boxed because it moves along with the response.
    pub(crate) fn start(trace: Trace, request: Parts) -> Box<Self> {
        trace.metrics().in_flight(true);
        Box::new(Self { trace, request, status: None, series: None, reason: CLIENT_GONE, bytes: 0 })
    }

    /// Returns the head of the request. After [`Self::answered`], it has no headers.
    pub(crate) fn request(&self) -> &Parts {
        &self.request
    }

    /// Notes the status of the response. The headers of the request are no longer needed.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.request.headers = HeaderMap::new();
        self.status = Some(status);
        self.count();
    }

    /// Notes that the response is an error, and logs the error itself.
    pub(crate) fn refused(&mut self, error: &Error) {
        let (status, fault) = error.status();
        self.status = Some(status);
        self.reason = error.reason();
        self.trace.metrics().refusals.count(self.reason);
        log_error(error, fault, &self.request.uri);
    }

    /// Notes that the response ended early after its head was sent, and logs the error.
    pub(crate) fn broken_off(&mut self, error: &Error) {
        self.reason = error.reason();
        self.trace.metrics().broken_off.count(self.reason);
        let (_, fault) = error.status();
        log_error(error, fault, &self.request.uri);
    }

    /// Notes bytes of the body that were handed to the connection. `is_last` says that the body is
    /// complete.
    pub(crate) fn sent(&mut self, bytes: u64, is_last: bool) {
        let is_first = self.bytes == 0;
        self.bytes += bytes;
        if is_last && self.reason == CLIENT_GONE {
            self.reason = "ok";
        }
        let Some(series) = self.series() else { return };
        series.bytes.fetch_add(bytes, Relaxed);
        // Between the first and the last frame, the clock is not read.
        if is_first || is_last {
            let took = self.trace.started().elapsed();
            if is_first {
                series.first_byte.observe(took);
            }
            if is_last {
                series.last_byte.observe(took);
            }
        }
    }

    /// Counts the response in the series of its labels and status.
    fn count(&mut self) {
        let series = Responses::series_of(self.trace.labels(), self.status);
        self.trace.metrics().responses.get(series).count.fetch_add(1, Relaxed);
        self.series = Some(series);
    }

    fn series(&self) -> Option<&ResponseSeries> {
        self.series.map(|series| self.trace.metrics().responses.get(series))
    }
}

fn log_error(error: &Error, fault: Fault, path: &Uri) {
    let reason = error.reason();
    match fault {
        Fault::Client => tracing::debug!(reason, %path, "{error}"),
        Fault::Source | Fault::Storage => tracing::warn!(reason, %path, "{error}"),
        Fault::Origin => tracing::error!(reason, %path, "{error}"),
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        if self.series.is_none() {
            self.count();
        }
        let trace = &self.trace;
        let metrics = trace.metrics();
        if self.reason == CLIENT_GONE {
            metrics.broken_off.count(CLIENT_GONE);
        }
        metrics.count_outcome(trace.labels().class, trace.outcome_rank());
        metrics.in_flight(false);
        // Evaluated only if the log takes the line.
        let ms = || u64::try_from(trace.started().elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "access",
            method = %self.request.method,
            path = %self.request.uri,
            status = self.status.map_or(0, |s| s.as_u16()),
            reason = self.reason,
            bytes = self.bytes,
            ms = ms(),
            cache = trace.outcome_text(),
            storage_requests = trace.storage_requests(),
            storage_bytes = trace.storage_bytes(),
        );
    }
}
