use super::Titles;
use crate::{
    Origin, OriginConfig,
    title::{checks::Freshness, waiting_inputs::Input, work_queue::Work},
};
use http::Request;
use latemux_packager::{Address, Resource};
use latemux_storage::{Key, Memory, client::on_behalf_of};
use latemux_testmedia::hostile::{HostileFile, HostileTrack};
use std::{
    num::NonZero,
    sync::{Arc, Mutex, mpsc},
    thread::available_parallelism,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::timeout};

/// Time in which the clock of a test is advanced by one second.
const STEP: Duration = Duration::from_millis(100);

/// Number of samples of a film whose title is made in the queue.
const LONG: u32 = 100_000;

/// Returns a film of so many samples.
fn film(samples: u32) -> Vec<u8> {
    let track = HostileTrack {
        repeat: 1,
        timescale: 25,
        samples,
        sample_size: 10,
        sync_every: 50,
        chunk: samples,
        ..HostileTrack::default()
    };
    HostileFile { tracks: vec![track], size: 1_100_000, ..HostileFile::default() }.write()
}

/// Takes all places for usual work. They are free again when the senders are dropped.
async fn occupy(titles: &Arc<Titles>) -> Vec<mpsc::Sender<()>> {
    let places = available_parallelism().map_or(1, NonZero::get);
    let works = (0..places).map(|_| {
        let (end, ended) = mpsc::channel();
        let titles = titles.clone();
        let amount = Work { samples: 100_000, bytes: 1, input: Input::new(&titles, 0) };
        tokio::spawn(async move { titles.work.run(amount, move || ended.recv().is_ok()).await });
        end
    });
    let ends = works.collect();
    tokio::task::yield_now().await;
    ends
}

/// Requests a URL, and returns the status. The clock stands still while work is done, so it is
/// advanced here, slowly enough for the work that is not held up. Fails if no response comes.
async fn get(origin: &Origin, url: &'static str) -> u16 {
    let origin = origin.clone();
    let request = Request::get(url).body(()).unwrap();
    let response = tokio::spawn(async move { origin.respond(request).await.status().as_u16() });
    let begun = Instant::now();
    let mut next = begun + STEP;
    while !response.is_finished() {
        assert!(begun.elapsed() < 200 * STEP, "{url}: waits for work that others keep");
        if Instant::now() >= next {
            next += STEP;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        tokio::task::yield_now().await;
    }
    response.await.unwrap()
}

/// The index of a known title had been evicted, so its title was made anew, and its manifest too.
#[tokio::test(start_paused = true)]
async fn a_known_title_was_refused_while_others_were_being_made() {
    let memory = Memory::new();
    memory.put(Key::new("long.mp4").unwrap(), film(LONG));
    let config = OriginConfig::default();
    let age = config.recheck_after;
    let origin = Origin::new(Arc::new(memory), config);
    assert_eq!(get(&origin, "/long.mp4/.mpd").await, 200);
    let titles = &origin.app().titles;
    let title = origin.title("long.mp4").await.unwrap();
    let occupied = occupy(titles).await;
    // What is not in memory has to wait for a place.
    assert_eq!(get(&origin, "/long.mp4/.m3u8").await, 503);
    tokio::time::advance(age).await;
    assert!(titles.store.forget_in_memory(&title.objects[0].file));
    assert_eq!(get(&origin, "/long.mp4/.mpd").await, 200);
    assert_eq!(origin.title("long.mp4").await.unwrap().id, title.id);
    drop(occupied);
}

#[tokio::test]
async fn values_are_kept_from_the_index_of_a_title_to_its_first_manifest() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library/lighthouse.mp4");
    let memory = Memory::new();
    for name in ["a.mp4", "b.mp4"] {
        memory.put(Key::new(name).unwrap(), std::fs::read(sample).unwrap());
    }
    let origin = Origin::new(Arc::new(memory), OriginConfig::default());
    let status = async |url: String| origin.respond(Request::get(url).body(()).unwrap()).await.status();
    let titles = &origin.app().titles;
    let bytes = || titles.store.indexer.recent.bytes();
    let title = titles.load("a.mp4", Freshness::Recent).await.unwrap();
    assert!(bytes() > 4000, "{}", bytes());
    assert_eq!(status("/a.mp4/.mpd".to_owned()).await, 200);
    assert_eq!(bytes(), 0);
    // The first request of the other title is for a segment.
    let name = title.title.tracks()[0].name.clone();
    let url = Address::new("b.mp4", Resource::DashSegment(name, 1)).to_url();
    assert_eq!(status(url).await, 200);
    assert_eq!(bytes(), 0);
}

/// Slow readers of many films kept the indexes of all of them in memory.
#[tokio::test]
async fn a_response_kept_the_index_of_its_title() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library/lighthouse.mp4");
    let memory = Memory::new();
    memory.put(Key::new("a.mp4").unwrap(), std::fs::read(sample).unwrap());
    let origin = Origin::new(Arc::new(memory), OriginConfig::default());
    let titles = &origin.app().titles;
    let title = titles.load("a.mp4", Freshness::Recent).await.unwrap();
    let name = title.title.tracks()[0].name.clone();
    let url = Address::new("a.mp4", Resource::DashSegment(name, 1)).to_url();
    let response = origin.respond(Request::get(url).body(()).unwrap()).await;
    assert_eq!(response.status(), 200);
    let (loaded, index) = (Arc::downgrade(&title), Arc::downgrade(&title.objects[0].index));
    drop(title);
    assert!(titles.forget_loaded("a.mp4"));
    assert!(loaded.upgrade().is_none() && index.upgrade().is_none());
    drop(response);
}

/// Once the new index was read, manifests of the old version were served, although storage has no
/// bytes for them any more.
#[tokio::test(start_paused = true)]
async fn a_changed_title_was_served_as_it_was_while_others_were_being_made() {
    let memory = Arc::new(Memory::new());
    let key = Key::new("long.mp4").unwrap();
    memory.put(key.clone(), film(LONG));
    let config = OriginConfig::default();
    let age = config.recheck_after;
    let origin = Origin::new(memory.clone(), config);
    assert_eq!(get(&origin, "/long.mp4/.mpd").await, 200);
    let before = origin.title("long.mp4").await.unwrap().id;
    let occupied = occupy(&origin.app().titles).await;
    memory.put(key, film(LONG - 1));
    tokio::time::advance(age).await;
    assert_eq!(get(&origin, "/long.mp4/.mpd").await, 503);
    drop(occupied);
    assert_eq!(get(&origin, "/long.mp4/.mpd").await, 200);
    assert_ne!(origin.title("long.mp4").await.unwrap().id, before);
}

/// Number of titles that one client requests at one time.
const MANY: usize = 100;

/// Requests many titles for one client, and then one for another client, all at one time. Returns
/// how many titles of the first client were loaded before that of the other one.
async fn loaded_before_another_client(titles: &Arc<Titles>, freshness: Freshness) -> usize {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut loads = JoinSet::new();
    for number in 0..=MANY {
        let (titles, order) = (titles.clone(), order.clone());
        let client = if number == MANY { 2 } else { 1 };
        loads.spawn(on_behalf_of(client, async move {
            titles.load(&format!("{number}.mp4"), freshness).await.unwrap();
            order.lock().unwrap().push(client);
        }));
    }
    let ended = async { while loads.join_next().await.is_some() {} };
    timeout(Duration::from_secs(60), ended).await.expect("the loads wait for each other");
    let order = order.lock().unwrap();
    assert_eq!(order.len(), MANY + 1);
    order.iter().position(|client| *client == 2).unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_title_of_a_client_was_loaded_after_all_those_of_another_one() {
    let memory = Memory::new();
    for number in 0..=MANY {
        memory.put(Key::new(&format!("{number}.mp4")).unwrap(), film(100));
    }
    let origin = Origin::new(Arc::new(memory), OriginConfig::default());
    let before = loaded_before_another_client(&origin.app().titles, Freshness::Recent).await;
    assert!(before <= 4 * available_parallelism().map_or(1, NonZero::get), "{before} before");
}
