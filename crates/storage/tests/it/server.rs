//! An HTTP server that does what a test tells it to, down to the byte and the moment the connection breaks.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// What follows the bytes of a reply.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    NextRequest,
    Close,
    /// What the client has not read yet is lost.
    Reset,
    Hang,
}

/// A reply to send.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    then: Then,
}

impl Reply {
    /// A head without `Content-Length`, and whatever body.
    pub(crate) fn raw(status: u16, headers: &[(&str, &str)], body: &[u8], then: Then) -> Self {
        let mut bytes = format!("HTTP/1.1 {status} Some Reason\r\n").into_bytes();
        for (name, value) in headers {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(body);
        Self { bytes, then }
    }

    /// A well-formed answer.
    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let length = body.len().to_string();
        Self::raw(status, &[headers, &[("Content-Length", &length)]].concat(), body, Then::NextRequest)
    }

    /// The first `cut` bytes of the body of an answer that promises `body`.
    pub(crate) fn cut(status: u16, headers: &[(&str, &str)], body: &[u8], cut: usize, then: Then) -> Self {
        let length = body.len().to_string();
        Self::raw(status, &[headers, &[("Content-Length", &length)]].concat(), &body[..cut], then)
    }

    /// Nothing at all.
    pub(crate) fn nothing(then: Then) -> Self {
        Self { bytes: Vec::new(), then }
    }
}

type Handler = Arc<dyn Fn(usize, &Request) -> Reply + Send + Sync>;

/// A server on a port of its own. It goes away with the runtime.
pub(crate) struct Server {
    pub(crate) address: String,
    log: Arc<Mutex<Vec<Request>>>,
    /// Connections taken so far, and those that hung and were closed by the client.
    connections: watch::Sender<(usize, usize)>,
}

impl Server {
    /// `handler` is given the number of the request, from 0.
    pub(crate) async fn start(handler: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let (handler, shared): (Handler, _) = (Arc::new(handler), Arc::clone(&log));
        let connections = watch::Sender::new((0, 0));
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.send_modify(|(taken, _)| *taken += 1);
                let (handler, log, counted) = (Arc::clone(&handler), Arc::clone(&shared), counted.clone());
                tokio::spawn(async move {
                    if connection(stream, handler, log).await {
                        counted.send_modify(|(_, hung)| *hung += 1);
                    }
                });
            }
        });
        Self { address, log, connections }
    }

    /// Connections taken so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.borrow().0
    }

    /// Waits until the client has closed so many connections that hung.
    pub(crate) async fn hung_up(&self, connections: usize) {
        // The sender lives as long as `self`: the wait cannot fail.
        let _ = self.connections.subscribe().wait_for(|(_, hung)| *hung >= connections).await;
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }
}

/// Says whether the client closed the connection while it hung.
async fn connection(mut stream: TcpStream, handler: Handler, log: Arc<Mutex<Vec<Request>>>) -> bool {
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
        let request = parse(std::str::from_utf8(&buffer[..end]).unwrap());
        buffer.drain(..end + 4);
        let reply = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            handler(log.len() - 1, &request)
        };
        // The client may be gone before the end: that is its right.
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
            Then::Hang => while !matches!(stream.read_buf(&mut buffer).await, Ok(0) | Err(_)) {},
        }
        if matches!(reply.then, Then::Hang) {
            return true;
        }
    }
}

fn parse(head: &str) -> Request {
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let (method, target) = (first.next().unwrap().to_owned(), first.next().unwrap().to_owned());
    let header = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_owned(), value.trim().to_owned())
    };
    Request { method, target, headers: lines.map(header).collect() }
}
