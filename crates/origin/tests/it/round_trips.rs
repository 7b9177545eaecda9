//! Number of requests to storage, and of round trips one after another.

use crate::{
    client::fetch,
    server::{HARBOUR, Server, crawl, fragmented, index_file, key, library},
    sparse::Sparse,
};
use bytes::Bytes;
use latemux_index::media::{IndexSource, Samples};
use latemux_origin::Origin;
use latemux_storage::{Memory, counting::Counting};
use latemux_testmedia::{
    recipe,
    rewrite::{Variant, progressive, without},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const FAR: Duration = Duration::from_millis(100);

/// Returns the number of consecutive round trips for indexing a base, with first reads of `head`
/// bytes.
async fn depth_of(memory: Arc<Memory>, base: &str, head: u64) -> u32 {
    let counting = Arc::new(Counting::new(memory, FAR));
    let mut config = crate::server::config();
    config.index.head = head;
    config.index.tail = head;
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
    // A folder must be listed first.
    assert_eq!(depth_of(memory.clone(), "harbour", 64 << 10).await, 2);
    assert_eq!(depth_of(memory, "harbour", 1024).await, 3);
}

/// Returns a film of two hours at 25 frames per second, in few bytes.
fn film(moov_last: bool) -> Vec<u8> {
    let minute = recipe::make(
        "minute",
        "mp4",
        "-f lavfi -i testsrc2=size=64x36:rate=25:duration=60 -c:v libx264 -preset ultrafast -bf 2 -b_strategy 0 -g 50 \
         -pix_fmt yuv420p -crf 51",
    );
    let film = recipe::make("film", "mp4", &format!("-stream_loop 119 -i {} -c copy", minute.display()));
    progressive(&std::fs::read(film).unwrap(), Variant { moov_last, wide_mdat: true, ..Variant::default() })
}

/// Returns two renditions of a film with the sizes that 0.3 and 6 Mbit/s have: their `mdat` is
/// padded with zeros. `listed` returns the size that a listing states.
fn renditions(film: &[u8], moov_last: bool, listed: impl Fn(u64) -> u64) -> Sparse {
    let mut sparse = Sparse::default();
    for kbits in [300, 6000] {
        let size = kbits * 1000 / 8 * 7200;
        let place = |code: &[u8; 4]| film.windows(4).position(|w| w == code).unwrap() - 4;
        let (start, end) = film.split_at(if moov_last { place(b"moov") } else { film.len() });
        let mut start = start.to_vec();
        let media: &mut [u8; 8] = (&mut start[place(b"mdat") + 8..][..8]).try_into().unwrap();
        let more = size - film.len() as u64;
        *media = (u64::from_be_bytes(*media) + more).to_be_bytes();
        let end = Bytes::copy_from_slice(end);
        sparse.add(&format!("{kbits:04}.mp4"), start.into(), end, size, listed(size));
    }
    sparse
}

#[tokio::test(start_paused = true)]
async fn the_size_in_a_listing_decides_how_much_is_read_first() {
    for moov_last in [false, true] {
        let film = film(moov_last);
        let moov = {
            let at = film.windows(4).position(|w| w == b"moov").unwrap() - 4;
            u64::from(u32::from_be_bytes(film[at..at + 4].try_into().unwrap()))
        };
        assert!(moov > 1_600_000, "{moov} bytes of moov are too few for a film");
        let mut titles = Vec::new();
        // With an outdated size, a guess at the end of the object fails, one at its start succeeds.
        let stale = if moov_last { 3 } else { 2 };
        type Listed = fn(u64) -> u64;
        let cases: [(Listed, u64, u32); 5] = [
            (|size| size, 2 << 20, 2),
            (|size| size, 0, 3),
            (|_| 0, 2 << 20, 3),
            (|size| size + 9, 2 << 20, stale),
            (|size| size - size / 16, 2 << 20, stale),
        ];
        for (listed, ahead, depth) in cases {
            let counting = Arc::new(Counting::new(Arc::new(renditions(&film, moov_last, listed)), FAR));
            let mut config = crate::server::config();
            config.index.ahead = ahead;
            let origin = Origin::new(counting.clone(), config);
            let title = origin.title("film").await.unwrap();
            assert_eq!(title.objects.len(), 2);
            assert_eq!(counting.depth(), depth, "moov last: {moov_last}; {} ahead", ahead);
            let bytes: u64 = counting.take().iter().map(|request| request.bytes).sum();
            println!(
                "moov last: {moov_last}; {ahead} ahead: {depth} round trips, {bytes} bytes for {}",
                2 * moov
            );
            assert!(bytes <= 2 * (2 * ahead.max(64 << 10) + moov + (64 << 10)), "{bytes} bytes");
            titles.push(title.objects.iter().map(|object| object.index.fingerprint).collect::<Vec<_>>());
        }
        titles.dedup();
        assert_eq!(titles.len(), 1, "the guesses change the index");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_with_mfra_takes_at_most_three_round_trips() {
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
        // Without a cache, the same segment takes the same requests again.
        fetch(server.address, url).await;
        assert_eq!(counting.take().len(), requests.len(), "{url}");
    }
}

#[tokio::test]
async fn a_file_without_an_index_is_scanned_and_logged_once() {
    crate::log::keep();
    let memory = Memory::new();
    memory.put(key("scanned-once.mp4"), without(&fragmented(), &[b"sidx", b"mfra"]));
    let counting = Arc::new(Counting::new(Arc::new(memory), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    fetch(server.address, "/scanned-once.mp4/.mpd").await;
    let scan = counting.take().len();
    fetch(server.address, "/scanned-once.mp4/.mpd").await;
    fetch(server.address, "/scanned-once.mp4/.m3u8").await;
    assert!(counting.take().len() < scan.max(2), "the index is not kept");
    assert_eq!(crate::log::lines(&["reason=\"scan\"", "scanned-once.mp4"]).len(), 1);
}

/// Returns the number of requests to storage for a title's first manifest, and all its bodies.
async fn title(memory: &Arc<Memory>, name: &str) -> (usize, BTreeMap<String, Bytes>) {
    let counting = Arc::new(Counting::new(memory.clone(), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    fetch(server.address, &format!("/{name}/.mpd")).await;
    let requests = counting.take().len();
    let mut bodies = BTreeMap::new();
    for url in crawl(server.address, &format!("/{name}")).await {
        bodies.insert(url.clone(), fetch(server.address, &url).await);
    }
    (requests, bodies)
}

#[tokio::test]
async fn an_index_mp4_beside_a_file_replaces_its_scan_and_changes_no_response() {
    for name in ["scan.mp4", "folder/scan.mp4"] {
        let media: Bytes = without(&fragmented(), &[b"sidx", b"mfra"]).into();
        let memory = Arc::new(Memory::new());
        memory.put(key(name), media.clone());
        let (scan, scanned) = title(&memory, name).await;
        assert!(scan > 6, "{scan}");
        let beside = key(&name.replace(".mp4", ".index.mp4"));
        memory.put(beside.clone(), index_file(&media, "scan.mp4"));
        let (requests, by_index) = title(&memory, name).await;
        assert!(by_index == scanned, "{:?} {:?}", by_index.keys(), scanned.keys());
        // Both ends of the file, the index MP4, and the first bytes to compare with its stamp.
        assert_eq!(requests, 4);

        // Not used: index MP4s of another version, of another file or of another program, and files
        // that are no index MP4.
        let foreign = {
            let mut bytes = index_file(&media, "scan.mp4").to_vec();
            let at = bytes.windows(4).rposition(|w| w == b"uuid").unwrap();
            bytes[at..at + 4].copy_from_slice(b"free");
            Bytes::from(bytes)
        };
        let longer: Bytes = [&media[..], b"\0\0\0\x08free"].concat().into();
        let other = index_file(&longer, "scan.mp4");
        for wrong in [other, index_file(&media, "other.mp4"), foreign, Bytes::from_static(b"not an index")] {
            memory.put(beside.clone(), wrong);
            let (requests, bodies) = title(&memory, name).await;
            assert!(bodies == scanned && requests >= scan, "{requests} {scan}");
        }
    }
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
    assert_eq!(requests.iter().filter(|r| r.want.is_none()).count(), 1, "the folder is listed once");
    let heads = requests.iter().filter(|r| matches!(r.want, Some(latemux_storage::Want::Head(_)))).count();
    assert_eq!(heads, HARBOUR.len(), "each object is indexed once");
}

/// Other tests rely on fragments whose samples are not known from the index. This one makes sure
/// that the file is not scanned.
#[tokio::test]
async fn the_fragmented_file_is_indexed_by_fragment() {
    let origin = Origin::new(library(), crate::server::config());
    let title = origin.title("fragmented.mp4").await.unwrap();
    assert_eq!(title.objects[0].index.source, IndexSource::SegmentIndex);
    assert!(title.objects[0].index.tracks.iter().all(|t| matches!(t.samples, Samples::Fragments(_))));
}
