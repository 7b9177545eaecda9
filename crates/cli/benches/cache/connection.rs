//! An HTTP/1.1 client that keeps its connection open, measures times, and holds no more of a body
//! than one read returns.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Range,
    time::{Duration, Instant},
};
use xxhash_rust::xxh3::Xxh3;

/// Measurements of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Length of the body in bytes, which equals its `Content-Length`.
    pub(crate) length: u64,
    /// Digest of the body.
    pub(crate) digest: u64,
    /// Time from the request to the first byte of the body.
    pub(crate) first: Duration,
    /// Time from the request to the last byte of the body.
    pub(crate) whole: Duration,
}

/// Bytes to and from a server.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A connection.
pub(crate) struct Connection {
    server: SocketAddr,
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    /// If false, bodies are not hashed. Hashing costs as much processor time as sending.
    pub(crate) digests: bool,
}

impl Connection {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).expect("server accepts");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self::over(stream, server)
    }

    /// Uses a stream that is connected to a server.
    pub(crate) fn over(stream: impl Stream + 'static, server: SocketAddr) -> Self {
        Self { server, stream: Box::new(stream), buffer: vec![0; 256 << 10], digests: true }
    }

    /// Requests a path, which must exist.
    pub(crate) fn get(&mut self, path: &str) -> Response {
        let response = self.request(path, None);
        assert_eq!(response.status, 200, "{path}");
        response
    }

    /// Requests a path, or a range of it. The body must be as long as its `Content-Length`.
    pub(crate) fn request(&mut self, path: &str, range: Option<Range<u64>>) -> Response {
        let range = range.map(|r| format!("Range: bytes={}-{}\r\n", r.start, r.end - 1)).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{range}\r\n", self.server);
        let begun = Instant::now();
        self.stream.write_all(request.as_bytes()).expect("request is sent");
        let mut filled = 0;
        let head = loop {
            let read = self.stream.read(&mut self.buffer[filled..]).expect("a head arrives");
            assert!(read > 0, "{path}: no response");
            filled += read;
            if let Some(end) = self.buffer[..filled].windows(4).position(|w| w == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&self.buffer[..head]).expect("ASCII head").to_ascii_lowercase();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let length: u64 = length.unwrap_or_else(|| panic!("{path}: no length: {text}"));
        let mut hash = Xxh3::new();
        let mut take = |bytes: &[u8]| {
            if self.digests {
                hash.update(bytes);
            }
            bytes.len() as u64
        };
        let mut have = take(&self.buffer[head..filled]);
        let mut first = (have > 0).then(|| begun.elapsed());
        while have < length {
            let read = self.stream.read(&mut self.buffer).expect("a body arrives");
            assert!(read > 0, "{path}: {have} of {length} bytes");
            first = first.or_else(|| Some(begun.elapsed()));
            have += take(&self.buffer[..read]);
        }
        assert_eq!(have, length, "{path}: body and Content-Length");
        let whole = begun.elapsed();
        Response { status, length, digest: hash.digest(), first: first.unwrap_or(whole), whole }
    }
}
