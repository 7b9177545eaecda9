//! An HTTP/1.1 client that keeps its connection open.

use crate::Failure;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

/// A connection to a server on this machine.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> Result<Self, Failure> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Requests a path as a browser does, with gzip. Reads the whole body.
    pub(crate) fn get(&mut self, path: &str) -> Result<(), Failure> {
        self.request(path, "Accept-Encoding: gzip\r\n").map(|_| ())
    }

    /// Requests a path that the server refuses.
    pub(crate) fn get_refusal(&mut self, path: &str, status: u16) -> Result<(), Failure> {
        self.expect(path, "", status).map(|_| ())
    }

    /// Requests a path and returns the text.
    pub(crate) fn text(&mut self, path: &str) -> Result<String, Failure> {
        let head = self.request(path, "")?;
        Ok(String::from_utf8(self.buffer.split_off(head))?)
    }

    fn request(&mut self, path: &str, headers: &str) -> Result<usize, Failure> {
        self.expect(path, headers, 200)
    }

    /// Returns the length of the head. Head and body are in the buffer.
    fn expect(&mut self, path: &str, headers: &str, status: u16) -> Result<usize, Failure> {
        write!(self.stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")?;
        self.buffer.clear();
        let head = loop {
            self.read()?;
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = String::from_utf8_lossy(self.buffer.get(..head).unwrap_or_default()).to_ascii_lowercase();
        if !text.starts_with(&format!("http/1.1 {status}")) {
            return Err(format!("{path}: {text}").into());
        }
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let length: usize = length.ok_or_else(|| format!("{path}: no Content-Length"))?;
        while self.buffer.len() < head + length {
            self.read()?;
        }
        Ok(head)
    }

    fn read(&mut self) -> Result<(), Failure> {
        let filled = self.buffer.len();
        self.buffer.resize(filled + (64 << 10), 0);
        let read = self.stream.read(self.buffer.get_mut(filled..).unwrap_or_default())?;
        self.buffer.truncate(filled + read);
        if read == 0 { Err("the server has closed the connection".into()) } else { Ok(()) }
    }
}
