//! The set-up of `deploy/compose` on one machine without containers: two origins over S3, behind
//! the balancer of the set-up.

use crate::{
    client::get,
    server::{Server, samples},
    store::S3,
    tools::{latemux, said},
};
use latemux_testmedia::process::{Process, tool};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

fn deployed(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compose").join(name)).unwrap()
}

/// Starts an origin with the configuration of the set-up.
fn origin(store: &S3, folder: &Path) -> Server {
    let config = deployed("latemux.toml")
        .replace("http://storage:7070", &store.endpoint())
        .replace("s3://vod", "s3://library")
        .replace("\":8080\"", "\"127.0.0.1:0\"")
        .replace("\":8081\"", "\"127.0.0.1:0\"")
        .replace("\"10.0.0.0/8\"", "\"127.0.0.1\"");
    let file = folder.join("latemux.toml");
    fs::write(&file, config).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_latemux"))
        .args(["check", file.to_str().unwrap()])
        .envs([("AWS_ACCESS_KEY_ID", S3::ACCESS), ("AWS_SECRET_ACCESS_KEY", S3::SECRET)])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(["serve", "--config", file.to_str().unwrap(), "--wait-for-storage"]);
    command.envs([("AWS_ACCESS_KEY_ID", S3::ACCESS), ("AWS_SECRET_ACCESS_KEY", S3::SECRET)]);
    Server::of(command)
}

/// Starts nginx with the configuration of the set-up, in front of these origins.
fn balancer(nginx: &Path, folder: &Path, origins: [SocketAddr; 2]) -> Process {
    Process::start(|port| {
        let at = folder.display();
        let own = format!("access_log off; error_log {at}/error.log; client_body_temp_path {at}/t1;
             proxy_temp_path {at}/t2; fastcgi_temp_path {at}/t3; uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;");
        let config = deployed("nginx.conf")
            .replace("access_log off;", &own)
            .replace("origin-1:8080", &origins[0].to_string())
            .replace("origin-2:8080", &origins[1].to_string())
            .replace("listen 8080", &format!("listen 127.0.0.1:{port}"));
        let file = folder.join("nginx.conf");
        fs::write(&file, format!("daemon off; master_process off; pid {at}/nginx.pid;\n{config}")).unwrap();
        let mut command = Command::new(nginx);
        command.arg("-p").arg(folder).arg("-c").arg(&file).stderr(Stdio::null());
        command
    })
}

/// Titles of the samples, so many that each origin gets some.
const TITLES: [&str; 3] = ["harbour", "lighthouse.mp4", "ferry.mp4"];

#[test]
fn an_origin_that_is_killed_loses_no_request_that_the_balancer_may_retry() {
    let Some(nginx) = tool("nginx") else { return };
    let Some(store) = S3::start(&samples()) else { return };
    let folders = [0; 3].map(|_| tempfile::tempdir().unwrap());
    let first = origin(&store, folders[0].path());
    let second = origin(&store, folders[1].path());
    let balancer = balancer(&nginx, folders[2].path(), [first.address, second.address]);
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, balancer.port).into();
    let paths: Vec<String> = TITLES
        .iter()
        .flat_map(|title| [".mpd", ".m3u8", "Manifest", ".f4m"].map(|name| format!("/{title}/{name}")))
        .collect();
    // Both origins send the same bytes, so it does not matter which of them answers.
    let expected: Vec<_> = paths.iter().map(|path| get(first.address, path)).collect();
    for (path, expected) in paths.iter().zip(&expected) {
        assert_eq!(expected.status, 200, "{path}");
        for other in [second.address, address] {
            let response = get(other, path);
            assert!(response.body == expected.body, "{path}");
            assert_eq!(response.headers["etag"], expected.headers["etag"], "{path}");
        }
    }
    let stop = AtomicBool::new(false);
    let served = AtomicU64::new(0);
    let request = || {
        while !stop.load(SeqCst) {
            for (path, expected) in paths.iter().zip(&expected) {
                let response = get(address, path);
                assert!(response.status == 200 && response.body == expected.body, "{path}");
                served.fetch_add(1, SeqCst);
            }
        }
    };
    std::thread::scope(|scope| {
        let clients = [0; 3].map(|_| scope.spawn(request));
        // A client ends early only if a request failed.
        let until = |count| {
            while served.load(SeqCst) < count
                && !clients.iter().any(std::thread::ScopedJoinHandle::is_finished)
            {
                std::thread::yield_now();
            }
        };
        until(50);
        first.stop();
        let killed_at = served.load(SeqCst);
        until(killed_at + 200);
        stop.store(true, SeqCst);
    });
    // A player that starts now notices nothing.
    let url = format!("http://{address}/harbour/.mpd");
    let out = tempfile::tempdir().unwrap();
    let played =
        latemux(&["load", &url, "--players", "4", "--sequence", "--out", out.path().to_str().unwrap()]);
    assert!(played.status.success(), "{}", said(&played));
}
