//! The page and its data over HTTP: for a browser on this machine, or wherever the operator lets it listen.

use super::{Live, hosts};
use crate::usage::Host;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rust_embed::RustEmbed;
use std::{borrow::Cow, convert::Infallible, net::IpAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore, time::sleep};
use url::Url;

/// The most connections at a time: some browsers, each with a few.
const CONNECTIONS: usize = 64;

/// The longest a request's head may take.
const HEAD: Duration = Duration::from_secs(10);

/// How long to wait where no connection can be taken: no file is free.
const BREATH: Duration = Duration::from_millis(100);

/// What `make web` built; nothing where it has not run.
#[derive(RustEmbed)]
#[folder = "../../web/dist-load"]
#[allow_missing = true]
struct Files;

/// Stands in for the page in a build without it.
const PLACEHOLDER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"/><title>latemux load</title>\
    <p>This build carries no live page: <code>make web</code> builds it; then build the program again. \
    What it would show: <a href=\"live.json\">live.json</a>.</p></html>\n";

/// All of it comes from here, and nothing of it is shown elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What is told.
#[derive(Debug, Clone)]
pub enum Page {
    /// A run.
    Run(Arc<Live>),
    /// What this machine does, for the page of a run elsewhere.
    Host,
}

/// Shows a run, for as long as it is polled.
pub async fn serve(listener: TcpListener, live: Arc<Live>) {
    listen(listener, Page::Run(live)).await;
}

/// Tells what this machine does, for as long as it is polled.
pub async fn serve_host(listener: TcpListener) {
    listen(listener, Page::Host).await;
}

async fn listen(listener: TcpListener, page: Page) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(BREATH).await;
            continue;
        };
        let page = page.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let answer = respond(&page, request.method(), request.uri(), request.headers());
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // A browser that goes away is no event.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(slot);
        });
    }
}

fn respond(page: &Page, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Full<Bytes>> {
    if !addressed(uri, headers) {
        let why = "ask for this page by the address it listens on, or as localhost\n";
        return answer(StatusCode::FORBIDDEN, "text/plain; charset=utf-8", why.into());
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match (page, uri.path()) {
        (_, hosts::PATH) => json(serde_json::to_string(&Host::now()).unwrap_or_default()),
        (Page::Run(live), "/live.json") => json(live.told(from(uri))),
        (Page::Run(_), "/") => file("index.html"),
        (Page::Run(_), path) => file(path.trim_start_matches('/')),
        (Page::Host, _) => text(StatusCode::NOT_FOUND),
    }
}

/// Whether the request names this machine by an address, or as localhost. A page elsewhere can make a browser ask any name it has power over
/// to point here, and would read what is answered; it cannot make it send another `Host`.
fn addressed(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None, None) = (hosts.next(), hosts.next(), uri.authority()) else { return false };
    let url = host.to_str().ok().and_then(|host| Url::parse(&format!("http://{host}/")).ok());
    let Some(name) = url.as_ref().and_then(Url::host_str) else { return false };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.is_ok() || name == "localhost" || name.ends_with(".localhost")
}

fn from(uri: &Uri) -> usize {
    let from = uri.query().and_then(|query| query.strip_prefix("from="));
    from.and_then(|from| from.parse().ok()).unwrap_or(0)
}

fn file(path: &str) -> Response<Full<Bytes>> {
    let bytes = match Files::get(path).map(|file| file.data) {
        Some(Cow::Borrowed(bytes)) => Bytes::from_static(bytes),
        Some(Cow::Owned(bytes)) => bytes.into(),
        None if path == "index.html" => Bytes::from_static(PLACEHOLDER.as_bytes()),
        None => return text(StatusCode::NOT_FOUND),
    };
    let content_type = match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    answer(StatusCode::OK, content_type, bytes)
}

fn json(text: String) -> Response<Full<Bytes>> {
    answer(StatusCode::OK, "application/json", text.into())
}

fn text(status: StatusCode) -> Response<Full<Bytes>> {
    let word = format!("{}\n", status.canonical_reason().unwrap_or_default());
    answer(status, "text/plain; charset=utf-8", word.into())
}

/// No header lets another origin read it.
fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
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
    use crate::results::{Recorder, Timed};
    use http_body_util::BodyExt as _;
    use std::time::Duration;
    use tokio::time::Instant;

    fn ask(page: &Page, method: &Method, path: &str, hosts: &[&str]) -> Response<Full<Bytes>> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, HeaderValue::from_str(host).unwrap());
        }
        respond(page, method, &path.parse().unwrap(), &headers)
    }

    async fn told(page: &Page, path: &str) -> serde_json::Value {
        let response = ask(page, &Method::GET, path, &["127.0.0.1:9100"]);
        assert_eq!(response.status(), 200);
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    fn run() -> (Arc<Recorder>, Page, Arc<Live>) {
        let recorder = Arc::new(Recorder::new(Instant::now()));
        let live = Arc::new(Live::new(recorder.clone(), Vec::new()));
        (recorder, Page::Run(live.clone()), live)
    }

    #[tokio::test]
    async fn names_of_others_are_refused() {
        let (_, page, _) = run();
        for host in
            ["127.0.0.1:9100", "10.1.2.3", "[::1]:9100", "localhost:9100", "LOCALHOST", "load.localhost"]
        {
            assert_eq!(ask(&page, &Method::GET, "/", &[host]).status(), 200, "{host}");
            assert_eq!(ask(&Page::Host, &Method::GET, "/host.json", &[host]).status(), 200, "{host}");
        }
        for host in [
            "rebound.example:9100",
            "127.0.0.1.rebound.example",
            "notlocalhost",
            "",
            "a b",
            "user@rebound.example",
        ] {
            assert_eq!(ask(&page, &Method::GET, "/live.json", &[host]).status(), 403, "{host}");
            assert_eq!(ask(&Page::Host, &Method::GET, "/host.json", &[host]).status(), 403, "{host}");
        }
        assert_eq!(ask(&page, &Method::GET, "/", &[]).status(), 403);
        assert_eq!(ask(&page, &Method::GET, "/", &["127.0.0.1", "rebound.example"]).status(), 403);
        assert_eq!(ask(&page, &Method::GET, "http://rebound.example/", &["127.0.0.1"]).status(), 403);
        let good = ask(&page, &Method::GET, "/live.json", &["127.0.0.1"]);
        assert!(!good.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
        assert_eq!(ask(&page, &Method::POST, "/", &["127.0.0.1"]).status(), 405);
        assert_eq!(ask(&page, &Method::GET, "/../Cargo.toml", &["127.0.0.1"]).status(), 404);
        assert_eq!(ask(&Page::Host, &Method::GET, "/live.json", &["127.0.0.1"]).status(), 404);
    }

    #[tokio::test(start_paused = true)]
    async fn each_second_is_told_once() {
        let (recorder, page, live) = run();
        let request = |bytes, millis| {
            let timed = Timed { latency: Duration::from_millis(millis), first_byte: None, bytes };
            recorder.request(7, "dash.video", timed, None);
        };
        recorder.came(7);
        request(1000, 20);
        request(500, 40);
        tokio::time::advance(Duration::from_secs(1)).await;
        live.sample(0.5);
        request(9, 100);
        recorder.stalls(7);
        tokio::time::advance(Duration::from_secs(1)).await;
        live.sample(0.25);
        let all = told(&page, "/live.json").await;
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
        assert!(near(&second["latency"]["p50"], 100e3), "what was before is not in it: {second}");
        assert_eq!(all["next"], 2);
        let later = told(&page, "/live.json?from=2").await;
        assert_eq!(
            (later["samples"].as_array().unwrap().len(), &later["totals"]["bytes"]),
            (0, &1509.into())
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        live.sample(0.0);
        let idle = told(&page, "/live.json?from=2").await;
        assert!(idle["samples"][0]["latency"].is_null(), "{idle}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_page_sees_the_end() {
        let (_, page, live) = run();
        let start = Instant::now();
        live.end().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "nobody looks");
        assert_eq!(told(&page, "/live.json").await["ended"], true);

        let (_, page, live) = run();
        assert_eq!(told(&page, "/live.json").await["ended"], false);
        let asks = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(told(&page, "/live.json").await["ended"], true);
        };
        tokio::join!(live.end(), asks);
        assert_eq!(start.elapsed(), Duration::from_secs(1), "it has asked");

        let (_, page, live) = run();
        told(&page, "/live.json").await;
        live.end().await;
        assert_eq!(start.elapsed(), Duration::from_secs(4), "what was told before the end is not the end");
    }
}
