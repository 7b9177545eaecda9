//! Responses depend on the media alone, not on its storage.

use crate::{
    client::{get, get_with},
    server::{HARBOUR, Server, crawl, fragmented, library, sample},
};
use latemux_storage::Folder;
use std::sync::Arc;

#[tokio::test]
async fn a_folder_and_memory_give_the_same_bytes_and_etags() {
    let memory = Server::start(library()).await;
    let disk = tempfile::tempdir().unwrap();
    std::fs::create_dir(disk.path().join("harbour")).unwrap();
    for name in HARBOUR {
        let name = format!("harbour/{name}");
        std::fs::write(disk.path().join(&name), sample(&name)).unwrap();
    }
    for name in ["lighthouse.mp4", "ferry.mp4", "buoy.mp4"] {
        std::fs::write(disk.path().join(name), sample(name)).unwrap();
    }
    std::fs::write(disk.path().join("fragmented.mp4"), fragmented()).unwrap();
    let folder = Server::start(Arc::new(Folder::new(disk.path()).unwrap())).await;
    let mut seen = 0;
    for base in ["/harbour", "/lighthouse.mp4", "/ferry.mp4", "/fragmented.mp4", "/buoy.mp4"] {
        let urls = crawl(memory.address, base).await;
        assert_eq!(urls, crawl(folder.address, base).await);
        for url in urls {
            for encoding in ["identity", "gzip"] {
                let headers = [("accept-encoding", encoding)];
                let a = get_with(memory.address, &url, &headers).await;
                let b = get_with(folder.address, &url, &headers).await;
                assert_eq!(a.status, 200, "{url}");
                assert_eq!((a.lasting_headers(), a.body), (b.lasting_headers(), b.body), "{url}");
                if !url.contains(".m") {
                    break;
                }
            }
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen}");
}

#[tokio::test]
async fn different_bodies_have_different_etags() {
    let server = Server::start(library()).await;
    let mut etags = std::collections::BTreeMap::new();
    for base in ["/harbour", "/fragmented.mp4"] {
        for url in crawl(server.address, base).await {
            let response = get(server.address, &url).await;
            let etag = response.header("etag").to_owned();
            if let Some((other, body)) = etags.insert(etag, (url.clone(), response.body.clone())) {
                assert_eq!(body, response.body, "{url} and {other} share an ETag");
            }
        }
    }
}
