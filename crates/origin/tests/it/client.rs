//! A plain HTTP client: one connection per request, no interpretation of responses.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A complete response.
#[derive(Debug, Clone)]
pub(crate) struct FullResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl FullResponse {
    /// Returns a header's value, or an empty text without such a header.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// Returns the `reason` of an error's body, which is one line of JSON.
    pub(crate) fn reason(&self) -> String {
        let text = std::str::from_utf8(&self.body).unwrap();
        assert!(text.ends_with('\n') && text.matches('\n').count() == 1, "one line: {text:?}");
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(json["detail"].is_string());
        json["reason"].as_str().unwrap().to_owned()
    }

    /// Returns the headers without `date`, which differs between responses.
    pub(crate) fn lasting_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove("date");
        headers
    }
}

/// Sends a request and returns the response's head; the body is still to come. Fails if no head
/// comes: a response that is aborted at once may never leave the server's buffer.
pub(crate) async fn open(
    server: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Response<Incoming>, hyper::Error> {
    let stream = TcpStream::connect(server).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "test");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await
}

/// Sends a request and receives the whole response. Fails if the response is aborted.
pub(crate) async fn send(
    server: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<FullResponse, hyper::Error> {
    let response = open(server, method, path, headers).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(FullResponse { status: head.status, headers: head.headers, body })
}

/// Sends a GET request and receives the whole response.
pub(crate) async fn get(server: SocketAddr, path: &str) -> FullResponse {
    get_with(server, path, &[]).await
}

/// Sends a GET request with headers and receives the whole response.
pub(crate) async fn get_with(server: SocketAddr, path: &str, headers: &[(&str, &str)]) -> FullResponse {
    send(server, Method::GET, path, headers).await.unwrap()
}

/// Sends a GET request that must succeed, and returns the body.
pub(crate) async fn fetch(server: SocketAddr, path: &str) -> Bytes {
    let response = get(server, path).await;
    assert_eq!(response.status, 200, "{path}: {:?}", response.body);
    response.body
}

/// Sends such requests one after the other, and returns the bodies joined.
pub(crate) async fn fetch_all(server: SocketAddr, paths: &[String]) -> Vec<u8> {
    let mut joined = Vec::new();
    for path in paths {
        joined.extend_from_slice(&fetch(server, path).await);
    }
    joined
}
