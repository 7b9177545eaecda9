//! As many open files as the system gives.

use crate::{
    client::get,
    server::{Server, samples},
};
use std::process::Command;

/// The log of a server that was started with such limits, and how many files it may have open.
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
fn a_server_takes_as_many_as_its_connections_may_need() {
    // Storage and files want some more than the 10,000 connections.
    let (log, most) = started_with("ulimit -Sn 100; ulimit -Hn 16000");
    assert!((10_000..16_000).contains(&most) && !log.contains("open_files"), "{most}: {log}");
    let (log, most) = started_with("ulimit -Sn 100; ulimit -Hn 4000");
    assert_eq!(most, 4000);
    assert!(log.contains("reason=\"open_files\"") && log.contains("most=4000"), "{log}");
}
