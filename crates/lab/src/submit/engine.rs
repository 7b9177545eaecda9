//! Requests to an engine.

use crate::Error;
use std::{
    fmt,
    io::{self, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::{Duration, Instant},
};

/// The largest response in bytes.
const MAX_RESPONSE: u64 = 4 << 20;

/// The most characters of a response that are reported.
const MAX_REASON: usize = 200;

/// The port of `http://HOST/`.
const HTTP_PORT: u16 = 80;

/// An engine that runs workflows.
#[derive(Debug, Clone)]
pub struct Engine {
    /// The address as the user wrote it, for messages.
    address: String,
    authority: String,
    path: String,
    wait: Duration,
}

/// A response of an engine.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Engine {
    /// Names the engine at `http://HOST:PORT/…`, which must give each response within `wait`.
    ///
    /// # Errors
    /// If the address is not one of http, or has a query.
    pub fn at(address: &str, wait: Duration) -> Result<Self, Error> {
        let invalid =
            || Error::invalid(format!("'{address}' is not the address of an engine: http://HOST:PORT/"));
        let rest = address.strip_prefix("http://").ok_or_else(invalid)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |c: char| c.is_ascii_graphic() && !"?#@\\".contains(c);
        if authority.is_empty() || !rest.chars().all(is_plain) {
            return Err(invalid());
        }
        let [authority, path] = [authority, path.trim_end_matches('/')].map(str::to_owned);
        Ok(Self { address: address.to_owned(), authority, path, wait })
    }

    /// Returns an error about this engine.
    pub(super) fn lacking(&self, why: impl fmt::Display) -> Error {
        Error::Lacking(format!("{}: {why}", self.address))
    }

    /// Sends a request for a workflow, or for all of them, and returns the response.
    ///
    /// # Errors
    /// If the engine does not answer in time, or not over HTTP.
    pub(super) fn request(&self, method: &str, id: &str, body: &[u8]) -> Result<Response, Error> {
        let bytes = self.exchange(method, id, body).map_err(|error| match error.kind() {
            // The system names this error differently for each call.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                self.lacking(format!("no response within {} s", self.wait.as_secs_f64()))
            }
            _ => self.lacking(error),
        })?;
        split(&bytes).ok_or_else(|| self.lacking("the response is not one of HTTP"))
    }

    /// Sends a request and returns the whole response. HTTP/1.0 has no chunked responses.
    fn exchange(&self, method: &str, id: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let until = Instant::now() + self.wait;
        let Self { authority, path, .. } = self;
        // An IPv6 address has colons too, in brackets.
        let has_port = authority.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let server = if has_port { authority.clone() } else { format!("{authority}:{HTTP_PORT}") };
        let address =
            server.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("no address of this name"))?;
        let mut stream = TcpStream::connect_timeout(&address, self.wait)?;
        stream.set_write_timeout(Some(self.wait))?;
        let id = if id.is_empty() { String::new() } else { format!("/{id}") };
        let head = format!(
            "{method} {path}/v2/workflows{id} HTTP/1.0\r\nHost: {authority}\r\n\
             Accept: application/mpeg-nbmp-wdd+json\r\nContent-Type: application/mpeg-nbmp-wdd+json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut response = Vec::new();
        let mut buffer = [0; 16 << 10];
        loop {
            // A response may arrive in many pieces, each of which comes soon.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut buffer)? {
                0 => return Ok(response),
                read => response.extend_from_slice(&buffer[..read]),
            }
            if response.len() as u64 > MAX_RESPONSE {
                return Err(io::Error::other(format!("a response of more than {MAX_RESPONSE} bytes")));
            }
        }
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason: String = String::from_utf8_lossy(&self.body).chars().take(MAX_REASON).collect();
        let reason = reason.replace(char::is_control, " ");
        write!(f, "status {}: {}", self.status, reason.trim())
    }
}

/// Finds the status and the body of a response.
fn split(response: &[u8]) -> Option<Response> {
    let line = response.strip_prefix(b"HTTP/1.")?.get(1..)?;
    let status = std::str::from_utf8(line.get(1..4)?).ok()?.parse().ok()?;
    let end = response.windows(4).position(|end| end == b"\r\n\r\n")?;
    Some(Response { status, body: response[end + 4..].to_vec() })
}
