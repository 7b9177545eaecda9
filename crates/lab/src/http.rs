//! Requests that find out if a function answers.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// The path of these requests. They are left out of all counts.
pub(crate) const READY: &str = "/lab-ready";

/// The longest time for one request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns true if a server answers a request over HTTP, whatever its status.
pub(crate) fn answers(server: SocketAddr) -> bool {
    let response = || -> io::Result<[u8; 5]> {
        let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET {READY} HTTP/1.0\r\nHost: {server}\r\n\r\n").as_bytes())?;
        let mut start = [0; 5];
        stream.read_exact(&mut start)?;
        Ok(start)
    };
    response().is_ok_and(|start| start == *b"HTTP/")
}

/// Parses the URL of a connection, which is an address and a port.
pub(crate) fn address(url: &str) -> Option<SocketAddr> {
    url.strip_prefix("http://")?.strip_suffix('/')?.parse().ok()
}
