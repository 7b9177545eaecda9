//! Storage that fails for a long time while a title is in memory: manifests are served, and say so.

use crate::{
    client::get,
    log,
    rig::{FetchResult, Oracle, Rig, Tiers},
    server::{Server, config, key, library, sample},
};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use latemux_origin::{Origin, OriginConfig};
use latemux_storage::{
    Memory, Options, Storage, StorageError, Want,
    fault::{Fault, Faulty, Gate},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{Instant, advance};

const MPD: &str = "/harbour/.mpd";

fn down() -> Fault {
    Fault::Error(StorageError::Unavailable { key: "x".to_owned(), detail: "down".to_owned() })
}

/// An origin over storage with a fault that lasts until another one is set.
struct Outage {
    memory: Arc<Memory>,
    fault: Arc<Mutex<Fault>>,
    /// Ranges that were requested since the last look; `None` for listings.
    requests: Arc<Mutex<Vec<Option<Want>>>>,
    storage: Arc<dyn Storage>,
    origin: Origin,
}

impl Outage {
    fn new(config: OriginConfig) -> Self {
        let memory = library();
        let fault = Arc::new(Mutex::new(Fault::None));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let chosen = fault.clone();
        let log = requests.clone();
        let storage = Arc::new(Faulty::new(memory.clone(), move |_, _, want| {
            log.lock().unwrap().push(want.cloned());
            chosen.lock().unwrap().clone()
        }));
        let origin = Origin::new(storage.clone(), config);
        Self { memory, fault, requests, storage, origin }
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap() = fault;
    }

    async fn get(&self, url: &str) -> Response<Vec<u8>> {
        let response = self.origin.respond(Request::get(url).body(()).unwrap()).await;
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(head, body.to_vec())
    }

    /// Requests the MPD, and returns status and `Warning`.
    async fn mpd(&self) -> (u16, String) {
        let response = self.get(MPD).await;
        (response.status().as_u16(), warning(&response))
    }
}

fn warning(response: &Response<Vec<u8>>) -> String {
    let warning = response.headers().get("warning").map(|value| value.to_str().unwrap());
    warning.unwrap_or_default().to_owned()
}

const STALE: &str = "111 - \"Revalidation Failed\"";

/// Each manifest request is compared with storage.
fn always_compared() -> OriginConfig {
    OriginConfig { recheck_after: Duration::ZERO, ..config() }
}

#[tokio::test(start_paused = true)]
async fn manifests_are_served_from_memory_while_storage_fails() {
    let name = || "x".to_owned();
    for error in [
        StorageError::Unavailable { key: name(), detail: "down".to_owned() },
        StorageError::TimedOut { key: name(), after: Duration::from_secs(10) },
        StorageError::Throttled { key: name(), retry_after: None },
        StorageError::BadResponse { key: name(), detail: "gzip".to_owned() },
        StorageError::Busy { key: name(), after: Duration::from_secs(10) },
        StorageError::WrongCredentials { key: name(), detail: "ExpiredToken".to_owned() },
    ] {
        let outage = Outage::new(config());
        let before = outage.get(MPD).await;
        assert_eq!((before.status(), warning(&before).as_str()), (StatusCode::OK, ""));
        outage.set(Fault::Error(error.clone()));
        // Longer than `recheck_after`.
        for minutes in [1, 20, 38] {
            advance(Duration::from_secs(60 * minutes)).await;
            let during = outage.get(MPD).await;
            assert_eq!((during.status(), warning(&during).as_str()), (StatusCode::OK, STALE), "{error}");
            assert_eq!(during.body(), before.body());
            assert_eq!(during.headers()["etag"], before.headers()["etag"]);
            // A manifest that nobody has requested before.
            let other = outage.get("/harbour/.m3u8").await;
            assert_eq!((other.status(), warning(&other).as_str()), (StatusCode::OK, STALE));
        }
        // A segment says nothing: its bytes are read in the version that its title states.
        outage.set(Fault::None);
        assert_eq!(outage.get("/harbour/dash/x-video=152000.dash").await.status(), 200);
        advance(Duration::from_secs(60)).await;
        let after = outage.get(MPD).await;
        assert_eq!((after.status(), warning(&after).as_str()), (StatusCode::OK, ""));
        assert_eq!(after.headers(), before.headers());
        assert_eq!(after.body(), before.body());
    }
}

#[tokio::test(start_paused = true)]
async fn manifests_from_memory_end_after_a_time() {
    let outage = Outage::new(config());
    outage.mpd().await;
    outage.set(down());
    advance(Duration::from_secs(60 * 59)).await;
    assert_eq!(outage.mpd().await, (200, STALE.to_owned()));
    advance(Duration::from_secs(62)).await;
    assert_eq!(outage.mpd().await.0, 502);
    // Storage answers again, and then fails again: the hour begins anew.
    outage.set(Fault::None);
    assert_eq!(outage.mpd().await, (200, String::new()));
    outage.set(down());
    advance(Duration::from_secs(60 * 59)).await;
    assert_eq!(outage.mpd().await, (200, STALE.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn manifests_from_memory_can_be_switched_off() {
    let outage = Outage::new(OriginConfig { stale_if_error: Duration::ZERO, ..always_compared() });
    outage.mpd().await;
    outage.set(down());
    assert_eq!(outage.mpd().await.0, 502);
}

/// A missing object is no failure of storage, and a changed one must not be played as it was.
#[tokio::test(start_paused = true)]
async fn a_title_that_is_gone_or_changed_is_not_served_from_memory() {
    let outage = Outage::new(always_compared());
    let list = "/harbour/video-,360p,180p,.mp4.urlset/.mpd";
    assert_eq!(outage.get(list).await.status(), 200);
    outage.memory.remove(&key("harbour/video-360p.mp4"));
    assert_eq!(outage.get(list).await.status(), 404);

    let url = "/lighthouse.mp4/.mpd";
    assert_eq!(outage.get(url).await.status(), 200);
    outage.memory.put(key("lighthouse.mp4"), sample("buoy.mp4"));
    // Storage says that the object has changed, and then fails.
    let mut answers = 0;
    let storage = Arc::new(Faulty::new(outage.memory.clone(), move |_, _, _| {
        answers += 1;
        // The title is indexed with two reads, and compared with one.
        if answers <= 3 { Fault::None } else { down() }
    }));
    outage.memory.put(key("lighthouse.mp4"), sample("lighthouse.mp4"));
    let origin = Origin::new(storage, always_compared());
    let status = async || origin.respond(Request::get(url).body(()).unwrap()).await.status().as_u16();
    assert_eq!(status().await, 200);
    outage.memory.put(key("lighthouse.mp4"), sample("buoy.mp4"));
    assert_eq!(status().await, 503, "source_changed");
    assert_eq!(status().await, 502, "the title in memory is known to be outdated");
}

/// Storage that does not respond at all delays one manifest by a second, not each by its timeouts.
#[tokio::test(start_paused = true)]
async fn manifests_do_not_wait_for_the_timeouts_of_storage() {
    let outage = Outage::new(config());
    outage.mpd().await;
    outage.set(Fault::Silence);
    advance(Duration::from_secs(11)).await;
    let began = Instant::now();
    assert_eq!(outage.mpd().await, (200, STALE.to_owned()));
    assert_eq!(began.elapsed().as_millis(), 1000);
    for _ in 0..100 {
        assert_eq!(outage.mpd().await, (200, STALE.to_owned()));
    }
    assert_eq!(began.elapsed().as_millis(), 1000, "storage is not asked for 2 s");
    advance(Duration::from_secs(2)).await;
    let began = Instant::now();
    outage.mpd().await;
    assert_eq!(began.elapsed().as_millis(), 100);
}

/// A new index may take long to read. The title in memory is known to be outdated meanwhile.
#[tokio::test(start_paused = true)]
async fn a_changed_title_is_waited_for() {
    let outage = Outage::new(always_compared());
    let url = "/lighthouse.mp4/.mpd";
    outage.get(url).await;
    outage.memory.put(key("lighthouse.mp4"), sample("buoy.mp4"));
    let gate = Gate::new();
    outage.set(Fault::Wait(gate.clone()));
    // The comparison, then the first read of the index.
    gate.let_one_pass();
    let opened = async {
        gate.reached(2).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        gate.open();
    };
    let began = Instant::now();
    let (current, ()) = tokio::join!(outage.get(url), opened);
    assert_eq!(began.elapsed().as_secs(), 20);
    assert_eq!((current.status(), warning(&current).as_str()), (StatusCode::OK, ""));
    let right = Origin::new(outage.memory.clone(), config());
    let right = right.respond(Request::get(url).body(()).unwrap()).await;
    assert_eq!(current.headers()["etag"], right.headers()["etag"]);
}

/// While storage fails, one comparison in two seconds finds out whether it works again.
#[tokio::test(start_paused = true)]
async fn a_failing_storage_is_not_asked_for_each_manifest() {
    let outage = Outage::new(config());
    outage.mpd().await;
    outage.set(down());
    advance(Duration::from_secs(11)).await;
    outage.requests.lock().unwrap().clear();
    for _ in 0..100 {
        outage.mpd().await;
    }
    // The folder is listed, and nothing else.
    assert_eq!(*outage.requests.lock().unwrap(), [None]);
}

/// An error says nothing about an index: none is read again when storage works again.
#[tokio::test(start_paused = true)]
async fn indexes_in_memory_outlive_a_failure_of_storage() {
    let outage = Outage::new(always_compared());
    let url = "/lighthouse.mp4/.mpd";
    outage.get(url).await;
    for fault in [down(), Fault::Error(StorageError::Denied("x".to_owned()))] {
        outage.set(fault);
        outage.get(url).await;
    }
    outage.set(Fault::None);
    outage.requests.lock().unwrap().clear();
    let after = outage.get(url).await;
    assert_eq!((after.status(), warning(&after).as_str()), (StatusCode::OK, ""));
    assert_eq!(*outage.requests.lock().unwrap(), [Some(Want::Head(1))], "one comparison");
}

/// All media is in the range cache, so the title plays on.
#[tokio::test(start_paused = true)]
async fn a_cached_title_plays_on_while_storage_fails() {
    let title = "lighthouse.mp4";
    let oracle = Oracle::of(&[library()], &[title]).await;
    let rig = Rig::with(Tiers::Memory, library(), &Options::default(), config(), |_| {});
    assert_eq!(rig.manifest(title).await, 200);
    let urls: Vec<String> = oracle.urls().cloned().collect();
    rig.get_all(&oracle, &urls).await;
    rig.idle().await;
    rig.storm.set(|_, _| down());
    for _ in 0..3 {
        advance(Duration::from_secs(60)).await;
        assert_eq!(rig.manifest(title).await, 200);
        for got in rig.get_all(&oracle, &urls).await {
            assert_eq!(got, FetchResult::Right(0));
        }
    }
}

#[tokio::test]
async fn manifests_from_memory_are_counted_and_logged() {
    log::keep();
    let outage = Outage::new(always_compared());
    let server = Server::of(Origin::new(outage.storage.clone(), always_compared()), None).await;
    get(server.address, "/ferry.mp4/.mpd").await;
    outage.set(down());
    for _ in 0..3 {
        assert_eq!(get(server.address, "/ferry.mp4/.mpd").await.header("warning"), STALE);
    }
    let metrics = get(server.admin, "/metrics").await;
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(metrics.contains("latemux_stale_manifests_total{} 3"), "{metrics}");
    let said = log::lines(&[" WARN ", "storage does not confirm the title", "ferry.mp4"]);
    assert_eq!(said.len(), 1, "once for each outage");
}
