//! The clear lead: the first segments of an encrypted title are sent clear, and nothing else is.

use crate::{
    client::{fetch, fetch_all, get, get_with, send},
    decryptors::{decrypted, packets_of_playlist},
    encrypted_iframes::iframe_playlist,
    encryption::{AUDIO_KEY, TITLES, VIDEO_KEY, VIDEO_KID, encrypting, key_file, rule, two_keys},
    sample_encryption::{hold_the_same_packets, of_samples, packets, smooth_tracks, tracks},
    server::{Server, config, join, library},
};
use http::Method;
use latemux_origin::{OriginConfig, config::DrmRule};
use latemux_testmedia::process::tool;
use std::{net::SocketAddr, time::Duration};

/// Segments of these titles last 4 s, so this lead has two of them.
const LEAD: Duration = Duration::from_secs(10);
const LEAD_SEGMENTS: usize = 2;

fn with_lead(rule: DrmRule, clear_lead: Duration) -> DrmRule {
    DrmRule { clear_lead, ..rule }
}

/// Returns the samples of a segment in ISO boxes.
fn samples_of(segment: &[u8]) -> &[u8] {
    let at = segment.windows(4).position(|name| name == b"mdat").unwrap();
    &segment[at + 4..]
}

/// Returns the number of the sample entry that a segment names, if it does.
fn sample_entry(segment: &[u8]) -> Option<u32> {
    let at = segment.windows(4).position(|name| name == b"tfhd").unwrap() + 4;
    // The flag `sample-description-index-present`. The number follows flags and track.
    let is_named = segment[at + 3] & 2 != 0;
    is_named.then(|| u32::from_be_bytes(segment[at + 8..at + 12].try_into().unwrap()))
}

async fn text(server: SocketAddr, url: &str) -> String {
    String::from_utf8(fetch(server, url).await.to_vec()).unwrap()
}

/// A part of a playlist whose segments share an init segment and keys.
#[derive(Debug, Default)]
struct Stretch {
    map: Option<String>,
    has_key: bool,
    segments: Vec<String>,
}

/// Returns the parts of a playlist between its discontinuities.
async fn stretches(server: SocketAddr, url: &str) -> Vec<Stretch> {
    let folder = url.split('?').next().unwrap().rsplit_once('/').unwrap().0;
    let mut all = vec![Stretch::default()];
    for line in text(server, url).await.lines() {
        let uri = line.split_once("URI=\"").map(|(_, uri)| join(folder, uri.split('"').next().unwrap()));
        let last = all.last_mut().unwrap();
        match line.split(':').next().unwrap() {
            "#EXT-X-DISCONTINUITY" => all.push(Stretch::default()),
            "#EXT-X-MAP" => {
                assert!(!last.has_key, "{url}: the init segment would be encrypted");
                last.map = uri;
            }
            "#EXT-X-KEY" => last.has_key = !line.contains("METHOD=NONE"),
            tag if !tag.starts_with('#') && !line.is_empty() => last.segments.push(join(folder, line)),
            _ => {}
        }
    }
    all
}

#[tokio::test]
async fn a_lead_ends_where_segments_begin() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    for (millis, lead) in [(0, 0), (3999, 0), (4000, 1), (7999, 1), (8000, 2), (11_999, 2), (90_000, 5)] {
        for scheme in ["cenc", "cbcs"] {
            let rule = with_lead(of_samples(&keys, scheme, scheme), Duration::from_millis(millis));
            let server = encrypting(vec![rule]).await;
            let mut seen = 0;
            for (track, urls) in tracks(clear.address, "/lighthouse.mp4").await {
                // The last segment is encrypted, however long the lead is.
                assert_eq!(urls.len(), 7, "{track}: {urls:?}");
                for (number, url) in urls[1..].iter().enumerate() {
                    let sent = get(server.address, url).await;
                    let plain = get(clear.address, url).await;
                    let is_clear = samples_of(&sent.body) == samples_of(&plain.body);
                    assert_eq!(is_clear, number < lead, "{url} of {millis} ms");
                    let is_dash_lead = is_clear && track.starts_with("/dash/");
                    assert_eq!(sample_entry(&sent.body), is_dash_lead.then_some(2), "{url}");
                    if is_dash_lead {
                        assert_ne!(sent.header("etag"), plain.header("etag"), "{url}");
                    }
                    if is_clear && track.starts_with("/hls/") {
                        assert_eq!(sent.lasting_headers(), plain.lasting_headers(), "{url}");
                        assert_eq!(sent.body, plain.body, "{url}");
                    }
                    seen += usize::from(is_clear);
                }
            }
            assert_eq!(seen, 4 * lead, "{millis} ms");
        }
    }
}

/// In DASH, a track has one init segment: it describes clear and encrypted samples.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_and_mp4ff_read_dash_over_the_border() {
    let keys = two_keys();
    let mp4ff = tool("mp4ff-decrypt");
    let clear = Server::start(library()).await;
    for scheme in ["cenc", "cbcs"] {
        let server = encrypting(vec![with_lead(of_samples(&keys, scheme, scheme), LEAD)]).await;
        let mut seen = 0;
        for title in TITLES {
            for (track, urls) in tracks(server.address, title).await {
                if !track.starts_with("/dash/") {
                    continue;
                }
                let sent = fetch_all(server.address, &urls).await;
                let plain = fetch_all(clear.address, &urls).await;
                let key = if track.contains("video") { VIDEO_KEY } else { AUDIO_KEY };
                let name = format!("{title} {track} {scheme}");
                hold_the_same_packets(sent, key, plain, name.clone()).await;
                if let Some(mp4ff) = mp4ff.clone() {
                    // mp4ff refuses clear segments, but reads those behind them by the same init.
                    let behind = [&urls[..1], &urls[1 + LEAD_SEGMENTS..]].concat();
                    let sent = fetch_all(server.address, &behind).await;
                    let plain = fetch_all(clear.address, &behind).await;
                    let read = move || (decrypted(&mp4ff, &sent, key), packets(&plain, None));
                    let (opened, expected) = tokio::task::spawn_blocking(read).await.unwrap();
                    assert!(opened == expected, "mp4ff: {name}");
                }
                seen += 1;
            }
        }
        assert!(seen >= 12, "{seen}");
    }
}

/// In HLS with CMAF, the lead is that of a clear title, and what follows has its own init segment.
#[tokio::test(flavor = "multi_thread")]
async fn playlists_of_cmaf_part_the_lead_from_the_rest() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    for scheme in ["cenc", "cbcs"] {
        let server = encrypting(vec![with_lead(of_samples(&keys, scheme, scheme), LEAD)]).await;
        for title in TITLES {
            for (track, urls) in tracks(clear.address, title).await {
                let Some(track) = track.strip_prefix("/hls/") else { continue };
                let name = title[1..].trim_end_matches(".mp4");
                let playlist = format!("{title}/{name}-{track}.m3u8?hls_fmp4");
                let parts = stretches(server.address, &playlist).await;
                let [lead, rest] = parts.as_slice() else { panic!("{playlist}: {parts:?}") };
                assert!(!lead.has_key && rest.has_key, "{playlist}");
                assert_eq!(lead.segments, urls[1..=LEAD_SEGMENTS], "{playlist}");
                assert_eq!(rest.segments, urls[1 + LEAD_SEGMENTS..], "{playlist}");
                let map = lead.map.as_ref().unwrap();
                let own = rest.map.as_ref().unwrap();
                assert_eq!(own, &urls[0], "{playlist}");
                assert_eq!(fetch(server.address, map).await, fetch(clear.address, own).await, "{map}");
                for url in &lead.segments {
                    assert_eq!(fetch(server.address, url).await, fetch(clear.address, url).await, "{url}");
                }
                let behind = [std::slice::from_ref(own), &rest.segments].concat();
                let sent = fetch_all(server.address, &behind).await;
                let plain = fetch_all(clear.address, &behind).await;
                let key = if track.contains("video") { VIDEO_KEY } else { AUDIO_KEY };
                hold_the_same_packets(sent, key, plain, format!("{playlist} {scheme}")).await;
            }
        }
    }
}

/// ffmpeg follows playlists of transport streams over the border. In SAMPLE-AES, ffmpeg 5.1 crashes
/// if the first segment is clear, so it starts at the border there.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_reads_transport_streams_over_the_border() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    for (scheme, query, lost) in [("aes-128", "", 0), ("sample-aes", "?vbegin=8", 1)] {
        let of_scheme = DrmRule { hls_ts: Some(scheme.to_owned()), hls_fmp4: None, ..rule(&keys) };
        let server = encrypting(vec![with_lead(of_scheme, LEAD)]).await;
        for title in ["/lighthouse.mp4", "/ferry.mp4"] {
            let url = |server: &Server| format!("http://{}{title}/.m3u8{query}", server.address);
            let sent = url(&server);
            let plain = url(&clear);
            let read = move || (packets_of_playlist(&sent), packets_of_playlist(&plain));
            let (opened, expected) = tokio::task::spawn_blocking(read).await.unwrap();
            assert!(expected.len() > 1000, "{}", expected.len());
            assert_eq!(opened.len(), expected.len(), "{title} {scheme}");
            // ffmpeg 5.1 leaves the last packet of each of two streams encrypted in SAMPLE-AES.
            let differing = opened.iter().zip(&expected).filter(|(sent, plain)| sent != plain).count();
            assert!(differing <= 2 * lost, "{title} {scheme}: {differing}");
            for playlist in text(server.address, &format!("{title}/.m3u8")).await.lines() {
                if !playlist.starts_with('#') {
                    check_transport_stream((server.address, clear.address), &join(title, playlist), scheme)
                        .await;
                }
            }
        }
    }
}

/// Checks the tags of a playlist, and that the segments before its first key are the clear ones.
async fn check_transport_stream((server, clear): (SocketAddr, SocketAddr), url: &str, scheme: &str) {
    let text = text(server, url).await;
    let (_, segments) = text.split_once("#EXT-X-KEY:METHOD=NONE\n").unwrap();
    let (lead, rest) = segments.split_once("#EXT-X-KEY:").unwrap();
    let is_segment = |line: &&str| !line.starts_with('#');
    assert_eq!(lead.lines().filter(is_segment).count(), LEAD_SEGMENTS, "{text}");
    assert_eq!(lead.ends_with("#EXT-X-DISCONTINUITY\n"), scheme == "sample-aes", "{text}");
    assert!(!rest.contains("METHOD=NONE") && !rest.contains("DISCONTINUITY"), "{text}");
    let folder = url.rsplit_once('/').unwrap().0;
    for (lines, is_clear) in [(lead, true), (rest.split_once('\n').unwrap().1, false)] {
        for line in lines.lines().filter(is_segment) {
            let url = join(folder, line);
            let is_same = fetch(server, &url).await == fetch(clear, &url).await;
            assert_eq!(is_same, is_clear, "{url} {scheme}");
        }
    }
}

/// Playlists of tracks that are clear on purpose have the discontinuity of the others.
#[tokio::test]
async fn clear_tracks_have_the_same_discontinuity() {
    let keys = two_keys();
    let clear_audio = DrmRule { clear: vec!["audio".to_owned()], ..of_samples(&keys, "cenc", "cbcs") };
    let server = encrypting(vec![with_lead(clear_audio, LEAD)]).await;
    let url = "/lighthouse.mp4/lighthouse-audio_eng=40000.m3u8?hls_fmp4";
    let parts = stretches(server.address, url).await;
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert_eq!(parts[0].segments.len(), LEAD_SEGMENTS);
    assert!(parts.iter().all(|part| !part.has_key), "{parts:?}");
    assert!(parts[1].map.is_none() && !text(server.address, url).await.contains("EXT-X-KEY"));
}

/// The lead counts from the start of the title, and a joined segment is clear only if all of it is.
#[tokio::test]
async fn clips_and_joined_segments_keep_the_border_of_the_title() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    let start = |seconds| {
        let rule = with_lead(of_samples(&keys, "cenc", "cbcs"), Duration::from_secs(seconds));
        encrypting(vec![rule])
    };
    let url = |query: &str| format!("/lighthouse.mp4/lighthouse-video=51000.m3u8?hls_fmp4&{query}");
    for (lead, query, expected) in [
        (10, "vbegin=5&vend=15", vec![(false, 1), (true, 2)]),
        (10, "vbegin=5&vend=7", vec![(false, 1)]),
        (10, "vbegin=9&vend=15", vec![(true, 2)]),
        (10, "hls_minimum_fragment_length=6", vec![(false, 1), (true, 2)]),
        (7, "hls_minimum_fragment_length=6", vec![(true, 3)]),
        (7, "vbegin=1&vend=20&hls_minimum_fragment_length=6", vec![(true, 2)]),
    ] {
        let server = start(lead).await;
        let parts = stretches(server.address, &url(query)).await;
        let found: Vec<_> = parts.iter().map(|part| (part.has_key, part.segments.len())).collect();
        assert_eq!(found, expected, "{query}");
        for part in parts {
            for url in part.segments {
                let sent = fetch(server.address, &url).await;
                let plain = fetch(clear.address, &url).await;
                assert_eq!(samples_of(&sent) == samples_of(&plain), !part.has_key, "{url}");
            }
        }
    }
}

#[tokio::test]
async fn iframes_of_the_lead_are_clear() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    let server = encrypting(vec![with_lead(of_samples(&keys, "cenc", "cbcs"), LEAD)]).await;
    let playlist = iframe_playlist(server.address, "/lighthouse.mp4/.m3u8?hls_fmp4").await;
    let parts = stretches(server.address, &playlist).await;
    // An I-frame every two seconds.
    let found: Vec<_> = parts.iter().map(|part| (part.has_key, part.segments.len())).collect();
    assert_eq!(found, [(false, 4), (true, 8)], "{parts:?}");
    let hls = parts.into_iter().flat_map(|part| part.segments).enumerate();
    let dash =
        (0..12).map(|n| (n, format!("/lighthouse.mp4/keyframes/lighthouse-video=51000-{}.dash", n + 1)));
    for (number, url) in hls.chain(dash) {
        let sent = fetch(server.address, &url).await;
        let plain = fetch(clear.address, &url).await;
        assert_eq!(samples_of(&sent) == samples_of(&plain), number < 4, "{url}");
        let is_dash_lead = number < 4 && url.ends_with(".dash");
        assert_eq!(sample_entry(&sent), is_dash_lead.then_some(2), "{url}");
    }
}

/// A fragment of Smooth Streaming names no sample entry, so there is no lead.
#[tokio::test]
async fn smooth_streaming_is_encrypted_from_the_start() {
    let keys = key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}}]}}"#));
    let systems = vec!["playready".to_owned()];
    let smooth = DrmRule { mss: Some("piff".to_owned()), systems, ..of_samples(&keys, "cenc", "cenc") };
    let clear = Server::start(library()).await;
    let server = encrypting(vec![with_lead(smooth, LEAD)]).await;
    let mut seen = 0;
    for urls in smooth_tracks(server.address, "/lighthouse.mp4").await.values() {
        for url in urls {
            let sent = fetch(server.address, url).await;
            let plain = fetch(clear.address, url).await;
            assert_ne!(samples_of(&sent), samples_of(&plain), "{url}");
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
}

/// Ranges, HEAD, conditions and other nodes give the same bytes. Another lead gives other ETags to
/// manifests, to init segments of DASH and to segments that change.
#[tokio::test]
async fn etags_depend_on_the_lead() {
    let keys = two_keys();
    let start = |lead| encrypting(vec![with_lead(of_samples(&keys, "cbcs", "cbcs"), lead)]);
    let one = start(LEAD).await;
    let two = start(LEAD).await;
    let none = start(Duration::ZERO).await;
    let shorter = start(Duration::from_secs(4)).await;
    let etag = async |server: &Server, url: &str| get(server.address, url).await.header("etag").to_owned();
    for (track, urls) in tracks(none.address, "/lighthouse.mp4").await {
        for (place, url) in urls.iter().enumerate() {
            let whole = get(one.address, url).await;
            let head = send(two.address, Method::HEAD, url, &[]).await.unwrap();
            assert_eq!(head.lasting_headers(), whole.lasting_headers(), "{url}");
            assert_eq!(get(two.address, url).await.body, whole.body, "{url}");
            let range = format!("bytes=100-{}", whole.body.len() / 2);
            let part = get_with(one.address, url, &[("range", &range)]).await;
            assert_eq!(part.body, whole.body[100..=whole.body.len() / 2], "{url}");
            let same = get_with(two.address, url, &[("if-none-match", whole.header("etag"))]).await;
            assert_eq!(same.status, 304, "{url}");
            let is_init = place == 0 && track.starts_with("/dash/");
            let is_lead = (1..=LEAD_SEGMENTS).contains(&place);
            assert_eq!(whole.header("etag") != etag(&none, url).await, is_init || is_lead, "{url}");
            assert_eq!(whole.header("etag") != etag(&shorter, url).await, place == 2, "{url}");
        }
    }
    for manifest in [".mpd", ".m3u8?hls_fmp4"] {
        let url = format!("/lighthouse.mp4/{manifest}");
        assert_ne!(etag(&one, &url).await, etag(&none, &url).await, "{url}");
        assert_ne!(etag(&one, &url).await, etag(&shorter, &url).await, "{url}");
    }
}

/// A rule for Smooth Streaming alone has no use for a lead.
#[test]
fn a_lead_without_a_protocol_that_has_one_is_a_mistake() {
    let keys = two_keys();
    let systems = vec!["playready".to_owned()];
    let smooth =
        DrmRule { mss: Some("piff".to_owned()), systems, hls_ts: None, hls_fmp4: None, ..rule(&keys) };
    for (rule, is_accepted) in [
        (with_lead(smooth.clone(), Duration::ZERO), true),
        (with_lead(smooth.clone(), LEAD), false),
        (with_lead(DrmRule { dash: Some("cenc".to_owned()), ..smooth }, LEAD), true),
    ] {
        let config = OriginConfig { drm: vec![rule], ..config() };
        let problem = config.check().err().unwrap_or_default();
        assert_eq!(!problem.contains("clear_lead needs"), is_accepted, "{problem}");
    }
}
