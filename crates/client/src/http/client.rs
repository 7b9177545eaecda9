//! One request and its answer.

use super::{AllowedHosts, Connect, Server, Stream, wire::Wire};
use crate::{
    failure::{Failure, Reason},
    presentation::{ByteRange, Resource},
};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header, uri::PathAndQuery};
use http_body_util::Empty;
use hyper::body::Incoming;
use std::{error::Error as _, fmt, io, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};
use url::Url;

/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// The most bytes of an error's body that are read so that its connection can be used again.
const MAX_ERROR_BODY: u64 = 1 << 16;

/// What all requests have in common.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Servers that may be asked.
    pub hosts: AllowedHosts,
    /// From when a request was due to the last byte of its answer.
    pub timeout: Duration,
    /// Bytes a connection reads at a time, which it keeps as long as an answer is on its way.
    pub read_buffer: usize,
    /// `User-Agent`.
    pub agent: String,
}

impl Default for ClientOptions {
    fn default() -> Self {
        let agent = concat!("latemux-load/", env!("CARGO_PKG_VERSION")).to_owned();
        Self {
            hosts: AllowedHosts::default(),
            timeout: Duration::from_secs(30),
            read_buffer: 128 << 10,
            agent,
        }
    }
}

/// Sends requests and reads answers. Connections belong to whoever asks.
#[derive(Clone)]
pub struct Client {
    connect: Arc<dyn Connect>,
    options: Arc<ClientOptions>,
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A connection that is kept from one request to the next; none at first.
#[derive(Default)]
pub struct Connection(Option<(Server, Box<dyn Stream>)>);

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Connection").field(&self.0.as_ref().map(|(server, _)| server)).finish()
    }
}

/// An answer that is good as far as HTTP goes. Its body went where the asker said.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// Where it came from, after redirects.
    pub url: Url,
    /// Bytes of the body.
    pub bytes: u64,
    /// From when the request was due to the head of the answer.
    pub first_byte: Duration,
    /// From when the request was due to the last byte of its answer.
    pub latency: Duration,
    /// From when it was sent to the last byte: what throughput is told from.
    pub transfer: Duration,
}

/// Where the pieces of a body go; what it refuses ends the request.
pub type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Failure> + Send + 'a;

/// A failure, and what came before it.
#[derive(Debug, Clone)]
pub struct FailedFetch {
    /// Why.
    pub failure: Failure,
    /// Bytes of the body until then.
    pub bytes: u64,
    /// From when the request was due.
    pub latency: Duration,
}

impl Client {
    /// A client over connections that `connect` makes.
    #[must_use]
    pub fn new(connect: Arc<dyn Connect>, options: ClientOptions) -> Self {
        Self { connect, options: Arc::new(options) }
    }

    /// Gets a resource. `due` is when the request should have been sent, by which latency is told: a generator that is late does not hide it.
    /// `body` sees each piece of the body as it comes.
    ///
    /// # Errors
    /// Whatever keeps the answer from being a good one.
    pub async fn get(
        &self,
        connection: &mut Connection,
        resource: &Resource,
        due: Instant,
        body: &mut Sink<'_>,
    ) -> Result<Fetched, FailedFetch> {
        let deadline = due + self.options.timeout;
        let mut received = 0;
        let answer =
            timeout_at(deadline, self.exchange(connection, resource, due, body, &mut received)).await;
        let failure = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(failure)) => failure,
            Err(_) => {
                let waited = self.options.timeout;
                Failure::new(Reason::Timeout, format!("{}: {received} bytes after {waited:?}", resource.url))
            }
        };
        Err(FailedFetch { failure, bytes: received, latency: due.elapsed() })
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        resource: &Resource,
        due: Instant,
        body: &mut Sink<'_>,
        received: &mut u64,
    ) -> Result<Fetched, Failure> {
        let mut url = resource.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.options.hosts.check(&url)?;
            // Comes back when its answer was read: what is left of one would be taken for the next.
            let Sent { server, mut wire, response, sent } =
                self.send(connection, &url, resource.range).await?;
            let first_byte = due.elapsed();
            let status = response.status();
            if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
                url = redirected(&url, response.headers())?;
                connection.0 = drain(response, wire).await.map(|stream| (server, stream));
                continue;
            }
            if !status.is_success() {
                let failure = Failure::new(Reason::Status(status.as_u16()), url.to_string());
                connection.0 = drain(response, wire).await.map(|stream| (server, stream));
                return Err(failure);
            }
            check_range(&url, resource.range, &response)?;
            read(&url, response, &mut wire, body, received).await?;
            let (latency, transfer) = (due.elapsed(), sent.elapsed());
            connection.0 = wire.end().await.map(|stream| (server, stream));
            if let Some(range) = resource.range.filter(|range| range.len() != *received) {
                let why = format!("{url}: {received} bytes for {range}");
                return Err(Failure::new(Reason::WrongLength, why));
            }
            return Ok(Fetched { url, bytes: *received, first_byte, latency, transfer });
        }
        Err(Failure::new(Reason::Redirects, format!("{}: more than {MAX_REDIRECTS}", resource.url)))
    }

    /// Sends a request and waits for the head of its answer.
    async fn send(
        &self,
        connection: &mut Connection,
        url: &Url,
        range: Option<ByteRange>,
    ) -> Result<Sent, Failure> {
        let server = Server::of(url)
            .ok_or_else(|| Failure::new(Reason::Unreachable, format!("{url} names no server")))?;
        let mut kept = match connection.0.take() {
            Some((to, stream)) if to == server => Some(stream),
            _ => None,
        };
        loop {
            let again = kept.is_some();
            let stream = match kept.take() {
                Some(stream) => stream,
                None => self.connect.connect(server.clone()).await?,
            };
            let mut wire = Wire::begin(stream, self.options.read_buffer)
                .await
                .map_err(|error| Failure::new(Reason::Closed, format!("{server}: {error}")))?;
            let sent = Instant::now();
            match wire.send(self.request(&server, url, range)).await {
                Ok(response) => return Ok(Sent { server, wire, response, sent }),
                // A server may close what is idle just when it is used again; asking anew is then no repetition (RFC 9110 §9.2.2).
                Err(error) if again && was_closed(&error) => {}
                Err(error) => return Err(before_head(url, &error)),
            }
        }
    }

    fn request(&self, server: &Server, url: &Url, range: Option<ByteRange>) -> Request<Empty<Bytes>> {
        let mut path = url.path().to_owned();
        if let Some(query) = url.query() {
            path.push('?');
            path.push_str(query);
        }
        let mut request = Request::new(Empty::new());
        *request.uri_mut() =
            PathAndQuery::try_from(path).map_or_else(|_| "/".parse().unwrap_or_default(), Into::into);
        let default_port = if server.tls { 443 } else { 80 };
        let name = url.host_str().unwrap_or_default();
        let host =
            if server.port == default_port { name.to_owned() } else { format!("{name}:{}", server.port) };
        let mut header = |name, value: String| {
            if let Ok(value) = value.try_into() {
                request.headers_mut().insert(name, value);
            }
        };
        header(header::HOST, host);
        header(header::USER_AGENT, self.options.agent.clone());
        if let Some(range) = range {
            header(header::RANGE, format!("bytes={range}"));
        }
        request
    }
}

/// A request that was sent, and the head of its answer.
struct Sent {
    server: Server,
    wire: Wire,
    response: Response<Incoming>,
    sent: Instant,
}

/// Whether a connection ended before any of an answer came.
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
    target.ok_or_else(|| Failure::new(Reason::Redirects, format!("{url}: a redirect that leads nowhere")))
}

/// Reads a body nobody needs; gives the connection, where another request can follow: a long body, or one that breaks off, ends it.
async fn drain(response: Response<Incoming>, mut wire: Wire) -> Option<Box<dyn Stream>> {
    let mut body = response.into_body();
    let mut left = MAX_ERROR_BODY;
    while let Some(frame) = wire.frame(&mut body).await {
        let frame = frame.ok()?;
        let length = frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
        left = left.checked_sub(length)?;
    }
    wire.end().await
}

/// That a partial answer is the part asked for (RFC 9110 §14.4), before its body is read.
fn check_range(url: &Url, asked: Option<ByteRange>, response: &Response<Incoming>) -> Result<(), Failure> {
    let Some(range) = asked else {
        return match response.status() {
            StatusCode::PARTIAL_CONTENT => {
                Err(Failure::new(Reason::WrongRange, format!("{url}: a part, where all was asked for")))
            }
            _ => Ok(()),
        };
    };
    let given = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let bytes = given.and_then(|given| given.strip_prefix("bytes ")?.split('/').next());
    if response.status() == StatusCode::PARTIAL_CONTENT && bytes.and_then(ByteRange::parse) == Some(range) {
        return Ok(());
    }
    let got = given.map_or_else(|| response.status().to_string(), str::to_owned);
    Err(Failure::new(Reason::WrongRange, format!("{url}: {got} for {range}")))
}

async fn read(
    url: &Url,
    response: Response<Incoming>,
    wire: &mut Wire,
    sink: &mut Sink<'_>,
    received: &mut u64,
) -> Result<(), Failure> {
    let promised = response
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let mut body = response.into_body();
    while let Some(frame) = wire.frame(&mut body).await {
        match frame {
            Ok(frame) => {
                if let Some(data) = frame.data_ref() {
                    *received = received.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
                    sink(data)?;
                }
            }
            Err(error) => {
                let promised = promised.map_or_else(|| "more".to_owned(), |promised| promised.to_string());
                return Err(Failure::new(
                    Reason::ShortBody,
                    format!("{url}: {received} bytes of {promised}: {error}"),
                ));
            }
        }
    }
    Ok(())
}
