//! A process that starts with a full disk cache, after an earlier one was stopped or killed.

use crate::{
    Bench,
    connection::Connection,
    far::{median, ms, timed},
    media::{Layout, Stored},
    origin::Origin,
    report::{Limit, Report},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const GB: u64 = 1_000_000_000;
/// Size of the cache.
const FULL: u64 = 10 * GB;
/// Space that stays free on the disk.
const KEPT_FREE: u64 = 22 * GB;
/// Most bytes that may wait to be written to disk. Further ones are not written.
const QUEUE: u64 = 64 << 20;

pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let folder = bench.library.root().parent().unwrap();
    let size = FULL.min(free(folder).saturating_sub(KEPT_FREE));
    if size < GB {
        report.skipped("the disk would have less than 20 GB left");
        return;
    }
    let dir = tempfile::tempdir_in(folder).unwrap();
    let config =
        format!("[cache]\nmemory = \"256MiB\"\ndir = \"{}\"\ndisk = \"{size}\"", dir.path().display());
    let (took, copies) = timed(|| fill(bench, &config, size));
    let full =
        format!("{:.1} GB, filled in {:.0} s", on_disk(dir.path()) as f64 / GB as f64, took.as_secs_f64());
    println!("  {full}");
    report.line(
        "bytes in the folder by what it may hold",
        on_disk(dir.path()) as f64 / size as f64,
        "",
        Limit::None,
        &full,
    );

    for (how, kill) in [("stopped", false), ("killed", true), ("killed again", true)] {
        forget_pages(dir.path());
        let begun = Instant::now();
        let origin = bench.origin(&config);
        while client_status(&origin) != 200 {}
        let ready = begun.elapsed();
        let title = &bench.titles()[0];
        let mut connection = Connection::to(origin.address);
        connection.digests = true;
        // Indexes are read before the measurement.
        let mut requests = 0;
        let mut times = Vec::new();
        let mut first = None;
        for (n, copy) in copies.iter().enumerate() {
            connection.get(&format!("/{}/.mpd", copy.path));
            origin.quiet();
            let mark = bench.nginx.mark();
            let segment = title.protocol("HLS TS").tracks[0].segments.get(n % 12).unwrap();
            let response = connection.get(&segment.url.replacen(&title.path, &copy.path, 1));
            assert_eq!((response.length, response.digest), (segment.length, segment.digest));
            times.push(response.whole);
            first = first.or_else(|| Some((response.whole, begun.elapsed())));
            origin.quiet();
            requests += bench.nginx.since(mark).len();
        }
        let (first, since) = first.unwrap();
        let note = format!(
            "{:.0} units of {:.2} GB known by then",
            origin.metric("latemux_cache_entries", &["cache=\"range\"", "tier=\"disk\""]),
            origin.metric("latemux_cache_bytes", &["cache=\"range\"", "tier=\"disk\""]) / GB as f64
        );
        report.line(
            &format!("ready after it was {how}"),
            ready.as_secs_f64(),
            "s",
            Limit::AtMost(2.0),
            &note,
        );
        let note = format!(
            "first segment of 2 MB in {:.1} ms, {:.2} s from the start; median {:.1} ms",
            ms(first),
            since.as_secs_f64(),
            ms(median(&times))
        );
        let what = format!("storage requests for {} segments, {how}", times.len());
        report.line(
            &what,
            f64::from(u32::try_from(requests).unwrap()),
            "requests",
            Limit::AtMost(0.0),
            &note,
        );
        if kill { origin.kill() } else { origin.stop() }
    }
}

/// Reads titles until the folder is full. Returns the titles to request afterwards: the last one
/// read, and others.
fn fill(bench: &Bench, config: &str, size: u64) -> Vec<Stored> {
    let title = &bench.titles()[0];
    assert_eq!(title.layout, Layout::Interleaved);
    let origin = bench.origin(config);
    let count = usize::try_from(size * 103 / 100 / title.media).unwrap();
    let copies: Vec<_> =
        (0..count).map(|n| bench.library.title(Layout::Interleaved, &format!("restart{n}-"))).collect();
    let sent_of_each: u64 = title.protocol("HLS TS").segments().map(|segment| segment.length).sum();
    let next = AtomicUsize::new(0);
    let read = AtomicU64::new(0);
    #[expect(clippy::cast_precision_loss, reason = "some 10 GB")]
    let behind = |all: u64| {
        let held = origin.metric("latemux_cache_bytes", &["cache=\"range\"", "tier=\"disk\""]);
        all.min(size * 95 / 100) as f64 > held + (QUEUE / 2) as f64
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = Connection::to(origin.address);
                connection.digests = false;
                while let Some(copy) = copies.get(next.fetch_add(1, Relaxed)) {
                    for segment in title.protocol("HLS TS").segments() {
                        let length = connection.get(&segment.url.replacen(&title.path, &copy.path, 1)).length;
                        // The share of the title's bytes. A TS segment is longer than its source
                        // bytes.
                        let bytes = title.media * length / sent_of_each;
                        let all = read.fetch_add(bytes, Relaxed) + bytes;
                        // No faster than the disk: bytes that do not fit into its queue are not
                        // kept.
                        let deadline = Instant::now() + Duration::from_secs(20);
                        while behind(all) && Instant::now() < deadline {
                            thread::sleep(Duration::from_millis(5));
                        }
                    }
                }
            });
        }
    });
    // The oldest titles were evicted for the last ones. Bytes that were not written in time are
    // requested again.
    let chosen: Vec<_> = copies.into_iter().rev().step_by(count / 20).take(12).collect();
    let mut connection = Connection::to(origin.address);
    for (n, copy) in chosen.iter().enumerate() {
        connection.get(&title.protocol("HLS TS").tracks[0].segments[n % 12].url.replacen(
            &title.path,
            &copy.path,
            1,
        ));
    }
    origin.quiet();
    let dropped = origin.metric("latemux_cache_disk_dropped_total", &[]);
    println!("  {dropped} units found no room before the disk while it was filled, and none later");
    origin.stop();
    chosen
}

fn client_status(origin: &Origin) -> u16 {
    crate::client::get(origin.address, "/healthz/ready").status
}

/// Returns the files in which the cache keeps media.
fn logs(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.is_file()).collect()
}

pub(crate) fn on_disk(folder: &Path) -> u64 {
    logs(folder).iter().map(|file| file.metadata().unwrap().len()).sum()
}

/// Returns the free bytes on the disk of a folder.
fn free(folder: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().nth(1).and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}

/// Drops these files from the page cache, as after a longer time.
fn forget_pages(folder: &Path) {
    for file in logs(folder) {
        let file = format!("if={}", file.display());
        let status =
            Command::new("dd").args([&*file, "iflag=nocache", "count=0"]).stderr(Stdio::null()).status();
        assert!(status.unwrap().success());
    }
}
