//! Sends a request, with a timeout for each step of the response.
//!
//! The client is `hyper-util` rather than `reqwest`, because it allows setting the read buffer and
//! keeps one TLS library in the tree. The certificate authorities are those of the system (or of
//! `SSL_CERT_FILE` and `SSL_CERT_DIR`).

use super::ahead::AheadConnector;
use super::connection::{OnSurplus, Surplus, WatchedConnector};
use super::response_head::{content_coding, retry_after};
use super::retry::Account;
use super::timed::TimedConnector;
use crate::counters::increment;
use crate::turns::TurnExecutor;
use crate::{Options, StorageError};
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::{StatusCode, Uri, response};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::{self, connect::capture_connection};
use hyper_util::rt::{TokioIo, TokioTimer};
use latemux_quantity::millis;
use object_store::client::{HttpRequest, HttpRequestBody};
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::fmt::Write;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Largest read from a socket, in bytes. hyper starts at 8 KiB and doubles while reads come back
/// full, so a small response holds no large buffer and a large one arrives in few frames.
const READ_BUFFER: usize = 256 * 1024;
const IDLE_CONNECTIONS: usize = 64;
/// An idle connection is closed after this time; common servers close theirs after 60 s or more.
const IDLE: Duration = Duration::from_secs(30);
/// Time without kept connections after surplus bytes arrived on one. A server that sends them late,
/// after the next request, could otherwise have them taken for its response.
const DISTRUST: Duration = Duration::from_secs(60);

/// The reason why no complete response arrived.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection was made, so the request was not sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("no connection within {0:?}")]
    ConnectTimedOut(Duration),
    #[error("no response within {0:?}")]
    TimedOut(Duration),
    /// The connection broke before or during the response.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The response is longer than a valid one can be.
    #[error("a response of more than {0} bytes")]
    TooLong(usize),
    /// Bytes followed the response. Perhaps they are the response, and this one is of an earlier
    /// request.
    #[error("the server sent more bytes than the response has")]
    Surplus,
    #[error("the response is coded in {0:?}, although no coding was accepted")]
    Coded(String),
    /// A status that is not a success, in a response that [`super::response_head`] does not check.
    #[error("answered {0}")]
    Status(StatusCode),
    /// A status with the code of an error document.
    #[error("answered {0} ({1})")]
    Code(StatusCode, String),
}

impl Failure {
    /// Returns true if a retry may help. A server that accepted the connection but does not respond
    /// gets no second request: a retry would double both the client's wait and the load.
    pub(crate) fn may_retry(&self) -> bool {
        match self {
            Self::Connect(_) | Self::ConnectTimedOut(_) | Self::Broken(_) => true,
            Self::Status(status) | Self::Code(status, _) => may_recover(*status),
            Self::TimedOut(_) | Self::TooLong(_) | Self::Surplus | Self::Coded(_) => false,
        }
    }

    pub(crate) fn into_error(self, key: &str) -> StorageError {
        let key = key.to_owned();
        match self {
            Self::Code(status, code) => match settings_error(&key, &code) {
                Some(error) => error,
                None => Self::Status(status).into_error(&key),
            },
            Self::ConnectTimedOut(after) | Self::TimedOut(after) => StorageError::TimedOut { key, after },
            Self::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => StorageError::Denied(key),
            Self::Status(StatusCode::NOT_FOUND | StatusCode::GONE) => StorageError::NotFound(key),
            Self::Status(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => {
                StorageError::Throttled { key, retry_after: None }
            }
            Self::Status(status) if !status.is_server_error() => {
                StorageError::BadResponse { key, detail: self.to_string() }
            }
            Self::TooLong(_) | Self::Surplus | Self::Coded(_) => {
                StorageError::BadResponse { key, detail: self.to_string() }
            }
            Self::Connect(_) | Self::Broken(_) | Self::Status(_) => {
                StorageError::Unavailable { key, detail: self.to_string() }
            }
        }
    }
}

/// Returns the error that a code of S3, GCS or Azure stands for, if it concerns the bucket itself
/// or the credentials, not one object.
pub(crate) fn settings_error(key: &str, code: &str) -> Option<StorageError> {
    match code {
        "NoSuchBucket" | "ContainerNotFound" => Some(StorageError::NoBucket(key.to_owned())),
        "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "InvalidToken"
        | "AuthorizationHeaderMalformed"
        | "AuthenticationFailed"
        | "InvalidAuthenticationInfo" => {
            Some(StorageError::WrongCredentials { key: key.to_owned(), detail: code.to_owned() })
        }
        _ => None,
    }
}

/// Joins an error and its causes in one line. hyper's errors contain no URL, thus no secret.
fn chain(e: &dyn Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(e) = source {
        // Writing to a string does not fail.
        let _ = write!(text, ": {e}");
        source = e.source();
    }
    text
}

/// Returns true if another attempt may get another status.
fn may_recover(status: StatusCode) -> bool {
    status.is_server_error() || is_throttling(status)
}

/// Returns true if the status asks us to slow down.
pub(crate) fn is_throttling(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// Sends requests over connections that it opens.
type Pool = legacy::Client<WatchedConnector<Connector>, HttpRequestBody>;
/// Opens connections, some of them before they are needed.
type Connector = AheadConnector<HttpsConnector<TimedConnector>, MaybeHttpsStream<TokioIo<TcpStream>>>;

/// The body of a response.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    incoming: Incoming,
    surplus: Surplus,
}

impl ResponseBody {
    /// Returns true if all bytes have been read. A chunked body may end later.
    pub(crate) fn is_end(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// Fails if more bytes followed this body.
    fn check_end(&self) -> Result<(), Failure> {
        if self.surplus.is_found() { Err(Failure::Surplus) } else { Ok(()) }
    }
}

/// Remembers when surplus bytes last arrived.
#[derive(Debug)]
struct Distrust {
    began: Instant,
    /// Milliseconds from `began` until connections are kept again.
    until: AtomicU64,
}

impl Distrust {
    fn new() -> Self {
        Self { began: Instant::now(), until: AtomicU64::new(0) }
    }

    fn note_surplus(&self) {
        if !self.is_on() {
            tracing::warn!(
                reason = "surplus_bytes",
                "storage sends bytes that belong to no response: connections are not kept for {DISTRUST:?}"
            );
        }
        self.until.store(millis(self.began.elapsed() + DISTRUST), Relaxed);
    }

    fn is_on(&self) -> bool {
        let until = self.until.load(Relaxed);
        until > 0 && millis(self.began.elapsed()) < until
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    pool: Pool,
    /// Opens a connection for each request.
    unpooled: Pool,
    distrust: Arc<Distrust>,
    connector: Connector,
    connect_timeout: Duration,
    first_byte_timeout: Duration,
    stall_timeout: Duration,
    pub(crate) account: Arc<Account>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client. The first one reads the system's certificates.
    pub(crate) fn new(options: &Options, account: Arc<Account>) -> Result<Self, rustls::Error> {
        let tcp = TimedConnector::new(Arc::clone(&account), |tcp| {
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            tcp.set_keepalive(Some(Duration::from_secs(60)));
            tcp.set_connect_timeout(Some(options.connect_timeout));
        });
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let distrust = Arc::new(Distrust::new());
        let noted = Arc::clone(&distrust);
        let on_surplus = OnSurplus(Arc::new(move || noted.note_surplus()));
        let connector = AheadConnector::new(connector, options.connections_ahead);
        let watched = WatchedConnector { inner: connector.clone(), on_surplus };
        let executor = TurnExecutor::default();
        let pool = |idle| {
            legacy::Client::builder(executor.clone())
                .http1_max_buf_size(READ_BUFFER)
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(idle)
                .build(watched.clone())
        };
        Ok(Self {
            pool: pool(if options.reuse_connections { IDLE_CONNECTIONS } else { 0 }),
            unpooled: pool(0),
            distrust,
            connector,
            connect_timeout: options.connect_timeout,
            first_byte_timeout: options.first_byte_timeout,
            stall_timeout: options.stall_timeout,
            account,
        })
    }

    /// Opens connections to the server of an address ahead of requests, if none are yet.
    pub(crate) fn keep_connections(&self, address: &Uri) {
        self.connector.keep(address, self.connect_timeout);
    }

    /// Returns the longest time that a small response may reasonably take with all its retries.
    pub(crate) fn document_timeout(&self) -> Duration {
        self.connect_timeout + self.first_byte_timeout + self.account.retry_within
    }

    fn timed_out(&self, failure: Failure) -> Failure {
        increment(&self.account.counters.timeouts);
        failure
    }

    /// Sends a request and returns when the head of the response has arrived. The pool itself
    /// resends only a request that a kept connection never accepted because it was closed.
    pub(crate) async fn send(
        &self,
        mut request: HttpRequest,
    ) -> Result<(response::Parts, ResponseBody), Failure> {
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut connection = capture_connection(&mut request);
        let pool = if self.distrust.is_on() { &self.unpooled } else { &self.pool };
        let mut response = pin!(pool.request(request));
        let response = tokio::select! {
            response = &mut response => response,
            () = async { drop(connection.wait_for_connection_metadata().await) } => {
                let first_byte = self.first_byte_timeout;
                let timed_out = |_| self.timed_out(Failure::TimedOut(first_byte));
                timeout(first_byte, response).await.map_err(timed_out)?
            }
            () = tokio::time::sleep(self.connect_timeout) => {
                return Err(self.timed_out(Failure::ConnectTimedOut(self.connect_timeout)));
            }
        };
        let response = response.map_err(|e| match e.is_connect() {
            true => Failure::Connect(e.source().map_or_else(|| chain(&e), chain)),
            false => Failure::Broken(e.source().map_or_else(|| chain(&e), chain)),
        })?;
        let (head, incoming) = response.into_parts();
        let surplus = head.extensions.get().cloned().unwrap_or_default();
        let body = ResponseBody { incoming, surplus };
        if body.is_end() {
            body.check_end()?;
        }
        Ok((head, body))
    }

    /// Reads the next bytes of a body. Returns `None` at its end. The last bytes are withheld if
    /// more have followed them.
    pub(crate) async fn frame(&self, body: &mut ResponseBody) -> Result<Option<Bytes>, Failure> {
        let stall = self.stall_timeout;
        loop {
            match timeout(stall, body.incoming.frame()).await {
                Err(_) => return Err(self.timed_out(Failure::TimedOut(stall))),
                Ok(None) => return body.check_end().map(|()| None),
                Ok(Some(Err(e))) => return Err(Failure::Broken(chain(&e))),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        if body.is_end() {
                            body.check_end()?;
                        }
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Reads the rest of a small response.
    pub(crate) async fn whole(&self, mut body: ResponseBody, limit: usize) -> Result<Bytes, Failure> {
        let mut whole = BytesMut::new();
        if body.incoming.size_hint().lower() > limit as u64 {
            return Err(Failure::TooLong(limit));
        }
        while let Some(data) = self.frame(&mut body).await? {
            if whole.len() + data.len() > limit {
                return Err(Failure::TooLong(limit));
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// Requests a small response of at most `limit` bytes, with retries within the budget.
    pub(crate) async fn document(
        &self,
        request: HttpRequest,
        limit: usize,
    ) -> Result<http::Response<Bytes>, Failure> {
        let mut budget = self.account.budget();
        loop {
            let begun = Instant::now();
            let once = async {
                let (head, body) = self.send(request.clone()).await?;
                if let Some(coding) = content_coding(&head.headers) {
                    return Err(Failure::Coded(coding));
                }
                Ok::<_, Failure>(http::Response::from_parts(head, self.whole(body, limit).await?))
            };
            let (failure, wait) = match once.await {
                Ok(response) if may_recover(response.status()) => {
                    if is_throttling(response.status()) {
                        increment(&self.account.counters.throttled);
                    }
                    (Failure::Status(response.status()), retry_after(response.headers()))
                }
                Err(failure) if failure.may_retry() => (failure, None),
                done => return done,
            };
            let Some(wait) = budget.spend(begun.elapsed(), wait) else { return Err(failure) };
            tracing::debug!(%failure, ?wait, "retrying");
            tokio::time::sleep(wait).await;
        }
    }
}

/// Returns a TLS configuration. Clients share the certificates, which take milliseconds to read.
fn tls() -> Result<ClientConfig, rustls::Error> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (good, bad) = roots.add_parsable_certificates(found.certs);
        if good == 0 {
            tracing::warn!(bad, errors = ?found.errors, "no certificate authorities found, https will fail");
        }
        Arc::new(roots)
    });
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(Arc::clone(roots))
        .with_no_client_auth();
    Ok(config)
}
