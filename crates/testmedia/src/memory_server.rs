//! An HTTP server in memory whose responses a test determines to the byte. Connections are pipes,
//! so that a test can run in Tokio's paused time.

use futures_util::future::BoxFuture;
use latemux_client::{
    failure::{Failure, Reason},
    http::{Client, ClientOptions, Connect, Server, Stream},
};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use url::Url;

/// The only address at which [`MemoryServer::client`] reaches the server.
pub const ADDRESS: &str = "http://origin.example/";

/// A host that refuses connections.
const REFUSING_HOST: &str = "nobody.example";

/// The response to one request.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Header fields besides `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The time before the head is sent.
    pub delay: Duration,
    /// The value of `Content-Length`, if it is not the body's length.
    pub promised: Option<usize>,
    /// The connection ends after this many bytes of head and body.
    pub cut: Option<usize>,
}

impl Reply {
    /// Returns a 200 with a body.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
            delay: Duration::ZERO,
            promised: None,
            cut: None,
        }
    }

    /// Returns a response with a status and a short text.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::ok("what went wrong") }
    }

    fn bytes(&self) -> Vec<u8> {
        let length = self.promised.unwrap_or(self.body.len());
        let mut head = format!("HTTP/1.1 {} x\r\nContent-Length: {length}\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut bytes = [head.as_bytes(), b"\r\n", &self.body].concat();
        bytes.truncate(self.cut.unwrap_or(usize::MAX));
        bytes
    }
}

/// A request as the server received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Path and query.
    pub path: String,
    /// First and last byte of the `Range` header.
    pub range: Option<(usize, usize)>,
    /// The value of the `If-Match` header.
    pub if_match: Option<String>,
    /// The number of the connection, from 0.
    pub connection: u64,
}

impl Request {
    /// Reads the head of a request.
    fn parse(head: &str, connection: u64) -> Self {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let range = head.lines().find_map(|line| {
            let range = line.to_ascii_lowercase().strip_prefix("range: bytes=")?.to_owned();
            let (first, last) = range.trim().split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        let if_match = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("if-match").then(|| value.trim().to_owned())
        });
        Self { path, range, if_match, connection }
    }
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

/// A server that sends what a function returns. Clones share their counters.
#[derive(Clone)]
pub struct MemoryServer {
    handler: Arc<Handler>,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    connections: u64,
    body_bytes: u64,
}

impl MemoryServer {
    /// Makes a server of a function.
    pub fn new(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self { handler: Arc::new(handler), log: Arc::default() }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all requests so far, in their order.
    pub fn requests(&self) -> Vec<Request> {
        self.log().requests.clone()
    }

    /// Returns the number of requests for each path.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for request in self.requests() {
            *counts.entry(request.path).or_default() += 1;
        }
        counts
    }

    /// Returns the number of connections made so far.
    pub fn connections(&self) -> u64 {
        self.log().connections
    }

    /// Returns the bytes of all bodies sent so far.
    pub fn body_bytes(&self) -> u64 {
        self.log().body_bytes
    }

    /// Returns a client that may reach this server at [`ADDRESS`], and no other.
    pub fn client(&self) -> Client {
        let mut options = ClientOptions::default();
        options.hosts.allow_server(&Url::parse(ADDRESS).expect("a URL"));
        Client::new(Arc::new(self.clone()), options)
    }

    async fn serve(self, mut stream: DuplexStream, connection: u64) {
        let mut head = Vec::new();
        loop {
            let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n") else {
                if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
                continue;
            };
            let text: Vec<u8> = head.drain(..end + 4).collect();
            let request = Request::parse(&String::from_utf8_lossy(&text), connection);
            self.log().requests.push(request.clone());
            let reply = (self.handler)(&request);
            tokio::time::sleep(reply.delay).await;
            self.log().body_bytes += reply.body.len() as u64;
            if stream.write_all(&reply.bytes()).await.is_err() || reply.cut.is_some() {
                return;
            }
        }
    }
}

impl Connect for MemoryServer {
    fn connect(&self, server: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>> {
        let this = self.clone();
        Box::pin(async move {
            if server.host == REFUSING_HOST {
                return Err(Failure::new(Reason::Refused, server.to_string()));
            }
            let connection = this.connections();
            this.log().connections += 1;
            let (ours, theirs) = duplex(64 << 10);
            tokio::spawn(this.serve(theirs, connection));
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
}

/// Returns a handler that serves the files of a folder, and byte ranges of them.
pub fn files(folder: PathBuf) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    move |request| {
        let Ok(body) = fs::read(folder.join(request.path.trim_start_matches('/'))) else {
            return Reply::status(404);
        };
        let Some((first, last)) = request.range else { return Reply::ok(body) };
        let range = format!("bytes {first}-{last}/{}", body.len());
        let Some(part) = body.get(first..=last) else { return Reply::status(416) };
        Reply { status: 206, headers: vec![("Content-Range".into(), range)], ..Reply::ok(part) }
    }
}

/// Returns a handler that serves the folder of a Smooth Streaming title by ffmpeg. ffmpeg's
/// manifest omits the start of the first chunk; this handler adds those of `video` and `audio`, in
/// ticks.
pub fn smooth_files(
    folder: PathBuf,
    video: &'static str,
    audio: &'static str,
) -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let files = files(folder);
    move |request| {
        let mut reply = files(&Request { path: request.path.replace("%20", " "), ..request.clone() });
        if request.path == "/Manifest" {
            let text = String::from_utf8_lossy(&reply.body).into_owned();
            let (before, behind) = text.split_once("\"audio\"").unwrap_or((&text, ""));
            let start =
                |text: &str, t: &str| text.replacen("<c n=\"0\"", &format!("<c n=\"0\" t=\"{t}\""), 1);
            reply.body = format!("{}\"audio\"{}", start(before, video), start(behind, audio)).into();
        }
        reply
    }
}

/// Returns a server of several folders, each below a path prefix, and of documents, each at a path.
pub fn folders_and_documents(
    folders: Vec<(&'static str, PathBuf)>,
    documents: Vec<(&'static str, String)>,
) -> MemoryServer {
    let folders: Vec<_> = folders.into_iter().map(|(prefix, folder)| (prefix, files(folder))).collect();
    MemoryServer::new(move |request| {
        if let Some((_, document)) = documents.iter().find(|(path, _)| request.path == *path) {
            return Reply::ok(document.clone());
        }
        let found = folders.iter().find_map(|(prefix, files)| {
            let path = request.path.strip_prefix(prefix)?.to_owned();
            Some(files(&Request { path, ..request.clone() }))
        });
        found.unwrap_or_else(|| Reply::status(404))
    })
}
