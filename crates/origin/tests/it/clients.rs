//! Clients in the access log: their addresses, also behind trusted proxies, and what they call
//! themselves.

use crate::{
    client::get_with,
    connections::{secure, tls},
    log,
    server::{Server, config, library},
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Returns a server that trusts proxies on this machine, or only elsewhere.
async fn behind(proxies: &str, header: &'static str) -> Server {
    let mut config = config();
    config.http.trusted_proxies = vec![proxies.parse().unwrap()];
    config.http.client_header = http::HeaderName::from_static(header);
    Server::with(library(), config, None).await
}

#[tokio::test]
async fn the_access_log_named_neither_client_nor_referer_nor_user_agent() {
    log::keep();
    let server = Server::start(library()).await;
    let path = "/healthz?named";
    let headers = [("referer", "https://films.example/\"a\" b"), ("user-agent", "Player/1.0 (x; y)")];
    get_with(server.address, path, &headers).await;
    let line = log::access(path).await;
    for field in [
        " client=127.0.0.1 method=GET ",
        r#" referer="https://films.example/\"a\" b""#,
        r#" user_agent="Player/1.0 (x; y)""#,
    ] {
        assert!(line.contains(field), "{field} in {line}");
    }
    let path = "/healthz?nameless";
    get_with(server.address, path, &[]).await;
    let line = log::access(path).await;
    assert!(
        line.contains(" client=127.0.0.1 ") && !line.contains("referer") && !line.contains("user_agent"),
        "{line}"
    );
}

/// Sends a request as it is, and returns the status line.
async fn raw(server: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8_lossy(&response).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn requests_without_a_host_or_with_two_were_served() {
    log::keep();
    let server = Server::start(library()).await;
    for (hosts, status) in [
        ("host: a.example\r\n", "HTTP/1.1 200 OK"),
        ("", "HTTP/1.1 400 Bad Request"),
        ("host: a.example\r\nhost: b.example\r\n", "HTTP/1.1 400 Bad Request"),
        ("host: a.example/b\r\n", "HTTP/1.1 400 Bad Request"),
    ] {
        for address in [server.address, server.admin] {
            let request = format!("GET /healthz/live HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
            assert_eq!(raw(address, request.as_bytes()).await, status, "{hosts}");
        }
    }
    assert_eq!(log::lines(&[" access: ", "path=/healthz/live status=400 reason=\"bad_host\""]).len(), 3);
    assert_eq!(raw(server.address, b"GET /healthz HTTP/1.0\r\n\r\n").await, "HTTP/1.0 200 OK");
}

#[tokio::test]
async fn a_header_of_a_client_cannot_forge_the_log() {
    log::keep();
    let server = Server::start(library()).await;
    let path = "/healthz?forged";
    let long = "x".repeat(5000);
    let mut request =
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nreferer: {long}\r\n").into_bytes();
    request.extend_from_slice(b"user-agent: \" status=500 \xff\xe2\x80\xae\t\\\r\n\r\n");
    assert_eq!(raw(server.address, &request).await, "HTTP/1.1 200 OK");
    let line = log::access(path).await;
    assert!(line.contains(r#" user_agent="\" status=500 �\u{202e}\t\\""#), "{line}");
    assert!(line.contains(&format!(" referer=\"{}\"", "x".repeat(512))), "{line}");
}

#[tokio::test]
async fn only_trusted_proxies_state_the_address_of_a_client() {
    log::keep();
    for (proxies, header, value, path, client) in [
        ("127.0.0.0/8", "x-forwarded-for", "6.6.6.6, 192.0.2.7", "/healthz?by-a-proxy", "192.0.2.7"),
        (
            "127.0.0.1",
            "forwarded",
            "for=6.6.6.6, for=\"[2001:db8::7]:80\"",
            "/healthz?forwarded",
            "2001:db8::7",
        ),
        ("10.0.0.0/8", "x-forwarded-for", "192.0.2.7", "/healthz?by-a-client", "127.0.0.1"),
        ("127.0.0.1", "x-forwarded-for", "999.0.2.7", "/healthz?no-address", "127.0.0.1"),
    ] {
        let server = behind(proxies, header).await;
        get_with(server.address, path, &[(header, value)]).await;
        let line = log::access(path).await;
        assert!(line.contains(&format!(" client={client} ")), "{client} in {line}");
    }
}

/// Header of the PROXY protocol for a client at 192.0.2.7, with a value that is not read.
const PROXY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x10\xc0\0\x02\x07\x0a\0\0\x01\x1f\x90\0\x50\x04\0\x01x";

/// Returns a request on a connection of its own.
fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 6.6.6.6\r\nconnection: close\r\n\r\n")
}

#[tokio::test]
async fn the_proxy_protocol_states_the_client_before_http_and_before_tls() {
    log::keep();
    let mut config = config();
    config.http.trusted_proxies = vec!["127.0.0.1".parse().unwrap()];
    config.http.proxy_protocol = true;
    let server = Server::with(library(), config.clone(), None).await;
    let path = "/healthz?proxied";
    let status = raw(server.address, &[PROXY, request(path).as_bytes()].concat()).await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let line = log::access(path).await;
    assert!(line.contains(" client=192.0.2.7 "), "{line}");

    let (tls, trust) = tls();
    let server = Server::with(library(), config, Some(tls)).await;
    let path = "/healthz?proxied-tls";
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let (begun, rest) = PROXY.split_at(20);
    stream.write_all(begun).await.unwrap();
    stream.write_all(rest).await.unwrap();
    let mut stream = secure(stream, &trust, b"http/1.1").await;
    stream.write_all(request(path).as_bytes()).await.unwrap();
    let line = log::access(path).await;
    assert!(line.contains(" client=192.0.2.7 "), "{line}");
}

#[tokio::test]
async fn only_trusted_proxies_speak_the_proxy_protocol_and_they_must() {
    log::keep();
    let mut config = config();
    config.http.proxy_protocol = true;
    for (proxies, begun, status) in [
        ("127.0.0.1", &b""[..], ""),
        ("127.0.0.1", b"PROXY TCP4 192.0.2.7 10.0.0.1 8080 80\r\n", ""),
        ("10.0.0.0/8", b"", "HTTP/1.1 200 OK"),
        ("10.0.0.0/8", PROXY, "HTTP/1.1 400 Bad Request"),
    ] {
        config.http.trusted_proxies = vec![proxies.parse().unwrap()];
        let server = Server::with(library(), config.clone(), None).await;
        let sent = [begun, request("/healthz").as_bytes()].concat();
        assert_eq!(raw(server.address, &sent).await, status, "{proxies} {begun:?}");
    }
    let refused = log::lines(&["client=127.0.0.1", "status=0 reason=\"bad_proxy_header\""]);
    assert_eq!(refused.len(), 2, "{refused:?}");
}
