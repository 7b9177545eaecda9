//! HTTP/2 streams whose clients take one byte of each response, and connections without requests.

use crate::{
    Bench,
    connection::Connection,
    http2::{self, Certificate, Secured, request_and_take_nothing},
    media::FILM,
    origin::Origin,
    report::{Limit, Report},
    slow::{connect, segments_of},
    under_attack::{self, Target},
    viewer::Viewer,
};
use std::{
    io,
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

const CONNECTIONS: usize = 40;
const STREAMS: usize = 120;

/// Connections of the row `pings`.
const PINGING: usize = 400;
/// Pause between two PING frames of a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// An origin with TLS, a viewer of it, and the URLs of its joined segments.
struct Secure {
    certificate: Certificate,
    origin: Origin,
    viewer: Viewer,
    urls: Vec<String>,
}

impl Secure {
    fn start(bench: &Bench, config: &str) -> Self {
        let plain = bench.start(&bench.nginx.location(), "", &[]);
        let viewer = Viewer::of(&plain);
        let urls = segments_of(plain.address, FILM, "?hls_minimum_fragment_length=30");
        drop(plain);
        let certificate = Certificate::make();
        let config = format!("{}{config}", certificate.config());
        let origin = bench.start(&bench.nginx.location(), &config, &[]);
        let stream = TcpStream::connect(origin.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let over = Connection::over(certificate.secure(stream, b"http/1.1"), origin.address);
        Self { viewer: viewer.over(over), certificate, origin, urls }
    }
}

/// 40 connections with 120 streams each, whose window is one byte, on joined segments of 30 s.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let Secure { certificate, origin, viewer, urls } = Secure::start(bench, "");
    under_attack::run_beside(bench, report, &origin, viewer, |target: &Target<'_>| {
        let begin = || -> Option<_> {
            let mut client = certificate.secure(connect(target.origin.address)?, b"h2");
            client.sock.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
            request_and_take_nothing(&mut client, urls.iter().cycle().take(STREAMS)).ok()?;
            Some(client)
        };
        let clients: Vec<_> = (0..CONNECTIONS).filter_map(|_| begin()).collect();
        assert_eq!(clients.len(), CONNECTIONS);
        target.at_full_force();
        target.hold();
        drop(clients);
    });
}

/// 400 connections that send a PING every 0.1 s and request nothing. Each is opened again once the
/// server has closed it, which it does after `http.header_timeout`.
pub(crate) fn pings(bench: &Bench, report: &mut Report) {
    const CONFIG: &str = "[http]\nheader_timeout = \"2s\"\n";
    let Secure { certificate, origin, viewer, .. } = Secure::start(bench, CONFIG);
    let closed = AtomicUsize::new(0);
    under_attack::run_beside(bench, report, &origin, viewer, |target: &Target<'_>| {
        thread::scope(|scope| {
            for _ in 0..PINGING {
                scope.spawn(|| {
                    while !target.over() {
                        let Some(stream) = connect(target.origin.address) else { continue };
                        let ended = ping(&mut certificate.secure(stream, b"h2"), target);
                        closed.fetch_add(usize::from(ended.is_err()), Relaxed);
                    }
                });
            }
            target.at_full_force();
        });
    });
    let closed = closed.into_inner() as f64;
    let note = format!("{PINGING} connections at a time");
    report.line("connections that the server closed", closed, "", Limit::AtLeast(PINGING as f64), &note);
}

/// Sends PING frames until the attack is over or the connection ends.
fn ping(client: &mut Secured, target: &Target<'_>) -> io::Result<()> {
    client.sock.set_read_timeout(Some(Duration::from_secs(10)))?;
    http2::begin(client)?;
    while !target.over() {
        http2::ping(client)?;
        thread::sleep(PAUSE);
    }
    Ok(())
}
