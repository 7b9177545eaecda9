//! The player page, the library and health checks.

use crate::{
    client::{get, get_with, send},
    server::{Server, key, library, sample},
};
use flate2::read::GzDecoder;
use futures_util::StreamExt;
use http::Method;
use latemux_origin::{OriginConfig, config::FolderTitles};
use latemux_storage::{
    Folder, Memory,
    counting::Counting,
    fault::{Fault, Faulty, Gate},
};
use std::{io::Read, path::Path, sync::Arc, time::Duration};

/// Returns the page of the library at a URL.
async fn page(server: &Server, query: &str) -> serde_json::Value {
    let response = get(server.address, &format!("/api/library{query}")).await;
    assert_eq!(response.status, 200, "{query}: {}", String::from_utf8_lossy(&response.body));
    serde_json::from_slice(&response.body).unwrap()
}

/// Returns the folders and titles of a page, each as a line.
fn entries(page: &serde_json::Value) -> Vec<String> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let folders = page["folders"].as_array().unwrap().iter();
    let folders = folders.map(|f| format!("{}/ {}", text(&f["folder"]), text(&f["name"])));
    let titles = page["titles"].as_array().unwrap().iter();
    let titles = titles
        .map(|t| format!("{} {} {} {}", text(&t["base"]), text(&t["name"]), text(&t["kind"]), t["files"]));
    folders.chain(titles).collect()
}

/// Returns a storage with files of these names.
fn named(names: &[&str]) -> Arc<Memory> {
    let memory = Memory::new();
    names.iter().for_each(|name| _ = memory.put(key(name), "x"));
    Arc::new(memory)
}

#[tokio::test]
async fn the_library_shows_one_folder_at_a_time() {
    let memory = library();
    memory.put(key("series/one/e 1/v.mp4"), "x");
    memory.put(key("series/notes.txt"), "x");
    memory.put(key(".hidden/v.mp4"), "x");
    let server = Server::start(memory).await;
    let root = page(&server, "").await;
    assert_eq!(
        entries(&root),
        [
            "harbour/ harbour",
            "series/ series",
            "buoy.mp4 buoy file 1",
            "ferry.mp4 ferry file 1",
            "fragmented.mp4 fragmented file 1",
            "lighthouse.mp4 lighthouse file 1"
        ]
    );
    assert_eq!((&root["folder"], &root["listable"], &root["next"]), (&"".into(), &true.into(), &().into()));
    let harbour = page(&server, "?folder=harbour").await;
    assert_eq!(entries(&harbour), ["harbour harbour folder 5"]);
    assert_eq!(entries(&page(&server, "?folder=series").await), ["series/one/ one"]);
    let deep = page(&server, "?x=1&folder=series%2Fone/e+1").await;
    assert_eq!(entries(&deep), ["series/one/e 1/v.mp4 v file 1"]);
    assert_eq!(deep["titles"][0]["dash"], "/series/one/e%201/v.mp4/.mpd");
    let titles = [&root["titles"][1], &root["titles"][3], &harbour["titles"][0]];
    for title in titles {
        for entry in ["dash", "hls", "hls_cmaf", "smooth", "hds"] {
            assert_eq!(get(server.address, title[entry].as_str().unwrap()).await.status, 200);
        }
    }
    for (query, status, reason) in [
        ("?folder=no/such", 404, "source_not_found"),
        ("?folder=a/../b", 400, "parameter_malformed"),
        ("?folder=%2Fa", 400, "parameter_malformed"),
        ("?folder=%ff", 400, "parameter_malformed"),
        ("?after=00", 400, "parameter_malformed"),
        ("?folder=harbour&after=", 400, "parameter_malformed"),
    ] {
        let response = get(server.address, &format!("/api/library{query}")).await;
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (status, reason), "{query}");
    }
}

#[tokio::test]
async fn server_manifests_and_index_mp4s_hide_their_media_in_the_library() {
    let server = Server::start(named(&[
        "b.ism",
        "a.mp4",
        "a.index.mp4",
        "c/d.ism",
        "c/d.mp4",
        "c/d-720p.mp4",
        "c/dune.mp4",
        "c/alien.mp4",
        "e/film.ism",
        "e/video-720p.mp4",
        "e/video-360p.mp4",
        "e/audio.mp4",
    ]))
    .await;
    let root = page(&server, "").await;
    assert_eq!(entries(&root)[2..], ["b.ism b manifest 1", "a.index.mp4 a file 1"]);
    let beside = ["c/d.ism d manifest 1", "c/alien.mp4 alien file 1", "c/dune.mp4 dune file 1"];
    assert_eq!(entries(&page(&server, "?folder=c").await), beside);
    assert_eq!(entries(&page(&server, "?folder=e").await), ["e/film.ism film manifest 1"]);
}

#[tokio::test]
async fn a_folder_of_unrelated_films_was_shown_as_one_title() {
    let films: Vec<String> = (0..200).map(|n| format!("films/film {n}.mp4")).collect();
    let mut names: Vec<&str> = films.iter().map(String::as_str).collect();
    names.extend(["one/film-720p.mp4", "one/film-360p.mp4", "two/a.mp4", "two/b.mp4"]);
    for (folders, films, one, two) in [
        (FolderTitles::ByName, 200, "one one folder 2", 2),
        // More files than a title may have are no title.
        (FolderTitles::Always, 200, "one one folder 2", 1),
        (FolderTitles::Never, 200, "one/film-360p.mp4 film-360p file 1", 2),
    ] {
        let mut config = crate::server::config();
        config.library.folders = folders;
        let server = Server::with(named(&names), config, None).await;
        assert_eq!(entries(&page(&server, "?folder=films").await).len(), films);
        assert_eq!(entries(&page(&server, "?folder=one").await)[0], one);
        assert_eq!(entries(&page(&server, "?folder=two").await).len(), two);
    }
}

/// The list ended at 1000 titles.
#[tokio::test]
async fn the_library_pages_through_folders_of_any_size() {
    let names: Vec<String> =
        (0..1700).map(|n| format!("films/{n:04}.{}", if n % 2 == 0 { "mp4" } else { "jpg" })).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let storage = Arc::new(Counting::new(named(&names), Duration::ZERO));
    let server = Server::start(storage.clone()).await;
    let mut seen = Vec::new();
    let mut after = String::new();
    let mut pages = 0;
    loop {
        let next = page(&server, &format!("?folder=films{after}")).await;
        let found = entries(&next);
        assert!((1..=500).contains(&found.len()));
        seen.extend(found);
        pages += 1;
        match next["next"].as_str() {
            Some(token) => after = format!("&after={token}"),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages, storage.take().len()), (850, 4, 4));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 850);
    // Each page is remembered.
    page(&server, &format!("?folder=films{after}")).await;
    page(&server, "?folder=films").await;
    assert_eq!(storage.take(), []);
    // A token belongs to one folder.
    let elsewhere = get(server.address, &format!("/api/library?folder={after}")).await;
    assert_eq!(elsewhere.status, 400);
}

/// A folder of 100,000 pictures has no titles, and is not listed to its end to find that out.
#[tokio::test]
async fn a_page_with_nothing_to_show_takes_few_listings() {
    let names: Vec<String> = (0..5000).map(|n| format!("{n:04}.jpg")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let memory = named(&names);
    memory.put(key("5.mp4"), "x");
    let storage = Arc::new(Counting::new(memory, Duration::ZERO));
    let server = Server::start(storage.clone()).await;
    let first = page(&server, "").await;
    assert_eq!((entries(&first).len(), storage.take().len()), (0, 4));
    let mut after = first["next"].as_str().unwrap().to_owned();
    while let Some(next) = page(&server, &format!("?after={after}")).await["next"].as_str() {
        next.clone_into(&mut after);
    }
    let last = page(&server, &format!("?after={after}")).await;
    assert_eq!(entries(&last), ["5.mp4 5 file 1"]);
    assert_eq!(storage.take().len(), 7);
}

/// Each request listed the folder.
#[tokio::test]
async fn a_folder_that_many_clients_open_at_one_time_is_listed_once() {
    let gate = Gate::new();
    let waits = gate.clone();
    let faulty = Faulty::new(library(), move |_, _, _| Fault::Wait(waits.clone()));
    let storage = Arc::new(Counting::new(Arc::new(faulty), Duration::ZERO));
    let server = Server::start(storage.clone()).await;
    let requests = (0..20).map(|_| page(&server, "?folder=harbour"));
    let opened = async {
        gate.reached(1).await;
        gate.open();
    };
    let (pages, ()) = tokio::join!(futures_util::future::join_all(requests), opened);
    assert!(pages.iter().all(|page| entries(page) == ["harbour harbour folder 5"]));
    assert_eq!(storage.take().len(), 1);
    // No folder is looked for again at once if it is missing.
    for _ in 0..3 {
        assert_eq!(get(server.address, "/api/library?folder=none").await.status, 404);
    }
    assert_eq!(storage.take().len(), 1);
}

/// Requests for many folders at one time would take all requests to storage from players.
#[tokio::test(start_paused = true)]
async fn the_library_lists_few_folders_at_one_time() {
    let memory = library();
    let faulty = Faulty::new(memory, |_, _, want| if want.is_none() { Fault::Silence } else { Fault::None });
    let storage = Arc::new(Counting::new(Arc::new(faulty), Duration::ZERO));
    let server = Server::start(storage.clone()).await;
    let urls: Vec<String> = (0..30).map(|n| format!("/api/library?folder={n}")).collect();
    let requests = urls.iter().map(|url| get(server.address, url));
    let mut requests: futures_util::stream::FuturesUnordered<_> = requests.collect();
    for _ in 0..22 {
        let response = tokio::time::timeout(Duration::from_secs(60), requests.next()).await;
        let response = response.expect("the others do not wait for ever").unwrap();
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (503, "storage_busy"));
    }
    assert_eq!(storage.take().len(), 8);
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
    assert_eq!(keys, ["folder", "folders", "listable", "next", "titles"]);
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
async fn the_files_of_the_page_were_sent_uncompressed() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    let server = Server::start(library()).await;
    let mut folders = vec![dist.clone()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let url = format!("/{}", path.strip_prefix(&dist).unwrap().display());
            let text = path;
            let text = std::fs::read(text).unwrap();
            let url = url.replace("/index.html", "/");
            let plain = get(server.address, &url).await;
            assert!(plain.status == 200 && plain.body == text, "{url}");
            assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "Accept-Encoding"));
            let gzip = get_with(server.address, &url, &[("accept-encoding", "gzip")]).await;
            assert_eq!((gzip.header("content-encoding"), gzip.header("vary")), ("gzip", "Accept-Encoding"));
            let mut decoded = Vec::new();
            GzDecoder::new(&gzip.body[..]).read_to_end(&mut decoded).unwrap();
            assert!(decoded == text && gzip.body.len() < text.len(), "{url}: {}", gzip.body.len());
            assert_eq!(gzip.header("content-length"), gzip.body.len().to_string());
            assert_ne!(gzip.header("etag"), plain.header("etag"), "{url}");
            let range = [("accept-encoding", "gzip"), ("range", "bytes=1-8")];
            let part = get_with(server.address, &url, &range).await;
            assert!(part.status == 206 && part.body == text[1..9], "{url}");
        }
    }
}

#[tokio::test]
async fn health_checks_succeed() {
    let server = Server::start(Arc::new(Memory::new())).await;
    for path in ["/healthz", "/healthz/live", "/healthz/ready"] {
        assert_eq!(get(server.address, path).await.status, 200, "{path}");
        assert_eq!(send(server.address, Method::HEAD, path, &[]).await.unwrap().status, 200, "{path}");
    }
}
