//! Savings of the range cache: a second protocol, segment duration or client finds the bytes that
//! the first one read.

use crate::{
    client::{fetch, get},
    server::{Server, crawl, library},
};
use futures_util::future::join_all;
use latemux_cache::{Cache, Config};
use latemux_index::media::Samples;
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{Storage, Want, counting::Counting};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

/// A muxed file, a folder of separate files, and a fragmented file.
pub(crate) const TITLES: [&str; 3] = ["lighthouse.mp4", "harbour", "fragmented.mp4"];

fn cache() -> Cache {
    Cache::open(Config { memory: 64 << 20, ..Config::default() }).unwrap()
}

fn origin(storage: Arc<dyn Storage>, cache: &Cache, seconds: u64) -> Origin {
    let config = OriginConfig { segment_duration: Duration::from_secs(seconds), ..crate::server::config() };
    Origin::with_resources(storage, Resources { cache: Some(cache.clone()), ..Resources::default() }, config)
}

/// Returns the number and the bytes of media reads since the last call.
fn media(counting: &Counting) -> (usize, u64) {
    let requests = counting.take();
    let media = requests.iter().filter(|r| matches!(r.want, Some(Want::Range(_))));
    media.fold((0, 0), |(count, bytes), request| (count + 1, bytes + request.bytes))
}

fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let rest: Vec<&str> = text.split(&*start).skip(1).collect();
    rest.into_iter().filter_map(|rest| rest.split('"').next())
}

/// Returns all media segments of a title by protocol, in the order of their URLs.
pub(crate) async fn segments(server: SocketAddr, title: &str) -> BTreeMap<&'static str, Vec<String>> {
    let mut all = BTreeMap::<_, Vec<String>>::new();
    for url in crawl(server, &format!("/{title}")).await {
        let protocol = match &*url {
            url if url.contains("/keyframes/") => continue,
            url if url.contains("/dash/") => "DASH",
            url if url.contains("/hls/") => "HLS CMAF",
            url if url.ends_with(".ts") => "HLS TS",
            _ => continue,
        };
        let number =
            url.rsplit_once('-').is_some_and(|(_, last)| last.starts_with(|c: char| c.is_ascii_digit()));
        if number {
            all.entry(protocol).or_default().push(url);
        }
    }
    all.extend(smooth_and_hds(server, title).await);
    assert_eq!(all.len(), 5, "{all:#?}");
    assert!(all.values().all(|urls| !urls.is_empty()), "{all:#?}");
    all
}

/// Returns the fragments of Smooth Streaming, which a crawl of HLS and DASH does not find.
pub(crate) async fn smooth_fragments(server: SocketAddr, title: &str) -> Vec<String> {
    let mut urls = Vec::new();
    let manifest = String::from_utf8(fetch(server, &format!("/{title}/Manifest")).await.to_vec()).unwrap();
    for stream in manifest.split("<StreamIndex").skip(1) {
        let url = attributes(stream, "Url").next().unwrap();
        let mut times = Vec::new();
        let mut at = 0_u64;
        for chunk in stream.split("<c").skip(1) {
            at = attributes(chunk, "t").next().map_or(at, |t| t.parse().unwrap());
            for _ in 0..attributes(chunk, "r").next().map_or(1, |r| r.parse().unwrap()) {
                times.push(at.to_string());
                at += attributes(chunk, "d").next().unwrap().parse::<u64>().unwrap();
            }
        }
        for bitrate in stream.split("<QualityLevel").skip(1).map(|q| attributes(q, "Bitrate").next().unwrap())
        {
            let url = |time: &String| url.replace("{bitrate}", bitrate).replace("{start time}", time);
            urls.extend(times.iter().map(|t| format!("/{title}/{}", url(t))));
        }
    }
    urls
}

/// Returns the fragments of Smooth Streaming and HDS.
pub(crate) async fn smooth_and_hds(server: SocketAddr, title: &str) -> BTreeMap<&'static str, Vec<String>> {
    let mut all = BTreeMap::from([("MSS", smooth_fragments(server, title).await)]);
    let manifest = String::from_utf8(fetch(server, &format!("/{title}/.f4m")).await.to_vec()).unwrap();
    for media in manifest.split("<media").skip(1) {
        let url = attributes(media, "url").next().unwrap();
        for n in 1.. {
            let url = format!("/{title}/{url}Seg1-Frag{n}");
            if get(server, &url).await.status != 200 {
                break;
            }
            all.entry("HDS").or_default().push(url);
        }
    }
    all
}

/// Tests every ordered pair of protocols, and other segment durations.
#[tokio::test]
async fn a_second_protocol_or_duration_reads_no_media() {
    for title in TITLES {
        let calm = Server::start(library()).await;
        let urls = segments(calm.address, title).await;
        let mut bodies = BTreeMap::new();
        for url in urls.values().flatten() {
            bodies.insert(url.clone(), fetch(calm.address, url).await);
        }
        let expected: u64 = {
            let loaded = Origin::new(library(), crate::server::config()).title(title).await.unwrap();
            let title = &loaded.title;
            let bytes = title.tracks().iter().map(|track| match &title.track(track).samples {
                Samples::Table(table) => table.bytes_in(0..table.len()),
                // The fragments hold both tracks, so that each byte is counted twice.
                Samples::Fragments(table) => table.bytes() / 2,
            });
            bytes.sum()
        };
        let mut other_cuts = Vec::new();
        for seconds in [1, 6] {
            let server = Server::of(origin(library(), &cache(), seconds), None).await;
            other_cuts.push((seconds, segments(server.address, title).await));
        }
        for (first, own) in &urls {
            let counting = Arc::new(Counting::new(library(), Duration::ZERO));
            let cache = cache();
            let server = Server::of(origin(counting.clone(), &cache, 4), None).await;
            fetch(server.address, &format!("/{title}/.mpd")).await;
            drop(counting.take());
            for url in own {
                assert_eq!(fetch(server.address, url).await, bodies[url], "{url}");
            }
            let (requests, bytes) = media(&counting);
            println!(
                "{title} {first}: {requests} requests for {} segments, {bytes} of {expected} bytes",
                own.len()
            );
            let most = if title == "harbour" && matches!(*first, "HLS TS" | "HDS") {
                2 * own.len()
            } else {
                own.len()
            };
            assert!(requests <= most, "{title} {first}: {requests} for {}", own.len());
            assert!(bytes <= expected + expected / 50, "{title} {first}: {bytes} for {expected}");
            for (second, others) in &urls {
                for url in others {
                    assert_eq!(fetch(server.address, url).await, bodies[url], "{url}");
                }
                assert_eq!(media(&counting), (0, 0), "{title}: {second} after {first}");
            }
            for (seconds, urls) in &other_cuts {
                let server = Server::of(origin(counting.clone(), &cache, *seconds), None).await;
                fetch(server.address, &format!("/{title}/.mpd")).await;
                drop(counting.take());
                for url in urls.values().flatten() {
                    fetch(server.address, url).await;
                }
                assert_eq!(media(&counting), (0, 0), "{title}: {seconds} s after {first}");
            }
            let cached = cache.figures().cached_bytes;
            assert!(cached <= expected + expected / 50, "{title}: {cached} kept of {expected}");
        }
    }
}

/// A player that seeks needs the audio and the video of that time.
#[tokio::test]
async fn a_player_that_seeks_reads_little_more_than_it_plays() {
    let calm = Server::start(library()).await;
    for title in TITLES {
        let urls = segments(calm.address, title).await;
        let dash = &urls["DASH"];
        let of = |kind: &str| {
            let mut urls: Vec<_> =
                dash.iter().filter(|url| url.contains(kind) && !url.contains("_fra")).collect();
            urls.sort_by_key(|url| (url.len(), (*url).clone()));
            urls[1].clone()
        };
        let counting = Arc::new(Counting::new(library(), Duration::ZERO));
        let server = Server::of(origin(counting.clone(), &cache(), 4), None).await;
        fetch(server.address, &format!("/{title}/.mpd")).await;
        drop(counting.take());
        let audio = fetch(server.address, &of("-audio")).await;
        let video = fetch(server.address, &of("-video")).await;
        let (requests, bytes) = media(&counting);
        println!("{title}: {requests} requests, {bytes} bytes for {} and {}", audio.len(), video.len());
        let most = if title == "harbour" { 2 } else { 1 };
        assert!(requests <= most, "{title}: {requests}");
        // Bit rates are low here, so that a little audio of the segments before and after is a
        // large share of the bytes read.
        let played = (audio.len() + video.len()) as u64;
        assert!(bytes <= played + played / 10, "{title}: {bytes} for {played}");
    }
}

#[tokio::test]
async fn responses_made_from_the_index_need_no_storage() {
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = Server::of(origin(counting.clone(), &cache(), 4), None).await;
    for title in TITLES {
        fetch(server.address, &format!("/{title}/.mpd")).await;
        drop(counting.take());
        let urls = crawl(server.address, &format!("/{title}")).await;
        drop(counting.take());
        let made = |url: &&String| {
            url.contains(".m3u8")
                || url.ends_with(".mpd")
                || (url.contains("/dash/") && url.matches('-').count() == 1)
        };
        assert!(urls.iter().filter(made).count() > 5);
        for url in urls.iter().filter(made).map(String::as_str).chain(["/harbour/Manifest", "/harbour/.f4m"])
        {
            if url.starts_with(&format!("/{title}")) {
                fetch(server.address, url).await;
            }
        }
        assert_eq!(counting.take(), [], "{title}");
    }
}

#[tokio::test]
async fn two_hundred_clients_of_one_cold_segment_share_one_request() {
    let calm = Server::start(library()).await;
    for title in TITLES {
        let urls = segments(calm.address, title).await;
        for protocol in ["DASH", "HLS TS"] {
            let url = &urls[protocol][0];
            let whole = fetch(calm.address, url).await;
            let counting = Arc::new(Counting::new(library(), Duration::ZERO));
            let server = Server::of(origin(counting.clone(), &cache(), 4), None).await;
            fetch(server.address, &format!("/{title}/.mpd")).await;
            drop(counting.take());
            let bodies = join_all((0..200).map(|_| fetch(server.address, url))).await;
            assert!(bodies.iter().all(|body| *body == whole), "{url}");
            let (requests, _) = media(&counting);
            let most = if title == "harbour" && protocol == "HLS TS" { 2 } else { 1 };
            assert!(requests <= most, "{url}: {requests}");
        }
    }
}
