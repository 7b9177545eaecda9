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
    get_with(server, path, &[])
}

/// Sends a GET request with more headers, like [`get`].
pub(crate) fn get_with(server: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut stream = TcpStream::connect(server).expect("server accepts");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{more}\r\n")
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
    // A response without a body need not state its length (RFC 9110 §8.6).
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().expect("a length"));
    assert!(status == 304 || headers.contains_key("content-length"), "{path}: no Content-Length");
    assert_eq!(body.len(), length, "{path}: body and Content-Length");
    Answer { status, headers, body }
}
