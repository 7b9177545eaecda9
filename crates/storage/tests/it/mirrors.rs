//! A storage that fails, and its mirrors: which reads a mirror answers, and which it must not.

use futures_util::StreamExt;
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::fault::{Fault, Faulty};
use latemux_storage::{
    Key, ListRequest, Memory, Mirrored, Options, ReadRequest, Storage, StorageClient, StorageError, Version,
    Want,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIZE: usize = 1000;

fn film() -> Key {
    Key::new("film.mp4").unwrap()
}

fn down() -> Fault {
    Fault::Error(StorageError::Unavailable { key: "film.mp4".to_owned(), detail: "down".to_owned() })
}

/// Two storages in memory, and the faults of each.
struct Pair {
    objects: [Arc<Memory>; 2],
    faults: [Arc<Mutex<Fault>>; 2],
    clients: [StorageClient; 2],
    both: Mirrored,
}

impl Pair {
    /// Fills the storage itself and its mirror with these contents of the film.
    fn new(own: &[u8], mirror: &[u8]) -> Self {
        let objects = [own, mirror].map(|content| {
            let memory = Arc::new(Memory::new());
            memory.put(film(), content.to_vec());
            memory
        });
        let faults = [(); 2].map(|()| Arc::new(Mutex::new(Fault::None)));
        let client = |number: usize| {
            let fault = faults[number].clone();
            let faulty = Faulty::new(objects[number].clone(), move |_, _, _| fault.lock().unwrap().clone());
            StorageClient::new(Arc::new(faulty), &Options::default())
        };
        let clients = [client(0), client(1)];
        let both = Mirrored::new(clients[0].clone(), [clients[1].clone()]);
        Self { objects, faults, clients, both }
    }

    fn set(&self, number: usize, fault: Fault) {
        *self.faults[number].lock().unwrap() = fault;
    }

    async fn get(&self, want: Want, pin: Option<&Version>) -> Result<Vec<u8>, StorageError> {
        let reading = async {
            let read = self.both.read(ReadRequest::new(&film(), want).pinned_to(pin)).await?;
            Ok(collect(read).await?.to_vec())
        };
        let read = tokio::time::timeout(Duration::from_secs(60), reading).await;
        read.expect("a storage that does not respond is not waited for")
    }

    /// Numbers of requests to both storages so far.
    fn requests(&self) -> [u64; 2] {
        [0, 1].map(|number| self.clients[number].counters().figures().requests)
    }

    async fn version(&self) -> Version {
        self.both.read(ReadRequest::head(&film(), 1)).await.unwrap().object.version
    }

    /// Lets the storage itself fail until it counts as failing.
    async fn suspend(&self, pin: &Version) {
        self.set(0, down());
        for _ in 0..5 {
            self.get(Want::Range(0..10), Some(pin)).await.unwrap();
        }
        assert_eq!(self.clients[0].counters().figures().suspended, 1);
    }
}

#[tokio::test]
async fn a_mirror_is_not_asked_while_storage_works() {
    let content = pattern(1, SIZE);
    let pair = Pair::new(&content, &content);
    let version = pair.version().await;
    assert_eq!(pair.get(Want::Range(5..50), Some(&version)).await.unwrap(), content[5..50]);
    // These are answers, not failures.
    let absent = Key::new("absent.mp4").unwrap();
    pair.objects[1].put(absent.clone(), content.clone());
    let missing = pair.both.read(ReadRequest::head(&absent, 1)).await.unwrap_err();
    assert_eq!(missing.reason(), "source_not_found");
    let other = Version { etag: Some("\"other\"".into()), ..version };
    assert_eq!(pair.get(Want::Head(1), Some(&other)).await.unwrap_err().reason(), "source_changed");
    assert_eq!(pair.requests()[1], 0);
}

#[tokio::test]
async fn a_mirror_answers_for_a_known_version_if_it_has_the_same() {
    let content = pattern(1, SIZE);
    let pair = Pair::new(&content, &content);
    let version = pair.version().await;
    pair.set(0, down());
    assert_eq!(pair.get(Want::Range(5..50), Some(&version)).await.unwrap(), content[5..50]);
    assert_eq!(pair.clients[1].counters().figures().fallbacks, 1);
}

/// A mirror with other bytes may have the same size, but its bytes are never served for those of a
/// known version, and its answer does not say that the object has changed.
#[tokio::test]
async fn a_mirror_with_another_version_does_not_answer_for_a_known_one() {
    let pair = Pair::new(&pattern(1, SIZE), &pattern(2, SIZE));
    let version = pair.version().await;
    pair.set(0, down());
    for _ in 0..10 {
        let outcome = pair.get(Want::Range(5..50), Some(&version)).await;
        assert_eq!(outcome.unwrap_err().reason(), "storage_unavailable");
    }
    // Nor if it has no such object, or fails too.
    pair.objects[1].remove(&film());
    let outcome = pair.get(Want::Range(5..50), Some(&version)).await;
    assert_eq!(outcome.unwrap_err().reason(), "storage_unavailable");
    assert_eq!(pair.clients[1].counters().figures().fallbacks, 0);
}

/// A size alone does not tell versions apart.
#[tokio::test]
async fn a_version_without_etag_and_date_is_not_read_from_a_mirror() {
    let content = pattern(1, SIZE);
    let pair = Pair::new(&content, &content);
    pair.set(0, down());
    let size_only = Version { etag: None, size: 1000, modified: None };
    for _ in 0..10 {
        let outcome = pair.get(Want::Range(5..50), Some(&size_only)).await;
        assert_eq!(outcome.unwrap_err().reason(), "storage_unavailable");
    }
    assert_eq!(pair.requests()[1], 0);
}

#[tokio::test]
async fn a_body_that_breaks_off_continues_from_a_mirror_with_the_same_version() {
    let content = pattern(1, SIZE);
    for (mirror, expected) in [(content.clone(), true), (pattern(2, SIZE), false)] {
        let pair = Pair::new(&content, &mirror);
        let version = pair.version().await;
        pair.set(0, Fault::reset_after(&film(), 300));
        let read = pair.both.read(ReadRequest::range(&film(), 100..900).pinned(&version)).await.unwrap();
        let frames: Vec<_> = read.body.collect().await;
        let bytes: Vec<u8> = frames.iter().flatten().flatten().copied().collect();
        assert_eq!(frames.iter().all(Result::is_ok), expected);
        assert!(content[100..900].starts_with(&bytes), "bytes of another version");
        assert_eq!(bytes.len(), if expected { 800 } else { 300 });
        // Both fail: the error is that of the body.
        pair.set(1, down());
        let outcome = pair.get(Want::Range(100..900), Some(&version)).await;
        assert_eq!(outcome.unwrap_err().reason(), "storage_unavailable");
    }
}

/// A single failure must not lead to another version of an object, but an outage may.
#[tokio::test(start_paused = true)]
async fn an_unknown_version_comes_from_a_mirror_only_while_storage_counts_as_failing() {
    let own = pattern(1, SIZE);
    let mirror = pattern(2, SIZE);
    let pair = Pair::new(&own, &mirror);
    pair.set(0, down());
    for _ in 0..4 {
        assert_eq!(pair.get(Want::Head(10), None).await.unwrap_err().reason(), "storage_unavailable");
        assert_eq!(
            pair.both.list(ListRequest::new(&Key::root())).await.unwrap_err().reason(),
            "storage_unavailable"
        );
        pair.set(0, Fault::None);
        pair.get(Want::Head(10), None).await.unwrap();
        pair.set(0, down());
    }
    assert_eq!(pair.requests()[1], 0);
    for _ in 0..4 {
        pair.get(Want::Head(10), None).await.unwrap_err();
    }
    assert_eq!(pair.get(Want::Head(10), None).await.unwrap(), mirror[..10]);
    assert_eq!(pair.both.list(ListRequest::new(&Key::root())).await.unwrap().objects.len(), 1);
}

/// Only the storage that made the token of a page understands it.
#[tokio::test(start_paused = true)]
async fn the_pages_of_a_listing_come_from_one_storage() {
    let content = pattern(1, SIZE);
    let pair = Pair::new(&content, &content);
    let root = Key::root();
    for objects in &pair.objects {
        objects.put(Key::new("another.mp4").unwrap(), content.clone());
    }
    let first = || ListRequest::new(&root).limited(1);
    let page = pair.both.list(first()).await.unwrap();
    let own = page.next.unwrap();
    assert_eq!(page.objects[0].0, "another.mp4");
    let version = pair.version().await;
    pair.suspend(&version).await;
    let before = pair.requests();
    pair.both.list(first().after(Some(&own))).await.unwrap_err();
    assert_eq!((pair.requests()[0], pair.requests()[1]), (before[0] + 1, before[1]));
    // The first page comes from the mirror now, and so does the next, although storage works again.
    let mirrored = pair.both.list(first()).await.unwrap().next.unwrap();
    pair.set(0, Fault::None);
    let before = pair.requests();
    let last = pair.both.list(first().after(Some(&mirrored))).await.unwrap();
    assert_eq!((last.objects.len(), last.next), (1, None));
    assert_eq!((pair.requests()[0], pair.requests()[1]), (before[0], before[1] + 1));
}

/// While storage fails, requests do not wait for it. A probe notices that it works again.
#[tokio::test(start_paused = true)]
async fn a_failing_storage_is_asked_last_until_a_probe_succeeds() {
    let content = pattern(1, SIZE);
    let pair = Pair::new(&content, &content);
    let version = pair.version().await;
    pair.suspend(&version).await;
    // It does not even respond now.
    pair.set(0, Fault::Silence);
    let before = pair.requests()[0];
    for _ in 0..10 {
        pair.get(Want::Range(0..10), Some(&version)).await.unwrap();
    }
    assert_eq!(pair.requests()[0], before);
    // If no mirror can answer, it is asked after all.
    pair.set(0, Fault::None);
    pair.set(1, down());
    assert_eq!(pair.get(Want::Range(0..10), Some(&version)).await.unwrap(), content[..10]);
    assert_eq!(pair.clients[0].counters().figures().suspended, 0, "it works again");
    pair.set(1, Fault::None);
    pair.suspend(&version).await;
    pair.set(0, Fault::None);
    let asked = pair.requests()[0];
    for _ in 0..3 {
        pair.get(Want::Range(0..10), Some(&version)).await.unwrap();
    }
    assert_eq!(pair.requests()[0], asked, "not yet");
    tokio::time::advance(Duration::from_secs(5)).await;
    pair.get(Want::Range(0..10), Some(&version)).await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pair.clients[0].counters().figures().suspended, 0, "the probe finds that it works");
    let asked = pair.requests()[0];
    let mirrored = pair.requests()[1];
    pair.get(Want::Range(0..10), Some(&version)).await.unwrap();
    assert_eq!(pair.requests(), [asked + 1, mirrored]);
}
