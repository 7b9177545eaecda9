//! Two hundred clients that request the same uncached segment at once.

use crate::{
    Bench,
    connection::Connection,
    far::Far,
    media::Layout,
    nginx,
    origin::Origin,
    report::{Limit, Report},
};
use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

const CLIENTS: usize = 200;

pub(crate) fn run(bench: &Bench, report: &mut Report) {
    // Storage is so far away that all clients wait before the first byte arrives.
    let far = Far::away(bench.nginx.address(), Duration::from_millis(40), None);
    for title in bench.titles().iter().filter(|title| Layout::MEASURED.contains(&title.layout)) {
        for protocol in &title.protocols {
            let origin = Origin::start(&far.location(), "", &bench.with);
            let mut connection = Connection::to(origin.address);
            for url in &protocol.others {
                connection.get(url);
            }
            let segment = &protocol.tracks.iter().rfind(|track| track.video).unwrap().segments[3];
            origin.quiet();
            let mark = bench.nginx.mark();
            let together = Barrier::new(CLIENTS);
            let wrong = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..CLIENTS {
                    scope.spawn(|| {
                        let mut connection = Connection::to(origin.address);
                        together.wait();
                        let response = connection.request(&segment.url, None);
                        let right = (200, segment.length, segment.digest);
                        if (response.status, response.length, response.digest) != right {
                            wrong.fetch_add(1, Relaxed);
                        }
                    });
                }
            });
            origin.quiet();
            let requests = bench.nginx.since(mark);
            // One request fetches all units of a file that the segment needs, so there may be fewer
            // requests than units.
            let files = if title.layout.is_separate() && protocol.is_muxed() { 2.0 } else { 1.0 };
            let what = format!("{}, {}", title.layout.name(), protocol.name);
            let bytes = nginx::bytes(&requests);
            let note = format!("{bytes} bytes for {CLIENTS} bodies of {}", segment.length);
            report.line(&what, requests.len() as f64, "requests", Limit::AtMost(files), &note);
            if wrong.load(Relaxed) > 0 {
                report.line(&what, wrong.load(Relaxed) as f64, "wrong", Limit::AtMost(0.0), "bodies");
            }
        }
    }
}
