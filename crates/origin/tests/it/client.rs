//! A plain HTTP client: one connection per request, nothing interpreted.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// A complete answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A header's value, empty where there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// The `reason` of an error's body, which is one line of JSON.
    pub(crate) fn reason(&self) -> String {
        let text = std::str::from_utf8(&self.body).unwrap();
        assert!(text.ends_with('\n') && text.matches('\n').count() == 1, "one line: {text:?}");
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(json["detail"].is_string());
        json["reason"].as_str().unwrap().to_owned()
    }

    /// Headers without those that differ from one answer to the next.
    pub(crate) fn lasting_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.remove("date");
        headers
    }
}

/// Sends a request and gives the answer's head; the body is still to come. An error where not even the head comes: what
/// breaks off at once may never have left the server's buffer.
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

/// Sends a request and takes the whole answer; an error where it breaks off.
pub(crate) async fn send(
    server: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Answer, hyper::Error> {
    let response = open(server, method, path, headers).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status: head.status, headers: head.headers, body })
}

/// A GET that is answered completely.
pub(crate) async fn get(server: SocketAddr, path: &str) -> Answer {
    get_with(server, path, &[]).await
}

/// The same with headers.
pub(crate) async fn get_with(server: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(server, Method::GET, path, headers).await.unwrap()
}

/// A GET that must succeed.
pub(crate) async fn fetch(server: SocketAddr, path: &str) -> Bytes {
    let answer = get(server, path).await;
    assert_eq!(answer.status, 200, "{path}: {:?}", answer.body);
    answer.body
}
