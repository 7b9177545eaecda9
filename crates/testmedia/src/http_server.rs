//! An HTTP server whose test chooses each byte of a reply, and the end of each connection.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method, such as `GET`.
    pub method: String,
    /// Request target: path and query.
    pub target: String,
    /// 1-based number of its connection, in the order of acceptance.
    pub connection: usize,
    headers: Vec<(String, String)>,
}

impl Request {
    /// Returns the value of a header, whose name is compared without case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The action after the bytes of a reply.
#[derive(Debug, Clone, Copy)]
pub enum Then {
    /// Reads the next request.
    NextRequest,
    /// Closes the connection.
    Close,
    /// Resets the connection. Bytes that the client has not read yet are lost.
    Reset,
    /// Keeps the connection open and sends nothing until the client closes it.
    Hang,
}

/// A reply of the server.
#[derive(Debug, Clone)]
pub struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

impl Reply {
    /// Makes a reply whose head gets no `Content-Length`.
    pub fn raw(status: u16, headers: &[(&str, &str)], body: &[u8], then: Then) -> Self {
        let mut bytes = format!("HTTP/1.1 {status} Some Reason\r\n").into_bytes();
        for (name, value) in headers {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(body);
        Self { bytes, then }
    }

    /// Makes a well-formed reply.
    pub fn new(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        Self::cut(status, headers, body, body.len(), Then::NextRequest)
    }

    /// Makes a reply that promises `body` and sends only its first `cut` bytes.
    pub fn cut(status: u16, headers: &[(&str, &str)], body: &[u8], cut: usize, then: Then) -> Self {
        let length = body.len().to_string();
        Self::raw(status, &[headers, &[("Content-Length", &length)]].concat(), &body[..cut], then)
    }

    /// Adds bytes behind the reply, which belong to no response.
    #[must_use]
    pub fn followed_by(mut self, surplus: &[u8]) -> Self {
        self.bytes.extend(surplus);
        self
    }

    /// Makes a reply without any bytes.
    pub fn nothing(then: Then) -> Self {
        Self { bytes: Vec::new(), then }
    }
}

type Handler = Arc<dyn Fn(usize, &Request) -> Reply + Send + Sync>;

/// A server on a loopback port of its own. It ends with the runtime.
#[derive(Debug)]
pub struct Server {
    /// Base address without a trailing slash, such as `http://127.0.0.1:1234`.
    pub address: String,
    log: Arc<Mutex<Vec<Request>>>,
    /// Number of accepted connections, and of those that hung until the client closed them.
    connections: watch::Sender<(usize, usize)>,
}

impl Server {
    /// Starts a server. `handler` gets the 0-based number of each request.
    pub async fn start(handler: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let address = format!("http://{}", listener.local_addr().expect("the listener is bound"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let (handler, shared): (Handler, _) = (Arc::new(handler), Arc::clone(&log));
        let connections = watch::Sender::new((0, 0));
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.send_modify(|(taken, _)| *taken += 1);
                let handler = Arc::clone(&handler);
                let log = Arc::clone(&shared);
                let counted = counted.clone();
                let number = counted.borrow().0;
                tokio::spawn(async move {
                    if connection(number, stream, handler, log).await {
                        counted.send_modify(|(_, hung)| *hung += 1);
                    }
                });
            }
        });
        Self { address, log, connections }
    }

    /// Returns the number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.connections.borrow().0
    }

    /// Waits until this many connections have been accepted.
    pub async fn connected(&self, connections: usize) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.connections.subscribe().wait_for(|(taken, _)| *taken >= connections).await;
    }

    /// Waits until the client has closed this many hanging connections.
    pub async fn hung_up(&self, connections: usize) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.connections.subscribe().wait_for(|(_, hung)| *hung >= connections).await;
    }

    /// Returns the requests received so far.
    pub fn requests(&self) -> Vec<Request> {
        self.log.lock().expect("no handler panicked").clone()
    }
}

/// Serves one connection. Returns true if the client closed it while it hung.
async fn connection(
    number: usize,
    mut stream: TcpStream,
    handler: Handler,
    log: Arc<Mutex<Vec<Request>>>,
) -> bool {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
            match stream.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return false,
                Ok(_) => {}
            }
        };
        let request = parse(number, std::str::from_utf8(&buffer[..end]).expect("a head in UTF-8"));
        buffer.drain(..end + 4);
        let reply = {
            let mut log = log.lock().expect("no handler panicked");
            log.push(request.clone());
            handler(log.len() - 1, &request)
        };
        // The client may close the connection before the end of the reply.
        if stream.write_all(&reply.bytes).await.is_err() {
            return false;
        }
        match reply.then {
            Then::NextRequest => {}
            Then::Close => return false,
            Then::Reset => {
                let _ = stream.set_zero_linger();
                return false;
            }
            Then::Hang => {
                while !matches!(stream.read_buf(&mut buffer).await, Ok(0) | Err(_)) {}
                return true;
            }
        }
    }
}

fn parse(connection: usize, head: &str) -> Request {
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let mut word = || first.next().unwrap_or_default().to_owned();
    let method = word();
    let target = word();
    let header = |line: &str| {
        let (name, value) = line.split_once(':').expect("a header with a colon");
        (name.to_owned(), value.trim().to_owned())
    };
    Request { method, target, connection, headers: lines.map(header).collect() }
}
