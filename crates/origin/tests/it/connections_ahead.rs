//! Connections to storage that are open before requests need them.

use crate::server::{HARBOUR, config, sample};
use http::Request;
use http_body_util::BodyExt;
use latemux_origin::Origin;
use latemux_storage::{Options, Storage, check, open_mirrored};
use latemux_testmedia::http_server::{self, Reply, Server};
use std::{fmt::Write, sync::Arc, time::Duration};

/// Connections that are open after the check at start: its own, and those opened ahead.
const OPEN: usize = 1 + 16;

/// Serves the folder `harbour` as nginx does, with a listing in JSON.
fn reply(_: usize, request: &http_server::Request) -> Reply {
    let name = request.target.strip_prefix("/harbour/").unwrap_or("none");
    if name.is_empty() {
        let mut listing = String::from("[");
        for (n, name) in HARBOUR.into_iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            let size = sample(&format!("harbour/{name}")).len();
            write!(listing, r#"{comma}{{"name":"{name}","type":"file","size":{size}}}"#).unwrap();
        }
        listing += "]";
        return Reply::new(200, &[("Content-Type", "application/json")], listing.as_bytes());
    }
    let Some(name) = HARBOUR.into_iter().find(|known| *known == name.replace("%2E", ".")) else {
        return Reply::new(404, &[], b"");
    };
    let file = sample(&format!("harbour/{name}"));
    let range = request.header("range").and_then(|range| range.strip_prefix("bytes="));
    let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
        return Reply::new(400, &[], b"");
    };
    let first: usize = first.parse().unwrap();
    let end = last.parse::<usize>().map_or(file.len(), |last| file.len().min(last + 1));
    let content_range = format!("bytes {first}-{}/{}", end - 1, file.len());
    Reply::new(206, &[("ETag", "\"1\""), ("Content-Range", &content_range)], &file[first..end])
}

async fn manifest(storage: Arc<dyn Storage>) -> String {
    let origin = Origin::new(storage, config());
    let response = origin.respond(Request::get("/harbour/.mpd").body(()).unwrap()).await;
    assert_eq!(response.status(), 200);
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// The listing waited for a connection, and then each file for one of its own.
#[tokio::test]
async fn no_request_of_the_first_title_waits_for_a_connection() {
    let server = Server::start(reply).await;
    let storage = open_mirrored(&server.address, &Options::default()).unwrap();
    // `latemux serve` asks storage at start. All else is opened because of this.
    check(&*storage).await.unwrap();
    let opened = tokio::time::timeout(Duration::from_secs(30), server.connected(OPEN)).await;
    opened.expect("connections are opened ahead");
    // The client's end of a connection is ready a moment later.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let text = manifest(storage).await;
    assert!(text.contains("<MPD"), "{text}");
    let requests = server.requests();
    assert!(requests.len() > HARBOUR.len() + 1, "{requests:?}");
    for request in &requests {
        assert!(
            request.connection <= OPEN,
            "{} waited for connection {}",
            request.target,
            request.connection
        );
    }
}
