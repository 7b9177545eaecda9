//! A server in memory, which does what a test tells it, to the byte: connections are pipes, and time is the test's.

use futures_util::future::BoxFuture;
use latemux_load::{
    failure::{Failure, Reason},
    http::{Client, ClientOptions, Connect, Server, Stream},
};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use url::Url;

/// What is answered to one request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Before the head.
    pub(crate) delay: Duration,
    /// In place of the body's length.
    pub(crate) promised: Option<usize>,
    /// The connection ends after that many bytes of the whole answer.
    pub(crate) cut: Option<usize>,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.into(),
            delay: Duration::ZERO,
            promised: None,
            cut: None,
        }
    }

    pub(crate) fn status(status: u16) -> Self {
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

/// A request as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) range: Option<(usize, usize)>,
}

type Answer = dyn Fn(&Asked) -> Reply + Send + Sync;

/// Answers what a function answers.
#[derive(Clone)]
pub(crate) struct Pipes {
    answer: Arc<Answer>,
    log: Arc<Mutex<Vec<Asked>>>,
    connections: Arc<Mutex<u64>>,
    sent: Arc<Mutex<u64>>,
}

impl Pipes {
    pub(crate) fn new(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            answer: Arc::new(answer),
            log: Arc::default(),
            connections: Arc::default(),
            sent: Arc::default(),
        }
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }

    /// How often each path was asked for.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for asked in self.asked() {
            *counts.entry(asked.path).or_default() += 1;
        }
        counts
    }

    pub(crate) fn connections(&self) -> u64 {
        *self.connections.lock().unwrap()
    }

    /// Bytes of all bodies sent.
    pub(crate) fn sent(&self) -> u64 {
        *self.sent.lock().unwrap()
    }

    /// A client that reaches it as `http://origin.example/` and no other.
    pub(crate) fn client(&self) -> Client {
        let mut options = ClientOptions::default();
        options.hosts.allow_server(&Url::parse("http://origin.example/").unwrap());
        Client::new(Arc::new(self.clone()), options)
    }

    async fn serve(self, mut stream: DuplexStream) {
        let mut head = Vec::new();
        loop {
            let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n") else {
                if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
                continue;
            };
            let text = String::from_utf8(head.drain(..end + 4).collect()).unwrap();
            let path = text.split(' ').nth(1).unwrap().to_owned();
            let range = text.lines().find_map(|line| {
                let range = line.to_ascii_lowercase().strip_prefix("range: bytes=")?.to_owned();
                let (first, last) = range.trim().split_once('-')?;
                Some((first.parse().ok()?, last.parse().ok()?))
            });
            let asked = Asked { path, range };
            self.log.lock().unwrap().push(asked.clone());
            let reply = (self.answer)(&asked);
            tokio::time::sleep(reply.delay).await;
            *self.sent.lock().unwrap() += u64::try_from(reply.body.len()).unwrap();
            if stream.write_all(&reply.bytes()).await.is_err() || reply.cut.is_some() {
                return;
            }
        }
    }
}

impl Connect for Pipes {
    fn connect(&self, server: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>> {
        let pipes = self.clone();
        Box::pin(async move {
            if server.host == "nobody.example" {
                return Err(Failure { reason: Reason::Refused, detail: server.to_string() });
            }
            *pipes.connections.lock().unwrap() += 1;
            let (ours, theirs) = duplex(64 << 10);
            tokio::spawn(pipes.serve(theirs));
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
}

/// Files of a folder, with ranges.
pub(crate) fn files(folder: PathBuf) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    move |asked| {
        let Ok(body) = std::fs::read(folder.join(asked.path.trim_start_matches('/'))) else {
            return Reply::status(404);
        };
        let Some((first, last)) = asked.range else { return Reply::ok(body) };
        let range = format!("bytes {first}-{last}/{}", body.len());
        let part = body[first..=last].to_vec();
        Reply { status: 206, headers: vec![("Content-Range".into(), range)], ..Reply::ok(part) }
    }
}
