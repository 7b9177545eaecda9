use crate::{Origin, OriginConfig};
use http::{Request, Response};
use http_body_util::BodyExt;
use latemux_storage::{
    Key, Memory, StorageError, Want,
    fault::{Fault, Faulty},
};
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::advance;

const MPD: &str = "/film.mp4/.mpd";

fn sample(name: &str) -> Vec<u8> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/library");
    std::fs::read(library.join(name)).unwrap()
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// An origin over storage whose requests are noted, and that fails when it is told to.
struct Server {
    memory: Arc<Memory>,
    fault: Arc<Mutex<Fault>>,
    /// What was requested since the last look; `None` for listings.
    requests: Arc<Mutex<Vec<Option<Want>>>>,
    origin: Origin,
}

impl Server {
    fn new(config: OriginConfig) -> Self {
        let memory = Arc::new(Memory::new());
        memory.put(key("film.mp4"), sample("lighthouse.mp4"));
        for name in ["video-180p.mp4", "video-360p.mp4"] {
            memory.put(key(&format!("folder/{name}")), sample(&format!("harbour/{name}")));
        }
        let fault = Arc::new(Mutex::new(Fault::None));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (chosen, noted) = (fault.clone(), requests.clone());
        let storage = Faulty::new(memory.clone(), move |_, _, want| {
            noted.lock().unwrap().push(want.cloned());
            chosen.lock().unwrap().clone()
        });
        Self { memory, fault, requests, origin: Origin::new(Arc::new(storage), config) }
    }

    /// An origin that compares a title with storage for each manifest.
    fn always_comparing() -> Self {
        Self::new(OriginConfig { recheck_after: Duration::ZERO, ..OriginConfig::default() })
    }

    async fn get(&self, url: &str) -> Response<Vec<u8>> {
        let (head, body) = self.origin.respond(Request::get(url).body(()).unwrap()).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(head, body.to_vec())
    }

    /// Takes a title from memory, as if others had needed its place, and returns its ID.
    async fn evict(&self, base: &str) -> u64 {
        let id = self.origin.title(base).await.unwrap().id;
        assert!(self.origin.app().titles.forget_loaded(base));
        self.requests();
        id
    }

    fn requests(&self) -> Vec<Option<Want>> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_loaded(&self, base: &str) -> bool {
        self.origin.app().titles.is_loaded(base)
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    /// Returns the right response of an origin that has just started.
    async fn right(&self, url: &str) -> Response<Vec<u8>> {
        let origin = Origin::new(self.memory.clone(), OriginConfig::default());
        let (head, body) = origin.respond(Request::get(url).body(()).unwrap()).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(head, body.to_vec())
    }
}

fn down() -> Fault {
    Fault::Error(StorageError::Unavailable { key: "x".to_owned(), detail: "down".to_owned() })
}

#[tokio::test(start_paused = true)]
async fn a_manifest_of_a_title_that_had_left_memory_took_its_index() {
    let server = Server::new(OriginConfig::default());
    for (base, comparison) in [
        ("film.mp4", vec![Some(Want::Head(1))]),
        ("folder", vec![None, Some(Want::Head(1)), Some(Want::Head(1))]),
    ] {
        let url = format!("/{base}/.mpd");
        let first = server.get(&url).await;
        server.evict(base).await;
        for (wait, expected) in [(0, Vec::new()), (600, comparison), (0, Vec::new())] {
            advance(Duration::from_secs(wait)).await;
            let again = server.get(&url).await;
            assert_eq!((again.status(), again.headers()), (first.status(), first.headers()));
            assert_eq!(again.body(), first.body());
            assert_eq!(server.requests(), expected, "{base} after {wait} s");
        }
        assert!(!server.is_loaded(base));
    }
}

#[tokio::test(start_paused = true)]
async fn a_title_that_rested_is_the_same_title_once_it_is_loaded_again() {
    let server = Server::new(OriginConfig::default());
    server.get(MPD).await;
    let id = server.evict("film.mp4").await;
    // A manifest that nobody has requested, and then a segment.
    for url in ["/film.mp4/.m3u8", "/film.mp4/hls/film-video=0-1.ts"] {
        let response = server.get(url).await;
        let right = server.right(url).await;
        assert_eq!((response.status(), response.body()), (right.status(), right.body()), "{url}");
        assert!(!server.requests().is_empty());
        assert_eq!(server.origin.title("film.mp4").await.unwrap().id, id);
        assert!(server.evict("film.mp4").await == id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resting_title_that_has_changed_is_loaded() {
    let server = Server::always_comparing();
    let before = server.get(MPD).await;
    server.evict("film.mp4").await;
    server.memory.put(key("film.mp4"), sample("buoy.mp4"));
    let after = server.get(MPD).await;
    assert_ne!(after.body(), before.body());
    assert_eq!(after.body(), server.right(MPD).await.body());
    server.evict("film.mp4").await;
    server.memory.remove(&key("film.mp4"));
    assert_eq!(server.get(MPD).await.status(), 404);

    // Another file in a folder is seen although the files that were there are unchanged.
    let url = "/folder/.mpd";
    server.get(url).await;
    server.evict("folder").await;
    server.memory.put(key("folder/video-234p.mp4"), sample("harbour/video-234p.mp4"));
    assert_eq!(server.get(url).await.body(), server.right(url).await.body());
}

#[tokio::test(start_paused = true)]
async fn resting_titles_are_served_for_a_time_while_storage_fails() {
    let server = Server::new(OriginConfig::default());
    let before = server.get(MPD).await;
    server.evict("film.mp4").await;
    server.set(down());
    advance(Duration::from_secs(60 * 50)).await;
    let during = server.get(MPD).await;
    assert_eq!((during.status().as_u16(), during.body()), (200, before.body()));
    assert_eq!(during.headers()["warning"], "111 - \"Revalidation Failed\"");
    server.requests();
    server.get(MPD).await;
    assert_eq!(server.requests(), [], "storage has just failed");
    advance(Duration::from_secs(60 * 11)).await;
    assert_eq!(server.get(MPD).await.status(), 502);
    server.set(Fault::None);
    let after = server.get(MPD).await;
    assert_eq!((after.headers(), after.body()), (before.headers(), before.body()));
    assert!(!server.is_loaded("film.mp4"), "its index need not be read");
    // A storage that does not respond delays a manifest by a second.
    server.set(Fault::Silence);
    advance(Duration::from_secs(60)).await;
    let began = tokio::time::Instant::now();
    assert!(server.get(MPD).await.headers().contains_key("warning"));
    assert_eq!(began.elapsed().as_millis(), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_purge_ends_the_rest_of_a_title() {
    let server = Server::new(OriginConfig::default());
    for prefix in [None, Some("fi")] {
        server.get(MPD).await;
        let id = server.evict("film.mp4").await;
        let titles = &server.origin.app().titles;
        let (ids, _) = match prefix {
            None => titles.purge("film.mp4").await,
            Some(prefix) => titles.purge_prefix(prefix).await,
        };
        assert_eq!(ids, [id]);
        server.requests();
        server.get(MPD).await;
        assert!(server.requests().len() > 1, "its index is read");
        assert_ne!(server.origin.title("film.mp4").await.unwrap().id, id);
    }
}

/// Storage alone does not tell whether a file that could not be read can be read now.
#[tokio::test(start_paused = true)]
async fn nothing_remains_of_a_title_that_lacks_a_part() {
    let server = Server::new(OriginConfig::default());
    server.memory.put(key("folder/video-234p.mp4"), vec![0; 100]);
    assert_eq!(server.get("/folder/.mpd").await.status(), 200);
    server.evict("folder").await;
    server.get("/folder/.mpd").await;
    assert!(server.is_loaded("folder"));
}

/// A title that was deleted was compared with storage for each request.
#[tokio::test(start_paused = true)]
async fn a_missing_title_is_remembered_although_it_rested() {
    let server = Server::new(OriginConfig::default());
    server.get(MPD).await;
    server.evict("film.mp4").await;
    server.memory.remove(&key("film.mp4"));
    advance(Duration::from_secs(11)).await;
    assert_eq!(server.get(MPD).await.status(), 404);
    server.requests();
    for _ in 0..10 {
        assert_eq!(server.get(MPD).await.status(), 404);
    }
    assert_eq!(server.requests(), []);
}

/// The manifest has left memory too, so comparing first would only take longer.
#[tokio::test(start_paused = true)]
async fn a_title_without_the_manifest_is_loaded_at_once() {
    let server = Server::always_comparing();
    server.get(MPD).await;
    server.evict("film.mp4").await;
    server.get("/film.mp4/.m3u8").await;
    let loads = server.requests();
    assert!(!loads.contains(&Some(Want::Head(1))), "{loads:?}");
}
