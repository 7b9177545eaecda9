//! Requests that are made to cost as much as possible: of storage, of work and of memory.

use crate::{
    client::get,
    server::{Server, config, key, library, sample},
};
use http::Request;
use http_body_util::BodyExt;
use latemux_origin::{Origin, OriginConfig};
use latemux_storage::{Memory, counting::Counting};
use latemux_testmedia::hostile::HostileFile;
use std::{sync::Arc, time::Duration};

/// An origin whose storage counts requests.
struct Counted {
    origin: Origin,
    storage: Arc<Counting>,
}

impl Counted {
    fn new(memory: Arc<Memory>) -> Self {
        let storage = Arc::new(Counting::new(memory, Duration::ZERO));
        Self { origin: Origin::new(storage.clone(), config()), storage }
    }

    /// Returns status, reason and number of storage requests.
    async fn get(&self, url: &str) -> (u16, String, usize) {
        let response = self.origin.respond(Request::get(url).body(()).unwrap()).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let json: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        let reason = json.and_then(|json| Some(json["reason"].as_str()?.to_owned()));
        (status, reason.unwrap_or_default(), self.storage.take().len())
    }
}

impl Counted {
    async fn bytes(&self, url: &str, range: Option<&str>) -> Vec<u8> {
        let mut request = Request::get(url);
        if let Some(range) = range {
            request = request.header("range", format!("bytes={range}"));
        }
        let response = self.origin.respond(request.body(()).unwrap()).await;
        assert!(response.status().is_success(), "{url}: {}", response.status());
        response.into_body().collect().await.unwrap().to_bytes().to_vec()
    }

    async fn text(&self, url: &str) -> String {
        String::from_utf8(self.bytes(url, None).await).unwrap()
    }

    /// Returns the number of bytes read from storage since the last call.
    fn read(&self) -> u64 {
        self.storage.take().iter().map(|request| request.bytes).sum()
    }
}

/// Each request for such a list made 64 storage requests.
#[tokio::test(start_paused = true)]
async fn a_list_of_64_unknown_names_costs_few_storage_requests() {
    let counted = Counted::new(library());
    let names = |from: u32| (from..from + 64).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let list = |names: &str| format!("/x,{names},.mp4.urlset/.mpd");
    let unknown = list(&names(0));
    let (status, reason, requests) = counted.get(&unknown).await;
    assert_eq!((status, reason.as_str()), (404, "source_not_found"));
    // The answer did not wait for loads that had begun.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let requests = requests + counted.storage.take().len();
    assert!((1..=8).contains(&requests), "{requests} requests");
    // The answer is remembered, for the list and for the files in it.
    assert_eq!(counted.get(&unknown).await.2, 0);
    assert_eq!(counted.get(&list("0,200,201")).await.2, 0);
    assert_eq!(counted.get("/x0.mp4/.mpd").await, (404, "source_not_found".to_owned(), 0));
    // A file that is there now is found a second later.
    tokio::time::advance(Duration::from_millis(1001)).await;
    assert_eq!(counted.get("/x0.mp4/.mpd").await.2, 1);
    let (status, ..) = counted.get("/lighthouse.mp4/.mpd").await;
    assert_eq!(status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_was_missing_is_served_a_second_later() {
    let memory = library();
    let counted = Counted::new(memory.clone());
    assert_eq!(counted.get("/new.mp4/.mpd").await.0, 404);
    memory.put(key("new.mp4"), crate::server::sample("lighthouse.mp4"));
    assert_eq!(counted.get("/new.mp4/.mpd").await.0, 404);
    tokio::time::advance(Duration::from_millis(1001)).await;
    assert_eq!(counted.get("/new.mp4/.mpd").await.0, 200);
}

#[tokio::test]
async fn nothing_is_remembered_if_every_manifest_is_compared_with_storage() {
    let memory = library();
    let config = OriginConfig { recheck_after: Duration::ZERO, ..config() };
    let server = Server::with(memory.clone(), config, None).await;
    assert_eq!(get(server.address, "/new.mp4/.mpd").await.status, 404);
    memory.put(key("new.mp4"), crate::server::sample("lighthouse.mp4"));
    assert_eq!(get(server.address, "/new.mp4/.mpd").await.status, 200);
}

/// The list named one film 64 times, and each new clip took seconds.
#[tokio::test]
async fn a_file_that_a_list_names_64_times_is_read_and_served_once() {
    let counted = Counted::new(library());
    let list = format!("/lighthouse,{},.mp4.urlset", [""; 64].join(","));
    let (status, _, requests) = counted.get(&format!("{list}/.mpd")).await;
    assert_eq!(status, 200);
    let one = Counted::new(library());
    assert_eq!(one.get("/lighthouse.mp4/.mpd").await.2, requests);
    let title = counted.origin.title(list.trim_start_matches('/')).await.unwrap();
    assert_eq!(title.objects.len(), 1);
}

/// It took 34 s for each manifest.
#[tokio::test(start_paused = true)]
async fn a_file_that_costs_too_much_is_refused_and_remembered() {
    let memory = library();
    let file = HostileFile::of_bare_fragments(1).write();
    assert!((80_000..120_000).contains(&file.len()), "{} bytes", file.len());
    memory.put(key("bare.mp4"), file);
    let counted = Counted::new(memory);
    let (status, reason, requests) = counted.get("/bare.mp4/.mpd").await;
    assert_eq!((status, reason.as_str()), (422, "index_too_large"));
    assert!(requests > 0);
    assert_eq!(counted.get("/bare.mp4/.m3u8").await, (422, "index_too_large".to_owned(), 0));
    assert_eq!(counted.get("/,bare,bare2,.mp4.urlset/.m3u8").await.2, 1, "only the other file is looked for");
}

/// Clips whose first and last samples are the same are one manifest in memory.
#[tokio::test]
async fn clips_with_the_same_segments_share_a_manifest() {
    let server = Server::start(library()).await;
    let etag = async |query: &str| {
        let response = get(server.address, &format!("/lighthouse.mp4/.mpd?{query}")).await;
        assert_eq!(response.status, 200, "{query}");
        response.header("etag").to_owned()
    };
    let first = etag("vbegin=4.1&vend=7.5").await;
    for n in 2..9 {
        assert_eq!(etag(&format!("vbegin=4.{n}&vend=7.{n}")).await, first);
    }
    assert_ne!(etag("vbegin=0.5&vend=7.5").await, first);
    // A clip that leaves nothing out is the whole title.
    assert_eq!(etag("vend=10000").await, etag("").await);
}

/// The last byte of a joined segment took all its media.
#[tokio::test]
async fn a_range_of_ts_reads_only_what_it_needs() {
    let counted = Counted::new(library());
    let playlists = counted.text("/harbour/.m3u8?hls_minimum_fragment_length=30").await;
    let playlist = playlists.lines().find(|line| !line.starts_with('#')).unwrap();
    let segments = counted.text(&format!("/harbour/{playlist}")).await;
    let segment = segments.lines().find(|line| line.contains(".ts")).unwrap();
    let url = format!("/harbour/{segment}");
    counted.storage.take();
    let whole = counted.bytes(&url, None).await;
    let all = counted.read();
    assert!(whole.len() > 200_000 && all > 150_000, "{} bytes, {all} read", whole.len());
    for range in ["0-99", "-1", "100000-100999"] {
        let part = counted.bytes(&url, Some(range)).await;
        let (from, until) = range.split_once('-').unwrap();
        let expected = match (from, until) {
            ("", last) => &whole[whole.len() - last.parse::<usize>().unwrap()..],
            (from, until) => &whole[from.parse().unwrap()..=until.parse::<usize>().unwrap()],
        };
        assert!(part == expected, "{range}");
        let read = counted.read();
        assert!(read < all / 8, "{range}: {read} of {all} bytes");
    }
}

/// Each request for the library listed every folder.
#[tokio::test(start_paused = true)]
async fn the_library_is_listed_once_in_ten_seconds() {
    let counted = Counted::new(library());
    assert_eq!(counted.get("/api/library").await, (200, String::new(), 1));
    assert_eq!(counted.get("/api/library").await, (200, String::new(), 0));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(counted.get("/api/library").await, (200, String::new(), 1));
}

/// Returns a storage with files of these names in the folder `f`.
fn folder_of(names: impl Iterator<Item = String>) -> Arc<Memory> {
    let memory = Memory::new();
    names.for_each(|name| _ = memory.put(key(&format!("f/{name}")), "x"));
    Arc::new(memory)
}

/// All of the folder was listed, 100 pages of a bucket, before the error was known.
#[tokio::test(start_paused = true)]
async fn a_folder_title_among_100_000_films_was_refused_only_after_listing_them_all() {
    let counted = Counted::new(folder_of((0..100_000).map(|n| format!("{n:06}.mp4"))));
    assert_eq!(counted.get("/f/.mpd").await, (422, "too_many_objects".to_owned(), 1));
    // The answer is remembered.
    assert_eq!(counted.get("/f/.mpd").await.2, 0);
}

#[tokio::test(start_paused = true)]
async fn a_folder_title_among_100_000_pictures_is_refused_after_two_listings() {
    let pictures = (0..100_000).map(|n| format!("{n:06}.jpg"));
    let counted = Counted::new(folder_of(pictures));
    let (status, reason, requests) = counted.get("/f/.mpd").await;
    assert_eq!((status, reason.as_str(), requests), (422, "folder_too_large", 2));
    assert_eq!(counted.get("/f/.mpd").await.2, 0);
}

/// A film among several thousand pictures, which come before it by name.
#[tokio::test]
async fn a_folder_title_is_found_among_other_files() {
    let memory = folder_of((0..9000).map(|n| format!("{n:06}.jpg")));
    for name in crate::server::HARBOUR {
        memory.put(key(&format!("f/{name}")), crate::server::sample(&format!("harbour/{name}")));
    }
    let counted = Counted::new(memory);
    assert_eq!(counted.get("/f/.mpd").await.0, 200);
}

/// Index MP4s and the files that they hide count once.
#[tokio::test]
async fn a_folder_of_many_hidden_files_is_not_too_large() {
    let memory = Memory::new();
    for number in 0..64 {
        for extension in ["index.mp4", "mp4", "cmfv", "m4v"] {
            memory.put(key(&format!("f/v{number}.{extension}")), "x");
        }
    }
    let counted = Counted::new(Arc::new(memory));
    assert_eq!(counted.get("/f/.mpd").await.1, "not_mp4");
}

/// Each load of a title wrote a line for each of its problems, and lists of the same files have any
/// number of bases.
#[tokio::test(start_paused = true)]
async fn the_problems_of_titles_could_fill_the_log() {
    crate::log::keep();
    let memory = library();
    for number in 0..64 {
        // HEVC, which two protocols cannot carry.
        memory.put(key(&format!("log-flood-{number}.mp4")), sample("buoy.mp4"));
    }
    let counted = Counted::new(memory);
    let load = async |number: u32| {
        assert_eq!(counted.get(&format!("/log-flood-{number}.mp4/.mpd")).await.0, 200);
        crate::log::lines(&[" WARN ", "cannot_carry", "log-flood-"])
    };
    let first = load(0).await.len();
    assert!(first >= 2, "{first} lines");
    for number in 1..63 {
        load(number).await;
    }
    let lines = load(62).await.len();
    assert_eq!(lines, 64);
    tokio::time::advance(Duration::from_secs(1)).await;
    let lines = load(63).await;
    assert_eq!(lines.len(), 65);
    assert!(lines[64].contains(&format!("left_out={}", 63 * first - 64)), "{}", lines[64]);
}

/// Each refused request wrote a line, so that a flood of them filled the disk of the log.
#[tokio::test(start_paused = true)]
async fn a_flood_of_refused_requests_wrote_a_warning_for_each() {
    crate::log::keep();
    let memory = library();
    memory.put(key("flood-of-warnings.mp4"), HostileFile::of_bare_fragments(1).write());
    let counted = Counted::new(memory);
    let flood = async || {
        for _ in 0..50 {
            assert_eq!(counted.get("/flood-of-warnings.mp4/.mpd").await.0, 422);
        }
    };
    let warnings = || crate::log::lines(&[" WARN ", "index_too_large", "path=/flood-of-warnings.mp4/.mpd"]);
    flood().await;
    assert_eq!(warnings().len(), 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    flood().await;
    let warnings = warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[1].contains("left_out=49"), "{warnings:?}");
    assert_eq!(crate::log::lines(&[" access: ", "path=/flood-of-warnings.mp4/.mpd"]).len(), 100);
}
