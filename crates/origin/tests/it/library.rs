//! The player page, the library and health checks.

use crate::{
    client::{get, get_with, send},
    server::{Server, key, library, sample},
};
use http::Method;
use latemux_origin::OriginConfig;
use latemux_storage::{Folder, Memory};
use std::sync::Arc;

#[tokio::test]
async fn the_library_lists_files_and_folders() {
    let memory = library();
    memory.put(key("series/one/e 1/v.mp4"), "x");
    memory.put(key("series/notes.txt"), "x");
    memory.put(key("empty/notes.txt"), "x");
    let server = Server::start(memory).await;
    let response = get(server.address, "/api/library").await;
    assert_eq!(response.header("content-type"), "application/json");
    let json: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!((&json["listable"], &json["truncated"]), (&true.into(), &false.into()));
    let titles = json["titles"].as_array().unwrap();
    let bases: Vec<_> = titles.iter().map(|t| t["base"].as_str().unwrap()).collect();
    assert_eq!(
        bases,
        ["buoy.mp4", "ferry.mp4", "fragmented.mp4", "lighthouse.mp4", "harbour", "series/one/e 1"]
    );
    assert_eq!(titles[5]["dash"], "/series/one/e%201/.mpd");
    for title in &titles[..5] {
        for entry in ["dash", "hls", "hls_cmaf", "smooth", "hds"] {
            assert_eq!(get(server.address, title[entry].as_str().unwrap()).await.status, 200);
        }
    }
}

#[tokio::test]
async fn server_manifests_and_index_mp4s_hide_their_media_in_the_library() {
    let memory = Memory::new();
    for name in ["a.mp4", "a.index.mp4", "b.ism", "c/d.ism", "c/d.mp4", "e/f.mp4", "e/f.index.mp4"] {
        memory.put(key(name), "x");
    }
    let server = Server::start(Arc::new(memory)).await;
    let json: serde_json::Value =
        serde_json::from_slice(&get(server.address, "/api/library").await.body).unwrap();
    let shown: Vec<String> = json["titles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| format!("{} {} {} {}", t["base"], t["name"], t["kind"], t["files"]).replace('"', ""))
        .collect();
    assert_eq!(shown, ["b.ism b manifest 1", "a.index.mp4 a file 1", "c/d.ism d manifest 1", "e e folder 1"]);
}

#[tokio::test]
async fn the_library_named_the_folder_bucket_or_url_of_the_storage() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("buoy.mp4"), sample("buoy.mp4")).unwrap();
    let server = Server::start(Arc::new(Folder::new(folder.path()).unwrap())).await;
    let parent = folder.path().parent().unwrap().canonicalize().unwrap();
    for path in ["/api/library", "/", "/buoy.mp4/.mpd", "/gone.mp4/.mpd", "/gone/.mpd", "/x.txt/.mpd"] {
        let body = get(server.address, path).await.body;
        let text = String::from_utf8_lossy(&body);
        assert!(!text.contains(parent.to_str().unwrap()), "{path}: {text}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&get(server.address, "/api/library").await.body).unwrap();
    let mut keys: Vec<_> = json.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["listable", "titles", "truncated"]);
}

#[tokio::test]
async fn the_page_and_the_library_could_not_be_switched_off() {
    let config = OriginConfig { page: false, ..crate::server::config() };
    let server = Server::with(library(), config, None).await;
    for path in ["/", "/api/library", "/_/licences.txt", "/_/x.js"] {
        let response = get(server.address, path).await;
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (404, "no_such_url"), "{path}");
    }
    for path in ["/harbour/.mpd", "/harbour/.m3u8", "/healthz", "/healthz/ready"] {
        assert_eq!(get(server.address, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn an_empty_storage_has_an_empty_library() {
    let server = Server::start(Arc::new(Memory::new())).await;
    let response = get(server.address, "/api/library").await;
    let json: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!((response.status.as_u16(), json["titles"].as_array().unwrap().len()), (200, 0));
}

#[tokio::test]
async fn the_page_may_load_nothing_from_other_hosts() {
    let server = Server::start(library()).await;
    let page = get(server.address, "/").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").starts_with("default-src 'self';"));
    assert!(!page.header("content-security-policy").contains("http"));
    let same = get_with(server.address, "/", &[("if-none-match", page.header("etag"))]).await;
    assert_eq!(same.status, 304);
    let missing = get(server.address, "/_/no-such-file.js").await;
    assert_eq!((missing.status.as_u16(), missing.reason().as_str()), (404, "no_such_url"));
}

#[tokio::test]
async fn health_checks_succeed() {
    let server = Server::start(Arc::new(Memory::new())).await;
    for path in ["/healthz", "/healthz/live", "/healthz/ready"] {
        assert_eq!(get(server.address, path).await.status, 200, "{path}");
        assert_eq!(send(server.address, Method::HEAD, path, &[]).await.unwrap().status, 200, "{path}");
    }
}
