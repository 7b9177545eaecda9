//! Requests for the last byte of joined TS segments.

use crate::{
    Bench,
    media::{FILM, SECONDS},
    report::{Limit, Report},
    slow::{connect, segments_of},
    transfer::{head_of, header},
    under_attack::{self, Target},
};
use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

const CLIENTS: usize = 150;
const TITLES: usize = 40;
/// Duration of a joined segment, in seconds.
const JOINED: u32 = 30;

/// Requests the last byte of segments of 30 s again and again, without a range cache. The media of
/// one TS segment of 4 s suffices for it.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let titles: Vec<String> = (0..TITLES).map(|number| format!("range-{number}.mp4")).collect();
    titles.iter().for_each(|title| bench.library.film(title));
    let mark = bench.nginx.mark();
    let next = AtomicUsize::new(0);
    under_attack::run(bench, report, "", &["--cache-memory", "0"], |target: &Target<'_>| {
        let server = target.origin.address;
        let urls = segments_of(server, FILM, &format!("?hls_minimum_fragment_length={JOINED}"));
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let Some(stream) = connect(server) else { return };
                    let mut stream = BufReader::new(stream);
                    while !target.over() {
                        let number = next.fetch_add(1, Relaxed);
                        let title = &titles[number % TITLES];
                        let path = urls[number / TITLES % urls.len()].replacen(FILM, title, 1);
                        if last_byte(&mut stream, &path).is_none() {
                            return;
                        }
                    }
                });
            }
            target.at_full_force();
        });
    });
    let requests = next.into_inner().max(1);
    let ranges = bench.nginx.since(mark);
    let read = ranges.iter().filter(|request| request.line.contains("range-"));
    let each = read.map(|request| request.bytes).sum::<u64>() as f64 / requests as f64;
    let film = std::fs::metadata(bench.library.root().join(FILM)).unwrap().len() as f64;
    let joined = film * f64::from(JOINED) / f64::from(SECONDS);
    let note = format!("{requests} requests of segments with {joined:.0} bytes of media, with the indexes");
    let limit = Limit::AtMost(joined / 8.0);
    report.line("bytes read from storage for each request", each, "B", limit, &note);
}

/// Requests the last byte. Returns `None` if the connection has ended.
fn last_byte(stream: &mut BufReader<TcpStream>, path: &str) -> Option<()> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: latemux\r\nRange: bytes=-1\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).ok()?;
    let head = head_of(stream)?.to_ascii_lowercase();
    let length: usize = header(&head, "content-length")?.parse().ok()?;
    stream.read_exact(&mut vec![0; length]).ok()
}
