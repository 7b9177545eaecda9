//! Requests and their responses.

use super::{AllowedHosts, Connect, Server, Stream, exchange::Exchange};
use crate::{
    failure::{Failure, Reason},
    presentation::{ByteRange, Resource},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, uri::PathAndQuery};
use http_body_util::Empty;
use hyper::body::Incoming;
use std::{
    error::Error as _,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use url::{Position, Url};

/// The maximum number of redirects for one request.
const MAX_REDIRECTS: usize = 5;

/// The maximum number of bytes of an unused body that are read to keep its connection.
const MAX_ERROR_BODY: u64 = 1 << 16;

/// Options of all requests.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The servers that may be contacted.
    pub hosts: AllowedHosts,
    /// The maximum time from the moment a request is due to the last byte of its response.
    pub timeout: Duration,
    /// The size in bytes of the read buffer that a connection holds during an exchange.
    pub read_buffer: usize,
    /// The value of `User-Agent`.
    pub agent: String,
    /// The value of `Authorization`. It is sent to all servers that may be contacted.
    pub authorization: Option<HeaderValue>,
    /// True if connections are kept for further requests. Otherwise each request opens its own.
    pub keep_alive: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let agent = concat!("latemux-load/", env!("CARGO_PKG_VERSION")).to_owned();
        Self {
            hosts: AllowedHosts::default(),
            timeout: Duration::from_secs(30),
            read_buffer: 128 << 10,
            agent,
            authorization: None,
            keep_alive: true,
        }
    }
}

/// Sends requests and reads responses. Callers own the connections.
#[derive(Clone)]
pub struct Client {
    connect: Arc<dyn Connect>,
    options: Arc<ClientOptions>,
    opened: Arc<AtomicU64>,
    received: Arc<AtomicU64>,
}

impl Connection {
    /// Returns how often the connection was opened since the last call.
    pub(super) fn take_opened(&mut self) -> u64 {
        std::mem::take(&mut self.opened)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A connection that is kept from one request to the next. The first request opens it.
#[derive(Debug, Default)]
pub struct Connection {
    kept: Option<(Server, Box<dyn Stream>)>,
    /// The number of times that it was opened.
    opened: u64,
}

/// A successful response, whose body has been read.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The URL of the response, after redirects.
    pub url: Url,
    /// Bytes of the body.
    pub bytes: u64,
    /// The time from the moment the request was due to the head of the response.
    pub first_byte: Duration,
    /// The time from the moment the request was due to the last byte of the response.
    pub latency: Duration,
    /// The time from sending the request to the last byte of the response, for throughput.
    pub transfer: Duration,
}

/// A consumer for the pieces of a body. An error of the consumer ends the request.
pub type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Failure> + Send + 'a;

/// A request that failed.
#[derive(Debug, Clone)]
pub struct FailedFetch {
    /// The reason and its details.
    pub failure: Failure,
    /// Bytes of the body that arrived before the failure.
    pub bytes: u64,
    /// The time from the moment the request was due to the failure.
    pub latency: Duration,
}

/// The parts of a request besides its URL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) range: Option<ByteRange>,
    /// The strong entity tag that the resource must have.
    pub(super) if_match: Option<&'a HeaderValue>,
}

/// A check of the head of a response that is no redirect.
pub(super) type Accept<'a> = dyn FnMut(&Url, &Response<Incoming>) -> Result<(), Failure> + Send + 'a;

impl Client {
    /// Makes a client that opens its connections with `connect`.
    pub fn new(connect: Arc<dyn Connect>, options: ClientOptions) -> Self {
        Self { connect, options: Arc::new(options), opened: Arc::default(), received: Arc::default() }
    }

    /// Returns the number of connections that this client and its clones have opened.
    pub fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// Returns the bytes of all bodies that this client and its clones have read.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Fetches a resource. `body` takes each piece of the body as it arrives. `due` is the time at
    /// which the request should be sent. Latency is measured from then, so it includes delays of
    /// the load generator.
    ///
    /// # Errors
    /// A [`FailedFetch`] if there is no connection, no complete response in time, a status other
    /// than success, another range than requested, or an error of `body`.
    pub async fn get(
        &self,
        connection: &mut Connection,
        resource: &Resource,
        due: Instant,
        body: &mut Sink<'_>,
    ) -> Result<Fetched, FailedFetch> {
        let Resource { url, range } = resource;
        let ask = Ask { range: *range, if_match: None };
        let mut accept = |url: &Url, response: &Response<Incoming>| check_range(url, *range, response);
        let mut received = 0;
        let exchange = self.exchange(connection, url, &ask, due, &mut accept, body, &mut received);
        let fetched = timeout_at(self.deadline(due), exchange).await;
        let failure = match fetched {
            Ok(Ok(fetched)) => match range.filter(|range| range.length() != received) {
                None => return Ok(fetched),
                Some(range) => {
                    let why = format!("{}: {received} bytes for the range {range}", fetched.url);
                    Failure::new(Reason::WrongLength, why)
                }
            },
            Ok(Err(failure)) => failure,
            Err(_) => self.timed_out(url, received),
        };
        Err(FailedFetch { failure, bytes: received, latency: due.elapsed() })
    }

    /// Returns the time at which a response must be complete.
    pub(super) fn deadline(&self, due: Instant) -> Instant {
        due + self.options.timeout
    }

    /// Returns the failure of a response that was not complete in time.
    pub(super) fn timed_out(&self, url: &Url, received: u64) -> Failure {
        let waited = self.options.timeout;
        Failure::new(Reason::Timeout, format!("{url}: {received} bytes after {waited:?}"))
    }

    /// Fetches a whole body of at most `limit` bytes, like [`get`](Self::get). The bytes that
    /// arrived before a failure are returned too.
    pub async fn get_whole(
        &self,
        connection: &mut Connection,
        resource: &Resource,
        due: Instant,
        limit: usize,
    ) -> (Result<Fetched, FailedFetch>, Vec<u8>) {
        let mut body = Vec::new();
        let mut keep = |piece: &[u8]| {
            if body.len() + piece.len() > limit {
                let why = format!("{}: more than {limit} bytes", resource.url);
                return Err(Failure::new(Reason::TooLarge, why));
            }
            body.extend_from_slice(piece);
            Ok(())
        };
        (self.get(connection, resource, due, &mut keep).await, body)
    }

    /// Sends a request, follows redirects, and reads the body of a response that `accept` takes.
    #[expect(clippy::too_many_arguments, reason = "the parts of one exchange, in their order")]
    pub(super) async fn exchange(
        &self,
        connection: &mut Connection,
        url: &Url,
        ask: &Ask<'_>,
        due: Instant,
        accept: &mut Accept<'_>,
        body: &mut Sink<'_>,
        received: &mut u64,
    ) -> Result<Fetched, Failure> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.options.hosts.check(&url)?;
            // The connection is put back only after the body has been read. Otherwise, the rest of
            // this body would be read as the next response.
            let Sent { server, mut exchange, response, sent } = self.send(connection, &url, ask).await?;
            let first_byte = due.elapsed();
            let status = response.status();
            if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
                url = redirected(&url, response.headers())?;
                connection.kept = drain(response, exchange).await.map(|stream| (server, stream));
                continue;
            }
            if let Err(failure) = accept(&url, &response) {
                if !status.is_success() {
                    connection.kept = drain(response, exchange).await.map(|stream| (server, stream));
                }
                return Err(failure);
            }
            let mut count = |piece: &[u8]| {
                self.received.fetch_add(piece.len() as u64, Relaxed);
                body(piece)
            };
            read(&url, response, &mut exchange, &mut count, received).await?;
            let latency = due.elapsed();
            let transfer = sent.elapsed();
            connection.kept = exchange.end().await.map(|stream| (server, stream));
            return Ok(Fetched { url, bytes: *received, first_byte, latency, transfer });
        }
        Err(Failure::new(Reason::Redirects, format!("{url}: more than {MAX_REDIRECTS}")))
    }

    /// Sends a request and waits for the head of its response.
    async fn send(&self, connection: &mut Connection, url: &Url, ask: &Ask<'_>) -> Result<Sent, Failure> {
        let server = Server::of(url)
            .ok_or_else(|| Failure::new(Reason::Unreachable, format!("{url} names no server")))?;
        let mut kept = match connection.kept.take() {
            Some((to, stream)) if to == server => Some(stream),
            _ => None,
        };
        loop {
            let again = kept.is_some();
            let stream = match kept.take() {
                Some(stream) => stream,
                None => {
                    let stream = self.connect.connect(server.clone()).await?;
                    self.opened.fetch_add(1, Relaxed);
                    connection.opened += 1;
                    stream
                }
            };
            let mut exchange = Exchange::begin(stream, self.options.read_buffer)
                .await
                .map_err(|error| Failure::new(Reason::Closed, format!("{server}: {error}")))?;
            let sent = Instant::now();
            match exchange.send(self.request(url, ask)).await {
                Ok(response) => return Ok(Sent { server, exchange, response, sent }),
                // A server may close an idle connection at the moment of its reuse. The request may
                // then be sent on a new connection (RFC 9110 §9.2.2).
                Err(error) if again && was_closed(&error) => {}
                Err(error) => return Err(before_head(url, &error)),
            }
        }
    }

    fn request(&self, url: &Url, ask: &Ask<'_>) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery])
            .map_or_else(|_| "/".parse().unwrap_or_default(), Into::into);
        let mut header = |name, value: String| {
            if let Ok(value) = value.try_into() {
                request.headers_mut().insert(name, value);
            }
        };
        header(header::HOST, url[Position::BeforeHost..Position::AfterPort].to_owned());
        header(header::USER_AGENT, self.options.agent.clone());
        if !self.options.keep_alive {
            header(header::CONNECTION, "close".to_owned());
        }
        if let Some(range) = ask.range {
            header(header::RANGE, format!("bytes={range}"));
        }
        if let Some(authorization) = self.options.authorization.clone() {
            request.headers_mut().insert(header::AUTHORIZATION, authorization);
        }
        if let Some(tag) = ask.if_match {
            request.headers_mut().insert(header::IF_MATCH, tag.clone());
        }
        request
    }
}

/// A request that was sent, and the head of its response.
struct Sent {
    server: Server,
    exchange: Exchange,
    response: Response<Incoming>,
    sent: Instant,
}

/// Returns true if the connection ended before any byte of a response arrived.
fn was_closed(error: &hyper::Error) -> bool {
    let reset = || {
        let kind = error.source().and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe))
    };
    error.is_closed() || error.is_canceled() || error.is_incomplete_message() || reset()
}

fn before_head(url: &Url, error: &hyper::Error) -> Failure {
    let reason =
        if error.is_parse() || error.is_parse_too_large() { Reason::BadResponse } else { Reason::Closed };
    Failure::new(reason, format!("{url}: {error}"))
}

fn redirected(url: &Url, headers: &HeaderMap) -> Result<Url, Failure> {
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    let target = location.and_then(|location| url.join(location).ok());
    target.ok_or_else(|| Failure::new(Reason::Redirects, format!("{url}: a redirect without a valid target")))
}

/// Reads and discards a body. Returns the connection if it can be used again. It cannot after a
/// body that is too long or incomplete.
async fn drain(response: Response<Incoming>, mut exchange: Exchange) -> Option<Box<dyn Stream>> {
    let mut body = response.into_body();
    let mut left = MAX_ERROR_BODY;
    while let Some(frame) = exchange.frame(&mut body).await {
        let frame = frame.ok()?;
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        left = left.checked_sub(length)?;
    }
    exchange.end().await
}

/// Checks that the response is a success and has the requested range (RFC 9110 §14.4), before its
/// body is read.
fn check_range(
    url: &Url,
    requested: Option<ByteRange>,
    response: &Response<Incoming>,
) -> Result<(), Failure> {
    let status = response.status();
    if !status.is_success() {
        return Err(Failure::new(Reason::Status(status.as_u16()), url.to_string()));
    }
    let Some(range) = requested else {
        return match response.status() {
            StatusCode::PARTIAL_CONTENT => Err(Failure::new(
                Reason::WrongRange,
                format!("{url}: a partial response to a request without a range"),
            )),
            _ => Ok(()),
        };
    };
    let given = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let bytes = given.and_then(|given| given.strip_prefix("bytes ")?.split('/').next());
    if response.status() == StatusCode::PARTIAL_CONTENT && bytes.and_then(ByteRange::parse) == Some(range) {
        return Ok(());
    }
    let got = given.map_or_else(|| response.status().to_string(), str::to_owned);
    Err(Failure::new(Reason::WrongRange, format!("{url}: {got} for the range {range}")))
}

async fn read(
    url: &Url,
    response: Response<Incoming>,
    exchange: &mut Exchange,
    sink: &mut Sink<'_>,
    received: &mut u64,
) -> Result<(), Failure> {
    let promised = response
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let mut body = response.into_body();
    while let Some(frame) = exchange.frame(&mut body).await {
        match frame {
            Ok(frame) => {
                if let Some(data) = frame.data_ref() {
                    *received += data.len() as u64;
                    sink(data)?;
                }
            }
            Err(error) => {
                let promised = promised.map_or_else(|| "more".to_owned(), |promised| promised.to_string());
                let why = format!("{url}: {received} bytes of {promised}: {error}");
                return Err(Failure::new(Reason::ShortBody, why));
            }
        }
    }
    Ok(())
}
