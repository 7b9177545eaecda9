//! Failures of storage, and the responses that clients get.

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
/// Text of an error that clients must not see.
const WHERE: &str = "Error performing PUT http://169.254.169.254/latest/api/token";

/// Returns each failure of a request with its status and reason.
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
        (StorageError::Unavailable { key: key(), detail: WHERE.into() }, 502, "storage_unavailable"),
        (StorageError::BadResponse { key: key(), detail: WHERE.into() }, 502, "storage_bad_answer"),
        (StorageError::WrongCredentials { key: key(), detail: WHERE.into() }, 502, "storage_denied"),
        (StorageError::NoBucket(key()), 502, "no_bucket"),
    ]
}

#[tokio::test]
async fn each_storage_failure_has_a_status_and_a_reason_in_response_and_log() {
    log::keep();
    for (n, (error, status, reason)) in failures().into_iter().enumerate() {
        // The failure happens while a folder is listed, an object is indexed, or media is read.
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
            let response = get(server.address, &url).await;
            assert_eq!((response.status.as_u16(), response.reason().as_str()), (status, reason), "{phase}");
            let after = if reason == "storage_throttled" { "7" } else { "" };
            assert_eq!(response.header("retry-after"), after);
            assert_eq!(response.header("cache-control"), "no-store");
            assert!(!String::from_utf8_lossy(&response.body).contains("169.254"), "{:?}", response.body);
            let line = log::access(&url).await;
            assert!(line.contains(&format!("status={status} reason=\"{reason}\"")), "{line}");
            if status != 404 {
                assert_eq!(log::lines(&[" WARN ", &format!("reason=\"{reason}\""), &url]).len(), 1);
            }
            // The failure is not kept: the next request succeeds. Only that a file is missing is
            // remembered for a moment.
            if status != 404 || phase == "media" {
                assert_eq!(get(server.address, &url).await.status, 200, "{phase} {reason}");
            }
        }
    }
}

#[tokio::test]
async fn an_index_cut_short_is_refused_and_not_kept() {
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    let object = key("lighthouse.mp4");
    for (fault, status, reason) in [
        (Fault::reset_after(&object, 1000), 502, "storage_unavailable"),
        (Fault::reset_after(&object, 0), 502, "storage_unavailable"),
        (Fault::ShortAfter(1000), 502, "storage_bad_answer"),
    ] {
        faults.set([fault]);
        let response = get(server.address, "/lighthouse.mp4/.mpd").await;
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (status, reason));
    }
    assert_eq!(get(server.address, "/lighthouse.mp4/.mpd").await.status, 200);
}

#[tokio::test]
async fn a_segment_cut_short_aborts_the_response() {
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
            send(server.address, Method::GET, url, &[]).await.expect_err("the response must be aborted");
            let line = log::access(url).await;
            assert!(line.contains(&format!("status=200 reason=\"{reason}\"")), "{line}");
        }
        // Before the first byte of media, a failure can still become a status code.
        faults.set([Fault::reset_after(&key(OBJECT), 0)]);
        let response = get(server.address, url).await;
        assert_eq!(
            (response.status.as_u16(), response.reason().as_str()),
            (502, "storage_unavailable"),
            "{url}"
        );
        assert_eq!(get(server.address, url).await.status, 200);
    }
}

#[tokio::test]
async fn indexing_on_silent_storage_ends_after_the_timeout() {
    let faults = Faults::default();
    let config = OriginConfig { load_timeout: Duration::from_millis(50), ..crate::server::config() };
    let server = Server::with(faults.over(library()), config, None).await;
    faults.set([Fault::Silence]);
    let response = get(server.address, "/lighthouse.mp4/.mpd").await;
    assert_eq!((response.status.as_u16(), response.reason().as_str()), (504, "load_timeout"));
    faults.set([Fault::None, Fault::StallAfter(100)]);
    let response = get(server.address, "/harbour/.mpd").await;
    assert_eq!((response.status.as_u16(), response.reason().as_str()), (504, "load_timeout"));
}

#[tokio::test]
async fn files_play_from_storage_that_cannot_be_listed() {
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
