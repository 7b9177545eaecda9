//! Storage over HTTP or S3 whose objects and faults a test sets while a server uses it.

use latemux_testmedia::http_server::{Reply, Request, Server as Http, Then};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::runtime::Runtime;

/// Protocol between a server and its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    S3,
}

pub(crate) const PROTOCOLS: [Protocol; 2] = [Protocol::Http, Protocol::S3];

/// Credentials for S3, which the storage does not check.
pub(crate) const CREDENTIALS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "hidden")];

/// Fault of responses. The first four change only those that hold a range of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// `Content-Encoding: gzip`, although the bytes are those of the object.
    Coded,
    /// Length and body have one byte more than the range that the response states.
    Longer,
    /// Length and body have half of the range that the response states.
    Shorter,
    /// Another response follows each response.
    AnswersTwice,
    /// The status is 500.
    Fails,
    /// Connections are reset.
    Down,
    /// Requests get no response.
    Silent,
}

/// A response that no request asked for.
const STRAY: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
/// Start of the sample entry of AVC.
const ENTRY: &[u8] = b"avc1\0\0\0\0";

struct Site {
    /// Bytes and version of each object.
    objects: BTreeMap<String, (Arc<[u8]>, u32)>,
    fault: Fault,
    /// Number of further responses whose sample entry of AVC is damaged.
    damaged: u32,
    requests: u32,
    /// Bytes of objects that were sent.
    bytes: u64,
}

/// The storage. Dropping this value stops it.
pub(crate) struct Storage {
    site: Arc<Mutex<Site>>,
    http: Http,
    _runtime: Runtime,
}

impl Storage {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let site = Arc::new(Mutex::new(Site {
            objects: BTreeMap::new(),
            fault: Fault::Nothing,
            damaged: 0,
            requests: 0,
            bytes: 0,
        }));
        let shared = site.clone();
        let http = runtime.block_on(Http::start(move |_, request| shared.lock().unwrap().reply(request)));
        Self { site, http, _runtime: runtime }
    }

    /// Adds or replaces an object.
    pub(crate) fn put(&self, name: &str, bytes: impl Into<Arc<[u8]>>) {
        let mut site = self.site.lock().unwrap();
        let version = site.objects.get(name).map_or(1, |(_, version)| version + 1);
        site.objects.insert(name.to_owned(), (bytes.into(), version));
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.site.lock().unwrap().fault = fault;
    }

    /// Damages the sample entry of AVC in the next response that has one.
    pub(crate) fn damage_once(&self) {
        self.site.lock().unwrap().damaged = 1;
    }

    /// Returns true if the damaged response has been sent.
    pub(crate) fn is_damaged(&self) -> bool {
        self.site.lock().unwrap().damaged == 0
    }

    /// Returns the number of requests, and of bytes of objects sent, since the last call.
    pub(crate) fn take(&self) -> (u32, u64) {
        let mut site = self.site.lock().unwrap();
        (std::mem::take(&mut site.requests), std::mem::take(&mut site.bytes))
    }

    /// Returns the source for `latemux serve`.
    pub(crate) fn source(&self, protocol: Protocol) -> String {
        match protocol {
            Protocol::Http => format!("{}/", self.http.address),
            Protocol::S3 => "s3://bucket".to_owned(),
        }
    }

    /// Returns the configuration of access to this storage, with further keys of `[storage]`.
    pub(crate) fn config(&self, keys: &str) -> String {
        format!("[storage]\ns3_endpoint = \"{}\"\n{keys}\n", self.http.address)
    }
}

impl Site {
    fn reply(&mut self, request: &Request) -> Reply {
        self.requests += 1;
        match self.fault {
            Fault::Fails => return Reply::new(500, &[], b""),
            Fault::Down => return Reply::nothing(Then::Reset),
            Fault::Silent => return Reply::nothing(Then::Hang),
            _ => {}
        }
        let name = request.target.trim_start_matches('/');
        let name = name.strip_prefix("bucket/").unwrap_or(name);
        let Some((object, version)) = self.objects.get(name).cloned() else {
            return Reply::new(404, &[], b"");
        };
        let etag = format!("\"{version}\"");
        let Some(range) = request.header("range").and_then(|range| range.strip_prefix("bytes=")) else {
            self.bytes += object.len() as u64;
            return Reply::new(200, &[("ETag", etag.as_str())], &object);
        };
        let (first, last) = range.split_once('-').unwrap();
        let first: usize = first.parse().unwrap();
        let last = last.parse().unwrap_or(usize::MAX).min(object.len() - 1);
        if first > last {
            return Reply::new(416, &[], b"");
        }
        let mut part = object[first..=last].to_vec();
        self.bytes += part.len() as u64;
        let entry = part.windows(ENTRY.len()).position(|bytes| bytes == ENTRY);
        if let Some(at) = entry.filter(|_| self.damaged > 0) {
            part[at] = b'w';
            self.damaged -= 1;
        }
        let stated = format!("bytes {first}-{last}/{}", object.len());
        let headers = [("ETag", etag.as_str()), ("Content-Range", stated.as_str())];
        match self.fault {
            Fault::Coded => Reply::new(206, &[&headers[..], &[("Content-Encoding", "gzip")]].concat(), &part),
            Fault::Longer => Reply::new(206, &headers, &[&part[..], b"x"].concat()),
            Fault::Shorter => Reply::new(206, &headers, &part[..part.len() / 2]),
            Fault::AnswersTwice => Reply::new(206, &headers, &part).followed_by(STRAY),
            _ => Reply::new(206, &headers, &part),
        }
    }
}

/// Sends a request. Returns the status and the body, or `None` if the response is not complete.
pub(crate) fn ask(server: SocketAddr, path: &str) -> Option<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let body = bytes.split_off(end);
    let head = String::from_utf8(bytes).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    (length.parse() == Ok(body.len())).then_some((status, body))
}
