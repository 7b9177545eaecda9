//! How often storage is asked, and how much of that one after the other.

use crate::{
    client::fetch,
    server::{HARBOUR, Server, crawl, fragmented, key, library},
};
use latemux_index::media::{IndexSource, Samples};
use latemux_origin::{Origin, OriginConfig};
use latemux_storage::{Memory, counting::Counting};
use latemux_testmedia::{recipe, rewrite::without};
use std::{sync::Arc, time::Duration};

const FAR: Duration = Duration::from_millis(100);

/// Round trips, one after the other, to index a base, when no index fits into the first read.
async fn depth_of(memory: Arc<Memory>, base: &str, head: u64) -> u32 {
    let counting = Arc::new(Counting::new(memory, FAR));
    let mut config = OriginConfig::default();
    config.index.head = head;
    let origin = Origin::new(counting.clone(), config);
    origin.title(base).await.unwrap();
    counting.depth()
}

#[tokio::test(start_paused = true)]
async fn a_cold_title_takes_two_round_trips_however_many_renditions() {
    let memory = library();
    let list = |names: &[&str]| {
        let middles: Vec<_> = names.iter().map(|n| n.strip_suffix(".mp4").unwrap()).collect();
        format!("harbour/,{},.mp4.urlset", middles.join(","))
    };
    for count in 1..=HARBOUR.len() {
        assert_eq!(depth_of(memory.clone(), &list(&HARBOUR[..count]), 1024).await, 2, "{count} files");
        assert_eq!(depth_of(memory.clone(), &list(&HARBOUR[..count]), 64 << 10).await, 1, "{count} files");
    }
    assert_eq!(depth_of(memory.clone(), "lighthouse.mp4", 1024).await, 2, "moov last");
    assert_eq!(depth_of(memory.clone(), "fragmented.mp4", 64 << 10).await, 2, "sidx");
    // A folder is listed first.
    assert_eq!(depth_of(memory.clone(), "harbour", 64 << 10).await, 2);
    assert_eq!(depth_of(memory, "harbour", 1024).await, 3);
}

#[tokio::test(start_paused = true)]
async fn mfra_takes_three() {
    let made = recipe::avc_aac("mfra", "-movflags frag_keyframe+empty_moov+default_base_moof");
    let memory = Memory::new();
    memory.put(key("m.mp4"), std::fs::read(made).unwrap());
    let depth = depth_of(Arc::new(memory), "m.mp4", 64 << 10).await;
    assert!(depth <= 3, "{depth}");
}

#[tokio::test]
async fn a_cold_segment_takes_one_request_per_object() {
    let memory = library();
    let urls: Vec<String> = {
        let server = Server::start(memory.clone()).await;
        let mut urls = Vec::new();
        for base in ["/harbour", "/lighthouse.mp4", "/fragmented.mp4"] {
            urls.extend(crawl(server.address, base).await);
        }
        urls
    };
    let media = |url: &&String| {
        [".ts", ".m4s", ".dash"].iter().any(|e| url.ends_with(e))
            && url.rsplit('/').next().unwrap().matches('-').count() >= 2
    };
    for url in urls.iter().filter(media).step_by(7) {
        let counting = Arc::new(Counting::new(memory.clone(), Duration::from_millis(2)));
        let server = Server::start(counting.clone()).await;
        let base = url.split('/').nth(1).unwrap();
        fetch(server.address, &format!("/{base}/.mpd")).await;
        drop(counting.take());
        fetch(server.address, url).await;
        let depth = counting.depth();
        let requests = counting.take();
        assert!(depth <= 1, "{url}: {requests:?}");
        let mut keys: Vec<_> = requests.iter().map(|r| &r.key).collect();
        keys.dedup();
        assert_eq!(keys.len(), requests.len(), "{url}: one request per object");
        // And the same segment again needs the same.
        fetch(server.address, url).await;
        assert_eq!(counting.take().len(), requests.len(), "{url}");
    }
}

#[tokio::test]
async fn a_file_without_index_is_scanned_once_and_said_so() {
    crate::log::keep();
    let memory = Memory::new();
    memory.put(key("scanned-once.mp4"), without(&fragmented(), &[b"sidx", b"mfra"]));
    let counting = Arc::new(Counting::new(Arc::new(memory), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    fetch(server.address, "/scanned-once.mp4/.mpd").await;
    let scan = counting.take().len();
    fetch(server.address, "/scanned-once.mp4/.mpd").await;
    fetch(server.address, "/scanned-once.mp4/.m3u8").await;
    assert!(counting.take().len() < scan.max(2), "it is remembered");
    assert_eq!(crate::log::lines(&["reason=\"scan\"", "scanned-once.mp4"]).len(), 1);
}

#[tokio::test]
async fn two_hundred_clients_index_a_title_once_and_all_get_the_segment() {
    let memory = library();
    let counting = Arc::new(Counting::new(memory, Duration::from_millis(20)));
    let server = Server::start(counting.clone()).await;
    let url = "/harbour/x-audio_eng=48000-video=152000-2.ts";
    let expected = fetch(Server::start(library()).await.address, url).await;
    let clients: Vec<_> = (0..200)
        .map(|_| {
            let address = server.address;
            tokio::spawn(async move { fetch(address, url).await })
        })
        .collect();
    for client in clients {
        assert_eq!(client.await.unwrap(), expected);
    }
    let requests = counting.take();
    assert_eq!(requests.iter().filter(|r| r.want.is_none()).count(), 1, "listed once");
    let heads = requests.iter().filter(|r| matches!(r.want, Some(latemux_storage::Want::Head(_)))).count();
    assert_eq!(heads, HARBOUR.len(), "each object indexed once");
}

/// What the tests here say of fragments that are not known yet is empty where the file is scanned instead.
#[tokio::test]
async fn the_fragmented_file_is_known_by_fragment() {
    let origin = Origin::new(library(), OriginConfig::default());
    let title = origin.title("fragmented.mp4").await.unwrap();
    assert_eq!(title.objects[0].index.source, IndexSource::SegmentIndex);
    assert!(title.objects[0].index.tracks.iter().all(|t| matches!(t.samples, Samples::Fragments(_))));
}
