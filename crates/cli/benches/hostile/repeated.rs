//! Clients that send one request after the other, each of which costs as much as it can.

use crate::{
    Bench,
    connection::Connection,
    report::{Limit, Report},
    under_attack::{self, Target},
};
use latemux_testmedia::hostile::{HostileFile, HostileTrack, MAX_SIZE};
use socket2::{Domain, Socket, Type};
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

/// Clients that ask at the same time.
const CLIENTS: usize = 150;

/// Asks for manifests of a comma list of 64 films of ten hours, each time for another clip.
pub(crate) fn clips(bench: &Bench, report: &mut Report) {
    let film = long_film();
    for number in 0..64 {
        let path = bench.library.root().join(format!("long{number}.mp4"));
        fs::write(&path, &film).unwrap();
        // The media is a hole in the file.
        fs::File::options().write(true).open(&path).unwrap().set_len(FILM_BYTES).unwrap();
    }
    let names: Vec<String> = (0..64).map(|number| number.to_string()).collect();
    let list = format!("/long,{},.mp4.urlset/.mpd", names.join(","));
    repeat(bench, report, move |number| format!("{list}?vbegin={}.{number:06}", number % 30_000));
}

/// Names of the small files, by what each has most of.
const NAMES: [&str; 3] = ["bare", "frames", "segments"];

/// Asks for manifests of small files that state as much as they can.
pub(crate) fn files(bench: &Bench, report: &mut Report) {
    let files = [HostileFile::of_bare_fragments(1), many_frames(), many_segments()];
    for (name, file) in NAMES.into_iter().zip(files) {
        let bytes = file.write();
        for number in 0..20 {
            fs::write(bench.library.root().join(format!("{name}{number}.mp4")), &bytes).unwrap();
        }
    }
    let numbers: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let numbers = numbers.join(",");
    repeat(bench, report, move |number| {
        let at = |number: u64| usize::try_from(number).unwrap();
        let name = NAMES[at(number % 3)];
        match number % 4 {
            0 => format!("/{name},{numbers},.mp4.urlset/.mpd?vbegin={number}"),
            n => {
                let manifest = [".mpd", ".m3u8", ".m3u8?hls_fmp4"][at(n - 1)];
                format!("/{name}{}.mp4/{manifest}", number % 20)
            }
        }
    });
}

/// Asks for lists of 64 files that do not exist, and for the library.
pub(crate) fn unknown(bench: &Bench, report: &mut Report) {
    let mark = bench.nginx.mark();
    let asked = repeat(bench, report, |number| {
        if number % 10 == 0 {
            return "/api/library".to_owned();
        }
        let names: Vec<String> = (0..64).map(|name| format!("{number}-{name}")).collect();
        format!("/x,{},.mp4.urlset/.mpd", names.join(","))
    });
    let each = bench.nginx.since(mark).len() as f64 / asked.max(1) as f64;
    let note = format!("{asked} requests; with those of the viewer");
    report.line("requests to storage for each request", each, "", Limit::AtMost(9.0), &note);
}

/// Sends requests from many clients until the attack is over. `url` makes each request's URL from
/// its number. Returns the number of requests.
fn repeat(bench: &Bench, report: &mut Report, url: impl Fn(u64) -> String + Send + Sync) -> u64 {
    let number = AtomicU64::new(0);
    under_attack::run(bench, report, "", &[], |target: &Target<'_>| {
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = connection(target.origin.address);
                    client.digests = false;
                    while !target.over() {
                        client.request(&url(number.fetch_add(1, Relaxed)), None);
                    }
                });
            }
            target.at_full_force();
        });
    });
    number.into_inner()
}

/// Connects from an address that the viewer does not have.
fn connection(server: SocketAddr) -> Connection {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 9], 0)).into()).unwrap();
    socket.connect(&server.into()).expect("server accepts");
    Connection::over(TcpStream::from(socket), server)
}

/// Size of a film in bytes, nearly all of it a hole.
const FILM_BYTES: u64 = 1 << 30;

/// Returns the start of a film of ten hours: 900,000 frames, a sync sample every 2 s.
fn long_film() -> Vec<u8> {
    let video = HostileTrack {
        repeat: 1,
        timescale: 25,
        samples: 900_000,
        sample_size: 1000,
        sync_every: 50,
        chunk: 50,
        ..HostileTrack::default()
    };
    let audio = HostileTrack {
        repeat: 1,
        codec: 1,
        timescale: 48_000,
        samples: 1_687_500,
        sync_every: 0,
        ..video.clone()
    };
    let audio = HostileTrack { sample_size: 10, durations: vec![(1_687_500, 1024)], chunk: 94, ..audio };
    HostileFile { tracks: vec![video, audio], ..HostileFile::default() }.write()
}

/// Returns a file of the most samples that one of 1 MB may state.
fn many_frames() -> HostileFile {
    let samples = 330_000;
    let track = HostileTrack {
        repeat: 1,
        timescale: 1000,
        samples,
        sample_size: 1,
        compositions: vec![(1, 20), (1, 0)],
        most_runs: 1000,
        chunk: samples,
        ..HostileTrack::default()
    };
    HostileFile { tracks: vec![track], size: MAX_SIZE, ..HostileFile::default() }
}

/// Returns a file of the most segments of a title.
fn many_segments() -> HostileFile {
    let samples = 100_000;
    let track = HostileTrack {
        repeat: 1,
        timescale: 1000,
        samples,
        sample_size: 1,
        durations: vec![(1, 4000), (1, 4001)],
        most_runs: 50_000,
        chunk: samples,
        ..HostileTrack::default()
    };
    HostileFile { tracks: vec![track], size: MAX_SIZE, ..HostileFile::default() }
}
