//! Requests that find out if a function answers, and that read the metrics of an origin.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

/// The path of these requests. They are left out of all counts.
pub(crate) const READY: &str = "/lab-ready";

/// The longest time for one request.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of a response that is read whole.
const MAX_RESPONSE: u64 = 4 << 20;

/// Returns true if a server answers a request over HTTP, whatever its status.
pub(crate) fn answers(server: SocketAddr) -> bool {
    let response = || -> io::Result<[u8; 5]> {
        let mut start = [0; 5];
        request(server, READY)?.read_exact(&mut start)?;
        Ok(start)
    };
    response().is_ok_and(|start| start == *b"HTTP/")
}

/// Returns the response to a request, with its head, if it is text.
pub(crate) fn get(server: SocketAddr, path: &str) -> Option<String> {
    let mut text = String::new();
    request(server, path).ok()?.take(MAX_RESPONSE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Sends a request. The server closes the connection behind its response.
fn request(server: SocketAddr, path: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n").as_bytes())?;
    Ok(stream)
}

/// Returns an address of this machine that others rarely use, with a port that is free: nobody
/// takes it before the server for which it is meant.
///
/// # Errors
/// If all ports are in use.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::new(127, 0, 0, 9), 0))?.local_addr()
}

/// Parses the URL of a connection, which is an address and a port.
pub(crate) fn address(url: &str) -> Option<SocketAddr> {
    url.strip_prefix("http://")?.strip_suffix('/')?.parse().ok()
}
