//! The limit of open files.

use crate::{
    client::get,
    server::{Server, samples},
};
use std::process::Command;

/// Starts a server with these limits, and returns its log and the number of files it may have open.
fn started_with(limits: &str) -> (String, u64) {
    let script = format!("{limits}; exec \"$0\" serve \"$1\" --listen 127.0.0.1:0 --admin 127.0.0.1:0");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_latemux"), &samples()]);
    let server = Server::of(command);
    let metrics = get(server.admin.unwrap(), "/metrics");
    let most = metrics
        .text()
        .lines()
        .find_map(|line| line.strip_prefix("process_max_fds{} "))
        .unwrap()
        .parse()
        .unwrap();
    (server.stop(), most)
}

#[test]
fn the_limit_is_raised_to_what_connections_need() {
    // Storage and files need some more besides the 10,000 connections.
    let (log, most) = started_with("ulimit -Sn 100; ulimit -Hn 16000");
    assert!((10_000..16_000).contains(&most) && !log.contains("open_files"), "{most}: {log}");
    let (log, most) = started_with("ulimit -Sn 100; ulimit -Hn 4000");
    assert_eq!(most, 4000);
    assert!(log.contains("reason=\"open_files\"") && log.contains("most=4000"), "{log}");
}
