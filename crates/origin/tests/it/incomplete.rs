//! Titles that lack a part when they are first asked for: files that are still being copied, and
//! index bytes that storage got wrong once. The part is served as soon as it can be read.

use crate::server::{config, key, library, sample};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::BodyExt;
use latemux_cache::{DiskConfig, Records};
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{Memory, Read, Storage, altered::Altered};
use latemux_testmedia::recipe;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::advance;

async fn get(origin: &Origin, url: &str) -> Response<Bytes> {
    let response = origin.respond(Request::get(url).body(()).unwrap()).await;
    let (head, body) = response.into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

fn cached_as(response: &Response<Bytes>) -> (u16, &str) {
    let value = response.headers().get("cache-control").map(|value| value.to_str().unwrap());
    (response.status().as_u16(), value.unwrap_or_default())
}

fn reason(response: &Response<Bytes>) -> String {
    let json: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
    json["reason"].as_str().unwrap().to_owned()
}

const DAY: &str = "public, max-age=86400";
const MINUTE: &str = "public, max-age=60";

/// Returns a fragmented file of which each fragment holds one track, the audio first.
fn one_track_each() -> Bytes {
    let args = format!(
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 -f lavfi -i sine=duration=6 \
         -map 1 -map 0 {} {} -movflags frag_keyframe+empty_moov+default_base_moof+separate_moof",
        recipe::AVC,
        recipe::AAC
    );
    std::fs::read(recipe::make("one-track-each", "mp4", &args)).unwrap().into()
}

/// Returns the end of the first fragment.
fn end_of_first_fragment(file: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let size = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let is_media = &file[at + 4..at + 8] == b"mdat";
        at += size;
        if is_media {
            return at;
        }
    }
}

/// Returns the URL of the first DASH segment of a kind in the MPD of `/x.mp4`, if it has that kind.
fn first_segment(mpd: &Response<Bytes>, kind: &str) -> Option<String> {
    let text = std::str::from_utf8(mpd.body()).unwrap();
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let (before, rate) = text.split_once(&format!("id=\"{kind}="))?;
    let (_, start) = before.rsplit_once("<S t=\"").unwrap();
    Some(format!("/x.mp4/dash/x-{kind}={}-{}.dash", digits(rate), digits(start)))
}

/// The node said `no_such_track` until it was asked for a manifest.
#[tokio::test(start_paused = true)]
async fn a_file_that_is_still_copied_was_audio_only_until_the_next_manifest() {
    let whole = one_track_each();
    let memory = Arc::new(Memory::new());
    memory.put(key("x.mp4"), whole.clone());
    let complete = Origin::new(memory.clone(), config());
    let url = first_segment(&get(&complete, "/x.mp4/.mpd").await, "video").unwrap();
    let right = get(&complete, &url).await;
    assert_eq!(cached_as(&right), (200, DAY));

    memory.put(key("x.mp4"), whole.slice(..end_of_first_fragment(&whole)));
    let origin = Origin::new(memory.clone(), config());
    // Nothing of the incomplete title may stay in a cache.
    let partial = get(&origin, "/x.mp4/.mpd").await;
    assert_eq!(cached_as(&partial), (200, "no-store"));
    assert_eq!(first_segment(&partial, "video"), None);
    let audio = first_segment(&partial, "audio").unwrap();
    assert_eq!(cached_as(&get(&origin, &audio).await), (200, "no-store"));
    let missing = get(&origin, &url).await;
    assert_eq!((cached_as(&missing), reason(&missing).as_str()), ((404, "no-store"), "no_such_track"));

    memory.put(key("x.mp4"), whole);
    // A missing segment is searched for once a second at most.
    assert_eq!(get(&origin, &url).await.status(), 404);
    advance(Duration::from_secs(1)).await;
    let found = get(&origin, &url).await;
    assert_eq!((cached_as(&found), found.body()), ((200, DAY), right.body()));
    assert_eq!(cached_as(&get(&origin, "/x.mp4/.mpd").await), (200, MINUTE));
}

/// A file of a folder that cannot be read may be there in a moment. After a minute it counts as
/// damaged, and the rest of the title may be cached.
#[tokio::test(start_paused = true)]
async fn a_title_with_a_part_that_cannot_be_read_is_not_cached_for_a_minute() {
    let memory = library();
    memory.put(key("harbour/video-360p.mp4"), sample("harbour/video-360p.mp4").slice(..700));
    let origin = Origin::new(memory.clone(), config());
    let url = "/harbour/dash/x-video=81000.dash";
    for _ in 0..20 {
        assert_eq!(cached_as(&get(&origin, "/harbour/.mpd").await), (200, "no-store"));
        assert_eq!(cached_as(&get(&origin, url).await), (200, "no-store"));
        advance(Duration::from_secs(3)).await;
    }
    assert_eq!(cached_as(&get(&origin, "/harbour/.mpd").await), (200, MINUTE));
    assert_eq!(cached_as(&get(&origin, url).await), (200, DAY));
    // While it lasts, manifests look for the part every two seconds.
    let origin = Origin::new(memory.clone(), config());
    let without = get(&origin, "/harbour/.mpd").await;
    memory.put(key("harbour/video-360p.mp4"), sample("harbour/video-360p.mp4"));
    assert_eq!(get(&origin, "/harbour/.mpd").await.body(), without.body());
    advance(Duration::from_secs(2)).await;
    let with = get(&origin, "/harbour/.mpd").await;
    assert_eq!(cached_as(&with), (200, MINUTE));
    assert!(with.body().len() > without.body().len());
}

/// Damages the handler type of the video in the bytes of the next reads.
struct Damage(AtomicUsize);

impl Damage {
    fn over(self: &Arc<Self>, inner: Arc<dyn Storage>) -> Arc<dyn Storage> {
        let this = self.clone();
        Arc::new(Altered::new(inner, move || {
            let this = this.clone();
            move |read: Read| this.alter(read)
        }))
    }

    fn alter(self: Arc<Self>, mut read: Read) -> Read {
        let body = std::mem::replace(&mut read.body, stream::empty().boxed());
        read.body = body
            .map(move |frame| {
                frame.map(|frame| {
                    let Some(at) = frame.windows(8).position(|word| word == b"avc1\0\0\0\0") else {
                        return frame;
                    };
                    if self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
                        return frame;
                    }
                    let mut wrong = frame.to_vec();
                    wrong[at] = b'w';
                    wrong.into()
                })
            })
            .boxed();
        read
    }
}

/// The wrong index was used for as long as the object kept its version, even after a restart.
#[tokio::test]
async fn one_wrong_index_made_a_title_audio_only() {
    let right = get(&Origin::new(library(), config()), "/lighthouse.mp4/.mpd").await;
    let damage = Arc::new(Damage(AtomicUsize::new(1)));
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let indexes = Records::open(DiskConfig::new(folder.path().to_owned(), 1 << 20)).unwrap();
        indexes.recovered().await;
        let resources = Resources { indexes: Some(indexes.clone()), ..Resources::default() };
        let origin = Origin::with_resources(damage.over(library()), resources, config());
        let got = get(&origin, "/lighthouse.mp4/.mpd").await;
        assert_eq!((cached_as(&got), got.body()), ((200, MINUTE), right.body()));
        assert_eq!(damage.0.load(SeqCst), 0);
        indexes.close().await;
    }
}

/// A client that invents segments causes one comparison a second.
#[tokio::test(start_paused = true)]
async fn missing_segments_cause_one_comparison_a_second() {
    let reads = Arc::new(AtomicU32::new(0));
    let counted = reads.clone();
    let storage = Altered::new(library(), move || {
        counted.fetch_add(1, SeqCst);
        |read| read
    });
    let origin = Origin::new(Arc::new(storage), OriginConfig::default());
    get(&origin, "/lighthouse.mp4/.mpd").await;
    for _ in 0..3 {
        reads.store(0, SeqCst);
        advance(Duration::from_secs(1)).await;
        for number in 1000..1050 {
            let missing = get(&origin, &format!("/lighthouse.mp4/x-video=1-{number}.ts")).await;
            assert_eq!(missing.status(), 404);
        }
        assert_eq!(reads.load(SeqCst), 1);
    }
}
