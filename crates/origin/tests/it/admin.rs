//! The admin address: who may use it, and purging by prefix.

use crate::{
    client::{FullResponse, fetch, get, get_with, send},
    server::{Server, key, library, sample},
};
use http::Method;
use latemux_origin::{AdminToken, Origin, listen_unix};
use latemux_storage::counting::Counting;
use std::{fs, io, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixStream},
};

/// Requests the metrics over a Unix socket, and returns the status line.
async fn metrics(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn only_the_owner_may_use_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let origin = Origin::new(library(), crate::server::config());
    for _ in 0..2 {
        // The second time, the socket of the first is left behind.
        let listener = listen_unix(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen_unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let serving = tokio::spawn({
            let origin = origin.clone();
            async move { origin.serve_admin(listener, None).await }
        });
        assert_eq!(metrics(&path).await, "HTTP/1.1 200 OK");
        serving.abort();
        let _ = serving.await;
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let file = folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    assert_eq!(listen_unix(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&file).unwrap(), b"kept");
}

#[tokio::test]
async fn requests_need_the_token() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let origin = Origin::new(library(), crate::server::config());
    let token = AdminToken::new("0123456789abcdef").unwrap();
    tokio::spawn(async move { origin.serve_admin(listener, Some(token)).await });
    for path in ["/metrics", "/purge?base=harbour", "/other"] {
        for method in [Method::GET, Method::POST] {
            let response = send(address, method, path, &[("authorization", "Bearer 0123456789abcdeX")]);
            let response = response.await.unwrap();
            assert_eq!(
                (response.status.as_u16(), response.header("www-authenticate")),
                (401, "Bearer"),
                "{path}"
            );
        }
    }
    let right = [("authorization", "Bearer 0123456789abcdef")];
    assert_eq!(get_with(address, "/metrics", &right).await.status, 200);
    let purged = send(address, Method::POST, "/purge?base=harbour", &right).await.unwrap();
    assert_eq!(purged.status, 200);
    // Load balancers have no token.
    for path in ["/healthz/live", "/healthz/ready"] {
        assert_eq!(get(address, path).await.status, 200);
    }
}

/// Sends the text of a request, and returns the status line and the body.
async fn raw(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[tokio::test]
async fn requests_that_are_no_http_are_answered_in_json() {
    let server = Server::start(library()).await;
    let request = |target: &str| format!("POST {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    // Operators write quotes as they are, as clients of the public address do.
    let (line, body) = raw(server.admin, &request("/purge?prefix=a\"b")).await;
    assert_eq!(line, "HTTP/1.1 200 OK");
    assert!(body.starts_with("{\"prefix\":\"a\\\"b\",\"titles\":0,"), "{body}");
    let (line, body) = raw(server.admin, &request("/a b")).await;
    assert_eq!(line, "HTTP/1.1 400 Bad Request");
    assert!(body.starts_with("{\"reason\":\"bad_request\",\"detail\":\"") && body.ends_with("}\n"), "{body}");
    let metrics = get(server.admin, "/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body);
    assert!(!metrics.contains("reason=\"bad_request\""), "only requests of clients are counted: {metrics}");
}

async fn purge(admin: SocketAddr, query: &str) -> FullResponse {
    send(admin, Method::POST, &format!("/purge?{query}"), &[]).await.unwrap()
}

#[tokio::test]
async fn titles_can_be_purged_by_prefix() {
    let memory = library();
    for name in ["series/a.mp4", "series/b.mp4", "serious.mp4"] {
        memory.put(key(name), sample("buoy.mp4"));
    }
    let counting = Arc::new(Counting::new(memory, Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    let below = ["/series/a.mp4/.mpd", "/series/b.mp4/.mpd", "/series/b.mp4/.m3u8"];
    let others = ["/serious.mp4/.mpd", "/buoy.mp4/.mpd"];
    for url in below.iter().chain(&others) {
        fetch(server.address, url).await;
    }
    drop(counting.take());
    let response = purge(server.admin, "prefix=series/").await;
    let said = "{\"prefix\":\"series/\",\"titles\":2,\"indexes\":2,\"indexes_on_disk\":0,\"manifests\":3,\"ranges\":0}\n";
    assert_eq!(std::str::from_utf8(&response.body).unwrap(), said);
    for url in others {
        fetch(server.address, url).await;
    }
    assert!(counting.take().is_empty(), "another title was read again");
    for url in &below[..2] {
        fetch(server.address, url).await;
        assert!(!counting.take().is_empty(), "{url} was not read again");
    }
    let response = purge(server.admin, "prefix=/").await;
    assert!(String::from_utf8_lossy(&response.body).contains("\"titles\":4,\"indexes\":4,"));
    for query in ["prefix=", "prefix", "prefix=%ff"] {
        assert_eq!(purge(server.admin, query).await.status, 400, "{query}");
    }
}
