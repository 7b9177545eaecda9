//! What is done before the process ends.

use crate::{
    client::get,
    server::{Server, samples},
};
use std::fs;

/// A log of the disk cache that was closed ends with a table of what it holds; what was still to be written is before it.
#[test]
fn a_disk_cache_is_closed_before_the_process_ends() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&samples(), &["--cache-dir", dir.path().to_str().unwrap()], &[]);
    let playlist = get(server.address, "/lighthouse.mp4/.m3u8");
    let playlist = playlist.text().lines().find(|line| !line.starts_with('#')).unwrap();
    let segments = get(server.address, &format!("/lighthouse.mp4/{playlist}"));
    let segments = segments.text().lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let sent: usize =
        segments.map(|line| get(server.address, &format!("/lighthouse.mp4/{line}")).body.len()).sum();
    assert!(sent > 0);
    server.end();
    let files = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.is_file()).map(|path| fs::read(path).unwrap());
    let logs: Vec<_> = files.filter(|file| file.starts_with(b"LMXCACHE")).collect();
    assert!(!logs.is_empty());
    for log in logs {
        assert_eq!(&log[log.len() - 32..][..8], b"LMXINDEX", "a log of {} bytes is not closed", log.len());
    }
}
