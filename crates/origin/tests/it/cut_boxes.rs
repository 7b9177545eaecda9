//! Cuts in index MP4s: the same responses without reading media first, and none from cuts that are
//! not those of the media.

use crate::{
    caching::smooth_fragments,
    client::{FullResponse, fetch, get, get_with, open, send},
    encryption::{VIDEO_KEY, VIDEO_KID, key_file, rule, with_rules},
    never_clear::clear_run,
    server::{HARBOUR, Server, crawl, fragmented, index_file, key, sample},
};
use bytes::Bytes;
use futures_util::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use latemux_index::{
    locate::{Locator, limits::Limits},
    media::{Samples, TrackKind, cut_box::CutBoxPlace},
};
use latemux_origin::{MediaOfIndex, OriginConfig, config::DrmRule, make_cut_box};
use latemux_protect::{cut_box::CutBoxWriter, cuts::Cut};
use latemux_storage::{
    Memory, Storage, Want,
    counting::{Counting, Request},
};
use latemux_testmedia::recipe;
use std::{sync::Arc, time::Duration};
use tempfile::NamedTempFile;

fn keys() -> NamedTempFile {
    key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}}]}}"#))
}

/// Returns a rule for all protocols.
fn config(keys: &NamedTempFile) -> OriginConfig {
    let named = |name: &str| Some(name.to_owned());
    with_rules(vec![DrmRule {
        dash: named("cenc"),
        hls_fmp4: named("cbcs"),
        hls_ts: named("sample-aes"),
        mss: named("piff"),
        systems: ["playready", "clearkey"].map(str::to_owned).to_vec(),
        ..rule(keys)
    }])
}

/// Returns the media of the tests by name: AVC, HEVC, fragments, AV1, VP9, and files of a folder.
fn media() -> Vec<(String, Bytes)> {
    let made = |path| Bytes::from(std::fs::read(path).unwrap());
    let av1 = "-c:v libsvtav1 -preset 10 -g 50 -b:v 400k -svtav1-params tile-columns=1 -c:a aac";
    let vp9 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -b:v 300k -c:a aac";
    let mut media = vec![
        ("lighthouse".to_owned(), sample("lighthouse.mp4")),
        ("buoy".to_owned(), sample("buoy.mp4")),
        ("fragmented".to_owned(), fragmented()),
        ("av1".to_owned(), made(recipe::coded("av1-covered", av1))),
        ("vp9".to_owned(), made(recipe::coded("vp9-covered", vp9))),
    ];
    let of_folder = |name: &str| format!("harbour/{}", name.trim_end_matches(".mp4"));
    media.extend(HARBOUR.map(|name| (of_folder(name), sample(&format!("harbour/{name}")))));
    media
}

const TITLES: [&str; 6] = [
    "lighthouse.index.mp4",
    "buoy.index.mp4",
    "fragmented.index.mp4",
    "av1.index.mp4",
    "vp9.index.mp4",
    "harbour",
];

/// Returns the box with the cuts of media for an index MP4.
async fn cut_box(media: &Bytes, index: &Bytes) -> Vec<u8> {
    let memory = Memory::new();
    let key = key("media.mp4");
    let version = memory.put(key.clone(), media.clone());
    let media = MediaOfIndex { storage: &memory, key: &key, version: &version, name: "media.mp4" };
    let made = make_cut_box(media, index, |_| {}).await.unwrap();
    assert_eq!(made.unknown, 0);
    made.bytes
}

/// Returns a storage of media with index MP4s. `appended` is what follows each index MP4, made of
/// the media, the index MP4 and the box with its cuts.
async fn library(
    all: &[(String, Bytes)],
    appended: impl Fn(&Bytes, &Bytes, Vec<u8>) -> Vec<u8>,
) -> Arc<Memory> {
    let memory = Memory::new();
    for (name, media) in all {
        let file_name = format!("{}.mp4", name.rsplit('/').next().unwrap());
        let index = index_file(media, &file_name);
        let cuts = cut_box(media, &index).await;
        // Audio has none.
        let cuts = if cuts.is_empty() { cuts } else { appended(media, &index, cuts) };
        memory.put(key(&format!("{name}.mp4")), media.clone());
        memory.put(key(&format!("{name}.index.mp4")), [&*index, &cuts].concat());
    }
    Arc::new(memory)
}

async fn without_cuts(all: &[(String, Bytes)]) -> Arc<Memory> {
    library(all, |_, _, _| Vec::new()).await
}

async fn with_cuts(all: &[(String, Bytes)]) -> Arc<Memory> {
    library(all, |_, _, cuts| cuts).await
}

/// Returns the segments of a title in all protocols.
async fn segments(server: &Server, title: &str) -> Vec<String> {
    let mut urls = crawl(server.address, &format!("/{title}")).await;
    urls.retain(|url| [".ts", ".m4s", "="].iter().any(|part| url.contains(part)) && !url.contains(".m3u8"));
    urls.extend(smooth_fragments(server.address, title).await);
    urls
}

/// Returns the segments of video whose samples are encrypted: one request for each needs cuts.
async fn video(server: &Server, title: &str) -> Vec<String> {
    let mut urls = crawl(server.address, &format!("/{title}")).await;
    let is_media = |url: &str| url.rsplit_once('-').unwrap().1.starts_with(|c: char| c.is_ascii_digit());
    urls.retain(|url| url.contains("-video=") && !url.contains("keyframes") && is_media(url));
    urls.retain(|url| !url.ends_with(".ts"));
    assert!(urls.len() >= 4, "{urls:?}");
    urls
}

fn same(one: &FullResponse, other: &FullResponse, url: &str) {
    assert_eq!(one.status, other.status, "{url}");
    assert_eq!(one.lasting_headers(), other.lasting_headers(), "{url}");
    assert_eq!(one.body, other.body, "{url}");
}

/// Returns the value of a counter of look-ups in index MP4s.
async fn looked_up(server: &Server, outcome: &str) -> u64 {
    let text = fetch(server.admin, "/metrics").await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    let name = format!("latemux_stated_cuts_total{{outcome=\"{outcome}\"}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

/// For each segment, the first request on a new node asks for the head, a range or all, and later
/// ones for all of these. Segments of other lengths need no other index MP4.
#[tokio::test(flavor = "multi_thread")]
async fn responses_are_the_same_with_and_without_cuts() {
    let keys = keys();
    let all = media();
    let plain = without_cuts(&all).await;
    let stated = with_cuts(&all).await;
    for (seconds, every) in [(4, 1), (3, 4), (11, 3)] {
        let config = || OriginConfig { segment_duration: Duration::from_secs(seconds), ..config(&keys) };
        let expected = Server::with(plain.clone(), config(), None).await;
        let server = Server::with(stated.clone(), config(), None).await;
        for title in TITLES {
            let titles = [format!("/{title}/.mpd"), format!("/{title}/.m3u8?hls_fmp4")];
            for url in titles {
                same(&get(server.address, &url).await, &get(expected.address, &url).await, &url);
            }
            for (number, url) in segments(&expected, title).await.iter().enumerate().step_by(every) {
                let whole = get(expected.address, url).await;
                let middle = whole.body.len() / 2;
                let range = format!("bytes={}-{}", middle / 2, middle);
                for step in 0..4 {
                    let (method, headers) = match (number + step) % 3 {
                        0 => (Method::HEAD, vec![]),
                        1 => (Method::GET, vec![("range", &*range)]),
                        _ => (Method::GET, vec![]),
                    };
                    let ours = send(server.address, method.clone(), url, &headers).await.unwrap();
                    let theirs = send(expected.address, method, url, &headers).await.unwrap();
                    same(&ours, &theirs, url);
                }
            }
        }
        assert!(looked_up(&server, "used").await > 10);
        for other in ["missing", "differs", "failed"] {
            assert_eq!(looked_up(&server, other).await, 0, "{other}");
        }
    }
}

/// Returns the bytes of an object that were requested, without comparisons of versions.
fn bytes_of(requests: &[Request], is_index: bool) -> u64 {
    let of = requests.iter().filter(|r| r.key.as_str().contains(".index.") == is_index);
    let bytes = of.map(|request| match &request.want {
        Some(Want::Range(range)) => range.end - range.start,
        Some(Want::Head(most)) if *most > 1 => *most,
        _ => 0,
    });
    bytes.sum()
}

/// HEAD needs no media at all, and a body needs only what a clear one does.
#[tokio::test]
async fn no_media_is_read_before_the_body() {
    let keys = keys();
    let all = media();
    let counting = Arc::new(Counting::new(with_cuts(&all).await, Duration::ZERO));
    let server = Server::with(counting.clone(), config(&keys), None).await;
    let clear = Arc::new(Counting::new(without_cuts(&all).await, Duration::ZERO));
    let of_clear = Server::start(clear.clone()).await;
    let reading = Arc::new(Counting::new(without_cuts(&all).await, Duration::ZERO));
    let without = Server::with(reading.clone(), config(&keys), None).await;
    let mut seen = 0;
    let mut read_without = 0;
    for title in TITLES {
        let mut urls = video(&server, title).await;
        // In HLS, the same samples have the same cuts.
        urls.retain(|url| url.contains("/dash/"));
        for (number, url) in urls.iter().enumerate() {
            let method = if number % 2 == 0 { Method::HEAD } else { Method::GET };
            for server in [&server, &of_clear, &without] {
                get(server.address, &format!("/{title}/.mpd")).await;
            }
            for storage in [&counting, &clear, &reading] {
                storage.take();
            }
            send(server.address, method.clone(), url, &[]).await.unwrap();
            send(of_clear.address, method.clone(), url, &[]).await.unwrap();
            send(without.address, method, url, &[]).await.unwrap();
            let ours = counting.take();
            assert_eq!(bytes_of(&ours, false), bytes_of(&clear.take(), false), "{url}: {ours:?}");
            let of_index = bytes_of(&ours, true);
            // Some 6 bytes of each frame of the region, and the entries.
            assert!(of_index > 0 && of_index < 8 << 10, "{url}: {of_index} of {ours:?}");
            read_without += usize::from(bytes_of(&reading.take(), false) > 0);
            seen += 1;
        }
    }
    assert!(seen > 15 && read_without == seen, "{seen} segments, {read_without} read without cuts");
    assert_eq!(looked_up(&server, "used").await, seen as u64);
}

/// Compares the segments of all titles with those of an origin without cuts. No look-up may find
/// any.
async fn are_ignored(
    all: &[(String, Bytes)],
    config: &OriginConfig,
    expected: &Server,
    appended: impl Fn(&Bytes, &Bytes, Vec<u8>) -> Vec<u8>,
) {
    let server = Server::with(library(all, appended).await, config.clone(), None).await;
    for title in TITLES {
        for url in video(expected, title).await.iter().step_by(2) {
            same(&get(server.address, url).await, &get(expected.address, url).await, url);
        }
    }
    assert_eq!(looked_up(&server, "used").await, 0);
    assert_eq!(looked_up(&server, "differs").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_boxes_are_ignored() {
    let keys = keys();
    let all = media();
    let config = config(&keys);
    let expected = Server::with(without_cuts(&all).await, config.clone(), None).await;
    // One bit of each entry's start, length or checksum, or of the cuts.
    are_ignored(&all, &config, &expected, |_, _, mut cuts| {
        let regions = usize::try_from(u32::from_be_bytes(cuts[28..32].try_into().unwrap())).unwrap();
        for region in 0..regions {
            cuts[32 + 16 * region + region % 16] ^= 1;
        }
        cuts
    })
    .await;
    are_ignored(&all, &config, &expected, |_, _, mut cuts| {
        let regions = usize::try_from(u32::from_be_bytes(cuts[28..32].try_into().unwrap())).unwrap();
        for region in 0..regions {
            let entry = 32 + 16 * region;
            let at = |from: usize| {
                usize::try_from(u32::from_be_bytes(cuts[from..from + 4].try_into().unwrap())).unwrap()
            };
            let (start, length) = (at(entry), at(entry + 4));
            if length > 0 {
                cuts[start + length / 2] ^= 0x10;
            }
        }
        cuts
    })
    .await;
    // Cut off within the entries, and zeros in their place.
    are_ignored(&all, &config, &expected, |_, _, cuts| cuts[..40].to_vec()).await;
    are_ignored(&all, &config, &expected, |_, _, cuts| vec![0; cuts.len()]).await;
    // Those of another index MP4 of the same media.
    are_ignored(&all, &config, &expected, |media, _, _| {
        let other = index_file(media, "elsewhere.mp4");
        let boxed = cut_box(media, &other);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(boxed))
    })
    .await;
}

/// Returns a box which says that samples consist of clear bytes alone.
fn all_clear(media: &Bytes, index: &Bytes) -> Vec<u8> {
    let mut locator = Locator::new(Limits::default());
    let found = latemux_testmedia::origin::run(&mut locator, media).unwrap();
    let mut writer = CutBoxWriter::new(CutBoxPlace::at_end_of(index).unwrap().moov);
    for track in found.tracks.iter().filter(|track| track.kind == TrackKind::Video) {
        let Samples::Table(table) = &track.samples else { continue };
        for sample in table.range(0..u32::MAX) {
            writer.add(sample.offset, &[Cut { clear: sample.size, data: 0 }]);
        }
    }
    writer.finish().unwrap()
}

/// Returns the part of a body that arrives before it ends or is aborted, and whether it is whole.
async fn received(server: &Server, url: &str, headers: &[(&str, &str)]) -> (Vec<u8>, bool) {
    let Ok(response) = open(server.address, Method::GET, url, headers).await else {
        return (Vec::new(), false);
    };
    let mut stream = response.into_body().into_data_stream();
    let mut body = Vec::new();
    while let Some(frame) = stream.next().await {
        match frame {
            Ok(bytes) => body.extend_from_slice(&bytes),
            Err(_) => return (body, false),
        }
    }
    (body, true)
}

/// Serves a title whose cuts are not those of its media. The first response is aborted before it
/// holds clear media. All others are as without cuts.
async fn never_sends_clear(
    storage: Arc<dyn Storage>,
    reference: Arc<dyn Storage>,
    config: &OriginConfig,
    title: &str,
    headers: &[(&str, &str)],
) {
    let clear = Server::start(reference.clone()).await;
    let expected = Server::with(reference, config.clone(), None).await;
    let server = Server::with(storage, config.clone(), None).await;
    let mut aborted = 0;
    for url in video(&expected, title).await {
        let right = get_with(expected.address, &url, headers).await.body;
        let (body, is_whole) = received(&server, &url, headers).await;
        if is_whole {
            assert!(body == right, "{url}: {} bytes of {}", body.len(), right.len());
            continue;
        }
        aborted += 1;
        let plain = get_with(clear.address, &url, headers).await.body;
        assert_eq!(clear_run(&plain, &body), None, "{url}: {} bytes", body.len());
        assert!(right.starts_with(&body) || body.len() < 4096, "{url}: {} bytes", body.len());
        assert!(received(&server, &url, headers).await == (right.to_vec(), true), "{url}");
    }
    assert_eq!(aborted, 1, "{title}");
    assert!(looked_up(&server, "used").await > 0, "{title}");
    assert!(looked_up(&server, "differs").await > 0, "{title}");
}

#[tokio::test]
async fn a_box_that_says_all_is_clear_sends_nothing_clear() {
    let keys = keys();
    let mut all = media();
    all.retain(|(name, _)| ["lighthouse", "buoy", "av1", "vp9"].contains(&&**name));
    let lying = library(&all, |media, index, _| all_clear(media, index)).await;
    let plain = without_cuts(&all).await;
    for (name, _) in &all {
        let title = format!("{name}.index.mp4");
        for headers in [&[][..], &[("range", "bytes=5000-20000")]] {
            never_sends_clear(lying.clone(), plain.clone(), &config(&keys), &title, headers).await;
        }
    }
}

/// Media that was replaced by other media of the same size, with the same index and the same start:
/// the index MP4 still fits, but the slices end elsewhere.
#[tokio::test]
async fn cuts_of_replaced_media_send_nothing_clear() {
    let keys = keys();
    let media = sample("harbour/video-180p.mp4");
    let divided = Bytes::from(crate::cut_records::with_filler(media.to_vec()));
    for (old, new) in [(&divided, &media), (&media, &divided)] {
        let index = index_file(old, "a.mp4");
        assert_eq!(index, index_file(new, "a.mp4"));
        let cuts = cut_box(old, &index).await;
        let storage = |cuts: &[u8]| {
            let memory = Memory::new();
            memory.put(key("a.mp4"), new.clone());
            memory.put(key("a.index.mp4"), [&*index, cuts].concat());
            Arc::new(memory)
        };
        let (stale, plain) = (storage(&cuts), storage(&[]));
        never_sends_clear(stale, plain, &config(&keys), "a.index.mp4", &[]).await;
    }
}
