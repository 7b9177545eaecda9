//! Two origins behind the lab's balancer, one of which is killed while clients fetch from it.

use crate::{
    client::get,
    server::{Server, samples},
    setups_storage::Nginx,
};
use latemux_lab::nginx;
use latemux_testmedia::http_server::{Reply, Request, Server as Storage, Then};
use std::{
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// The title, a file with segments of about 150 kB: more than the balancer holds back.
const TITLE: &str = "harbour/video-360p.mp4";

/// Clients that fetch from both origins.
const CLIENTS: usize = 3;

/// Names of the title. The balancer's hash gives each origin about half of them.
const COPIES: usize = 16;

/// Responses after the kill, each of which is compared.
const AFTER_KILL: u64 = 300;

/// A response, whose body may have ended too early.
struct Response {
    status: u16,
    length: usize,
    body: Vec<u8>,
}

/// A response that is being read.
struct Pending {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Pending {
    /// Sends a request.
    fn start(server: SocketAddr, path: &str) -> Self {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").unwrap();
        Self { stream, bytes: Vec::new() }
    }

    /// Reads the head, and at least one byte of the body.
    fn read_start(&mut self) {
        while self.bytes.windows(4).position(|w| w == b"\r\n\r\n").is_none_or(|at| at + 4 == self.bytes.len())
        {
            let mut buffer = [0; 4096];
            let read = self.stream.read(&mut buffer).unwrap();
            assert!(read > 0, "the response ends before its body");
            self.bytes.extend(&buffer[..read]);
        }
    }

    /// Reads until the server closes the connection.
    fn finish(mut self) -> Response {
        if let Err(error) = self.stream.read_to_end(&mut self.bytes) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        }
        let end = self.bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
        let body = self.bytes.split_off(end + 4);
        let head = String::from_utf8(self.bytes).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        Response {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            length: length.expect("a length").parse().unwrap(),
            body,
        }
    }
}

/// Returns a file of the samples, or a range of it. With `stalls`, the second half of the body is
/// never sent.
fn reply(request: &Request, stalls: bool) -> Reply {
    // All names stand for the same files.
    let name = request.target.trim_start_matches('/').split_once('/').map_or("", |(_, name)| name);
    let Ok(file) = fs::read(Path::new(&samples()).join(name)) else { return Reply::new(404, &[], b"") };
    let headers = [("ETag", "\"1\""), ("Last-Modified", "Mon, 02 Feb 2026 10:00:00 GMT")];
    let range = request.header("range").and_then(|range| range.strip_prefix("bytes="));
    let Some((from, to)) = range.and_then(|range| range.split_once('-')) else {
        let sent = if request.method == "HEAD" { 0 } else { file.len() };
        return Reply::cut(200, &headers, &file, sent, Then::NextRequest);
    };
    let from = from.parse::<usize>().unwrap();
    let to = to.parse::<usize>().map_or(file.len(), |to| (to + 1).min(file.len()));
    let body = &file[from.min(to)..to];
    let content_range = format!("bytes {from}-{}/{}", to.max(1) - 1, file.len());
    let headers = [headers[0], headers[1], ("Content-Range", &content_range)];
    match stalls {
        true => Reply::cut(206, &headers, body, body.len() / 2, Then::Hang),
        false => Reply::new(206, &headers, body),
    }
}

/// An origin with a storage of its own, whose bodies can stall.
struct Origin {
    server: Server,
    storage: Storage,
    stalls: Arc<AtomicBool>,
}

impl Origin {
    fn start(runtime: &tokio::runtime::Runtime) -> Self {
        let stalls = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stalls);
        let storage = runtime.block_on(Storage::start(move |_, request| reply(request, flag.load(SeqCst))));
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/setups/lt-single.toml");
        // The server's address is the first one in its output.
        let location = format!("{}/", storage.address.replace("127.0.0.1", "localhost"));
        Self { server: Server::start(&location, &["--config", config], &[]), storage, stalls }
    }

    /// Returns true if the origin has read a file below this name.
    fn reads(&self, name: &str) -> bool {
        let prefix = format!("/{name}/");
        self.storage.requests().iter().any(|request| request.target.starts_with(&prefix))
    }
}

/// Returns the paths of the title's segments, as its playlists state them, each with its body. The
/// origin is neither of those behind the balancer.
fn segments() -> Vec<(String, Vec<u8>)> {
    let direct = Server::start(&samples(), &[], &[]);
    // The first URI of a playlist, relative to that of the playlist.
    let uris = |playlist: &str| -> Vec<String> {
        let answer = get(direct.address, playlist);
        let folder = playlist.rsplit_once('/').unwrap().0;
        let uris = answer.text().lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        uris.map(|uri| format!("{folder}/{uri}")).collect()
    };
    let media = uris(&format!("/{TITLE}/.m3u8")).remove(0);
    uris(&media).into_iter().map(|path| (path.clone(), get(direct.address, &path).body)).collect()
}

/// Compares a response with the right body. Returns false if it ended too early.
fn is_complete(response: &Response, expected: &[u8], path: &str) -> bool {
    assert_eq!((response.status, response.length), (200, expected.len()), "{path}");
    assert!(expected.starts_with(&response.body), "{path}: wrong bytes");
    response.body.len() == expected.len()
}

#[test]
fn a_killed_origin_causes_no_wrong_body_and_the_other_one_takes_its_titles() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let origins = [Origin::start(&runtime), Origin::start(&runtime)];
    let addresses = origins.each_ref().map(|origin| origin.server.address);
    let Some(balancer) = Nginx::start(|folder, listen| nginx::balance(folder, listen, &addresses, true))
    else {
        return;
    };
    let address = balancer.address();
    let mut segments = segments();
    // The last segment is not cached when it is requested.
    let (last, last_body) = segments.pop().unwrap();
    let names: Vec<String> = (1..=COPIES).map(|copy| format!("title-{copy}")).collect();
    let requests: Vec<(String, &Vec<u8>)> = names
        .iter()
        .flat_map(|name| segments.iter().map(move |(path, body)| (format!("/{name}{path}"), body)))
        .collect();
    let fetch =
        |(path, body): &(String, &Vec<u8>)| is_complete(&Pending::start(address, path).finish(), body, path);
    assert!(requests.iter().all(fetch), "a body ends too early while both origins run");
    let [first, second] = origins;
    let (lost, kept): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| first.reads(name));
    assert!(!lost.is_empty() && !kept.is_empty(), "one origin has all titles");
    assert!(kept.iter().all(|name| second.reads(name)) && !lost.iter().any(|name| second.reads(name)));

    let stop = AtomicBool::new(false);
    let complete = AtomicU64::new(0);
    let broken = AtomicU64::new(0);
    first.stalls.store(true, SeqCst);
    let mut stalled = Pending::start(address, &format!("/{}{last}", lost[0]));
    stalled.read_start();
    thread::scope(|scope| {
        let request = || {
            for request in requests.iter().cycle() {
                let count = if fetch(request) { &complete } else { &broken };
                count.fetch_add(1, SeqCst);
                if stop.load(SeqCst) {
                    return;
                }
            }
        };
        let clients = [0; CLIENTS].map(|_| scope.spawn(request));
        // A client ends early only if a response was wrong.
        let until = |count| {
            let has_failed = || clients.iter().any(thread::ScopedJoinHandle::is_finished);
            while complete.load(SeqCst) < count && !has_failed() {
                thread::yield_now();
            }
        };
        until(50);
        first.server.stop();
        until(complete.load(SeqCst) + AFTER_KILL);
        stop.store(true, SeqCst);
    });
    // A response of the killed origin may be cut off, but only one for each client.
    assert!(broken.load(SeqCst) <= CLIENTS as u64, "{broken:?} responses were cut off");
    let stalled = stalled.finish();
    assert!(!is_complete(&stalled, &last_body, &last), "half of the segment was never sent");
    // The client asks again, and gets it from the other origin, as it gets all else.
    for name in &lost {
        assert!(fetch(&(format!("/{name}{last}"), &last_body)), "{name}");
        assert!(second.reads(name), "{name}");
    }
    assert!(requests.iter().all(fetch));
}
