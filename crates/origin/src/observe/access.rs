//! One log line per request, written when its body has ended, whichever way; and the request's part in the metrics.

use crate::{
    Error,
    error::Fault,
    observe::metrics::{Responses, Series, Which},
    observe::trace::Trace,
};
use http::{HeaderMap, StatusCode, Uri, request::Parts};
use std::sync::atomic::Ordering::Relaxed;

/// What is known of a request so far. Dropped, it is logged: so none is missed.
#[derive(Debug)]
pub(crate) struct AccessLog {
    trace: Trace,
    request: Parts,
    status: Option<StatusCode>,
    /// Where this answer is counted, once its status is known.
    series: Option<Which>,
    reason: &'static str,
    bytes: u64,
}

/// The client left before the answer was complete.
const CLIENT_GONE: &str = "client_gone";

impl AccessLog {
    /// Boxed: it goes where the answer goes, and that is through many hands.
    pub(crate) fn start(trace: Trace, request: Parts) -> Box<Self> {
        trace.metrics().in_flight(true);
        Box::new(Self { trace, request, status: None, series: None, reason: CLIENT_GONE, bytes: 0 })
    }

    /// What is answered.
    pub(crate) fn request(&self) -> &Parts {
        &self.request
    }

    /// The head of the answer is known; of the request only what is logged is still needed.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.request.headers = HeaderMap::new();
        self.status = Some(status);
        self.counted();
    }

    /// The answer is an error. It is logged by itself where it is not the client's doing.
    pub(crate) fn refused(&mut self, error: &Error) {
        let (status, fault) = error.status();
        self.status = Some(status);
        self.reason = error.reason();
        self.trace.metrics().refusals.count(self.reason);
        log_error(error, fault, &self.request.uri);
    }

    /// The answer broke off after its head was sent.
    pub(crate) fn broken_off(&mut self, error: &Error) {
        self.reason = error.reason();
        self.trace.metrics().broken_off.count(self.reason);
        let (_, fault) = error.status();
        log_error(error, fault, &self.request.uri);
    }

    /// Bytes of body handed to the connection; with `last`, all of it was.
    pub(crate) fn sent(&mut self, bytes: u64, last: bool) {
        let first = self.bytes == 0;
        self.bytes = self.bytes.saturating_add(bytes);
        if last && self.reason == CLIENT_GONE {
            self.reason = "ok";
        }
        let Some(series) = self.series() else { return };
        series.bytes.fetch_add(bytes, Relaxed);
        // The clock is looked at once, and not at all in the middle.
        if first || last {
            let took = self.trace.started().elapsed();
            if first {
                series.first_byte.observe(took);
            }
            if last {
                series.last_byte.observe(took);
            }
        }
    }

    /// Counts the answer by what it is.
    fn counted(&mut self) {
        let which = Responses::which(self.trace.kind(), self.status);
        self.trace.metrics().responses.get(which).count.fetch_add(1, Relaxed);
        self.series = Some(which);
    }

    fn series(&self) -> Option<&Series> {
        self.series.map(|which| self.trace.metrics().responses.get(which))
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
            self.counted();
        }
        let (trace, metrics) = (&self.trace, self.trace.metrics());
        if self.reason == CLIENT_GONE {
            metrics.broken_off.count(CLIENT_GONE);
        }
        metrics.count_outcome(trace.kind().class, trace.outcome());
        metrics.in_flight(false);
        // Evaluated only where somebody listens.
        let ms = || u64::try_from(trace.started().elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "access",
            method = %self.request.method,
            path = %self.request.uri,
            status = self.status.map_or(0, |s| s.as_u16()),
            reason = self.reason,
            bytes = self.bytes,
            ms = ms(),
            cache = trace.cache(),
            storage_requests = trace.storage_requests(),
            storage_bytes = trace.storage_bytes(),
        );
    }
}
