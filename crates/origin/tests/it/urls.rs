//! Every form of URL, native and nginx-vod-module's: status, content type, and that both forms give
//! the same bytes.

use crate::{
    client::{FullResponse, fetch, get},
    server::{HARBOUR, Server, key, library, sample},
};
use latemux_origin::{
    OriginConfig,
    config::{NginxVodConfig, UrlsConfig},
};
use latemux_storage::Memory;
use std::{net::SocketAddr, sync::Arc};

const MPEGURL: &str = "application/vnd.apple.mpegurl";
const MPD: &str = "application/dash+xml";
const SSTR: &str = "application/vnd.ms-sstr+xml";
const F4M: &str = "application/f4m+xml";
const ABST: &str = "video/abst";
const TS: &str = "video/mp2t";
const VIDEO: &str = "video/mp4";
const AUDIO: &str = "audio/mp4";
const F4F: &str = "video/f4f";

fn enabled() -> OriginConfig {
    let mut nginx_vod = NginxVodConfig::default();
    nginx_vod.enable();
    OriginConfig { urls: UrlsConfig { nginx_vod, ..UrlsConfig::default() }, ..crate::server::config() }
}

async fn start(memory: Arc<Memory>) -> Server {
    Server::with(memory, enabled(), None).await
}

/// Returns the representation IDs of a title in the order of its MPD: video by bit rate, then
/// audio. The set of I-frames is left out, because nginx-vod URLs have none.
async fn ids(at: SocketAddr, manifest: &str) -> Vec<String> {
    let mpd = fetch(at, manifest).await;
    let text = std::str::from_utf8(&mpd).unwrap();
    let id = |tag: &str| tag.split_once(" id=\"").unwrap().1.split('"').next().unwrap().to_owned();
    text.split("<Representation").skip(1).map(id).filter(|id| !id.ends_with("-trick")).collect()
}

async fn good(at: SocketAddr, url: &str, content_type: &str) -> FullResponse {
    let response = get(at, url).await;
    assert_eq!(response.status, 200, "{url}: {:?}", response.body);
    assert_eq!(response.header("content-type"), content_type, "{url}");
    assert!(!response.body.is_empty(), "{url}");
    response
}

/// Asserts that URLs of nginx-vod-module's form under the base `nginx` give what their native forms
/// under the base `native` give. Manifests are not compared, because they hold other URLs.
async fn same(at: SocketAddr, nginx: &str, native: &str, table: &[(&str, String, &str)]) {
    for (theirs, ours, content_type) in table {
        let (prefix, rest) = theirs.split_once('/').unwrap();
        let theirs = format!("/{prefix}/{nginx}/{rest}");
        let one = good(at, &theirs, content_type).await;
        let other = good(at, &format!("/{native}/{ours}"), content_type).await;
        if [MPEGURL, MPD, SSTR, F4M].contains(content_type) {
            assert_ne!(
                one.header("etag"),
                other.header("etag"),
                "{theirs}: manifests with other URLs share an ETag"
            );
            continue;
        }
        assert!(one.body == other.body, "{theirs} is not {ours}");
        if *content_type != ABST {
            assert_eq!(one.lasting_headers(), other.lasting_headers(), "{theirs} and {ours}");
        }
    }
}

/// Returns the start time of the first fragment of a stream in a title's Smooth client manifest.
async fn smooth_time(at: SocketAddr, base: &str, stem: &str) -> String {
    let text = fetch(at, &format!("/{base}/Manifest")).await;
    let text = std::str::from_utf8(&text).unwrap();
    let stream = text.split("<StreamIndex").find(|s| s.contains(&format!("Fragments({stem}="))).unwrap();
    stream.split_once(" t=\"").map_or("0", |(_, t)| t.split('"').next().unwrap()).to_owned()
}

#[tokio::test]
async fn every_form_of_url_of_one_file_is_served() {
    let server = start(library()).await;
    let at = server.address;
    let [v, a] = <[String; 2]>::try_from(ids(at, "/lighthouse.mp4/.mpd").await).unwrap();
    assert_eq!(ids(at, "/dash/lighthouse.mp4/manifest.mpd").await, ["v1", "a1"]);
    let n = "lighthouse";
    let stem = v.split('=').next().unwrap();
    let bitrate = v.split('=').nth(1).unwrap();
    let time = smooth_time(at, "lighthouse.mp4", stem).await;
    let level = format!("QualityLevels({bitrate})/Fragments({stem}={time})");
    let mss = format!("mss/{level}");
    let own = |text: &str| text.to_owned();
    let table = [
        ("hls/master.m3u8", own(".m3u8"), MPEGURL),
        ("hls/master.m3u8?hls_fmp4", own(".m3u8?hls_fmp4"), MPEGURL),
        ("hls/clipFrom/3000/clipTo/9000/master.m3u8", own(".m3u8?vbegin=3&vend=9"), MPEGURL),
        ("hls/clipFrom/3000/clipTo/9000/seg-1-v1.ts", format!("{n}-{v}-1.ts?vbegin=3&vend=9"), TS),
        ("dash/clipTo/9000/fragment-1-a1.m4s", format!("dash/{n}-{a}-1.m4s?vend=9"), AUDIO),
        (
            "hls/master.m3u8?hls_minimum_fragment_length=6",
            own(".m3u8?hls_minimum_fragment_length=6"),
            MPEGURL,
        ),
        (
            "hls/seg-1-v1-a1.ts?hls_minimum_fragment_length=6",
            format!("{n}-{a}-{v}-1.ts?hls_minimum_fragment_length=6"),
            TS,
        ),
        ("hls/master-f1-v1.m3u8", own("any.m3u8"), MPEGURL),
        ("hls/index.m3u8", format!("{n}-{a}-{v}.m3u8"), MPEGURL),
        ("hls/index-v1-a1.m3u8", format!("{n}-{a}-{v}.m3u8"), MPEGURL),
        ("hls/index-f1-v1-a1.m3u8", format!("{n}-{a}-{v}.m3u8"), MPEGURL),
        ("hls/index-a1.m3u8", format!("{n}-{a}.m3u8"), MPEGURL),
        ("hls/index-v1.m3u8?hls_fmp4", format!("{n}-{v}.m3u8?hls_fmp4"), MPEGURL),
        ("hls/index-v1-a1.m3u8?hls_fmp4", format!("{n}-{a}-{v}.m3u8?hls_fmp4"), MPEGURL),
        ("hls/init-v1-a1.mp4", format!("hls/{n}-{a}-{v}.m4s"), VIDEO),
        ("hls/seg-2-v1-a1.m4s", format!("hls/{n}-{a}-{v}-2.m4s"), VIDEO),
        ("hls/iframes-v1-a1.m3u8", format!("keyframes/{n}-{v}.m3u8"), MPEGURL),
        ("hls/iframes-v1.m3u8?hls_fmp4", format!("keyframes/{n}-{v}.m3u8?hls_fmp4"), MPEGURL),
        ("hls/seg-1-v1-a1.ts", format!("{n}-{a}-{v}-1.ts"), TS),
        ("hls/seg-2-a1-v1.ts", format!("x-{v}-{a}-2.ts"), TS),
        ("hls/seg-1-f1-v1-a1.ts", format!("{n}-{a}-{v}-1.ts"), TS),
        ("hls/seg-1.ts", format!("{n}-{a}-{v}-1.ts"), TS),
        ("hls/seg-2-v1.ts", format!("{n}-{v}-2.ts"), TS),
        ("hls/seg-2-a1.ts", format!("{n}-{a}-2.ts"), TS),
        ("hls/seg-3-v1.m4s", format!("hls/{n}-{v}-3.m4s"), VIDEO),
        ("hls/seg-3-a1.m4s", format!("hls/{n}-{a}-3.m4s"), AUDIO),
        ("hls/init-v1.mp4", format!("hls/{n}-{v}.m4s"), VIDEO),
        ("hls/init-f1-a1.mp4", format!("hls/{n}-{a}.m4s"), AUDIO),
        ("hls/iframe-2-v1.ts", format!("keyframes/{n}-{v}-2.ts"), TS),
        ("hls/iframe-2-v1.m4s", format!("keyframes/{n}-{v}-2.m4s"), VIDEO),
        ("dash/manifest.mpd", own(".mpd"), MPD),
        ("dash/manifest-v1.mpd", own(".mpd?mpd_segment_template=number"), MPD),
        ("dash/init-v1.mp4", format!("dash/{n}-{v}.dash"), VIDEO),
        ("dash/init-f1-v1-x3.mp4", format!("dash/{n}-{v}.dash"), VIDEO),
        ("dash/init-a1-x3.mp4", format!("dash/{n}-{a}.dash"), AUDIO),
        ("dash/fragment-2-v1.m4s", format!("dash/{n}-{v}-2.m4s"), VIDEO),
        ("dash/fragment-1-v1-x3.m4s", format!("dash/{n}-{v}-0.dash"), VIDEO),
        ("dash/frag-2-f1-a1-x3.m4s", format!("dash/{n}-{a}-2.m4s"), AUDIO),
        ("mss/manifest", own("Manifest"), SSTR),
        ("mss/Manifest", own("manifest"), SSTR),
        ("mss/manifest-f1-v1", own("Manifest"), SSTR),
        (&mss, level, VIDEO),
        ("hds/manifest.f4m", own(".f4m"), F4M),
        ("hds/manifest-a1.f4m", own("any.f4m"), F4M),
        ("hds/bootstrap-v1-a1.abst", format!("{n}-{a}-{v}.abst"), ABST),
        ("hds/frag-v1-a1-Seg1-Frag2", format!("{n}-{a}-{v}-Seg1-Frag2"), F4F),
        ("hds/frag-f1-v1-a1-Seg1-Frag1", format!("{n}-{a}-{v}-Seg1-Frag1"), F4F),
        ("hds/clipFrom/3000/clipTo/9000/manifest.f4m", own(".f4m?vbegin=3&vend=9"), F4M),
        (
            "hds/clipFrom/3000/clipTo/9000/bootstrap-v1-a1.abst",
            format!("vbegin=3&vend=9/{n}-{a}-{v}.abst"),
            ABST,
        ),
        (
            "hds/clipFrom/3000/clipTo/9000/frag-v1-a1-Seg1-Frag3",
            format!("vbegin=3&vend=9/{n}-{a}-{v}-Seg1-Frag3"),
            F4F,
        ),
    ];
    same(at, "lighthouse.mp4", "lighthouse.mp4", &table).await;
}

/// Returns `harbour/` as a comma list: `f1` and `f2` are audio, `f3` to `f5` video, smallest first.
fn list() -> String {
    let middles: Vec<_> = HARBOUR.iter().map(|name| name.strip_suffix(".mp4").unwrap()).collect();
    format!("harbour/,{},.mp4.urlset", middles.join(","))
}

#[tokio::test]
async fn every_form_of_url_of_several_files_is_served() {
    let memory = library();
    memory.put(key("harbour.ism"), ism());
    let server = start(memory).await;
    let at = server.address;
    for (base, name) in [
        (list(), "%2Caudio-eng%2Caudio-fra%2Cvideo-180p%2Cvideo-234p%2Cvideo-360p%2C"),
        ("harbour".to_owned(), "x"),
    ] {
        let [small, middle, large, eng, fra] =
            <[String; 5]>::try_from(ids(at, &format!("/{base}/.mpd")).await).unwrap();
        assert_eq!(
            ids(at, &format!("/dash/{base}/manifest.mpd")).await,
            ["f3-v1", "f4-v1", "f5-v1", "f1-a1", "f2-a1"]
        );
        let table = [
            ("hls/master.m3u8", ".m3u8".to_owned(), MPEGURL),
            ("hls/index-f3-v1-f1-a1.m3u8", format!("{name}-{eng}-{small}.m3u8"), MPEGURL),
            ("hls/seg-1-f3-v1-f1-a1.ts", format!("{name}-{eng}-{small}-1.ts"), TS),
            ("hls/seg-2-f2-a1-f5-v1.ts", format!("{name}-{fra}-{large}-2.ts"), TS),
            ("hls/seg-2-f4-v1.ts", format!("{name}-{middle}-2.ts"), TS),
            ("hls/seg-2-f4.ts", format!("{name}-{middle}-2.ts"), TS),
            // Without a file number, the first file with such a track is used.
            ("hls/seg-1-v1-a1.ts", format!("{name}-{eng}-{small}-1.ts"), TS),
            ("hls/seg-1.ts", format!("{name}-{eng}-{small}-1.ts"), TS),
            ("hls/seg-2-f5-v1.m4s", format!("hls/{name}-{large}-2.m4s"), VIDEO),
            ("hls/tracks/v1-f1-a1/seg-1.ts", format!("{name}-{eng}-{small}-1.ts"), TS),
            ("hls/tracks/f2/seg-1.ts", format!("{name}-{fra}-1.ts"), TS),
            ("dash/init-f2-a1-x3.mp4", format!("dash/{name}-{fra}.dash"), AUDIO),
            ("dash/fragment-1-f4-v1-x3.m4s", format!("dash/{name}-{middle}-1.m4s"), VIDEO),
            ("hds/frag-f3-v1-f1-a1-Seg1-Frag1", format!("{name}-{eng}-{small}-Seg1-Frag1"), F4F),
        ];
        same(at, &base, &base, &table).await;
    }
    // Files of a server manifest are numbered in the order of their first use. Its track names and
    // bit rates are kept.
    assert_eq!(ids(at, "/dash/harbour.ism/manifest.mpd").await, ["f2-v1", "f1-a1"]);
    let table = [
        ("hls/seg-1-f2-v1-f1-a1.ts", "x-audio_eng=64000-video=900000-1.ts".to_owned(), TS),
        ("dash/fragment-2-f2-v1.m4s", "dash/x-video=900000-2.m4s".to_owned(), VIDEO),
        ("mss/manifest", "Manifest".to_owned(), SSTR),
    ];
    same(at, "harbour.ism", "harbour.ism", &table).await;
}

fn ism() -> String {
    let element = |kind: &str, file: &str, rate: u32| {
        format!(
            "<{kind} src=\"harbour/{file}.mp4\" systemBitrate=\"{rate}\">\
             <param name=\"trackID\" value=\"1\" valueType=\"data\"/></{kind}>"
        )
    };
    format!(
        "<?xml version=\"1.0\"?><smil xmlns=\"http://www.w3.org/2001/SMIL20/Language\"><body><switch>{}{}</switch></body></smil>",
        element("audio", "audio-eng", 64_000),
        element("video", "video-360p", 900_000)
    )
}

#[tokio::test]
async fn a_file_that_is_left_out_keeps_its_number() {
    let memory = library();
    memory.put(key("harbour/broken.mp4"), "this is no MP4 at all, nor anything like it");
    let server = start(memory).await;
    let list = "harbour/,audio-eng,broken,video-180p,.mp4.urlset";
    let ids = ids(server.address, &format!("/dash/{list}/manifest.mpd")).await;
    assert_eq!(ids, ["f3-v1", "f1-a1"]);
    good(server.address, &format!("/hls/{list}/seg-1-f3-v1-f1-a1.ts"), TS).await;
    assert_eq!(get(server.address, &format!("/hls/{list}/seg-1-f2-v1.ts")).await.reason(), "no_such_track");
}

#[tokio::test]
async fn manifests_list_only_the_selected_tracks() {
    let server = start(library()).await;
    let at = server.address;
    let list = list();
    for (selection, left) in [
        ("tracks/v1/manifest.mpd", &["f3-v1", "f4-v1", "f5-v1"][..]),
        ("tracks/v0-f2-a1/manifest.mpd", &["f3-v1", "f4-v1", "f5-v1", "f2-a1"]),
        ("manifest-f4-f1.mpd", &["f4-v1", "f1-a1"]),
        ("manifest-a1.mpd", &["f1-a1", "f2-a1"]),
        ("tracks/f5-f1/manifest-v1.mpd", &["f5-v1"]),
    ] {
        assert_eq!(ids(at, &format!("/dash/{list}/{selection}")).await, left, "{selection}");
    }
    let response = get(at, &format!("/dash/{list}/tracks/f5/manifest-a1.mpd")).await;
    assert_eq!((response.status.as_u16(), response.reason().as_str()), (404, "no_such_track"));
    // The other protocols.
    let text = |body: bytes::Bytes| String::from_utf8(body.to_vec()).unwrap();
    let master = text(fetch(at, &format!("/hls/{list}/tracks/f4-v1-f2-a1/master.m3u8")).await);
    assert!(master.contains("\nindex-f4-v1-f2-a1.m3u8\n"), "{master}");
    assert_eq!(master.matches("EXT-X-STREAM-INF").count(), 1, "{master}");
    assert!(!master.contains("f1") && !master.contains("f3"), "{master}");
    let smooth = text(fetch(at, &format!("/mss/{list}/manifest-f4-f1")).await);
    assert_eq!(smooth.matches("<QualityLevel ").count(), 2, "{smooth}");
    let hds = text(fetch(at, &format!("/hds/{list}/tracks/f5-f1/manifest.f4m")).await);
    assert_eq!(hds.matches("<media ").count(), 1, "{hds}");
    assert!(hds.contains("url=\"frag-f5-v1-f1-a1-\""), "{hds}");
}

#[tokio::test]
async fn refused_urls_have_a_status_and_a_reason() {
    let server = start(library()).await;
    let at = server.address;
    let long = format!("/hls/{}/master.m3u8", "x/".repeat(5000));
    for (url, status, reason) in [
        ("/hls/lighthouse.mp4/seg-0-v1-a1.ts", 400, "index_zero"),
        ("/hds/lighthouse.mp4/frag-v1-Seg1-Frag0", 400, "index_zero"),
        ("/hls/lighthouse.mp4/seg-9999-v1-a1.ts", 404, "no_such_segment"),
        ("/dash/lighthouse.mp4/fragment-4294967295-v1.m4s", 404, "no_such_segment"),
        ("/hds/lighthouse.mp4/frag-v1-a1-Seg1-Frag99", 404, "no_such_segment"),
        ("/hls/lighthouse.mp4/seg-1-v2.ts", 404, "no_such_track"),
        ("/hls/lighthouse.mp4/seg-1-f2-v1.ts", 404, "no_such_track"),
        ("/hls/lighthouse.mp4/seg-1-v1-v1.ts", 404, "no_such_track"),
        ("/hls/lighthouse.mp4/iframes-a1.m3u8", 404, "no_such_track"),
        ("/hls/lighthouse.mp4/tracks/a1/seg-1-v1.ts", 404, "no_such_track"),
        ("/hls/lighthouse.mp4/seg-1-z1.ts", 400, "bad_tracks"),
        ("/hls/lighthouse.mp4/tracks/z1/master.m3u8", 400, "bad_tracks"),
        ("/hls/lighthouse.mp4/master-leng.m3u8", 400, "bad_tracks"),
        ("/dash/lighthouse.mp4/fragment-1-v1-a1.m4s", 404, "several_tracks"),
        ("/hls/lighthouse.mp4/seg-1-v1-v1.m4s", 404, "no_such_track"),
        ("/hls/lighthouse.mp4/clipFrom/9000/clipTo/1000/master.m3u8", 400, "clip_malformed"),
        ("/hls/lighthouse.mp4/clipFrom/x/master.m3u8", 400, "clip_malformed"),
        ("/hls/lighthouse.mp4/clipFrom/99999999/master.m3u8", 404, "clip_empty"),
        ("/hls/lighthouse.mp4/master.m3u8?vbegin=3", 400, "clip_malformed"),
        ("/hls/lighthouse.mp4/master.m3u8?filter=type", 400, "filter_malformed"),
        (&long, 400, "url_too_long"),
        ("/hls/../lighthouse.mp4/master.m3u8", 400, "bad_path"),
        ("/hls/a/%2e%2e/lighthouse.mp4/master.m3u8", 400, "bad_path"),
        ("/hls/lighthouse.mp4/.m3u8", 404, "no_such_url"),
        ("/hls/lighthouse.mp4/manifest.mpd", 404, "no_such_url"),
        ("/dash/lighthouse.mp4/master.m3u8", 404, "no_such_url"),
        ("/hls/nothing.mp4/master.m3u8", 404, "source_not_found"),
    ] {
        let response = get(at, url).await;
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (status, reason), "{url}");
    }
}

#[tokio::test]
async fn without_a_prefix_only_native_urls_are_served() {
    let memory = library();
    memory.put(key("hls/film.mp4"), sample("lighthouse.mp4"));
    let server = Server::start(memory.clone()).await;
    good(server.address, "/hls/film.mp4/.m3u8", MPEGURL).await;
    // The native form accepts any file name.
    let named = good(server.address, "/hls/film.mp4/master.m3u8", MPEGURL).await;
    assert!(!String::from_utf8(named.body.to_vec()).unwrap().contains("index-"));
    assert_eq!(get(server.address, "/hls/film.mp4/seg-1-v1-a1.ts").await.reason(), "no_such_url");

    // With a prefix, the path behind it is the base.
    let server = start(memory).await;
    assert_eq!(get(server.address, "/hls/film.mp4/.m3u8").await.reason(), "no_such_url");
    assert_eq!(get(server.address, "/hls/film.mp4/master.m3u8").await.reason(), "source_not_found");
    good(server.address, "/hls/hls/film.mp4/master.m3u8", MPEGURL).await;
}

#[tokio::test]
async fn prefixes_and_file_names_are_configurable() {
    let mut config = crate::server::config();
    let urls = &mut config.urls.nginx_vod;
    (urls.hls, urls.dash) = (Some("/".to_owned()), Some("/".to_owned()));
    urls.hls_fmp4 = true;
    urls.names.hls_master = "playlist".to_owned();
    urls.names.dash_fragment = "segment".to_owned();
    let server = Server::with(library(), config, None).await;
    let at = server.address;
    let master = good(at, "/lighthouse.mp4/playlist.m3u8", MPEGURL).await;
    let master = std::str::from_utf8(&master.body).unwrap().to_owned();
    assert!(master.contains("\nindex-v1.m3u8\n"), "{master}");
    let index = good(at, "/lighthouse.mp4/index-v1.m3u8", MPEGURL).await;
    let index = std::str::from_utf8(&index.body).unwrap().to_owned();
    assert!(index.contains("\nseg-1-v1.m4s\n") && index.contains("URI=\"init-v1.mp4\""), "{index}");
    let ts = good(at, "/lighthouse.mp4/playlist.m3u8?hls_fmp4=false", MPEGURL).await;
    let ts = std::str::from_utf8(&ts.body).unwrap().to_owned();
    assert!(ts.contains("\nindex-v1-a1.m3u8?hls_fmp4=false\n"), "{ts}");
    let mpd = good(at, "/lighthouse.mp4/manifest.mpd", MPD).await;
    assert!(
        std::str::from_utf8(&mpd.body).unwrap().contains("media=\"segment-$Number$-$RepresentationID$.m4s\"")
    );
    for url in [
        "init-v1.mp4",
        "init-v1-a1.mp4",
        "seg-1-v1-a1.m4s",
        "segment-1-v1.m4s",
        "seg-1-v1.m4s",
        "frag-1-v1-x3.m4s",
    ] {
        good(at, &format!("/lighthouse.mp4/{url}"), VIDEO).await;
    }
    // The native form is served too.
    good(at, "/lighthouse.mp4/.mpd", MPD).await;
    good(at, "/lighthouse.mp4/Manifest", SSTR).await;
}
