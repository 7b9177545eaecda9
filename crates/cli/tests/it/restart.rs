//! Indexes that outlive a process, and index MP4s written beside the media.

use crate::{
    client::get,
    server::{Server, samples},
    store::Nginx,
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

fn metric(server: &Server, name: &str) -> u64 {
    let response = get(server.admin.expect("asked for"), "/metrics");
    let line = response.text().lines().find_map(|line| line.strip_prefix(name)).expect("a metric");
    line.trim().parse().expect("a number")
}

/// Dropping a server kills the process, which then has no time to write anything.
#[test]
fn indexes_outlive_a_process_that_is_killed() {
    let cache = TempDir::new().unwrap();
    let dir = cache.path().to_str().unwrap();
    let start = || Server::start(&samples(), &["--cache-dir", dir, "--admin", "127.0.0.1:0"], &[]);
    let urls = ["/lighthouse.mp4/.mpd", "/harbour/.mpd", "/ferry.mp4/.m3u8", "/buoy.mp4/.m3u8"];
    let files = 8;
    let server = start();
    let first: Vec<_> = urls.map(|url| get(server.address, url)).into();
    while metric(&server, "latemux_cache_entries{cache=\"objects\",tier=\"disk\"}") < files {
        std::thread::yield_now();
    }
    assert!(metric(&server, "latemux_storage_read_bytes_total{kind=\"index\"}") > 10_000);
    server.stop();

    let server = start();
    for (url, before) in urls.iter().zip(&first) {
        let after = get(server.address, url);
        assert_eq!((after.status, &after.headers["etag"]), (200, &before.headers["etag"]), "{url}");
        assert!(after.body == before.body, "{url}");
    }
    assert_eq!(metric(&server, "latemux_cache_hits_total{cache=\"objects\",tier=\"disk\"}"), files);
    // One check for each file: a request for one byte, which need not be read.
    assert_eq!(metric(&server, "latemux_storage_requests_total{kind=\"index\"}"), files);
    assert!(metric(&server, "latemux_storage_read_bytes_total{kind=\"index\"}") <= files);
    server.stop();

    // Files of a process that was killed while it wrote, and files of other programs.
    for entry in fs::read_dir(cache.path().join("indexes")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some() {
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        }
    }
    let server = start();
    for (url, before) in urls.iter().zip(&first) {
        assert!(get(server.address, url).body == before.body, "{url}");
    }
    assert!(metric(&server, "latemux_storage_read_bytes_total{kind=\"index\"}") > 10_000);
}

fn latemux(args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    let status =
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).status().expect("latemux runs");
    assert!(status.success(), "{args:?}");
}

fn copy_of(folder: &Path) {
    for name in ["lighthouse.mp4", "buoy.mp4"] {
        fs::copy(Path::new(&samples()).join(name), folder.join(name)).unwrap();
    }
}

#[test]
fn a_written_index_equals_that_of_latemux_index() {
    let served = TempDir::new().unwrap();
    let tool = TempDir::new().unwrap();
    copy_of(served.path());
    copy_of(tool.path());
    let folder = served.path().to_str().unwrap();
    let server = Server::start(folder, &["--write-index", "--admin", "127.0.0.1:0"], &[]);
    for name in ["lighthouse", "buoy"] {
        assert_eq!(get(server.address, &format!("/{name}.mp4/.m3u8")).status, 200);
        latemux(&["index", tool.path().join(format!("{name}.mp4")).to_str().unwrap()]);
    }
    while metric(&server, "latemux_index_files_total{outcome=\"new\"}") < 2 {
        std::thread::yield_now();
    }
    for name in ["lighthouse.index.mp4", "buoy.index.mp4"] {
        let written = fs::read(served.path().join(name));
        let expected = fs::read(tool.path().join(name));
        assert!(written.unwrap() == expected.unwrap(), "{name}");
    }
    assert_eq!(fs::read_dir(served.path()).unwrap().count(), 4, "there are other files");
    let log = server.stop();
    assert_eq!(log.matches("index_written").count(), 2, "{log}");
}

#[test]
fn a_read_only_storage_is_logged_once() {
    let Some(nginx) = Nginx::start(&samples()) else { return };
    let server = Server::start(&nginx.url(), &["--write-index"], &[]);
    for url in ["/lighthouse.mp4/.mpd", "/buoy.mp4/.m3u8"] {
        assert_eq!(get(server.address, url).status, 200, "{url}");
    }
    let log = server.stop();
    assert_eq!(log.matches("index_not_written").count(), 1, "{log}");
}
