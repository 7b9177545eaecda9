//! The addresses of functions, requests that find out if one answers, and requests that read the
//! metrics of an origin.

use std::{
    fmt,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _},
    sync::mpsc,
    thread,
    time::Duration,
};

/// The path of these requests. They are left out of all counts.
pub(crate) const READY: &str = "/lab-ready";

/// The longest time for one request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The longest time to look up one name.
const LOOK_UP: Duration = Duration::from_secs(2);

/// The port of a URL that states none.
const HTTP_PORT: u16 = 80;

/// The most bytes of a response that is read whole.
const MAX_RESPONSE: u64 = 4 << 20;

/// Returns true if a server answers a request over HTTP, whatever its status.
pub(crate) fn answers(server: SocketAddr) -> bool {
    let response = || -> io::Result<[u8; 5]> {
        let mut start = [0; 5];
        request(server, READY, PATIENCE)?.read_exact(&mut start)?;
        Ok(start)
    };
    response().is_ok_and(|start| start == *b"HTTP/")
}

/// Returns the response to a request, with its head, if it is text.
pub(crate) fn get(server: SocketAddr, path: &str, patience: Duration) -> Option<String> {
    let mut text = String::new();
    request(server, path, patience).ok()?.take(MAX_RESPONSE).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Sends a request. The server closes the connection behind its response.
fn request(server: SocketAddr, path: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n").as_bytes())?;
    Ok(stream)
}

/// Returns a free port on 127.0.0.9. Few other programs use this address, so the port is unlikely
/// to be taken before the server binds it.
///
/// # Errors
/// If all ports are in use.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::new(127, 0, 0, 9), 0))?.local_addr()
}

/// The authority of a URL: a host, by its address or name, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    host: String,
    port: u16,
}

impl Authority {
    /// Finds the authority of a URL such as `http://HOST:PORT/…`. The path has no meaning for
    /// functions.
    pub(crate) fn of(url: &str) -> Option<Self> {
        let authority = url.strip_prefix("http://")?.split('/').next()?;
        // An IPv6 address is in brackets, and has colons too.
        let name_end = authority.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match authority[name_end..].find(':') {
            Some(colon) => {
                let port = &authority[name_end + colon + 1..];
                (&authority[..name_end + colon], port.parse().ok()?)
            }
            None => (authority, HTTP_PORT),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-[]:".contains(c);
        (!host.is_empty() && host.chars().all(is_plain)).then(|| Self { host: host.to_owned(), port })
    }

    /// Returns the addresses of the host; none if the name is unknown, or not looked up in time.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let text = self.to_string();
        if let Ok(address) = text.parse() {
            return vec![address];
        }
        let (found, result) = mpsc::channel();
        // The system's resolver has no time limit, so it may outlive this function.
        let look_up = move || {
            let addresses = text.to_socket_addrs().map_or_else(|_| Vec::new(), Iterator::collect);
            let _ = found.send(addresses);
        };
        let started = thread::Builder::new().name("resolver".to_owned()).spawn(look_up);
        started.ok().and_then(|_| result.recv_timeout(LOOK_UP).ok()).unwrap_or_default()
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_a_port_and_paths_are_ignored() {
        for (url, expected) in [
            ("http://10.0.0.1:8000/", Some("10.0.0.1:8000")),
            ("http://10.0.0.1:8000", Some("10.0.0.1:8000")),
            ("http://origin-lab-1.media/in.0/x", Some("origin-lab-1.media:80")),
            ("http://[::1]/", Some("[::1]:80")),
            ("http://[::1]:8000/", Some("[::1]:8000")),
            ("https://host/", None),
            ("http:///", None),
            ("http://host:x/", None),
            ("http://host:65536/", None),
            ("http://user@host/", None),
            ("http://a b/", None),
            ("http://a\"]/", None),
        ] {
            let found = Authority::of(url).map(|authority| authority.to_string());
            assert_eq!(found.as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn names_have_addresses_and_unknown_ones_have_none() {
        let addresses = |url| Authority::of(url).unwrap().addresses();
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 81));
        assert!(addresses("http://localhost:81/x").contains(&loopback));
        assert_eq!(addresses("http://127.0.0.1:81/"), [loopback]);
        // RFC 6761, section 6.4: this name never exists.
        assert_eq!(addresses("http://storage.invalid/"), []);
    }
}
