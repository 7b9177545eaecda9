//! A client of HTTP/1.1 that keeps its connection, looks at the clock, and holds no more of a body
//! than a read brings.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Range,
    time::{Duration, Instant},
};
use xxhash_rust::xxh3::Xxh3;

/// How an answer came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Of the body, in bytes; as long as was said before.
    pub(crate) length: u64,
    /// Of the body.
    pub(crate) digest: u64,
    /// From the request to the first byte of the body.
    pub(crate) first: Duration,
    /// From the request to the last byte of the body.
    pub(crate) whole: Duration,
}

/// One connection.
pub(crate) struct Connection {
    server: SocketAddr,
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Hashing costs as much as sending: not where processor time is short.
    pub(crate) digests: bool,
}

impl Connection {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).expect("server accepts");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { server, stream, buffer: vec![0; 256 << 10], digests: true }
    }

    /// GETs a path that must be there.
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        let answer = self.ask(path, None);
        assert_eq!(answer.status, 200, "{path}");
        answer
    }

    /// GETs a path, or a range of it; the body must be as long as its `Content-Length`.
    pub(crate) fn ask(&mut self, path: &str, range: Option<Range<u64>>) -> Answer {
        let range = range.map(|r| format!("Range: bytes={}-{}\r\n", r.start, r.end - 1)).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{range}\r\n", self.server);
        let begun = Instant::now();
        self.stream.write_all(request.as_bytes()).expect("request is sent");
        let mut filled = 0;
        let head = loop {
            let read = self.stream.read(&mut self.buffer[filled..]).expect("a head arrives");
            assert!(read > 0, "{path}: no answer");
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
        Answer { status, length, digest: hash.digest(), first: first.unwrap_or(whole), whole }
    }
}
