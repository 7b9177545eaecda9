//! One log line per request, written when its body has ended, whichever way.

use crate::{Error, error::Fault};
use http::{Method, StatusCode};
use std::time::Instant;

/// What is known of a request so far. Dropped, it is logged: so none is missed.
#[derive(Debug)]
pub(crate) struct AccessLog {
    method: Method,
    path: String,
    started: Instant,
    status: Option<StatusCode>,
    reason: &'static str,
    bytes: u64,
}

/// The client left before the answer was complete.
const CLIENT_GONE: &str = "client_gone";

impl AccessLog {
    pub(crate) fn start(method: &Method, path: String) -> Self {
        Self {
            method: method.clone(),
            path,
            started: Instant::now(),
            status: None,
            reason: CLIENT_GONE,
            bytes: 0,
        }
    }

    /// The head of the answer is known.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    /// The answer is an error. It is logged by itself where it is not the client's doing.
    pub(crate) fn refused(&mut self, error: &Error) {
        let (status, fault) = error.status();
        self.status = Some(status);
        self.reason = error.reason();
        log_error(error, fault, &self.path);
    }

    /// The answer broke off after its head was sent.
    pub(crate) fn broken_off(&mut self, error: &Error) {
        self.reason = error.reason();
        let (_, fault) = error.status();
        log_error(error, fault, &self.path);
    }

    /// Bytes of body handed to the connection.
    pub(crate) fn sent(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// All of the body was handed over.
    pub(crate) fn complete(&mut self) {
        if self.reason == CLIENT_GONE {
            self.reason = "ok";
        }
    }
}

fn log_error(error: &Error, fault: Fault, path: &str) {
    let reason = error.reason();
    match fault {
        Fault::Client => tracing::debug!(reason, path, "{error}"),
        Fault::Source | Fault::Storage => tracing::warn!(reason, path, "{error}"),
        Fault::Origin => tracing::error!(reason, path, "{error}"),
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "access",
            method = %self.method,
            path = %self.path,
            status = self.status.map_or(0, |s| s.as_u16()),
            reason = self.reason,
            bytes = self.bytes,
            ms,
        );
    }
}
