//! HTTP for the page and its data. The page can be opened on other machines only if the operator
//! chooses an address that they can reach.

use super::{Live, hosts};
use crate::{page, usage::Host};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore, time::sleep};
use url::Url;

/// The maximum number of connections at a time: a few browsers, each with several.
const MAX_CONNECTIONS: usize = 64;

/// The time within which the head of a request must arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait before the next attempt to accept a connection after a failure, such as too many open
/// files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The page loads everything from its own server, and no other page may show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The content of a server.
#[derive(Debug, Clone)]
enum Subject {
    /// A run, and the resource usage of this machine.
    Run(Arc<Live>),
    /// Only the resource usage of this machine, for the page of a run elsewhere.
    Host,
}

/// Serves the page of a run for as long as the future is polled.
pub async fn serve(listener: TcpListener, live: Arc<Live>) {
    listen(listener, Subject::Run(live)).await;
}

/// Serves the resource usage of this machine for as long as the future is polled.
pub async fn serve_host(listener: TcpListener) {
    listen(listener, Subject::Host).await;
}

async fn listen(listener: TcpListener, subject: Subject) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        let subject = subject.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let response = respond(&subject, request.method(), request.uri(), request.headers());
                async move { Ok::<_, Infallible>(response) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            // Errors of a connection, such as a browser that goes away, are ignored.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(slot);
        });
    }
}

fn respond(subject: &Subject, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Full<Bytes>> {
    if !is_addressed_to_this_machine(uri, headers) {
        let why = "open this page by the IP address it listens on, or by the name localhost\n";
        return response(StatusCode::FORBIDDEN, "text/plain; charset=utf-8", why.into());
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match (subject, uri.path()) {
        (_, hosts::PATH) => json(serde_json::to_string(&Host::now()).unwrap_or_default()),
        (Subject::Run(live), "/live.json") => json(live.json(first_sample(uri))),
        (Subject::Run(_), "/") => file("index.html"),
        (Subject::Run(_), path) => file(path.trim_start_matches('/')),
        (Subject::Host, _) => text(StatusCode::NOT_FOUND),
    }
}

/// Returns true if a request names this machine by an IP address or as localhost. This prevents DNS
/// rebinding: the owner of any other name could point it at this machine, and a page under that
/// name could read the responses. A page cannot make a browser send another `Host` than the
/// requested name.
fn is_addressed_to_this_machine(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None, None) = (hosts.next(), hosts.next(), uri.authority()) else { return false };
    let url = host.to_str().ok().and_then(|host| Url::parse(&format!("http://{host}/")).ok());
    let Some(name) = url.as_ref().and_then(Url::host_str) else { return false };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.is_ok() || name == "localhost" || name.ends_with(".localhost")
}

/// Reads the query `from=N`, where N is the index of the first sample to return; 0 without the
/// query.
fn first_sample(uri: &Uri) -> usize {
    let from = uri.query().and_then(|query| query.strip_prefix("from="));
    from.and_then(|from| from.parse().ok()).unwrap_or(0)
}

fn file(path: &str) -> Response<Full<Bytes>> {
    let Some(bytes) = page::file(path) else { return text(StatusCode::NOT_FOUND) };
    let content_type = match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    response(StatusCode::OK, content_type, bytes)
}

fn json(text: String) -> Response<Full<Bytes>> {
    response(StatusCode::OK, "application/json", text.into())
}

fn text(status: StatusCode) -> Response<Full<Bytes>> {
    let word = format!("{}\n", status.canonical_reason().unwrap_or_default());
    response(status, "text/plain; charset=utf-8", word.into())
}

/// Makes a response. It has no header that would allow a page of another origin to read it.
fn response(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Recorder;
    use http_body_util::BodyExt as _;
    use latemux_client::http::Fetched;
    use std::time::Duration;
    use tokio::time::Instant;

    fn request(page: &Subject, method: &Method, path: &str, hosts: &[&str]) -> Response<Full<Bytes>> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        respond(page, method, &path.parse().unwrap(), &headers)
    }

    async fn data(page: &Subject, path: &str) -> serde_json::Value {
        let response = request(page, &Method::GET, path, &["127.0.0.1:9100"]);
        assert_eq!(response.status(), 200);
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    fn run() -> (Arc<Recorder>, Subject, Arc<Live>) {
        let recorder = Arc::new(Recorder::new(Instant::now()));
        let live = Arc::new(Live::new(recorder.clone(), Vec::new()));
        (recorder, Subject::Run(live.clone()), live)
    }

    #[tokio::test]
    async fn requests_by_the_name_of_another_host_are_refused() {
        let (_, page, _) = run();
        for host in
            ["127.0.0.1:9100", "10.1.2.3", "[::1]:9100", "localhost:9100", "LOCALHOST", "load.localhost"]
        {
            assert_eq!(request(&page, &Method::GET, "/", &[host]).status(), 200, "{host}");
            assert_eq!(request(&Subject::Host, &Method::GET, "/host.json", &[host]).status(), 200, "{host}");
        }
        for host in [
            "rebound.example:9100",
            "127.0.0.1.rebound.example",
            "notlocalhost",
            "",
            "a b",
            "user@rebound.example",
        ] {
            assert_eq!(request(&page, &Method::GET, "/live.json", &[host]).status(), 403, "{host}");
            assert_eq!(request(&Subject::Host, &Method::GET, "/host.json", &[host]).status(), 403, "{host}");
        }
        assert_eq!(request(&page, &Method::GET, "/", &[]).status(), 403);
        assert_eq!(request(&page, &Method::GET, "/", &["127.0.0.1", "rebound.example"]).status(), 403);
        assert_eq!(request(&page, &Method::GET, "http://rebound.example/", &["127.0.0.1"]).status(), 403);
        let good = request(&page, &Method::GET, "/live.json", &["127.0.0.1"]);
        assert!(!good.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
        assert_eq!(request(&page, &Method::POST, "/", &["127.0.0.1"]).status(), 405);
        assert_eq!(request(&page, &Method::GET, "/../Cargo.toml", &["127.0.0.1"]).status(), 404);
        assert_eq!(request(&Subject::Host, &Method::GET, "/live.json", &["127.0.0.1"]).status(), 404);
    }

    #[tokio::test(start_paused = true)]
    async fn each_sample_covers_only_its_own_second() {
        let (recorder, page, live) = run();
        let measure = |bytes, millis| {
            let latency = Duration::from_millis(millis);
            let url = Url::parse("http://a/").unwrap();
            let fetched = Fetched { url, bytes, first_byte: latency, latency, transfer: latency };
            recorder.request(7, "dash.video", &Ok(fetched), None);
        };
        recorder.player_started(7);
        measure(1000, 20);
        measure(500, 40);
        tokio::time::advance(Duration::from_secs(1)).await;
        live.sample(0.5);
        measure(9, 100);
        recorder.stall_started(7);
        tokio::time::advance(Duration::from_secs(1)).await;
        live.sample(0.25);
        let all = data(&page, "/live.json").await;
        let [first, second] = all["samples"].as_array().unwrap().as_slice() else { panic!("{all}") };
        let of = |sample: &serde_json::Value| {
            ["at", "took", "requests", "bytes", "players", "stalls", "cpu"]
                .map(|name| sample[name].as_f64().unwrap())
        };
        assert_eq!(of(first), [1.0, 1.0, 2.0, 1500.0, 1.0, 0.0, 0.5]);
        assert_eq!(of(second), [2.0, 1.0, 1.0, 9.0, 1.0, 1.0, 0.25]);
        let near =
            |value: &serde_json::Value, micros: f64| (value.as_f64().unwrap() / micros - 1.0).abs() < 0.002;
        assert!(near(&first["latency"]["p50"], 20e3) && near(&first["latency"]["max"], 40e3), "{first}");
        assert!(near(&second["latency"]["p50"], 100e3), "no request of the first second: {second}");
        assert_eq!(all["next"], 2);
        let later = data(&page, "/live.json?from=2").await;
        assert_eq!(
            (later["samples"].as_array().unwrap().len(), &later["totals"]["bytes"]),
            (0, &1509.into())
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        live.sample(0.0);
        let idle = data(&page, "/live.json?from=2").await;
        assert!(idle["samples"][0]["latency"].is_null(), "{idle}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_open_pages_only() {
        let (_, page, live) = run();
        let start = Instant::now();
        live.end().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "no page is open");
        assert_eq!(data(&page, "/live.json").await["ended"], true);

        let (_, page, live) = run();
        assert_eq!(data(&page, "/live.json").await["ended"], false);
        let late_request = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(data(&page, "/live.json").await["ended"], true);
        };
        tokio::join!(live.end(), late_request);
        assert_eq!(start.elapsed(), Duration::from_secs(1), "the page has requested the end");

        let (_, page, live) = run();
        data(&page, "/live.json").await;
        live.end().await;
        assert_eq!(start.elapsed(), Duration::from_secs(4), "the page has requested nothing since");
    }
}
