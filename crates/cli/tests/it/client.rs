//! A minimal HTTP/1.1 client that shares no code with the project.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

/// Sends a GET request. It panics if the body is not as long as its `Content-Length`.
pub(crate) fn get(server: SocketAddr, path: &str) -> Answer {
    let mut stream = TcpStream::connect(server).expect("server accepts");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n")
        .expect("request is sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("response arrives");
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&bytes[..end]).expect("ASCII head");
    let mut lines = head.split("\r\n");
    let status =
        lines.next().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok()).expect("a status");
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let body = bytes.split_off(end + 4);
    let length: usize = headers["content-length"].parse().expect("a length");
    assert_eq!(body.len(), length, "{path}: body and Content-Length");
    Answer { status, headers, body }
}
