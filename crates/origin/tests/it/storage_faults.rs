//! What storage does wrong, and what the client is told of it.

use crate::{
    client::{fetch, get, send},
    log,
    server::{Faults, Server, key, library},
};
use http::Method;
use latemux_origin::OriginConfig;
use latemux_storage::{StorageError, fault::Fault};
use std::time::Duration;

const OBJECT: &str = "harbour/video-360p.mp4";

/// Each failure of a request with its status and reason.
fn failures() -> Vec<(StorageError, u16, &'static str)> {
    let key = || OBJECT.to_owned();
    vec![
        (StorageError::NotFound(key()), 404, "source_not_found"),
        (StorageError::Denied(key()), 502, "storage_denied"),
        (StorageError::OutOfRange(key()), 502, "source_range"),
        (
            StorageError::Throttled { key: key(), retry_after: Some(Duration::from_secs(7)) },
            503,
            "storage_throttled",
        ),
        (StorageError::TimedOut { key: key(), after: Duration::from_secs(1) }, 504, "storage_timeout"),
        (StorageError::Unavailable { key: key(), detail: "500".into() }, 502, "storage_unavailable"),
        (StorageError::BadResponse { key: key(), detail: "no size".into() }, 502, "storage_bad_answer"),
    ]
}

#[tokio::test]
async fn failures_have_their_own_status_and_reason_in_answer_and_log() {
    log::keep();
    for (n, (error, status, reason)) in failures().into_iter().enumerate() {
        // While the folder is listed, while an object is indexed, while media is read.
        for (phase, before) in [("list", 0), ("index", 1), ("media", usize::MAX)] {
            let faults = Faults::default();
            let server = Server::start(faults.over(library())).await;
            let url = format!("/harbour/dash/{phase}{n}-video=152000-51200.dash");
            if before == usize::MAX {
                fetch(server.address, "/harbour/.mpd").await;
                faults.set([Fault::Error(error.clone())]);
            } else {
                let faultless = std::iter::repeat_n(Fault::None, before);
                faults.set(faultless.chain([Fault::Error(error.clone())]));
            }
            let answer = get(server.address, &url).await;
            assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (status, reason), "{phase}");
            let after = if reason == "storage_throttled" { "7" } else { "" };
            assert_eq!(answer.header("retry-after"), after);
            assert_eq!(answer.header("cache-control"), "no-store");
            let line = log::access(&url).await;
            assert!(line.contains(&format!("status={status} reason=\"{reason}\"")), "{line}");
            if status != 404 {
                assert_eq!(log::lines(&[" WARN ", &format!("reason=\"{reason}\""), &url]).len(), 1);
            }
            // It was that moment's failure, and is not remembered.
            assert_eq!(get(server.address, &url).await.status, 200, "{phase} {reason}");
        }
    }
}

#[tokio::test]
async fn half_an_index_is_none() {
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    let object = key("lighthouse.mp4");
    for (fault, status, reason) in [
        (Fault::reset_after(&object, 1000), 502, "storage_unavailable"),
        (Fault::reset_after(&object, 0), 502, "storage_unavailable"),
        (Fault::ShortAfter(1000), 502, "storage_bad_answer"),
    ] {
        faults.set([fault]);
        let answer = get(server.address, "/lighthouse.mp4/.mpd").await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (status, reason));
    }
    assert_eq!(get(server.address, "/lighthouse.mp4/.mpd").await.status, 200);
}

#[tokio::test]
async fn half_a_segment_is_broken_off_and_never_looks_whole() {
    log::keep();
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    fetch(server.address, "/harbour/.mpd").await;
    let urls = ["/harbour/dash/half-video=152000-51200.dash", "/harbour/half-video=152000-2.ts"];
    for url in urls {
        for (fault, reason) in [
            (Fault::reset_after(&key(OBJECT), 30_000), "storage_unavailable"),
            (Fault::ShortAfter(30_000), "storage_bad_answer"),
        ] {
            faults.set([fault]);
            send(server.address, Method::GET, url, &[]).await.expect_err("half an answer is no answer");
            let line = log::access(url).await;
            assert!(line.contains(&format!("status=200 reason=\"{reason}\"")), "{line}");
        }
        // Before the first byte of media there is still time to say what is wrong.
        faults.set([Fault::reset_after(&key(OBJECT), 0)]);
        let answer = get(server.address, url).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (502, "storage_unavailable"), "{url}");
        assert_eq!(get(server.address, url).await.status, 200);
    }
}

#[tokio::test]
async fn storage_that_says_nothing_is_waited_for_so_long() {
    let faults = Faults::default();
    let config = OriginConfig { load_timeout: Duration::from_millis(50), ..crate::server::config() };
    let server = Server::with(faults.over(library()), config, None).await;
    faults.set([Fault::Silence]);
    let answer = get(server.address, "/lighthouse.mp4/.mpd").await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (504, "load_timeout"));
    faults.set([Fault::None, Fault::StallAfter(100)]);
    let answer = get(server.address, "/harbour/.mpd").await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (504, "load_timeout"));
}

#[tokio::test]
async fn storage_that_cannot_list_still_plays_files() {
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    let cannot = || Fault::Error(StorageError::CannotList(String::new()));
    faults.set([cannot(), cannot()]);
    let folder = get(server.address, "/harbour/.mpd").await;
    assert_eq!((folder.status.as_u16(), folder.reason().as_str()), (422, "cannot_list"));
    let library = get(server.address, "/api/library").await;
    let json: serde_json::Value = serde_json::from_slice(&library.body).unwrap();
    assert_eq!(json["listable"], false);
    assert_eq!(get(server.address, "/lighthouse.mp4/.mpd").await.status, 200);
}
