//! The server with its cache on a disk that is full.

use crate::{
    crawl::crawl,
    server::{Server, samples},
};
use std::process::{Command, Stdio};

/// Returns true if this machine allows a test to mount a file system in its own namespace.
pub(crate) fn may_mount(dir: &str) -> bool {
    let mut tried = Command::new("unshare");
    tried.args(["--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", dir]);
    tried.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[test]
fn a_cache_on_a_full_disk_does_not_stop_serving() {
    let entries = [".mpd", ".m3u8"].map(|entry| format!("/lighthouse.mp4/{entry}"));
    let calm = crawl(Server::start(&samples(), &[], &[]).address, &entries);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap().to_owned();
    let serve = "exec \"$0\" serve \"$1\" --listen 127.0.0.1:0 --cache-memory 64KiB --cache-disk 64MiB --cache-dir \"$2\"";
    // The size of files is limited to some blocks, so writes fail in the middle of the first log.
    let mut scripts = vec![format!("trap '' XFSZ; ulimit -f 16; {serve}")];
    if may_mount(&path) {
        scripts.push(format!("mount -t tmpfs -o size=64k tmpfs \"$2\" && {serve}"));
    } else {
        println!("skipped: no file system may be mounted here");
    }
    for (n, script) in scripts.iter().enumerate() {
        let mut command = Command::new(if n == 0 { "sh" } else { "unshare" });
        if n > 0 {
            command.args(["--mount", "sh"]);
        }
        command.args(["-c", script, env!("CARGO_BIN_EXE_latemux"), &samples(), &path]);
        let server = Server::of(command);
        for _ in 0..2 {
            let got = crawl(server.address, &entries);
            assert_eq!(got.len(), calm.len());
            for (url, response) in &got {
                assert!(response.body == calm[url].body, "{url}");
            }
        }
        let log = server.stop();
        let said = log.lines().filter(|line| line.contains("cache disk: writing fails")).count();
        assert_eq!(said, 1, "{log}");
    }
}
