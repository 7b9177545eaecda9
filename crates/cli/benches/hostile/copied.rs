//! Titles that are requested while their files are still being copied.

use crate::{
    Bench,
    media::FILM,
    report::{Limit, Report},
    slow::segments_of,
    transfer::{Seen, ask},
    under_attack::{self, Target},
};
use std::{
    fs,
    io::Write,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

const CLIENTS: usize = 16;
/// Titles that are copied at the same time.
const COPIED: usize = 4;
/// Bytes that are copied at a time, and the pause after them: 5 MB/s for each title.
const PIECE: usize = 256 << 10;
const PAUSE: Duration = Duration::from_millis(50);
/// Longest time from the last byte of a copy until its last segment is served.
const SOON: f64 = 3.0;

/// Copies titles again and again, each time under a new name, while clients request them.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let film = fs::read(bench.library.root().join(FILM)).unwrap();
    let seen = Seen::default();
    let complete = AtomicUsize::new(0);
    let slowest = AtomicU64::new(0);
    under_attack::run(bench, report, "", &[], |target: &Target<'_>| {
        let server = target.origin.address;
        let paths = segments_of(server, FILM, "");
        let right: Vec<Vec<u8>> = paths.iter().map(|path| crate::client::get(server, path).body).collect();
        let names = Mutex::new(vec![String::new(); COPIED]);
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for copier in 0..COPIED {
                let (paths, right, names, film) = (&paths, &right, &names, &film);
                let (complete, slowest) = (&complete, &slowest);
                scope.spawn(move || {
                    for number in 0.. {
                        let name = format!("copied-{copier}-{number}.mp4");
                        names.lock().unwrap()[copier].clone_from(&name);
                        copy(&bench.library.root().join(&name), film, target);
                        if target.over() {
                            break;
                        }
                        let copied = Instant::now();
                        let last = paths.len() - 1;
                        let path = paths[last].replacen(FILM, &name, 1);
                        while ask(server, &path).is_none_or(|(_, body)| body != right[last]) {
                            assert!(copied.elapsed() < Duration::from_secs(60), "{path} is never served");
                            thread::sleep(Duration::from_millis(10));
                        }
                        slowest.fetch_max(copied.elapsed().as_millis().try_into().unwrap(), Relaxed);
                        complete.fetch_add(1, Relaxed);
                    }
                });
            }
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    while !target.over() {
                        let number = next.fetch_add(1, Relaxed);
                        let name = names.lock().unwrap()[number % COPIED].clone();
                        if name.is_empty() {
                            continue;
                        }
                        if (number / COPIED).is_multiple_of(4) {
                            let _ = ask(server, &format!("/{name}/.mpd"));
                        }
                        let segment = number / COPIED % paths.len();
                        seen.note(ask(server, &paths[segment].replacen(FILM, &name, 1)), &right[segment]);
                    }
                });
            }
            target.at_full_force();
        });
    });
    seen.report(report);
    report.line("titles copied", complete.into_inner() as f64, "", Limit::AtLeast(COPIED as f64), "");
    let seconds = slowest.into_inner() as f64 / 1e3;
    let what = "from the last byte of a copy to its last segment, slowest";
    report.line(what, seconds, "s", Limit::AtMost(SOON), "");
}

/// Writes a file in pieces until the attack is over.
fn copy(path: &Path, bytes: &[u8], target: &Target<'_>) {
    let mut file = fs::File::create(path).unwrap();
    for piece in bytes.chunks(PIECE) {
        if target.over() {
            break;
        }
        file.write_all(piece).unwrap();
        thread::sleep(PAUSE);
    }
}
