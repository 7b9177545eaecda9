//! Connections that a server closes.

use futures_util::future::BoxFuture;
use latemux_client::{
    failure::Failure,
    http::{Client, ClientOptions, Connect, Connection, Server, Stream},
    presentation::Resource,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    time::{Instant, sleep},
};
use url::Url;

/// A server that sends one response on each connection. With `then`, it sends that one second later
/// and closes the connection; otherwise it stays silent.
struct OneResponse {
    response: &'static str,
    then: Option<&'static str>,
    connections: AtomicU64,
}

impl Connect for OneResponse {
    fn connect(&self, _: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>> {
        self.connections.fetch_add(1, Relaxed);
        let response = self.response;
        let then = self.then;
        let (ours, mut theirs) = duplex(4096);
        tokio::spawn(async move {
            let _ = theirs.read(&mut [0; 4096]).await;
            let _ = theirs.write_all(response.as_bytes()).await;
            sleep(Duration::from_secs(if then.is_some() { 1 } else { 3600 })).await;
            let _ = theirs.write_all(then.unwrap_or_default().as_bytes()).await;
        });
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Stream>) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_reused_only_if_the_server_keeps_it() {
    let late = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (response, then) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Some(late)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", None),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", None),
    ] {
        let server = Arc::new(OneResponse { response, then, connections: AtomicU64::new(0) });
        let url = Url::parse("http://origin.example/").unwrap();
        let mut options = ClientOptions::default();
        options.hosts.allow_server(&url);
        let client = Client::new(server.clone(), options);
        let mut connection = Connection::default();
        let resource = Resource { url, range: None };
        for _ in 0..2 {
            let mut body = Vec::new();
            let mut keep = |piece: &[u8]| {
                body.extend_from_slice(piece);
                Ok(())
            };
            client.get(&mut connection, &resource, Instant::now(), &mut keep).await.unwrap();
            assert_eq!(body, b"ok", "{response:?}");
            sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(server.connections.load(Relaxed), 2, "{response:?}");
    }
}
