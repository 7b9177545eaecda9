//! An origin with a cache on disk that is killed under load, again and again.

use crate::{
    Bench,
    media::FILM,
    report::{Limit, Report},
    slow::segments_of,
    transfer::{Seen, ask},
};
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const KILLS: u32 = 20;
const CLIENTS: usize = 16;
const TITLES: usize = 40;

/// Kills the origin under load, each time a little later, and compares each complete body with that
/// of an origin that is not killed.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let titles: Vec<String> = (0..TITLES).map(|number| format!("killed-{number}.mp4")).collect();
    titles.iter().for_each(|title| bench.library.film(title));
    let healthy = bench.start(&bench.nginx.location(), "", &[]);
    let paths: Vec<String> = segments_of(healthy.address, FILM, "");
    let right: Vec<Vec<u8>> =
        paths.iter().map(|path| crate::client::get(healthy.address, path).body).collect();
    drop(healthy);

    let folder = tempfile::tempdir().unwrap();
    let config = format!("[cache]\nmemory = \"16MiB\"\ndir = {:?}\ndisk = \"256MiB\"\n", folder.path());
    let seen = Seen::default();
    let next = AtomicUsize::new(0);
    let mut slowest = Duration::ZERO;
    for kill in 0..KILLS {
        let begun = Instant::now();
        let origin = bench.start(&bench.nginx.location(), &config, &[]);
        let server = origin.address;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        let number = next.fetch_add(7, Relaxed);
                        let segment = number % paths.len();
                        let path = paths[segment].replacen(FILM, &titles[number / 7 % TITLES], 1);
                        seen.note(ask(server, &path), &right[segment]);
                    }
                });
            }
            while ask(server, &paths[0]).is_none_or(|(_, body)| body != right[0]) {
                thread::sleep(Duration::from_millis(1));
            }
            slowest = slowest.max(begun.elapsed());
            thread::sleep(Duration::from_millis(u64::from(kill) * 29 % 500));
            origin.kill();
            is_over.store(true, Relaxed);
        });
    }
    seen.report(report);
    let right = seen.right.load(Relaxed) as f64;
    report.line("right bodies beside the kills", right, "", Limit::AtLeast(f64::from(KILLS)), "");
    let seconds = slowest.as_secs_f64();
    report.line("from the start to a right body, slowest", seconds, "s", Limit::AtMost(2.0), "");
}
