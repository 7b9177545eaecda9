//! Cuts on disk: after a restart, no segment is read only to find its slices again.

use crate::{
    client::{get, send},
    encryption::{VIDEO_KEY, VIDEO_KID, key_file, rule, with_rules},
    server::{Server, crawl, key, library, sample},
};
use http::Method;
use latemux_cache::{DiskConfig, Records};
use latemux_origin::{Origin, OriginConfig, Resources, config::DrmRule};
use latemux_storage::{Memory, Storage, Want, counting::Counting};
use std::{path::Path, sync::Arc, time::Duration};
use tempfile::{NamedTempFile, TempDir};

/// An origin with indexes and cuts on disk, and without a range cache.
struct Node {
    server: Server,
    records: Records,
}

impl Node {
    async fn start(storage: Arc<dyn Storage>, dir: &Path, config: OriginConfig) -> Self {
        let records = Records::open(DiskConfig::new(dir, 1 << 20)).unwrap();
        records.recovered().await;
        let resources = Resources { indexes: Some(records.clone()), ..Resources::default() };
        let origin = Origin::with_resources(storage, resources, config);
        Self { server: Server::of(origin, None).await, records }
    }

    async fn stop(self) {
        self.server.stopped().await;
        self.records.close().await;
    }
}

fn one_key() -> NamedTempFile {
    key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}}]}}"#))
}

fn config(keys: &NamedTempFile) -> OriginConfig {
    let schemes = (Some("cenc".to_owned()), Some("cbcs".to_owned()));
    with_rules(vec![DrmRule { dash: schemes.0, hls_fmp4: schemes.1, hls_ts: None, ..rule(keys) }])
}

/// Returns the segments of video of a title.
async fn video(node: &Node, title: &str) -> Vec<String> {
    let mut urls = crawl(node.server.address, title).await;
    let is_media = |url: &str| url.rsplit_once('-').unwrap().1.starts_with(|c: char| c.is_ascii_digit());
    urls.retain(|url| url.contains("-video=") && !url.contains("keyframes") && is_media(url));
    assert!(urls.len() > 5, "{urls:?}");
    urls
}

/// Returns the bytes of media that were read since the last call.
fn media_read(counting: &Counting) -> u64 {
    let requests = counting.take();
    let ranges = requests.iter().filter_map(|request| match &request.want {
        Some(Want::Range(range)) => Some(range.end - range.start),
        Some(Want::Head(most)) => Some(*most),
        None => None,
    });
    // A read of one byte compares the version of an object.
    ranges.filter(|bytes| *bytes > 1).sum()
}

/// The second time without memory for cuts, so that each segment adds to what is on disk.
#[tokio::test]
async fn after_a_restart_no_video_is_read_to_find_its_slices() {
    let keys = one_key();
    let mut before = Vec::new();
    for memory in [64 << 20, 0] {
        let dir = TempDir::new().unwrap();
        let config = || {
            let mut config = config(&keys);
            config.memory.cuts = memory;
            config
        };
        let node = Node::start(library(), dir.path(), config()).await;
        before.clear();
        for title in ["/lighthouse.mp4", "/buoy.mp4", "/harbour"] {
            for url in video(&node, title).await {
                before.push((url.clone(), get(node.server.address, &url).await));
                node.records.flush().await;
            }
        }
        node.stop().await;

        let counting = Arc::new(Counting::new(library(), Duration::ZERO));
        let node = Node::start(counting.clone(), dir.path(), config()).await;
        for (url, whole) in &before {
            let head = send(node.server.address, Method::HEAD, url, &[]).await.unwrap();
            assert_eq!(head.lasting_headers(), whole.lasting_headers(), "{url}");
            assert_eq!(media_read(&counting), 0, "{url}");
            let again = get(node.server.address, url).await;
            assert_eq!((again.lasting_headers(), again.body), (whole.lasting_headers(), whole.body.clone()));
            assert!(media_read(&counting) > 0, "{url}");
        }
        node.stop().await;
    }

    // The same without what is on disk: HEAD reads the video.
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let empty = TempDir::new().unwrap();
    let node = Node::start(counting.clone(), empty.path(), config(&keys)).await;
    get(node.server.address, "/lighthouse.mp4/.mpd").await;
    counting.take();
    send(node.server.address, Method::HEAD, &before[0].0, &[]).await.unwrap();
    assert!(media_read(&counting) > 0);
    node.stop().await;
}

/// Divides the long slices of a file that has only video: their end becomes filler data, which
/// stays clear. What the index knows stays the same: the boxes, and the first 64 KiB.
pub(crate) fn with_filler(mut file: Vec<u8>) -> Vec<u8> {
    let media = file.windows(4).position(|name| name == b"mdat").unwrap();
    let size = u32::from_be_bytes(file[media - 4..media].try_into().unwrap());
    let end = media - 4 + usize::try_from(size).unwrap();
    let mut at = media + 4;
    let mut divided = 0;
    while at < end {
        let length = usize::try_from(u32::from_be_bytes(file[at..at + 4].try_into().unwrap())).unwrap();
        let filler = at + 4 + 100;
        if at > 64 << 10 && file[at + 4] & 31 == 1 && length > 200 {
            file[at..at + 4].copy_from_slice(&100_u32.to_be_bytes());
            let rest = u32::try_from(length - 104).unwrap();
            file[filler..filler + 4].copy_from_slice(&rest.to_be_bytes());
            file[filler + 4] = 12;
            divided += 1;
        }
        at += 4 + length;
    }
    assert!(divided > 20, "{divided}");
    file
}

/// A file that was replaced while no process ran gets cuts of its own.
#[tokio::test]
async fn cuts_of_another_version_are_not_used() {
    let dir = TempDir::new().unwrap();
    let keys = one_key();
    let storage = |file: &[u8]| {
        let memory = Memory::new();
        memory.put(key("a.mp4"), file.to_vec());
        Arc::new(memory)
    };
    let old = sample("harbour/video-180p.mp4").to_vec();
    let new = with_filler(old.clone());
    let node = Node::start(storage(&old), dir.path(), config(&keys)).await;
    for url in video(&node, "/a.mp4").await {
        get(node.server.address, &url).await;
    }
    node.stop().await;
    let node = Node::start(storage(&new), dir.path(), config(&keys)).await;
    let fresh = Server::with(storage(&new), config(&keys), None).await;
    for url in video(&node, "/a.mp4").await {
        let one = get(node.server.address, &url).await;
        let other = get(fresh.address, &url).await;
        assert_eq!((one.status.as_u16(), &one.body), (200, &other.body), "{url}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_purge_removes_the_cuts_on_disk() {
    let dir = TempDir::new().unwrap();
    let keys = one_key();
    let node = Node::start(library(), dir.path(), config(&keys)).await;
    for url in video(&node, "/lighthouse.mp4").await {
        get(node.server.address, &url).await;
    }
    node.records.flush().await;
    assert_eq!(node.records.figures().values, 2, "an index, and one record of cuts");
    let purged = send(node.server.admin, Method::POST, "/purge?base=lighthouse.mp4", &[]).await.unwrap();
    assert_eq!(purged.status, 200);
    node.records.flush().await;
    assert_eq!(node.records.figures().values, 0);
    node.stop().await;
}
