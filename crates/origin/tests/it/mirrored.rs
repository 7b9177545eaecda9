//! An origin whose storage fails while a mirror works: titles play on if the mirror has the same
//! versions, and no response has bytes of another version.

use crate::{
    rig::{Oracle, library_with, relabelled},
    server::{config, library, sample},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::BodyExt;
use latemux_cache::{Cache, Config};
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{
    Memory, Mirrored, Options, StorageClient, StorageError,
    fault::{Fault, Faulty},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const TITLE: &str = "lighthouse.mp4";
const MANIFEST: &str = "/lighthouse.mp4/.mpd";

/// An origin over a storage with a mirror, and the fault of the storage itself.
struct World {
    fault: Arc<Mutex<Fault>>,
    origin: Origin,
}

impl World {
    fn new(own: Arc<Memory>, mirror: Arc<Memory>) -> Self {
        let fault = Arc::new(Mutex::new(Fault::None));
        let chosen = fault.clone();
        let own = Faulty::new(own, move |_, _, _| chosen.lock().unwrap().clone());
        let options = Options::default();
        let own = StorageClient::new(Arc::new(own), &options);
        let mirrors = [StorageClient::new(mirror, &options)];
        let storage = Arc::new(Mirrored::new(own, mirrors));
        let cache = Cache::open(Config::default()).unwrap();
        let resources = Resources { cache: Some(cache), ..Resources::default() };
        let config = OriginConfig { recheck_after: Duration::ZERO, ..config() };
        Self { fault, origin: Origin::with_resources(storage, resources, config) }
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// Returns status, `Warning` and body, or `None` for an aborted response.
    async fn get(&self, url: &str) -> Option<(u16, String, Bytes)> {
        let response = self.origin.respond(Request::get(url).body(()).unwrap()).await;
        let (head, body) = response.into_parts();
        let warning = head.headers.get("warning").map(|value| value.to_str().unwrap().to_owned());
        let body = body.collect().await.ok()?.to_bytes();
        Some((head.status.as_u16(), warning.unwrap_or_default(), body))
    }

    async fn manifest(&self) -> (u16, String) {
        let (status, warning, _) = self.get(MANIFEST).await.unwrap();
        (status, warning)
    }
}

fn down() -> Fault {
    Fault::Error(StorageError::Unavailable { key: TITLE.to_owned(), detail: "down".to_owned() })
}

#[tokio::test(start_paused = true)]
async fn a_title_plays_on_from_a_mirror() {
    let oracle = Oracle::of(&[library()], &[TITLE]).await;
    for fault in
        [down(), Fault::Error(StorageError::BadResponse { key: TITLE.to_owned(), detail: "x".into() })]
    {
        let world = World::new(library(), library());
        assert_eq!(world.manifest().await, (200, String::new()));
        world.set(fault);
        for (url, right) in &oracle.0 {
            let (status, _, body) = world.get(url).await.unwrap();
            assert_eq!((status, &body), (200, &right[0]), "{url}");
        }
        assert_eq!(world.manifest().await, (200, String::new()), "the mirror confirms the title");
    }
}

/// A body that breaks off continues from the mirror, so that the client notices nothing.
#[tokio::test(start_paused = true)]
async fn a_response_that_breaks_off_continues_from_a_mirror() {
    let oracle = Oracle::of(&[library()], &[TITLE]).await;
    let world = World::new(library(), library());
    world.manifest().await;
    let broken = StorageError::Unavailable { key: TITLE.to_owned(), detail: "reset".to_owned() };
    world.set(Fault::BreakAfter(3000, broken));
    let world = &world;
    let requests = oracle.0.iter().map(|(url, right)| async move {
        let (status, _, body) = world.get(url).await.unwrap();
        assert_eq!((status, &body), (200, &right[0]), "{url}");
    });
    join_all(requests).await;
}

/// The mirror's object has the same size, index and first bytes, but other media.
#[tokio::test(start_paused = true)]
async fn a_mirror_with_other_media_gives_no_byte_to_a_title_in_use() {
    let other = library_with(TITLE, relabelled(&sample(TITLE), 1).await);
    let oracle = Oracle::of(&[library()], &[TITLE]).await;
    let world = World::new(library(), other);
    assert_eq!(world.manifest().await, (200, String::new()));
    let broken = StorageError::Unavailable { key: TITLE.to_owned(), detail: "reset".to_owned() };
    // Comparing a version takes no body, so bodies that break off do not prevent it.
    for (fault, warning) in [(Fault::BreakAfter(3000, broken), ""), (down(), "111 - \"Revalidation Failed\"")]
    {
        world.set(fault);
        for (url, right) in &oracle.0 {
            if let Some((200, _, body)) = world.get(url).await {
                assert_eq!(body, right[0], "{url}: bytes of another version");
            }
        }
        assert_eq!(world.manifest().await, (200, warning.to_owned()));
    }
    world.set(Fault::None);
    assert_eq!(world.manifest().await, (200, String::new()));
    for (url, right) in &oracle.0 {
        let (status, _, body) = world.get(url).await.unwrap();
        assert_eq!((status, &body), (200, &right[0]), "{url}");
    }
}
