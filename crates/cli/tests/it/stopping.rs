//! How `latemux serve` starts and stops: what it warns of, prints and leaves behind.

use crate::{
    client::get,
    server::{Server, samples},
};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    process::Command,
    sync::mpsc,
};

/// Returns a configuration file in a folder.
fn configured(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latemux.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// Waits until the server does not take requests any more, according to its readiness.
fn until_draining(server: &Server) {
    while get(server.address, "/healthz/ready").status != 503 {
        std::thread::yield_now();
    }
}

#[test]
fn readiness_never_failed_before_the_listener_was_closed() {
    let (_folder, config) = configured("[http]\ndrain_delay = '1d'");
    let server = Server::start(&samples(), &["--config", &config], &[]);
    assert_eq!(get(server.address, "/healthz/ready").status, 200);
    server.signal("-TERM");
    until_draining(&server);
    assert!(get(server.address, "/healthz/ready").text().contains("draining"));
    assert_eq!(get(server.address, "/healthz/live").status, 200);
    assert_eq!(get(server.address, "/harbour/.mpd").status, 200);
    server.signal("-TERM");
    let (status, log) = server.ended();
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("stopping in 1d") && log.contains("a second signal"), "{log}");
}

/// Starts a storage that has no object, and never answers who asks for the film. Returns its
/// address and a receiver that gets a message for each such request.
fn storage_that_hangs() -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, asks) = mpsc::channel();
    std::thread::spawn(move || {
        // Connections that are opened ahead of requests must not keep others waiting.
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let asked = asked.clone();
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                    head.push(byte[0]);
                }
                if head.starts_with(b"GET /library/film") {
                    let _ = asked.send(());
                    // Never answers, and returns when the client has left.
                    let _ = stream.read(&mut byte);
                } else {
                    let none = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    let _ = stream.write_all(none);
                }
            });
        }
    });
    (format!("http://{address}/library/"), asks)
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let (_folder, config) =
        configured("[http]\ndrain_delay = '0s'\ndrain_timeout = '1d'\n[storage]\nfirst_byte_timeout = '1d'");
    for (first, second) in [("-TERM", "-INT"), ("-INT", "-TERM")] {
        let (storage, asks) = storage_that_hangs();
        let server = Server::start(&storage, &["--config", &config], &[]);
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(b"GET /film.mp4/.mpd HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        asks.recv().unwrap();
        server.signal(first);
        while TcpStream::connect(server.address).is_ok() {
            std::thread::yield_now();
        }
        server.signal(second);
        let (status, log) = server.ended();
        assert!(status.code() == Some(1) && log.contains("a second signal"), "{log}");
    }
}

#[test]
fn an_interrupt_does_not_wait_for_load_balancers() {
    let (_folder, config) = configured("[http]\ndrain_delay = '1d'");
    let server = Server::start(&samples(), &["--config", &config], &[]);
    server.signal("-INT");
    let (status, log) = server.ended();
    assert!(status.success() && !log.contains("stopping in"), "{log}");
}

#[test]
fn the_admin_address_may_be_a_socket_with_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let socket = path("admin.sock");
    let token = path("token");
    let config = path("latemux.toml");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    fs::write(&config, format!("admin_token_file = '{token}'\n[http]\ndrain_delay = '0s'")).unwrap();
    let flags = ["--config", &config, "--admin", &format!("unix:{socket}")];
    let server = Server::start(&samples(), &flags, &[]);
    let status = |authorization: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{authorization}\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text[9..12].to_owned()
    };
    assert_eq!(status(""), "401");
    assert_eq!(status("authorization: Bearer 0123456789abcdef\r\n"), "200");
    server.signal("-TERM");
    assert!(server.ended().0.success());
    assert!(!fs::exists(&socket).unwrap(), "the socket is left behind");
}

#[test]
fn an_open_admin_address_is_warned_of() {
    let server = Server::start(&samples(), &["--admin", "0.0.0.0:0"], &[]);
    assert!(server.stop().contains("reason=\"admin_open\""));
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0"], &[]);
    assert!(!server.stop().contains("admin_open"));
}

#[test]
fn a_cache_that_does_not_fit_on_its_disk_was_not_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache").to_str().unwrap().to_owned();
    for (disk, is_warned) in [("100000TiB", true), ("64KiB", false)] {
        let (_config, config) = configured(&format!("[cache]\nindex_disk = '64KiB'\ndisk = '{disk}'"));
        let server = Server::start(&samples(), &["--config", &config, "--cache-dir", &dir], &[]);
        let log = server.stop();
        assert_eq!(log.contains("reason=\"cache_disk\""), is_warned, "{log}");
    }
}

#[test]
fn the_printed_configuration_held_the_token_of_the_source() {
    let (_folder, config) = configured("[[storage.mirror]]\nlocation = 'https://b.example/?token=secret'");
    let print = |source: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args([
            "serve",
            source,
            "--config",
            &config,
            "--s3-endpoint",
            "https://u:secret@s3.example",
            "--print-config",
        ]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let printed = print("https://media.example/vod/?token=secret&x=1");
    assert!(printed.contains("source = \"https://media.example/vod/?...\""), "{printed}");
    assert!(printed.contains("location = \"https://b.example/?...\""), "{printed}");
    assert!(!printed.contains("secret"), "{printed}");
    let printed = print("films?token=kept");
    assert!(printed.contains("source = \"films?token=kept\""), "a folder may have any name: {printed}");
}
