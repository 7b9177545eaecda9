//! Storage that misbehaves in several ways, while many clients ask for what is not cached.

use crate::{
    Bench,
    media::FILM,
    report::{Limit, Report},
    transfer::{Seen, ask, head_of, header},
    under_attack::{self, Target},
};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

const CLIENTS: usize = 16;
/// Time for which each fault lasts.
const LASTING: Duration = Duration::from_millis(800);
/// Time for which storage then works. Without it, no title could be complete.
const WORKING: Duration = Duration::from_millis(400);
/// Fewest right bodies in all: some for each time in which storage works.
const RIGHT: f64 = 100.0;
/// A response that no request asked for.
const STRAY: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// `Content-Encoding: gzip`, although the bytes are those of the file.
    Coded,
    /// One byte more than the range that the response states.
    Longer,
    /// Another response follows each response.
    AnswersTwice,
    /// Half of the body, and the end of the connection.
    Shorter,
    /// The range that was requested, in a response that states another.
    Elsewhere,
    /// Status 500.
    Failing,
    /// Connections are closed.
    Down,
    /// Requests get no response.
    Silent,
}

const FAULTS: [Fault; 8] = [
    Fault::Coded,
    Fault::Longer,
    Fault::AnswersTwice,
    Fault::Shorter,
    Fault::Elsewhere,
    Fault::Failing,
    Fault::Down,
    Fault::Silent,
];

/// A server between the origin and nginx.
#[derive(Clone)]
struct Proxy {
    nginx: SocketAddr,
    fault: Arc<Mutex<Fault>>,
    /// Requests that arrived while storage had a fault.
    met: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts on a free port and returns it with its address. Its threads end with the process.
    fn start(nginx: SocketAddr) -> (Self, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Self { nginx, fault: Arc::new(Mutex::new(Fault::Nothing)), met: Arc::default() };
        let shared = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let proxy = shared.clone();
                thread::spawn(move || while proxy.serve(&client).is_some() {});
            }
        });
        (proxy, address)
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
    }

    /// Answers one request. Returns `None` if the connection has ended.
    fn serve(&self, mut client: &TcpStream) -> Option<()> {
        let request = head_of(&mut client)?;
        self.met.fetch_add(usize::from(self.fault() != Fault::Nothing), Relaxed);
        while self.fault() == Fault::Silent {
            thread::sleep(Duration::from_millis(10));
        }
        let fault = self.fault();
        if fault == Fault::Down {
            return None;
        }
        let mut upstream = TcpStream::connect(self.nginx).ok()?;
        let request = request.trim_end().to_owned() + "\r\nConnection: close\r\n\r\n";
        upstream.write_all(request.as_bytes()).ok()?;
        let head = head_of(&mut upstream)?.replace("Connection: close\r\n", "");
        let length: usize = header(&head, "Content-Length")?.parse().ok()?;
        let mut body = Vec::new();
        upstream.read_to_end(&mut body).ok()?;
        let (head, surplus): (String, &[u8]) = match fault {
            Fault::Coded => (head.replacen("\r\n", "\r\nContent-Encoding: gzip\r\n", 1), b""),
            Fault::Longer => {
                let stated = |length| format!("Content-Length: {length}\r\n");
                (head.replace(&stated(length), &stated(length + 1)), b"x")
            }
            Fault::AnswersTwice => (head, STRAY),
            Fault::Shorter => {
                body.truncate(body.len() / 2);
                client.write_all(&[head.as_bytes(), &body].concat()).ok()?;
                return None;
            }
            Fault::Elsewhere => (head.replacen("Content-Range: bytes ", "Content-Range: bytes 1", 1), b""),
            Fault::Failing => (head.replacen(" 206 ", " 500 ", 1).replacen(" 200 ", " 500 ", 1), b""),
            Fault::Nothing | Fault::Down | Fault::Silent => (head, b""),
        };
        client.write_all(&[head.as_bytes(), &body, surplus].concat()).ok()
    }
}

/// Requests segments of titles that nobody has requested yet, while storage has one fault after
/// another for 0.8 s, and works for 0.4 s after each. The viewer plays a title that is cached.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let titles: Vec<String> = (0..2000).map(|number| format!("faulty-{number}.mp4")).collect();
    titles.iter().for_each(|title| bench.library.film(title));
    let (proxy, address) = Proxy::start(bench.nginx.address());
    let seen = Seen::default();
    let mut recovery = Duration::ZERO;
    under_attack::run_over(bench, &format!("http://{address}/"), report, "", &[], |target: &Target<'_>| {
        let server = target.origin.address;
        let (path, right) = some_segment(server);
        let next = AtomicUsize::new(0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        let title = &titles[next.fetch_add(1, Relaxed) % titles.len()];
                        seen.note(ask(server, &format!("/{title}/{path}")), &right);
                    }
                });
            }
            proxy.set(FAULTS[0]);
            target.at_full_force();
            for fault in FAULTS.into_iter().cycle() {
                for (fault, lasting) in [(fault, LASTING), (Fault::Nothing, WORKING)] {
                    proxy.set(fault);
                    let begun = Instant::now();
                    while begun.elapsed() < lasting && !target.over() {
                        thread::sleep(Duration::from_millis(10));
                    }
                }
                if target.over() {
                    break;
                }
            }
            is_over.store(true, Relaxed);
            proxy.set(Fault::Nothing);
            let healed = Instant::now();
            let fresh = &titles[titles.len() - 1];
            while ask(server, &format!("/{fresh}/{path}")).is_none_or(|(_, body)| body != right) {
                thread::sleep(Duration::from_millis(10));
            }
            recovery = healed.elapsed();
        });
    });
    seen.report(report);
    let right = seen.right.load(Relaxed) as f64;
    report.line("right bodies between the faults", right, "", Limit::AtLeast(RIGHT), "");
    let seconds = recovery.as_secs_f64();
    report.line("an unknown title plays after storage works again", seconds, "s", Limit::AtMost(1.0), "");
}

/// Time after which a title is compared with storage in the row `down`.
const RECHECK: Duration = Duration::from_secs(1);

/// Clients request manifests of the viewer's title while storage is down for longer than
/// `recheck_after`: first it closes connections, then it sends no response. All of the title is in
/// memory.
pub(crate) fn down(bench: &Bench, report: &mut Report) {
    let (proxy, address) = Proxy::start(bench.nginx.address());
    let config = format!("recheck_after = \"{}s\"\n", RECHECK.as_secs());
    let stale = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let mut recovery = Duration::ZERO;
    under_attack::run_over(
        bench,
        &format!("http://{address}/"),
        report,
        &config,
        &[],
        |target: &Target<'_>| {
            let server = target.origin.address;
            let manifests = [".mpd", ".m3u8", ".m3u8?hls_fmp4"].map(|name| format!("/{FILM}/{name}"));
            let is_stale = |path: &str| {
                let response = crate::client::get(server, path);
                failed.fetch_add(usize::from(response.status != 200), Relaxed);
                response.headers.contains_key("warning")
            };
            for path in &manifests {
                is_stale(path);
            }
            proxy.set(Fault::Down);
            thread::sleep(2 * RECHECK);
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| {
                        for path in manifests.iter().cycle() {
                            if is_over.load(Relaxed) {
                                break;
                            }
                            stale.fetch_add(usize::from(is_stale(path)), Relaxed);
                        }
                    });
                }
                target.at_full_force();
                let begun = Instant::now();
                while !target.over() {
                    if begun.elapsed() > Duration::from_secs(5) {
                        proxy.set(Fault::Silent);
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                is_over.store(true, Relaxed);
                proxy.set(Fault::Nothing);
                let healed = Instant::now();
                while is_stale(&manifests[0]) {
                    thread::sleep(Duration::from_millis(10));
                }
                recovery = healed.elapsed();
            });
        },
    );
    let count = |number: &AtomicUsize| number.load(Relaxed) as f64;
    let note = format!("{} with `Warning`", count(&stale));
    report.line("manifests that failed", count(&failed), "", Limit::AtMost(0.0), &note);
    report.line("requests to storage while it is down", count(&proxy.met), "", Limit::AtMost(60.0), "");
    let seconds = recovery.as_secs_f64();
    report.line("manifests are current after storage works again", seconds, "s", Limit::AtMost(5.0), "");
}

/// Returns the path of a segment below a title, and its bytes.
fn some_segment(server: SocketAddr) -> (String, Vec<u8>) {
    let uri = |path: &str| {
        let playlist = crate::client::get(server, path);
        let text = playlist.text().to_owned();
        let lines: Vec<&str> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        lines[lines.len() / 2].to_owned()
    };
    let playlist = uri(&format!("/{FILM}/.m3u8"));
    let segment = uri(&format!("/{FILM}/{playlist}"));
    let bytes = crate::client::get(server, &format!("/{FILM}/{segment}")).body;
    (segment, bytes)
}
