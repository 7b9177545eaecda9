//! Index MP4s written beside their media: once, by one of several nodes, and again if the media
//! changes.

use crate::{
    client::{fetch, get},
    server::{HARBOUR, Server, crawl, index_file, key, library, sample},
};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use latemux_index::media::stamp::MEDIA_HEAD;
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{
    Folder, Key, Memory, ReadRequest, Storage, StorageError, Version, Want,
    conformance::collect,
    counting::Counting,
    write::{ConditionalPut, WriteError},
};
use latemux_testmedia::rewrite::{Variant, progressive};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

async fn node(storage: Arc<dyn Storage>, write: Arc<dyn ConditionalPut>, on: bool) -> Server {
    let mut config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    config.index.write = on;
    let resources = Resources { write: Some(write), ..Resources::default() };
    Server::of(Origin::with_resources(storage, resources, config), None).await
}

async fn outcomes(server: &Server) -> BTreeMap<String, u64> {
    let text = String::from_utf8(fetch(server.admin, "/metrics").await.to_vec()).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("latemux_index_files_total{outcome=\""));
    lines
        .map(|line| line.split_once("\"} ").unwrap())
        .map(|(word, count)| (word.to_owned(), count.parse().unwrap()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Waits until a number of files were handled, and returns the outcomes.
async fn done(server: &Server, files: u64) -> BTreeMap<String, u64> {
    loop {
        let outcomes = outcomes(server).await;
        if outcomes.values().sum::<u64>() >= files {
            return outcomes;
        }
        tokio::task::yield_now().await;
    }
}

fn only(word: &str, count: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([(word.to_owned(), count)])
}

fn beside(name: &str) -> String {
    format!("{}.index.mp4", name.rsplit_once('.').unwrap().0)
}

async fn bytes(storage: &dyn Storage, name: &str) -> Option<Bytes> {
    let read = storage.read(ReadRequest::head(&key(name), u64::MAX)).await.ok()?;
    Some(collect(read).await.unwrap())
}

async fn bodies(server: &Server, title: &str) -> BTreeMap<String, Bytes> {
    let mut bodies = BTreeMap::new();
    for url in crawl(server.address, title).await {
        bodies.insert(url.clone(), fetch(server.address, &url).await);
    }
    bodies
}

#[tokio::test]
async fn index_mp4s_are_written_once_and_change_no_response() {
    let memory = library();
    let server = node(memory.clone(), memory.clone(), true).await;
    let before = bodies(&server, "/harbour").await;
    for url in ["/lighthouse.mp4/.mpd", "/fragmented.mp4/.mpd"] {
        fetch(server.address, url).await;
    }
    let files = HARBOUR.len() as u64 + 1;
    assert_eq!(done(&server, files).await, only("new", files));
    for name in HARBOUR.iter().map(|name| format!("harbour/{name}")).chain(["lighthouse.mp4".to_owned()]) {
        let written = bytes(&*memory, &beside(&name)).await.unwrap();
        assert!(written == index_file(&sample(&name), name.rsplit('/').next().unwrap()), "{name}");
    }
    assert!(
        bytes(&*memory, "fragmented.index.mp4").await.is_none(),
        "a file with sidx must get no index MP4"
    );
    // From now on, any node uses them: the responses are the same, and the media's own index is not
    // read.
    let counting = Arc::new(Counting::new(memory.clone(), Duration::ZERO));
    let other = node(counting.clone(), memory.clone(), true).await;
    fetch(other.address, "/harbour/.mpd").await;
    let requests = counting.take();
    assert!(
        requests.iter().all(|r| match &r.want {
            None => true,
            Some(Want::Head(len)) => r.key.as_str().ends_with(".index.mp4") || *len == MEDIA_HEAD,
            Some(Want::Range(_)) => false,
        }),
        "{requests:#?}"
    );
    for server in [&other, &server] {
        let after = bodies(server, "/harbour").await;
        assert!(after == before, "{:?} {:?}", after.keys(), before.keys());
    }
    // One attempt for each version, however often the title is loaded.
    assert_eq!(outcomes(&server).await, only("new", files));
    fetch(other.address, "/lighthouse.mp4/.mpd").await;
    assert_eq!(done(&other, 1).await, only("present", 1));
    for _ in 0..3 {
        fetch(other.address, "/lighthouse.mp4/.mpd").await;
    }
    assert_eq!(outcomes(&other).await, only("present", 1));
}

#[tokio::test]
async fn nothing_is_written_unless_configured() {
    let memory = library();
    let off = node(memory.clone(), memory.clone(), false).await;
    assert!(!crate::server::config().index.write);
    fetch(off.address, "/lighthouse.mp4/.mpd").await;
    // Any attempt of the first node would be over by then.
    let on = node(memory.clone(), memory.clone(), true).await;
    fetch(on.address, "/buoy.mp4/.mpd").await;
    done(&on, 1).await;
    assert!(outcomes(&off).await.is_empty());
    assert!(bytes(&*memory, "lighthouse.index.mp4").await.is_none());
    assert!(bytes(&*memory, "buoy.index.mp4").await.is_some());
}

#[tokio::test]
async fn one_of_many_nodes_writes_each_index_mp4() {
    let memory = library();
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(node(memory.clone(), memory.clone(), true).await);
    }
    let requests = nodes.iter().map(|node| fetch(node.address, "/harbour/.mpd"));
    futures_util::future::join_all(requests).await;
    let mut new = 0;
    let mut all = 0;
    for node in &nodes {
        // A later node may have found index MP4s and made no attempt.
        let outcomes = outcomes(node).await;
        new += outcomes.get("new").copied().unwrap_or(0);
        all += outcomes.values().sum::<u64>();
    }
    let files = HARBOUR.len() as u64;
    while new < files {
        new = 0;
        for node in &nodes {
            new += outcomes(node).await.get("new").copied().unwrap_or(0);
        }
    }
    assert!(new == files && all <= 4 * files, "{new} {all}");
    for name in HARBOUR {
        let name = format!("harbour/{name}");
        assert!(
            bytes(&*memory, &beside(&name)).await.unwrap()
                == index_file(&sample(&name), name.rsplit('/').next().unwrap())
        );
    }
}

/// Returns the same media with every sample at another offset.
fn moved(name: &str) -> Bytes {
    progressive(&sample(name), Variant { moov_last: true, wide_mdat: true, ..Variant::default() }).into()
}

#[tokio::test]
async fn an_outdated_index_mp4_is_replaced_while_the_title_plays() {
    let name = "harbour/video-360p.mp4";
    let memory = library();
    let old = index_file(&sample(name), "video-360p.mp4");
    memory.put(key(&beside(name)), old);
    memory.put(key(name), moved(name));
    let fresh = {
        let memory = library();
        memory.put(key(name), moved(name));
        bodies(&Server::start(memory).await, "/harbour").await
    };
    let without = node(memory.clone(), memory.clone(), false).await;
    assert!(
        bodies(&without, "/harbour").await.len() < fresh.len(),
        "the file with the outdated index is not left out"
    );

    let server = node(memory.clone(), memory.clone(), true).await;
    assert!(bodies(&server, "/harbour").await == fresh);
    let files = HARBOUR.len() as u64;
    let outcomes = done(&server, files).await;
    assert_eq!((outcomes["new"], outcomes["anew"]), (files - 1, 1), "{outcomes:?}");
    let written = bytes(&*memory, &beside(name)).await.unwrap();
    assert!(written == index_file(&moved(name), "video-360p.mp4"));
    assert!(bodies(&without, "/harbour").await == fresh, "other nodes do not use the new index MP4");

    // An index MP4 of another program is never replaced, even if its samples lie beyond the media's
    // end.
    let small = sample("buoy.mp4");
    let foreign = {
        let larger = sample(name);
        assert!(larger.len() > 2 * small.len());
        let mut bytes = index_file(&larger, "a.mp4").to_vec();
        let at = bytes.windows(4).rposition(|w| w == b"uuid").unwrap();
        bytes[at..at + 4].copy_from_slice(b"free");
        Bytes::from(bytes)
    };
    let memory = library();
    memory.put(key("a.mp4"), small);
    memory.put(key("a.index.mp4"), foreign.clone());
    memory.put(key("b.mp4"), moved(name));
    memory.put(key("b.index.mp4"), "not an index");
    let server = node(memory.clone(), memory.clone(), true).await;
    fetch(server.address, "/a.mp4/.mpd").await;
    fetch(server.address, "/b.mp4/.mpd").await;
    assert_eq!(done(&server, 2).await, only("present", 2));
    assert_eq!(bytes(&*memory, "a.index.mp4").await.unwrap(), foreign);
    assert_eq!(bytes(&*memory, "b.index.mp4").await.unwrap(), "not an index");
}

#[tokio::test]
async fn an_index_mp4_whose_name_fits_two_files_is_not_written() {
    let memory = Arc::new(Memory::new());
    memory.put(key("t/film.m4v"), sample("harbour/video-360p.mp4"));
    memory.put(key("t/film.m4a"), sample("harbour/audio-eng.mp4"));
    let server = node(memory.clone(), memory.clone(), true).await;
    let before = bodies(&server, "/t").await;
    assert_eq!(done(&server, 2).await, only("ambiguous", 2));
    assert!(bodies(&server, "/t").await == before);
}

/// Refuses every write.
#[derive(Debug, Default)]
struct ReadOnly(AtomicU32);

impl ConditionalPut for ReadOnly {
    fn put_over<'a>(
        &'a self,
        key: &'a Key,
        _: Bytes,
        _: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<bool, WriteError>> {
        self.0.fetch_add(1, Relaxed);
        async move { Err(WriteError::Storage(StorageError::Denied(key.to_string()))) }.boxed()
    }
}

#[tokio::test]
async fn storage_that_refuses_writes_is_logged_once() {
    crate::log::keep();
    let memory = Arc::new(Memory::new());
    for name in HARBOUR {
        memory.put(key(&format!("refuse-writes/{name}")), sample(&format!("harbour/{name}")));
    }
    let refuses = Arc::new(ReadOnly::default());
    let server = node(memory.clone(), refuses.clone(), true).await;
    let first = bodies(&server, "/refuse-writes").await;
    assert_eq!(done(&server, 1).await, only("failed", 1));
    assert!(bodies(&server, "/refuse-writes").await == first);
    assert_eq!(get(server.address, "/refuse-writes/.mpd").await.status, 200);
    assert_eq!(refuses.0.load(Relaxed), 1, "attempts go on after a refusal");
    let said = crate::log::lines(&["WARN", "index_not_written", "refuse-writes/"]);
    assert!(said.len() == 1 && said[0].contains("access denied"), "{said:?}");
}

#[tokio::test]
async fn an_index_mp4_is_written_into_a_local_folder() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("100% a:b")).unwrap();
    let name = "100% a:b/video one.mp4";
    std::fs::write(dir.path().join(name), sample("lighthouse.mp4")).unwrap();
    let folder = Arc::new(Folder::new(dir.path()).unwrap());
    let server = node(folder.clone(), folder.clone(), true).await;
    fetch(server.address, "/100%25%20a:b/.mpd").await;
    assert_eq!(done(&server, 1).await, only("new", 1));
    let before = bodies(&Server::start(library()).await, "/lighthouse.mp4").await;
    // The folder's title and the index MP4's own title are both served through the index MP4.
    for title in ["/100%25%20a:b", "/100%25%20a:b/video%20one.index.mp4"] {
        let after = bodies(&Server::start(folder.clone()).await, title).await;
        let (mut before, mut after): (Vec<_>, Vec<_>) = (before.values().collect(), after.values().collect());
        // Playlists and manifests hold names, which differ.
        before.retain(|body| std::str::from_utf8(body).is_err());
        after.retain(|body| std::str::from_utf8(body).is_err());
        before.sort();
        after.sort();
        assert!(before == after && before.len() > 10, "{title}: {} {}", before.len(), after.len());
    }
    let names = std::fs::read_dir(dir.path().join("100% a:b")).unwrap().count();
    assert_eq!(names, 2, "a temporary file is left");
}
