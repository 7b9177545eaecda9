//! Clients that take the bytes of their responses slowly or not at all, and connections without
//! requests.

use crate::{
    Bench,
    media::FILM,
    report::{Limit, Report},
    under_attack::{self, Target},
};
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// Bytes that a slow reader takes in a second.
const RATE: usize = 1000;

/// Name of the film under which the nth cold reader requests it.
fn copy(number: usize) -> String {
    format!("cold-{number}.mp4")
}

/// Connects from an address that the viewer does not have. The client's kernel takes only a little.
pub(crate) fn connect(server: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.set_recv_buffer_size(4096).ok()?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).ok()?;
    socket.connect(&server.into()).ok()?;
    Some(socket.into())
}

/// Sends a request on a connection of its own.
fn ask(server: SocketAddr, url: &str) -> Option<TcpStream> {
    let mut client = connect(server)?;
    client.write_all(format!("GET {url} HTTP/1.1\r\nHost: latemux\r\n\r\n").as_bytes()).ok()?;
    client.set_nonblocking(true).ok()?;
    Some(client)
}

fn segments(target: &Target<'_>, title: &str, query: &str) -> Vec<String> {
    segments_of(target.origin.address, title, query)
}

/// Returns the URLs of a title's TS segments.
pub(crate) fn segments_of(server: SocketAddr, title: &str, query: &str) -> Vec<String> {
    let lines = |path: &str| -> Vec<String> {
        let list = crate::client::get(server, path);
        let lines = list.text().lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| format!("/{title}/{line}")).collect()
    };
    let media = lines(&format!("/{title}/.m3u8{query}")).remove(0);
    lines(&media)
}

/// Takes `RATE` bytes in a second on each connection until the attack must end.
fn trickle(target: &Target<'_>, mut clients: Vec<TcpStream>) {
    let mut taken = vec![0; RATE];
    target.at_full_force();
    while !target.over() {
        let begun = Instant::now();
        clients.retain_mut(|client| !matches!(client.read(&mut taken), Ok(0)));
        thread::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
    }
}

/// Joined segments on 2,000 connections, of which nothing is read.
pub(crate) fn joined(bench: &Bench, report: &mut Report) {
    under_attack::run(bench, report, "", &[], |target: &Target<'_>| {
        let urls = segments(target, FILM, "?hls_minimum_fragment_length=30");
        let clients: Vec<_> =
            urls.iter().cycle().take(2000).filter_map(|url| ask(target.origin.address, url)).collect();
        target.at_full_force();
        target.hold();
        drop(clients);
    });
}

/// 520 readers at 1 kB/s beside a small range cache.
pub(crate) fn small_cache(bench: &Bench, report: &mut Report) {
    readers(bench, report, "64MiB");
}

/// 520 readers at 1 kB/s without a range cache: as many as storage allows requests.
pub(crate) fn no_cache(bench: &Bench, report: &mut Report) {
    readers(bench, report, "0");
}

fn readers(bench: &Bench, report: &mut Report, cache: &str) {
    under_attack::run(bench, report, "", &["--cache-memory", cache], |target: &Target<'_>| {
        let urls = segments(target, FILM, "?hls_minimum_fragment_length=20");
        let clients = urls.iter().cycle().take(520).filter_map(|url| ask(target.origin.address, url));
        trickle(target, clients.collect());
    });
}

/// 2,000 readers at 1 kB/s, each of a title that nobody has requested yet.
pub(crate) fn cold(bench: &Bench, report: &mut Report) {
    (0..2000).for_each(|number| bench.library.film(&copy(number)));
    under_attack::run(bench, report, "", &[], |target: &Target<'_>| {
        let urls = segments(target, FILM, "");
        let clients = (0..2000).filter_map(|number| {
            let url = urls[number % urls.len()].replacen(FILM, &copy(number), 1);
            ask(target.origin.address, &url)
        });
        trickle(target, clients.collect());
    });
}

/// Twice as many connections as allowed, without a request. A health check is made beside them.
pub(crate) fn idle(bench: &Bench, report: &mut Report) {
    let mut health = Vec::new();
    under_attack::run(bench, report, "[http]\nmax_connections = 2000\n", &[], |target: &Target<'_>| {
        let clients: Vec<_> = (0..4000).filter_map(|_| connect(target.origin.address)).collect();
        target.at_full_force();
        while !target.over() {
            let begun = Instant::now();
            assert_eq!(crate::client::get(target.origin.address, "/healthz").status, 200);
            health.push(begun.elapsed());
            thread::sleep(Duration::from_millis(50));
        }
        drop(clients);
    });
    let slowest = health.iter().max().copied().unwrap_or_default().as_secs_f64() * 1e3;
    report.line("slowest health check", slowest, "ms", Limit::AtMost(100.0), "");
}
