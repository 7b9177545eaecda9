//! The access log: one line for each request, written when its body has ended, completely or not.
//! The log also counts the request in the metrics.

use crate::{
    Error,
    error::Fault,
    observe::metrics::{Metrics, RequestLabels, ResponseSeries, Responses, SeriesId},
    observe::trace::Trace,
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header, request::Parts};
use latemux_quantity::millis;
use std::{borrow::Cow, net::IpAddr, sync::atomic::Ordering::Relaxed};

/// The log line of a request. Dropping the value writes the line, so no request is missed.
#[derive(Debug)]
pub(crate) struct AccessLog {
    trace: Trace,
    request: Parts,
    /// Address of the client, if the request came from a connection.
    client: Option<IpAddr>,
    referer: Option<HeaderValue>,
    user_agent: Option<HeaderValue>,
    status: Option<StatusCode>,
    /// Series in which the response is counted, once its status is known.
    series: Option<SeriesId>,
    reason: &'static str,
    bytes: u64,
}

/// Logs and counts a request that was refused before its head could be parsed, so its method and
/// path are not known.
pub(crate) fn log_refusal(
    metrics: &Metrics,
    peer: IpAddr,
    status: Option<StatusCode>,
    reason: &'static str,
    bytes: u64,
) {
    let series = metrics.responses.get(Responses::series_of(RequestLabels::default(), status));
    series.count.fetch_add(1, Relaxed);
    series.bytes.fetch_add(bytes, Relaxed);
    metrics.refusals.count(reason);
    tracing::info!(
        target: "access",
        client = %peer.to_canonical(),
        method = "-",
        path = "-",
        status = status.map_or(0, |s| s.as_u16()),
        reason,
        bytes,
        ms = 0,
        cache = "none",
        storage_requests = 0,
        storage_bytes = 0,
    );
}

/// Most bytes that are logged of a header.
const MAX_LOGGED: usize = 512;

/// Reason of a request whose client left before the response was complete.
const CLIENT_GONE: &str = "client_gone";
/// Reason of a request that was ended because its client took bytes too slowly.
const CLIENT_TOO_SLOW: &str = "client_too_slow";

impl AccessLog {
    /// Starts the log line of a request. The value is boxed because it moves with the response.
    pub(crate) fn start(trace: Trace, mut request: Parts, client: Option<IpAddr>) -> Box<Self> {
        trace.metrics().in_flight(true);
        let referer = request.headers.remove(header::REFERER);
        let user_agent = request.headers.remove(header::USER_AGENT);
        let reason = CLIENT_GONE;
        Box::new(Self {
            trace,
            request,
            client,
            referer,
            user_agent,
            status: None,
            series: None,
            reason,
            bytes: 0,
        })
    }

    /// Returns the head of the request. After [`Self::record_status`], the head has no headers.
    pub(crate) fn request(&self) -> &Parts {
        &self.request
    }

    /// Records the status of the response, and frees the headers of the request.
    pub(crate) fn record_status(&mut self, status: StatusCode) {
        self.request.headers = HeaderMap::new();
        self.status = Some(status);
        self.count();
    }

    /// Records and logs the error of a request that gets an error response.
    pub(crate) fn record_error_response(&mut self, error: &Error) {
        self.record_error(error);
        self.status = Some(error.status().0);
        self.trace.metrics().refusals.count(self.reason);
    }

    /// Records and logs the error that ended a body early, after the head was sent.
    pub(crate) fn record_body_error(&mut self, error: &Error) {
        self.record_error(error);
        self.trace.metrics().broken_off.count(self.reason);
    }

    /// Records that the response is ended because its client takes bytes too slowly.
    pub(crate) fn record_too_slow(&mut self) {
        if self.reason == CLIENT_GONE {
            self.reason = CLIENT_TOO_SLOW;
        }
    }

    fn record_error(&mut self, error: &Error) {
        self.reason = error.reason();
        let reason = self.reason;
        let path = shown(&self.request.uri);
        let fault = error.status().1;
        if fault == Fault::Client {
            tracing::debug!(reason, %path, "{error}");
            return;
        }
        let Some(left_out) = self.trace.metrics().error_lines.admit(reason) else { return };
        let left_out = Some(left_out).filter(|count| *count > 0);
        match fault {
            Fault::Origin => tracing::error!(reason, %path, left_out, "{error}"),
            _ => tracing::warn!(reason, %path, left_out, "{error}"),
        }
    }

    /// Records bytes of the body that were handed to the connection. If `is_last` is true, the body
    /// is complete.
    pub(crate) fn record_sent(&mut self, bytes: u64, is_last: bool) {
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

impl Drop for AccessLog {
    fn drop(&mut self) {
        if self.series.is_none() {
            self.count();
        }
        let trace = &self.trace;
        let metrics = trace.metrics();
        if matches!(self.reason, CLIENT_GONE | CLIENT_TOO_SLOW) {
            metrics.broken_off.count(self.reason);
        }
        metrics.count_outcome(trace.labels().class, trace.outcome_rank());
        metrics.in_flight(false);
        // Called only if the filter of the log lets the line pass.
        let ms = || millis(trace.started().elapsed());
        tracing::info!(
            target: "access",
            client = self.client.map(tracing::field::display),
            method = %self.request.method,
            path = %shown(&self.request.uri),
            status = self.status.map_or(0, |s| s.as_u16()),
            reason = self.reason,
            bytes = self.bytes,
            ms = ms(),
            cache = trace.outcome_text(),
            storage_requests = trace.storage_requests(),
            storage_bytes = trace.storage_bytes(),
            referer = self.referer.as_ref().map(text).as_deref(),
            user_agent = self.user_agent.as_ref().map(text).as_deref(),
        );
    }
}

/// Returns a URL as it is logged: without a query that may hold a token.
fn shown(uri: &Uri) -> Cow<'_, str> {
    match uri.query() {
        Some(query) if query.contains("token=") => format!("{}?...", uri.path()).into(),
        Some(_) => uri.to_string().into(),
        None => uri.path().into(),
    }
}

/// Returns the beginning of a header as text.
fn text(header: &HeaderValue) -> Cow<'_, str> {
    let bytes = header.as_bytes();
    String::from_utf8_lossy(bytes.get(..MAX_LOGGED).unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use std::{sync::Arc, time::Duration};

    #[test]
    fn lines_that_are_left_out_are_counted_all_the_same() {
        let metrics = Arc::new(Metrics::default());
        for _ in 0..100 {
            let trace = Trace::start(metrics.clone(), false);
            let mut log = AccessLog::start(trace, Request::new(()).into_parts().0, None);
            log.record_error_response(&Error::TitleBusy { after: Duration::from_secs(10) });
        }
        assert_eq!(metrics.error_lines.admit("title_busy"), None);
        assert_eq!(metrics.refusals.counted().collect::<Vec<_>>(), [("title_busy", 100)]);
    }
}
