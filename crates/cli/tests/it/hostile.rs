//! Small forms of the attacks that `make bench-hostile` measures, on a server with small budgets.
//! Each test has the name of a row of docs/hostile.md, which states what all of them check. None of
//! it depends on time.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, reason = "tests print what they measured")]

use crate::{
    client::{get, get_with},
    http2::{self, Certificate, Secured, request_and_take_nothing},
    scripted_storage::{CREDENTIALS, Fault, Protocol, Storage, ask},
    server::{Server, samples},
};
use latemux_testmedia::{
    hostile::{HostileFile, HostileTrack, MAX_SIZE, costly},
    recipe,
};
use socket2::{Domain, Socket, Type};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};
use tempfile::{NamedTempFile, TempDir};

/// All memory budgets. Titles are not compared with storage during a test, however long it takes.
const BUDGETS: &str = r#"
recheck_after = "1h"
[cache]
memory = "16MiB"
[memory]
index = "4MiB"
fragments = "1MiB"
cuts = "1MiB"
manifests = "4MiB"
responses = "8MiB"
loading = "8MiB"
"#;
/// Resident memory beyond the budgets and a tenth of them.
const BESIDE_BUDGETS: u64 = 64 << 20;
/// Most memory that a file below 1 MB takes. Such a title is made alone, because `memory.loading`
/// is less.
const ONE_FILE: u64 = 64 << 20;
/// `memory.loading`, as much again for titles that wait, and the text of one manifest.
const BESIDE_FILE: u64 = (2 * 8 + 16) << 20;
/// Path of the title that the viewer plays.
const FILM: &str = "film.mp4";
/// Times that the viewer requests each of its URLs during an attack.
const ROUNDS: usize = 5;
/// Longest wait for something that must happen.
const LONG: Duration = Duration::from_secs(60);

/// A video of 12 s and 6.5 MB.
fn film() -> std::path::PathBuf {
    recipe::avc("slow-clients", "640x360", "-crf 2")
}

/// A folder with the film under several names.
fn library(names: impl IntoIterator<Item = String>) -> TempDir {
    let folder = tempfile::Builder::new().prefix("hostile-").tempdir_in(recipe::folder()).unwrap();
    let film = film();
    for name in names.into_iter().chain([FILM.to_owned()]) {
        fs::hard_link(&film, folder.path().join(name)).unwrap();
    }
    folder
}

fn copies(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(copy)
}

fn copy(number: usize) -> String {
    format!("copy-{number}.mp4")
}

/// Bytes to and from a server.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Sends a request on a connection that is kept. Returns the status and the body.
fn exchange(mut stream: impl Stream, path: &str) -> (u16, Vec<u8>) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.flush().unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (status, body)
}

/// Returns the URLs of a title's TS segments.
fn segments_of(server: SocketAddr, title: &str, query: &str) -> Vec<String> {
    let lines = |path: &str| -> Vec<String> {
        let list = get(server, path);
        let lines = list.text().lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| format!("/{title}/{line}")).collect()
    };
    let media = lines(&format!("/{title}/.m3u8{query}")).remove(0);
    lines(&media)
}

/// A server with small budgets, and a viewer of the film.
struct Attacked {
    server: Server,
    /// URLs of the viewer, with the right bodies.
    viewed: Vec<(String, Vec<u8>)>,
    /// URL of the whole film as one segment.
    joined: String,
    _config: NamedTempFile,
}

impl Attacked {
    fn folder(library: &TempDir, config: &str, flags: &[&str]) -> Self {
        Self::start(library.path().to_str().unwrap(), config, flags)
    }

    /// Starts a server, and plays the film once.
    fn start(source: &str, config: &str, flags: &[&str]) -> Self {
        // Another server without a range cache says what is right.
        let plain = Server::start(source, &["--cache-memory", "0"], &CREDENTIALS);
        let manifest = format!("/{FILM}/.m3u8");
        let segments = segments_of(plain.address, FILM, "");
        let [joined] =
            segments_of(plain.address, FILM, "?hls_minimum_fragment_length=12").try_into().unwrap();
        let urls = [manifest].into_iter().chain(segments);
        let viewed: Vec<_> = urls.map(|url| (url.clone(), get(plain.address, &url).body)).collect();

        let mut file = NamedTempFile::with_suffix(".toml").unwrap();
        write!(file, "{BUDGETS}{config}").unwrap();
        let flags =
            [&["--config", file.path().to_str().unwrap(), "--admin", "127.0.0.1:0"][..], flags].concat();
        let server = Server::start(source, &flags, &CREDENTIALS);
        Self { server, viewed, joined, _config: file }
    }

    fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Plays the film over one connection.
    fn play(&self) {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        self.play_over(stream);
    }

    fn play_over(&self, mut stream: impl Stream) {
        for _ in 0..ROUNDS {
            for (url, right) in &self.viewed {
                let (status, body) = exchange(&mut stream, url);
                assert_eq!(status, 200, "{url}: {}", String::from_utf8_lossy(&body));
                assert!(body == *right, "{url}");
            }
        }
    }

    /// Returns the sum of all series of a metric.
    fn metric(&self, name: &str) -> u64 {
        self.metric_with(name, "")
    }

    /// Returns the sum of those series of a metric that have this label.
    fn metric_with(&self, name: &str, label: &str) -> u64 {
        let response = get(self.server.admin.unwrap(), "/metrics");
        let series = response.text().lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(label))
        });
        let values: Vec<u64> = series.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert!(!values.is_empty(), "no {name} with {label:?}");
        values.iter().sum()
    }

    fn requests_to_storage(&self) -> u64 {
        self.metric("latemux_storage_requests_total")
    }

    /// Asserts that the process never held more memory than its budgets allow. The budget for
    /// loading titles does not count, as in docs/hostile.md.
    fn check_memory(&self) {
        self.check_memory_beside(0);
    }

    /// Does the same where a title that is being made takes some bytes more.
    fn check_memory_beside(&self, making: u64) {
        let caches = self.metric_with("latemux_cache_limit_bytes", "tier=\"memory\"");
        let budgets = caches + self.metric("latemux_responses_memory_limit_bytes");
        assert!(budgets <= 64 << 20, "{budgets}");
        let limit = budgets + budgets / 10 + BESIDE_BUDGETS + making;
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        println!("peak of resident memory: {} MiB of {}", peak >> 10, limit >> 20);
        assert!(peak << 10 <= limit, "{peak} kB, limit {limit}");
    }
}

/// Connects from an address that the viewer does not have. The client's kernel takes only a little.
fn connect(server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends requests, and waits for the start of the first response. Returns its status.
fn begin(server: SocketAddr, requests: &str) -> (TcpStream, u16) {
    let mut stream = connect(server);
    stream.write_all(requests.as_bytes()).unwrap();
    let mut start = [0; 12];
    loop {
        match stream.peek(&mut start).unwrap() {
            0 => panic!("the server has closed the connection"),
            12 => break,
            _ => thread::yield_now(),
        }
    }
    let status = std::str::from_utf8(&start[9..]).unwrap().parse().unwrap();
    (stream, status)
}

fn request(url: &str) -> String {
    format!("GET {url} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Counts the responses with each status: 200, and 503 for lack of memory.
fn counts(clients: &[(TcpStream, u16)]) -> (usize, usize) {
    let count = |status| clients.iter().filter(|(_, each)| *each == status).count();
    let (served, refused) = (count(200), count(503));
    assert_eq!(served + refused, clients.len());
    (served, refused)
}

/// Clients that request a manifest 64 times and read nothing.
#[test]
fn silent() {
    let library = library([]);
    let attacked = Attacked::folder(&library, "", &[]);
    attacked.play();
    let storage = attacked.requests_to_storage();
    let requests = request(&format!("/{FILM}/.mpd")).repeat(64);
    let clients: Vec<_> = (0..300).map(|_| begin(attacked.address(), &requests)).collect();
    assert_eq!(counts(&clients), (300, 0));
    attacked.play();
    attacked.check_memory();
    // The manifest is made once, and nothing of the film is read again.
    assert!(attacked.requests_to_storage() <= storage + 1);
    drop(clients);
}

/// Joined segments that nobody reads.
#[test]
fn joined() {
    let library = library([]);
    let attacked = Attacked::folder(&library, "", &[]);
    attacked.play();
    let requests = request(&attacked.joined);
    let clients: Vec<_> = (0..400).map(|_| begin(attacked.address(), &requests)).collect();
    let (served, refused) = counts(&clients);
    // The memory for responses is in use.
    assert!(served >= 10 && refused >= 10, "{served} served, {refused} refused");
    attacked.play();
    attacked.check_memory();
    drop(clients);
}

/// HTTP/2 streams with a window of one byte.
#[test]
fn streams() {
    let library = library([]);
    let certificate = Certificate::make();
    let attacked = Attacked::folder(&library, &certificate.config(), &[]);
    let viewer = || {
        let stream = TcpStream::connect(attacked.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        certificate.secure(stream, b"http/1.1")
    };
    attacked.play_over(viewer());
    let clients: Vec<Secured> = (0..6)
        .map(|_| {
            let mut client = certificate.secure(connect(attacked.address()), b"h2");
            let urls = std::iter::repeat_n(&attacked.joined, 100);
            request_and_take_nothing(&mut client, urls).unwrap();
            client
        })
        .collect();
    attacked.play_over(viewer());
    // Streams have begun, and wait for their clients.
    assert!(attacked.metric("latemux_responses_memory_bytes") > 1 << 20);
    attacked.check_memory();
    drop(clients);
}

/// Readers whose films do not fit into the range cache together.
#[test]
fn small_cache() {
    let library = library(copies(60));
    let attacked = Attacked::folder(&library, "", &[]);
    attacked.play();
    let urls = (0..60).map(|number| attacked.joined.replacen(FILM, &copy(number), 1));
    let readers: Vec<_> = urls.map(|url| begin(attacked.address(), &request(&url))).collect();
    attacked.play();
    attacked.check_memory();
    let right = get(attacked.address(), &attacked.joined).body;
    finish(readers, &right);
    attacked.check_memory();
}

/// Reads the first eight responses with status 200 to their end, a few bytes at a time from each,
/// and compares them.
fn finish(readers: Vec<(TcpStream, u16)>, right: &[u8]) {
    let served = readers.into_iter().filter(|(_, status)| *status == 200).take(8);
    let mut served: Vec<_> = served.map(|(stream, _)| (stream, Vec::new())).collect();
    assert_eq!(served.len(), 8);
    let mut taken = vec![0; 64 << 10];
    let mut left = served.len();
    while left > 0 {
        left = 0;
        for (stream, bytes) in &mut served {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
            if end == 0 || bytes.len() < end + right.len() {
                let count = stream.read(&mut taken).unwrap();
                assert!(count > 0, "{} bytes", bytes.len());
                bytes.extend(&taken[..count]);
                left += 1;
            }
        }
    }
    assert!(served.iter().all(|(_, bytes)| bytes.ends_with(right)));
}

/// Storage with the film under several names.
fn storage(names: impl IntoIterator<Item = String>) -> Storage {
    let storage = Storage::start();
    let film: std::sync::Arc<[u8]> = fs::read(film()).unwrap().into();
    for name in names.into_iter().chain([FILM.to_owned()]) {
        storage.put(&name, film.clone());
    }
    storage
}

/// Slow readers held all places for requests to storage.
#[test]
fn no_cache() {
    let storage = storage([]);
    let config = storage.config("max_in_flight = 4\n[read]\nopen = 2");
    let attacked = Attacked::start(&storage.source(Protocol::Http), &config, &["--cache-memory", "0"]);
    attacked.play();
    let requests = request(&attacked.joined);
    let readers: Vec<_> = (0..32).map(|_| begin(attacked.address(), &requests)).collect();
    attacked.play();
    assert_eq!(attacked.metric("latemux_storage_busy_total"), 0);
    attacked.check_memory();
    let right = get(attacked.address(), &attacked.joined).body;
    finish(readers, &right);
    attacked.check_memory();
}

/// Slow readers of titles that nobody has requested yet.
#[test]
fn cold() {
    const TITLES: usize = 60;
    let storage = storage(copies(TITLES));
    let config = storage.config("max_in_flight = 4\n[read]\nopen = 2");
    let attacked = Attacked::start(&storage.source(Protocol::Http), &config, &[]);
    attacked.play();
    storage.take();
    let urls = (0..TITLES).map(|number| attacked.viewed[1].0.replacen(FILM, &copy(number), 1));
    let readers: Vec<_> = urls.map(|url| begin(attacked.address(), &request(&url))).collect();
    let (served, _) = counts(&readers);
    assert!(served > 0);
    attacked.play();
    assert_eq!(attacked.metric("latemux_storage_busy_total"), 0);
    attacked.check_memory();
    // Index and media of each title. The range cache is so small that the film is read again.
    let (requests, _) = storage.take();
    println!("{requests} requests to storage");
    assert!(requests as usize <= 20 * TITLES, "{requests} requests to storage");
}

/// Twice as many connections as allowed, without a request.
#[test]
fn idle() {
    let library = library([]);
    let attacked = Attacked::folder(&library, "[http]\nmax_connections = 40\n", &[]);
    let clients: Vec<_> = (0..80).map(|_| connect(attacked.address())).collect();
    for _ in 0..10 {
        assert_eq!(get(attacked.address(), "/healthz").status, 200);
    }
    attacked.play();
    assert!(attacked.metric("latemux_connections_evicted_total") > 0);
    attacked.check_memory();
    drop(clients);
}

/// Sends requests from several clients at the same time, beside the viewer. Returns the statuses.
fn flood(attacked: &Attacked, clients: usize, urls: &[String]) -> Vec<u16> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    let mut statuses = Vec::new();
                    while let Some(url) = urls.get(next.fetch_add(1, SeqCst)) {
                        let answer = get(attacked.address(), url);
                        if answer.status == 503 {
                            assert_eq!(answer.headers["retry-after"], "1", "{url}: {}", answer.text());
                        }
                        statuses.push(answer.status);
                    }
                    statuses
                })
            })
            .collect();
        attacked.play();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

/// Returns the head of a film of an hour. Its media is a hole.
fn long_film() -> Vec<u8> {
    let track = HostileTrack {
        repeat: 1,
        timescale: 25,
        samples: 90_000,
        sample_size: 1000,
        sync_every: 50,
        chunk: 50,
        ..HostileTrack::default()
    };
    HostileFile { tracks: vec![track], ..HostileFile::default() }.write()
}

/// Manifests of a list of long films, with a new clip in each request.
#[test]
fn clips() {
    const FILMS: u64 = 16;
    let library = library([]);
    let film = long_film();
    for number in 0..FILMS {
        let path = library.path().join(format!("long{number}.mp4"));
        fs::write(&path, &film).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(128 << 20).unwrap();
    }
    let attacked = Attacked::folder(&library, "", &[]);
    attacked.play();
    let before = attacked.requests_to_storage();
    let names: Vec<String> = (0..FILMS).map(|number| number.to_string()).collect();
    let list = format!("/long,{},.mp4.urlset/.mpd", names.join(","));
    let urls: Vec<_> = (0..40).map(|number| format!("{list}?vbegin={number}.5")).collect();
    let statuses = flood(&attacked, 10, &urls);
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200));
    attacked.check_memory();
    let requests = attacked.requests_to_storage() - before;
    println!("{requests} requests to storage");
    // Each index is read once, in two reads at most, and may be evicted in between.
    assert!(requests <= 6 * FILMS, "{requests} requests to storage");
}

/// Manifests of files below 1 MB which cost as much as such files can.
#[test]
fn files() {
    let library = library([]);
    let frames = HostileTrack {
        repeat: 1,
        timescale: 1000,
        samples: 330_000,
        sample_size: 1,
        compositions: vec![(1, 20), (1, 0)],
        most_runs: 1000,
        chunk: 330_000,
        ..HostileTrack::default()
    };
    let frames = HostileFile { tracks: vec![frames], size: MAX_SIZE, ..HostileFile::default() };
    let mut files = vec![("bare-audio", HostileFile::of_bare_fragments(1)), ("frames", frames)];
    files.extend(costly::recipes().into_iter().map(|(name, bytes)| (name, HostileFile::from_bytes(&bytes))));
    let mut urls = Vec::new();
    for (name, file) in files {
        let bytes = file.write();
        assert!(bytes.len() <= MAX_SIZE);
        for number in 0..2 {
            fs::write(library.path().join(format!("{name}-{number}.mp4")), &bytes).unwrap();
            for manifest in [".mpd", ".m3u8", ".mpd?vbegin=1.5"] {
                urls.push(format!("/{name}-{number}.mp4/{manifest}"));
            }
        }
        urls.push(format!("/{name}-,0,1,.mp4.urlset/.mpd"));
    }
    let attacked = Attacked::folder(&library, "", &[]);
    attacked.play();
    // As many as there are titles, each of which some requests hold.
    let statuses = flood(&attacked, 100, &urls);
    // Some have no segments, or nothing that HLS carries.
    let expected = [200, 404, 415, 422, 503];
    assert!(statuses.iter().all(|status| expected.contains(status)), "{statuses:?}");
    assert!(statuses.contains(&422));
    attacked.check_memory_beside(ONE_FILE + BESIDE_FILE);
}

/// Lists of 64 names that do not exist, and the library.
#[test]
fn unknown() {
    let library = library([]);
    let attacked = Attacked::folder(&library, "", &[]);
    attacked.play();
    let before = attacked.requests_to_storage();
    let urls: Vec<String> = (0..50)
        .map(|number| {
            if number % 10 == 0 {
                return "/api/library".to_owned();
            }
            let names: Vec<String> = (0..64).map(|name| format!("{number}-{name}")).collect();
            format!("/x,{},.mp4.urlset/.mpd", names.join(","))
        })
        .collect();
    let statuses = flood(&attacked, 10, &urls);
    let count = |status| statuses.iter().filter(|each| **each == status).count();
    assert_eq!((count(200), count(404)), (5, 45));
    let requests = attacked.requests_to_storage() - before;
    println!("{requests} requests to storage");
    // Eight names of each list, listings of the library, and a look at the film.
    assert!(requests <= 45 * 8 + 5 + 2, "{requests} requests to storage");
    attacked.check_memory();
}

/// The last byte of segments of 12 s, without a range cache.
#[test]
fn ts_range() {
    let storage = storage([]);
    let config = storage.config("");
    let attacked = Attacked::start(&storage.source(Protocol::Http), &config, &["--cache-memory", "0"]);
    attacked.play();
    storage.take();
    let whole = get(attacked.address(), &attacked.joined).body;
    let (_, all) = storage.take();
    for _ in 0..20 {
        let answer = get_with(attacked.address(), &attacked.joined, &[("Range", "bytes=-1")]);
        assert_eq!((answer.status, &answer.body[..]), (206, &whole[whole.len() - 1..]));
    }
    let (requests, read) = storage.take();
    println!("{read} bytes in {requests} requests, {all} bytes for a whole segment");
    assert!(requests <= 20 * 2 && read <= 20 * all / 8, "{read} bytes in {requests} requests");
    attacked.check_memory();
}

/// HTTP/2 connections whose clients send and answer PING, and request nothing.
#[test]
fn pings() {
    let library = library([]);
    let certificate = Certificate::make();
    let config = format!("{}[http]\nheader_timeout = \"500ms\"\n", certificate.config());
    let attacked = Attacked::folder(&library, &config, &[]);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = certificate.secure(connect(attacked.address()), b"h2");
                    let began = Instant::now();
                    http2::begin(&mut client).unwrap();
                    http2::ping(&mut client).unwrap();
                    // The server closes the connection.
                    let error = loop {
                        match http2::ping(&mut client) {
                            Ok(()) => assert!(began.elapsed() < LONG, "still open"),
                            Err(error) => break error,
                        }
                    };
                    let is_late = [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
                    assert!(!is_late, "{error}");
                })
            })
            .collect();
        let stream = TcpStream::connect(attacked.address()).unwrap();
        attacked.play_over(certificate.secure(stream, b"http/1.1"));
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    attacked.check_memory();
}

/// Storage with one fault after another, while clients request titles that nobody has requested
/// yet.
#[test]
fn faulty_storage() {
    const FAULTS: [Fault; 6] =
        [Fault::Coded, Fault::Longer, Fault::Shorter, Fault::AnswersTwice, Fault::Fails, Fault::Down];
    let storage = storage([]);
    let small: std::sync::Arc<[u8]> = fs::read(Path::new(&samples()).join("lighthouse.mp4")).unwrap().into();
    for number in 0..100 {
        storage.put(&copy(number), small.clone());
    }
    let config = storage.config("");
    // The viewer's film must stay in the range cache.
    let attacked = Attacked::start(&storage.source(Protocol::Http), &config, &["--cache-memory", "32MiB"]);
    attacked.play();
    let first = segments_of(attacked.address(), &copy(0), "").remove(0);
    let right = get(attacked.address(), &first).body;
    let url = |number: usize| first.replacen(&copy(0), &copy(number), 1);
    let (attacked, url) = (&attacked, &url);
    let mut next = 1;
    for fault in FAULTS.into_iter().cycle().take(2 * FAULTS.len()) {
        storage.set(fault);
        let unknown = next;
        next += 4;
        thread::scope(|scope| {
            let clients =
                (unknown..next).map(|number| scope.spawn(move || ask(attacked.address(), &url(number))));
            let clients: Vec<_> = clients.collect();
            attacked.play();
            for client in clients {
                // Each title is unknown, and storage sends nothing that can be used.
                let (status, _) = client.join().unwrap().expect("a response");
                assert_eq!(status, 502, "{fault:?}");
            }
        });
        storage.set(Fault::Nothing);
        let began = Instant::now();
        while ask(attacked.address(), &url(unknown)).is_none_or(|(_, body)| body != right) {
            assert!(began.elapsed() < LONG, "{fault:?} has lasting effects");
        }
    }
    attacked.check_memory();
}

/// Sets a flag, also if a test fails: its threads then end.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A server with a cache on disk that is killed under load, again and again.
#[test]
fn killed() {
    const TITLES: usize = 6;
    let library = library([]);
    for number in 0..TITLES {
        fs::copy(Path::new(&samples()).join("lighthouse.mp4"), library.path().join(copy(number))).unwrap();
    }
    let cache = tempfile::tempdir().unwrap();
    let dir = cache.path().to_str().unwrap();
    let flags = ["--cache-dir", dir, "--cache-disk", "64MiB"];
    let plain = Server::start(library.path().to_str().unwrap(), &["--cache-memory", "0"], &[]);
    let urls = segments_of(plain.address, &copy(0), "");
    let right: Vec<_> = urls.iter().map(|url| get(plain.address, url).body).collect();
    for kill in 0..4 {
        let attacked = Attacked::folder(&library, "", &flags);
        let address = attacked.address();
        let is_over = AtomicBool::new(false);
        let complete = AtomicUsize::new(0);
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let ended = SetWhenDropped(&is_over);
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(SeqCst) {
                        let number = next.fetch_add(1, SeqCst);
                        let segment = number / TITLES % urls.len();
                        let url = urls[segment].replacen(&copy(0), &copy(number % TITLES), 1);
                        if let Some((status, body)) = ask(address, &url) {
                            assert!(status == 200 && body == right[segment], "{url}: {status}");
                            complete.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
            let began = Instant::now();
            while complete.load(SeqCst) < 10 + 7 * kill && began.elapsed() < LONG {
                thread::yield_now();
            }
            attacked.check_memory();
            attacked.server.stop();
            drop(ended);
        });
        assert!(complete.into_inner() >= 10 + 7 * kill);
    }
    // Everything is right after the last kill, and some of it comes from disk.
    let attacked = Attacked::folder(&library, "", &flags);
    attacked.play();
    for title in 0..TITLES {
        for (url, right) in urls.iter().zip(&right) {
            let url = url.replacen(&copy(0), &copy(title), 1);
            assert!(get(attacked.address(), &url).body == *right, "{url}");
        }
    }
    assert!(attacked.metric_with("latemux_cache_hits_total", "tier=\"disk\"") > 0);
}
