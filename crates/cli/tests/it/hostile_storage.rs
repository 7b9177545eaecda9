//! Faults of storage over HTTP and S3, as clients of the server see them: responses with other
//! lengths, codings or surplus bytes, files that are still being copied, index bytes that are wrong
//! once, and storage that is down for longer than `recheck_after`. Each complete body is compared
//! with the right one.

use crate::{
    client::{Answer, get},
    crawl::crawl,
    scripted_storage::{CREDENTIALS, Fault, PROTOCOLS, Protocol, Storage, ask},
    server::{Server, samples},
};
use latemux_testmedia::recipe;
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};
use tempfile::NamedTempFile;

const TITLE: &str = "lighthouse.mp4";
/// Longest time that a test waits for a change. It is far longer than any takes.
const LONG: Duration = Duration::from_secs(60);

fn sample() -> Vec<u8> {
    fs::read(Path::new(&samples()).join(TITLE)).unwrap()
}

/// A server over storage with faults.
struct Over {
    server: Server,
    _config: NamedTempFile,
}

impl Over {
    fn start(storage: &Storage, protocol: Protocol, keys: &str, flags: &[&str]) -> Self {
        let mut config = NamedTempFile::with_suffix(".toml").unwrap();
        // Keys outside tables come first.
        write!(config, "{keys}\n{}", storage.config("retries = 0")).unwrap();
        let path = config.path().to_str().unwrap();
        let flags = [&["--config", path, "--admin", "127.0.0.1:0"][..], flags].concat();
        Self { server: Server::start(&storage.source(protocol), &flags, &CREDENTIALS), _config: config }
    }

    fn get(&self, url: &str) -> Answer {
        get(self.server.address, url)
    }

    /// Requests a URL until the response is as wanted.
    fn until(&self, url: &str, is_wanted: impl Fn(&Answer) -> bool) -> Answer {
        let began = Instant::now();
        loop {
            let answer = self.get(url);
            if is_wanted(&answer) {
                return answer;
            }
            assert!(began.elapsed() < LONG, "{url}: {} {:?}", answer.status, answer.headers);
            std::thread::yield_now();
        }
    }
}

/// Returns all responses of a title over storage without faults, by URL.
fn right(name: &str, object: &[u8]) -> BTreeMap<String, Answer> {
    let storage = Storage::start();
    storage.put(name, object);
    let over = Over::start(&storage, Protocol::Http, "", &[]);
    crawl(over.server.address, &[format!("/{name}/.mpd"), format!("/{name}/.m3u8")])
}

/// Returns a segment of video among these URLs.
fn video(right: &BTreeMap<String, Answer>) -> &str {
    // An init segment has no number.
    let is_numbered = |url: &str| url.split_once("-video=").is_some_and(|(_, rest)| rest.contains('-'));
    right.keys().find(|url| url.contains("/dash/") && is_numbered(url)).unwrap()
}

/// Wrong responses were sent as media, and kept on disk over a restart.
#[test]
fn wrong_responses_were_kept_over_a_restart() {
    let object = sample();
    let right = right(TITLE, &object);
    for protocol in PROTOCOLS {
        for fault in [Fault::Coded, Fault::Longer, Fault::Shorter, Fault::AnswersTwice] {
            let storage = Storage::start();
            storage.put(TITLE, object.clone());
            let cache = tempfile::tempdir().unwrap();
            let flags = ["--cache-dir", cache.path().to_str().unwrap()];
            let over = Over::start(&storage, protocol, "", &flags);
            let check = |what: &str| {
                let mut refused = 0;
                for (url, expected) in &right {
                    match ask(over.server.address, url) {
                        Some((200, body)) => assert!(body == expected.body, "{protocol:?} {fault:?}: {url}"),
                        Some((status, body)) => {
                            let text = String::from_utf8_lossy(&body).into_owned();
                            assert!(status == 502 && text.contains("storage_bad_answer"), "{what}: {text}");
                            refused += 1;
                        }
                        None => refused += 1,
                    }
                }
                refused
            };
            storage.set(fault);
            assert_eq!(check("not indexed"), right.len(), "{protocol:?} {fault:?}");
            storage.set(Fault::Nothing);
            over.until(&format!("/{TITLE}/.mpd"), |answer| answer.status == 200);
            storage.set(fault);
            assert!(check("indexed") > 0, "{protocol:?} {fault:?}: no media was read");
            storage.set(Fault::Nothing);
            for (url, expected) in &right {
                let answer = over.until(url, |answer| answer.status == 200);
                assert!(answer.body == expected.body, "{protocol:?} {fault:?}, healed: {url}");
            }
            over.server.stop();
            let over = Over::start(&storage, protocol, "", &flags);
            for (url, expected) in &right {
                assert!(over.get(url).body == expected.body, "{protocol:?} {fault:?}, restarted: {url}");
            }
            let metrics = get(over.server.admin.unwrap(), "/metrics");
            let mut hits = metrics.text().lines().filter(|line| {
                line.starts_with("latemux_cache_hits_total{")
                    && line.contains("cache=\"range\",tier=\"disk\"")
            });
            assert!(hits.any(|line| !line.ends_with(" 0")), "{protocol:?}: nothing came from disk");
        }
    }
}

/// Returns a fragmented file of which each fragment holds one track, the audio first, and the end
/// of its first fragment.
fn one_track_each() -> (Vec<u8>, usize) {
    let args = format!(
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 -f lavfi -i sine=duration=6 \
         -map 1 -map 0 {} {} -movflags frag_keyframe+empty_moov+default_base_moof+separate_moof",
        recipe::AVC,
        recipe::AAC
    );
    let file = fs::read(recipe::make("one-track-each", "mp4", &args)).unwrap();
    let mut at = 0;
    loop {
        let size = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let is_media = &file[at + 4..at + 8] == b"mdat";
        at += size;
        if is_media {
            return (file, at);
        }
    }
}

/// A node that had seen only a part of the file said `no_such_track` for all video until it was
/// asked for a manifest.
#[test]
fn a_title_stayed_audio_only_after_its_file_was_copied() {
    let (whole, first) = one_track_each();
    let right = right("x.mp4", &whole);
    let url = video(&right);
    for protocol in PROTOCOLS {
        let storage = Storage::start();
        storage.put("x.mp4", &whole[..first]);
        let over = Over::start(&storage, protocol, "", &[]);
        let partial = over.get("/x.mp4/.mpd");
        assert_eq!((partial.status, &*partial.headers["cache-control"]), (200, "no-store"), "{protocol:?}");
        assert!(!partial.text().contains("video="), "{protocol:?}: {}", partial.text());
        let missing = over.get(url);
        assert_eq!((missing.status, &*missing.headers["cache-control"]), (404, "no-store"), "{protocol:?}");
        assert!(missing.text().contains("no_such_track"), "{protocol:?}: {}", missing.text());

        storage.put("x.mp4", whole.clone());
        // No manifest is requested before the segment.
        let found = over.until(url, |answer| answer.status == 200);
        assert!(found.body == right[url].body, "{protocol:?}");
        for (url, expected) in &right {
            let answer = over.get(url);
            assert!((answer.status, &answer.body) == (200, &expected.body), "{protocol:?}: {url}");
            assert_eq!(answer.headers["cache-control"], expected.headers["cache-control"], "{url}");
        }
    }
}

/// Index bytes that were wrong once made the title audio only for as long as the object kept its
/// version.
#[test]
fn one_wrong_response_to_a_read_of_an_index_made_a_title_audio_only() {
    let object = sample();
    let right = right(TITLE, &object);
    for protocol in PROTOCOLS {
        let storage = Storage::start();
        storage.put(TITLE, object.clone());
        storage.damage_once();
        let over = Over::start(&storage, protocol, "", &[]);
        let found = over.get(video(&right));
        assert!(storage.is_damaged(), "{protocol:?}");
        assert!((found.status, &found.body) == (200, &right[video(&right)].body), "{protocol:?}");
        for (url, expected) in &right {
            let answer = over.get(url);
            assert!((answer.status, &answer.body) == (200, &expected.body), "{protocol:?}: {url}");
        }
    }
}

/// Every manifest failed, though all of the title was in memory.
#[test]
fn a_title_in_memory_could_not_be_played_while_storage_was_down() {
    let object = sample();
    let right = right(TITLE, &object);
    let manifest = format!("/{TITLE}/.mpd");
    for protocol in PROTOCOLS {
        for fault in [Fault::Fails, Fault::Down, Fault::Silent] {
            let storage = Storage::start();
            storage.put(TITLE, object.clone());
            // Any outage is longer than this.
            let over = Over::start(&storage, protocol, "recheck_after = \"0s\"", &[]);
            for (url, expected) in &right {
                assert!(over.get(url).body == expected.body, "{protocol:?}: {url}");
            }
            storage.set(fault);
            assert_eq!(over.get(&manifest).headers["warning"], "111 - \"Revalidation Failed\"");
            for (url, expected) in &right {
                let answer = over.get(url);
                assert!(
                    (answer.status, &answer.body) == (200, &expected.body),
                    "{protocol:?} {fault:?}: {url}"
                );
            }
            storage.set(Fault::Nothing);
            let current = over.until(&manifest, |answer| !answer.headers.contains_key("warning"));
            assert!(
                (current.status, &current.body) == (200, &right[&manifest].body),
                "{protocol:?} {fault:?}"
            );
            // Nothing of the media is read again.
            storage.take();
            for url in right.keys().filter(|url| !url.contains(".m3u8") && !url.contains(".mpd")) {
                assert_eq!(over.get(url).status, 200, "{url}");
            }
            assert_eq!(storage.take().1, 0, "{protocol:?} {fault:?}");
        }
    }
}
