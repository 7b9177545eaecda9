//! Requests whose bodies are kept and compared.

use crate::report::{Limit, Report};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Reads a head, including the empty line after it.
pub(crate) fn head_of(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Sends a request. Returns the status and the body, or `None` if the response is not complete.
pub(crate) fn ask(server: SocketAddr, path: &str) -> Option<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(server).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let head = head_of(&mut stream)?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let mut body = Vec::new();
    stream.read_to_end(&mut body).ok()?;
    (header(&head, "content-length")?.parse() == Ok(body.len())).then_some((status, body))
}

/// Numbers of responses.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) right: AtomicUsize,
    wrong: AtomicUsize,
    refused: AtomicUsize,
    aborted: AtomicUsize,
}

impl Seen {
    pub(crate) fn note(&self, response: Option<(u16, Vec<u8>)>, right: &[u8]) {
        let count = match response {
            None => &self.aborted,
            Some((200, body)) if body == right => &self.right,
            Some((200, _)) => &self.wrong,
            Some(_) => &self.refused,
        };
        count.fetch_add(1, Relaxed);
    }

    /// Reports the bodies that are complete and wrong. There may be none.
    pub(crate) fn report(&self, report: &mut Report) {
        let count = |number: &AtomicUsize| number.load(Relaxed) as f64;
        let note = format!(
            "{} right, {} refused, {} aborted",
            count(&self.right),
            count(&self.refused),
            count(&self.aborted)
        );
        report.line("wrong bodies", count(&self.wrong), "", Limit::AtMost(0.0), &note);
    }
}
