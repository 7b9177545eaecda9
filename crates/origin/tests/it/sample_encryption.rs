//! Titles whose samples are encrypted by `cenc` and `cbcs`.

use crate::{
    caching::smooth_fragments,
    client::{fetch, fetch_all, get, get_with, send},
    encryption::{
        AUDIO_KEY, AUDIO_KID, TITLES, VIDEO_KEY, VIDEO_KID, encrypting, key_file, refusal, rule, two_keys,
        with_rules,
    },
    fairplay::fairplay,
    server::{Server, config, crawl, key, library, sample},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;
use latemux_isobmff::{boxes::tfxd::PIFF_SENC, fragment::Moof};
use latemux_origin::{OriginConfig, config::DrmRule};
use latemux_protect::KeyId;
use latemux_storage::Memory;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Command, Output, Stdio},
    sync::Arc,
};
use tempfile::NamedTempFile;

/// Returns a rule with one scheme for DASH and another one for HLS CMAF.
pub(crate) fn of_samples(keys: &NamedTempFile, dash: &str, hls: &str) -> DrmRule {
    DrmRule { dash: Some(dash.to_owned()), hls_fmp4: Some(hls.to_owned()), hls_ts: None, ..rule(keys) }
}

/// Returns the URLs of each track of a title: its init segment, then its segments in order.
pub(crate) async fn tracks(server: SocketAddr, title: &str) -> BTreeMap<String, Vec<String>> {
    let mut tracks: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for url in crawl(server, title).await {
        let folder = ["/dash/", "/hls/"].into_iter().find(|folder| url.contains(folder));
        let (Some(folder), true) = (folder, url.contains("-video") || url.contains("-audio")) else {
            continue;
        };
        let file = url.rsplit_once('/').unwrap().1.rsplit_once('.').unwrap().0;
        let mut words = file.split('-');
        let track = format!(
            "{folder}{}",
            words.find(|word| word.contains("video") || word.contains("audio")).unwrap()
        );
        tracks.entry(track).or_default().push(url);
    }
    for urls in tracks.values_mut() {
        let number = |url: &String| {
            let file = url.rsplit_once('/').unwrap().1.rsplit_once('.').unwrap().0;
            file.rsplit_once('-').unwrap().1.parse::<u64>().unwrap_or(0)
        };
        let is_media =
            |url: &String| url.rsplit_once('-').unwrap().1.starts_with(|c: char| c.is_ascii_digit());
        urls.sort_by_key(|url| (is_media(url), number(url)));
        urls.dedup();
    }
    tracks
}

/// Runs ffmpeg with options before and behind its input. The file comes by a pipe: in a file that
/// it can seek, ffmpeg 5.1 takes the last fragment's `senc` for that of all.
pub(crate) fn ffmpeg(before: &[&str], file: &[u8], behind: &[&str]) -> Output {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(before).args(["-i", "pipe:0", "-map", "0", "-c", "copy"]).args(behind).arg("-");
    let mut running =
        ffmpeg.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = running.stdin.take().unwrap();
    let out = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(file));
        running.wait_with_output().unwrap()
    });
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out
}

/// Returns the packets that ffmpeg finds in a file, decrypted with a key.
pub(crate) fn packets(file: &[u8], key: Option<&str>) -> String {
    let mut before = vec!["-v", "error"];
    if let Some(key) = key {
        before.extend(["-decryption_key", key]);
    }
    let text = String::from_utf8(ffmpeg(&before, file, &["-f", "framemd5"]).stdout).unwrap();
    // The headers of the codec's configuration differ. The `pssh` is side data of the first packet.
    let lines = text.lines().filter(|line| !line.starts_with("#extradata"));
    lines.map(|line| line.split(", S=").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Checks that a file, decrypted by ffmpeg with a key, has the packets of a clear one.
pub(crate) async fn hold_the_same_packets(
    encrypted: Vec<u8>,
    key: &'static str,
    clear: Vec<u8>,
    name: String,
) {
    let read = move || (packets(&encrypted, Some(key)), packets(&clear, None));
    let (decrypted, expected) = tokio::task::spawn_blocking(read).await.unwrap();
    assert!(expected.lines().count() > 20, "{name}: {expected}");
    assert!(decrypted == expected, "{name}");
}

/// ffmpeg, which shares no code with this server, gets the packets of the clear title: AVC, HEVC
/// and AAC, of files and fragments, in both schemes.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_decrypts_every_packet_of_both_schemes() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    for (dash, hls) in [("cenc", "cbcs"), ("cbcs", "cenc")] {
        let server = encrypting(vec![of_samples(&keys, dash, hls)]).await;
        let mut seen = 0;
        for title in TITLES {
            for (track, urls) in tracks(server.address, title).await {
                let encrypted = fetch_all(server.address, &urls).await;
                let plain = fetch_all(clear.address, &urls).await;
                let key = if track.contains("video") { VIDEO_KEY } else { AUDIO_KEY };
                let is_cbcs = if track.starts_with("/dash/") { dash } else { hls } == "cbcs";
                let scheme: &[u8] = if is_cbcs { b"cbcs" } else { b"cenc" };
                assert!(encrypted.windows(4).any(|four| four == scheme), "{title} {track}");
                hold_the_same_packets(encrypted, key, plain, format!("{title} {track}")).await;
                seen += 1;
            }
        }
        assert!(seen >= 24, "{seen}");
    }
}

/// Returns a fragment of Smooth Streaming as one of CMAF for track 1: PIFF's `uuid` box becomes a
/// `senc`, which is 16 bytes shorter.
fn as_cmaf(fragment: &[u8]) -> Vec<u8> {
    let mut out = fragment.to_vec();
    let place = |out: &[u8], name: &[u8]| out.windows(name.len()).position(|bytes| bytes == name);
    let track = place(&out, b"tfhd").unwrap() + 8;
    out[track..track + 4].copy_from_slice(&1_u32.to_be_bytes());
    let Some(piff) = place(&out, &PIFF_SENC) else { return out };
    out.drain(piff..piff + PIFF_SENC.len());
    out[piff - 4..piff].copy_from_slice(b"senc");
    let offset = place(&out, b"trun").unwrap() + 12;
    for at in [0, place(&out, b"traf").unwrap() - 4, piff - 8, offset] {
        let word = u32::from_be_bytes(out[at..at + 4].try_into().unwrap()) - 16;
        out[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// Returns the URLs of the fragments of each track in Smooth Streaming, in order of time. Tracks
/// are named as in DASH.
pub(crate) async fn smooth_tracks(server: SocketAddr, title: &str) -> BTreeMap<String, Vec<String>> {
    let mut tracks = BTreeMap::<String, BTreeMap<u64, String>>::new();
    for url in smooth_fragments(server, title.trim_start_matches('/')).await {
        let Some((bitrate, rest)) =
            url.split_once("QualityLevels(").and_then(|(_, rest)| rest.split_once(')'))
        else {
            continue;
        };
        let name = rest.strip_prefix("/Fragments(").unwrap().strip_suffix(')').unwrap();
        let (stem, time) = name.split_once('=').unwrap();
        tracks.entry(format!("{stem}={bitrate}")).or_default().insert(time.parse().unwrap(), url.clone());
    }
    let urls = |(track, urls): (String, BTreeMap<u64, String>)| (track, urls.into_values().collect());
    tracks.into_iter().map(urls).collect()
}

/// ffmpeg gets the packets of the clear title from Smooth Streaming too. It does not know PIFF's
/// box, but the `senc` that came of it.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_decrypts_every_packet_of_smooth_streaming() {
    let keys = key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}}]}}"#));
    let systems = vec!["playready".to_owned()];
    let rule = DrmRule { mss: Some("piff".to_owned()), systems, ..of_samples(&keys, "cenc", "cenc") };
    let clear = Server::start(library()).await;
    let server = encrypting(vec![rule]).await;
    let mut seen = 0;
    for title in TITLES {
        let manifest = fetch(server.address, &format!("{title}/Manifest")).await;
        let manifest = String::from_utf8(manifest.to_vec()).unwrap();
        let header = "<ProtectionHeader SystemID=\"9A04F079-9840-4286-AB92-E65BE0885F95\">";
        let object = manifest.split_once(header).unwrap().1.split_once('<').unwrap().0;
        let object = STANDARD.decode(object).unwrap();
        let kid = STANDARD.encode(VIDEO_KID.parse::<KeyId>().unwrap().guid());
        let kid: Vec<u8> = kid.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(object.windows(kid.len()).any(|bytes| bytes == kid), "{manifest}");
        let inits = tracks(server.address, title).await;
        for (track, urls) in smooth_tracks(server.address, title).await {
            let Some(init) = inits.get(&format!("/dash/{track}")).and_then(|urls| urls.first()) else {
                continue;
            };
            let mut encrypted = fetch(server.address, init).await.to_vec();
            let tenc = encrypted.windows(4).position(|four| four == b"tenc").unwrap();
            assert_eq!(encrypted[tenc + 11], 16, "the size of IVs in the init segment of DASH");
            encrypted[tenc + 11] = 8;
            let mut plain = fetch(clear.address, init).await.to_vec();
            for url in &urls {
                encrypted.extend(as_cmaf(&fetch(server.address, url).await));
                plain.extend(as_cmaf(&fetch(clear.address, url).await));
            }
            hold_the_same_packets(encrypted, VIDEO_KEY, plain, format!("{title} {track}")).await;
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen}");
}

/// Manifests of Smooth Streaming state one key, so a title with two is refused.
#[tokio::test]
async fn smooth_streaming_takes_one_key() {
    let keys = two_keys();
    let systems = vec!["playready".to_owned()];
    let rule = DrmRule { mss: Some("piff".to_owned()), systems, ..of_samples(&keys, "cenc", "cenc") };
    let both = encrypting(vec![rule.clone()]).await;
    let url = format!("{}/Manifest", TITLES[0]);
    assert_eq!(refusal(&get(both.address, &url).await), (415, "cannot_protect".to_owned()));
    let video = encrypting(vec![DrmRule { clear: vec!["audio".to_owned()], ..rule }]).await;
    assert_eq!(get(video.address, &url).await.status, 200);
}

/// The place and the bytes of each sample of a segment, and its part of `senc`.
struct Sample {
    iv: Option<u128>,
    /// Clear and protected bytes.
    pieces: Vec<(usize, usize)>,
    bytes: Vec<u8>,
}

/// Reads a segment: `styp`, `moof`, `mdat`. Each sample has an IV of `iv_len` bytes.
fn samples(segment: &bytes::Bytes, iv_len: usize) -> Vec<Sample> {
    let place = |name: &[u8; 4]| segment.windows(4).position(|four| four == name).unwrap() - 4;
    let moof = place(b"moof");
    let mdat = place(b"mdat");
    let run = Moof::parse(&segment.slice(moof..mdat), 0).unwrap().tracks.remove(0);
    let default = run.default_size;
    let sizes: Vec<usize> =
        run.runs[0].iter().map(|sample| usize::try_from(sample.size.or(default).unwrap()).unwrap()).collect();
    let mut senc = segment.slice(place(b"senc") + 8..mdat);
    let word = |at: &mut bytes::Bytes, len: usize| {
        at.split_to(len).iter().fold(0_u128, |value, &byte| value << 8 | u128::from(byte))
    };
    let has_pieces = word(&mut senc, 4) == 2;
    assert_eq!(word(&mut senc, 4), sizes.len() as u128);
    let mut at = mdat + 8;
    let sample = |size: usize| {
        // The counter that begins with it.
        let iv = (iv_len > 0).then(|| word(&mut senc, iv_len) << (8 * (16 - iv_len)));
        let count = if has_pieces { word(&mut senc, 2) } else { 0 };
        let number = |value: u128| usize::try_from(value).unwrap();
        let mut pieces: Vec<_> =
            (0..count).map(|_| (number(word(&mut senc, 2)), number(word(&mut senc, 4)))).collect();
        if !has_pieces {
            pieces.push((0, size));
        }
        assert_eq!(pieces.iter().map(|(clear, protected)| clear + protected).sum::<usize>(), size);
        at += size;
        Sample { iv, pieces, bytes: segment[at - size..at].to_vec() }
    };
    sizes.into_iter().map(sample).collect()
}

/// Over all titles, in DASH, HLS and Smooth Streaming: no two different samples share a counter
/// under one key.
#[tokio::test]
async fn no_counter_encrypts_two_samples() {
    // One key for everything.
    let keys = key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}}]}}"#));
    let systems = vec!["playready".to_owned()];
    let rule = DrmRule { mss: Some("piff".to_owned()), systems, ..of_samples(&keys, "cenc", "cenc") };
    let server = encrypting(vec![rule]).await;
    let mut used: BTreeMap<u128, (u128, Vec<u8>)> = BTreeMap::new();
    let mut seen = 0;
    for title in TITLES {
        let mut urls: Vec<String> = tracks(server.address, title).await.into_values().flatten().collect();
        urls.retain(|url| url.rsplit_once('-').unwrap().1.starts_with(|c: char| c.is_ascii_digit()));
        let mut smooth = smooth_tracks(server.address, title).await;
        // Text is clear.
        smooth.retain(|track, _| !track.contains("text"));
        urls.extend(smooth.into_values().flatten());
        for url in urls {
            let body = fetch(server.address, &url).await;
            let is_smooth = url.contains("/Fragments(");
            let (body, iv_len) = if is_smooth { (as_cmaf(&body).into(), 8) } else { (body, 16) };
            for sample in samples(&body, iv_len) {
                let blocks: usize = sample.pieces.iter().map(|(_, protected)| protected).sum();
                let first = sample.iv.unwrap();
                let end = first + blocks.div_ceil(16).max(1) as u128;
                seen += 1;
                if let Some(same) = used.get(&first) {
                    assert!(*same == (end, sample.bytes), "{url}: a counter of another sample");
                    continue;
                }
                let before = used.range(..end).next_back();
                assert!(before.is_none_or(|(_, (last, _))| *last <= first), "{url}: counters overlap");
                used.insert(first, (end, sample.bytes));
            }
        }
    }
    assert!(seen > used.len() && used.len() > 5000, "{seen} {}", used.len());
}

#[tokio::test]
async fn ranges_heads_and_etags_are_as_for_clear_titles() {
    let keys = two_keys();
    let other = key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{AUDIO_KEY}"}}]}}"#));
    let make = |keys: &NamedTempFile| encrypting(vec![of_samples(keys, "cenc", "cbcs")]);
    let one = make(&keys).await;
    let two = make(&keys).await;
    let three = make(&keys).await;
    let rekeyed = make(&other).await;
    for url in tracks(one.address, "/lighthouse.mp4").await.values().flatten().step_by(2) {
        let whole = get(one.address, url).await;
        assert_eq!(whole.status, 200, "{url}");
        // On another node, HEAD comes first, and a condition finds nothing changed without media.
        let head = send(two.address, Method::HEAD, url, &[]).await.unwrap();
        assert_eq!(head.lasting_headers(), whole.lasting_headers(), "{url}");
        let same = get_with(three.address, url, &[("if-none-match", whole.header("etag"))]).await;
        assert_eq!(same.status, 304, "{url}");
        let twin = get(two.address, url).await;
        assert_eq!((twin.lasting_headers(), &twin.body), (whole.lasting_headers(), &whole.body), "{url}");
        assert_ne!(get(rekeyed.address, url).await.header("etag"), whole.header("etag"), "{url}");
        let length = whole.body.len();
        let cuts = [0, 1, length / 3, length / 2, length / 2 + 17, length - 17, length - 1];
        for from in cuts {
            for to in cuts.into_iter().filter(|to| *to >= from) {
                let part = get_with(one.address, url, &[("range", &format!("bytes={from}-{to}"))]).await;
                assert!(part.status == 206 && part.body == whole.body[from..=to], "{url} {from}-{to}");
            }
        }
    }
}

/// The streams of a transport stream say that they are encrypted. Ranges, conditions and the bytes
/// of other nodes are as for clear titles.
#[tokio::test]
async fn samples_in_transport_streams_are_encrypted() {
    let keys = two_keys();
    let other = key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{AUDIO_KEY}"}}]}}"#));
    let make = |keys: &NamedTempFile| {
        let systems = ["fairplay", "clearkey"].map(str::to_owned).to_vec();
        let hls_ts = Some("sample-aes".to_owned());
        let fairplay = fairplay(Some("kid"), None);
        encrypting(vec![DrmRule { hls_ts, hls_fmp4: None, systems, fairplay, ..rule(keys) }])
    };
    let one = make(&keys).await;
    let two = make(&keys).await;
    let three = make(&keys).await;
    let rekeyed = make(&other).await;
    let clear = Server::start(library()).await;
    let mut seen = 0;
    let mut urls = crawl(clear.address, "/lighthouse.mp4").await;
    urls.retain(|url| url.ends_with(".ts") || (url.ends_with(".m3u8") && !url.contains("keyframes")));
    for url in urls {
        let whole = get(one.address, &url).await;
        assert_eq!(whole.status, 200, "{url}");
        if !url.ends_with(".ts") {
            let text = String::from_utf8_lossy(&whole.body);
            assert!(!text.contains("METHOD=AES-128"), "{url}: {text}");
            let iv = format!("IV=0x{VIDEO_KID},KEYFORMAT=\"identity\"");
            assert!(text.contains("METHOD=SAMPLE-AES,URI=\"skd://") && text.contains(&iv), "{url}: {text}");
            continue;
        }
        seen += 1;
        let plain = fetch(clear.address, &url).await;
        assert!(plain.len() <= whole.body.len() && plain != whole.body, "{url}");
        let map = &whole.body[188..376];
        let has = |needle: &[u8]| map.windows(needle.len()).any(|window| window == needle);
        let video = url.contains("video");
        let audio = url.contains("audio");
        assert_eq!((has(b"\x0f\x04zavc"), has(b"\x0f\x04aacd"), has(b"apadzaac")), (video, audio, audio));
        let twin = get(two.address, &url).await;
        assert_eq!((twin.lasting_headers(), &twin.body), (whole.lasting_headers(), &whole.body), "{url}");
        let same = get_with(three.address, &url, &[("if-none-match", whole.header("etag"))]).await;
        assert_eq!(same.status, 304, "{url}");
        assert_ne!(get(rekeyed.address, &url).await.header("etag"), whole.header("etag"), "{url}");
        let from = whole.body.len() / 3;
        let to = whole.body.len() - 7;
        let part = get_with(one.address, &url, &[("range", &format!("bytes={from}-{to}"))]).await;
        assert!(part.status == 206 && part.body == whole.body[from..=to], "{url}");
    }
    assert!(seen > 10, "{seen}");
}

/// Whatever the rule says, media that it covers is encrypted or refused.
#[test]
fn no_configuration_sends_media_clear() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let keys = two_keys();
    let clear = runtime.block_on(Server::start(library()));
    let mut urls = Vec::new();
    for title in TITLES {
        urls.extend(runtime.block_on(crawl(clear.address, title)));
    }
    urls.retain(|url| !url.contains(".m3u8") && !url.contains(".mpd") && !url.contains("text"));
    let choose = |names: &'static [&'static str]| {
        let names = names.iter().map(|name| (!name.is_empty()).then(|| (*name).to_owned()));
        proptest::sample::select(names.collect::<Vec<_>>())
    };
    let rules = (
        choose(&["", "cenc", "cbcs"]),
        choose(&["", "aes-128", "sample-aes"]),
        choose(&["", "aes-128", "cenc", "cbcs"]),
        choose(&["", "widevine", "playready", "clearkey"]),
        proptest::bool::ANY,
        proptest::sample::subsequence(urls, 24),
    );
    let seed = std::env::var("LATEMUX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    eprintln!("seed {seed}");
    let cases =
        Config { cases: 24, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(cases).run(&rules, |(dash, hls_ts, hls_fmp4, system, clear_audio, urls)| {
        let of_samples = |scheme: &Option<String>| scheme.as_deref().is_some_and(|s| s != "aes-128");
        let is_sample_aes = of_samples(&hls_ts);
        let has_systems = dash.is_some() || of_samples(&hls_fmp4) || is_sample_aes;
        let systems: Vec<String> = system.into_iter().filter(|_| has_systems).collect();
        let rule = DrmRule {
            dash,
            hls_ts,
            hls_fmp4,
            systems,
            clear: clear_audio.then(|| "audio".to_owned()).into_iter().collect(),
            ..rule(&keys)
        };
        let drm = vec![rule.clone()];
        let config = OriginConfig { drm, ..config() };
        if config.check().is_err() {
            return Ok(());
        }
        runtime.block_on(async {
            let server = encrypting(vec![rule.clone()]).await;
            for url in urls {
                let response = get(server.address, &url).await;
                let plain = fetch(clear.address, &url).await;
                let is_media = url.rsplit_once('-').unwrap().1.starts_with(|c: char| c.is_ascii_digit());
                let is_audio_alone = url.contains("audio") && !url.contains("video");
                match response.status.as_u16() {
                    415 => assert_eq!(response.reason(), "cannot_protect", "{url} {rule:?}"),
                    200 if !is_media || (clear_audio && is_audio_alone) => {}
                    200 => {
                        // Of each 160 bytes of video, 16 are encrypted at least. SAMPLE-AES leaves
                        // the first 32 bytes of a slice clear.
                        let media = plain.len() / 2;
                        let sent = &response.body;
                        let known = &plain[media..];
                        let sent = &sent[sent.len() - known.len()..];
                        let same = sent.iter().zip(known).filter(|(a, b)| a == b).count();
                        let is_ts = url.contains(".ts") && is_sample_aes;
                        let share = if is_audio_alone {
                            0.5
                        } else if is_ts {
                            0.985
                        } else {
                            0.95
                        };
                        assert!((same as f64) < known.len() as f64 * share, "{url} is clear: {rule:?}");
                    }
                    status => panic!("{status} {url} {rule:?}"),
                }
            }
        });
        Ok(())
    });
    run.unwrap();
}

/// Video whose slices cannot be found is refused before anything is sent. Audio is not cut.
#[tokio::test]
async fn video_that_cannot_be_cut_is_refused() {
    let keys = two_keys();
    let mut broken = sample("harbour/video-180p.mp4").to_vec();
    let place = broken.windows(4).position(|four| four == b"mdat").unwrap() + 4;
    let length =
        usize::try_from(u32::from_be_bytes(broken[place - 8..place - 4].try_into().unwrap())).unwrap();
    broken[place..place + length - 8].fill(0x61);
    let memory = Memory::new();
    memory.put(key("broken.mp4"), broken);
    let server =
        Server::with(Arc::new(memory), with_rules(vec![of_samples(&keys, "cenc", "cbcs")]), None).await;
    for (track, urls) in tracks(server.address, "/broken.mp4").await {
        assert_eq!(get(server.address, &urls[0]).await.status, 200, "{track}");
        for url in &urls[1..] {
            assert_eq!(refusal(&get(server.address, url).await), (422, "cannot_cut".to_owned()), "{url}");
        }
    }
}

#[tokio::test]
async fn manifests_name_scheme_key_and_systems() {
    let keys = two_keys();
    let systems = ["widevine", "playready", "fairplay", "clearkey"].map(str::to_owned).to_vec();
    let fairplay = fairplay(Some("kid"), None);
    let server = encrypting(vec![DrmRule { systems, fairplay, ..of_samples(&keys, "cenc", "cbcs") }]).await;
    let text = |url: &'static str| async move {
        String::from_utf8(fetch(server.address, url).await.to_vec()).unwrap()
    };
    let mpd = text("/harbour/.mpd").await;
    let kid = "cenc:default_KID=\"11111111-1111-1111-1111-111111111111\"";
    assert!(mpd.contains(&format!("mp4protection:2011\" value=\"cenc\" {kid}")), "{mpd}");
    for part in [
        "edef8ba9-79d6-4ace-a3c8-27dcd51d21ed",
        "9a04f079-9840-4286-ab92-e65be0885f95",
        "<mspr:pro>",
        "<dashif:Laurl Lic_type=\"EME-1.0\">keys/clearkey<",
        "22222222-2222-2222-2222-222222222222",
    ] {
        assert!(mpd.contains(part), "{part}: {mpd}");
    }
    let hls = text("/harbour/.m3u8").await;
    for part in [
        "#EXT-X-SESSION-KEY:METHOD=SAMPLE-AES,URI=\"data:text/plain;base64,",
        "KEYID=0x11111111111111111111111111111111,KEYFORMAT=\"urn:uuid:edef8ba9-79d6-4ace-a3c8-27dcd51d21ed\"",
        "URI=\"skd://11111111111111111111111111111111\",KEYFORMAT=\"com.apple.streamingkeydelivery\"",
        "KEYFORMAT=\"com.microsoft.playready\"",
        "KEYFORMAT=\"identity\"",
    ] {
        assert!(hls.contains(part), "{part}: {hls}");
    }
}

/// The bandwidth of an MPD counts what encryption adds.
#[tokio::test]
async fn bandwidth_covers_encrypted_segments() {
    let keys = two_keys();
    let server = encrypting(vec![of_samples(&keys, "cenc", "cbcs")]).await;
    let mpd = String::from_utf8(fetch(server.address, "/harbour/.mpd").await.to_vec()).unwrap();
    let mut seen = 0;
    for (track, urls) in tracks(server.address, "/harbour").await {
        let Some(id) = track.strip_prefix("/dash/") else { continue };
        let mut total = 0;
        for url in &urls[1..] {
            total += fetch(server.address, url).await.len();
        }
        let stated = mpd.split_once(&format!("id=\"{id}\" bandwidth=\"")).unwrap().1;
        let stated: usize = stated.split('"').next().unwrap().parse().unwrap();
        // The title lasts 48 s.
        assert!(stated * 48 >= total * 8, "{track}: {stated}");
        seen += 1;
    }
    assert_eq!(seen, 5);
}

/// Posts a request for a licence of Clear Key.
fn post(server: SocketAddr, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn licences_of_clear_key_hold_the_keys_that_are_asked_for() {
    let keys = two_keys();
    let server = encrypting(vec![of_samples(&keys, "cenc", "cbcs")]).await;
    let url = "/harbour/keys/clearkey";
    // 16 bytes of 0x11, 0x22 and 0x33.
    let kids = ["EREREREREREREREREREREQ", "IiIiIiIiIiIiIiIiIiIiIg", "MzMzMzMzMzMzMzMzMzMzMw"];
    let wanted = |kids: &[&str]| format!(r#"{{"kids":["{}"],"type":"temporary"}}"#, kids.join("\",\""));
    let licence = r#"{"keys":[{"kty":"oct","kid":"EREREREREREREREREREREQ","k":"Dx4tPEtaaXiHlqW0w9Lh8A"}],"type":"temporary"}"#;
    assert_eq!(post(server.address, url, &wanted(&kids[..1])), (200, licence.to_owned()));
    assert!(post(server.address, url, &wanted(&kids)).1.contains("\"kid\":\"IiIiIiIiIiIiIiIiIiIiIg\""));
    assert_eq!(post(server.address, url, &wanted(&kids[2..])).0, 404);
    for body in ["", "{}", "[]", "{\"kids\":[\"x\"]}", "{\"kids\":[1]}", &" ".repeat(20 << 10)] {
        assert_eq!(post(server.address, url, body).0, 400, "{body}");
    }
    assert_eq!(get(server.address, url).await.status, 405);
    assert_eq!(post(server.address, "/harbour/.mpd", "").0, 405);
    let hidden = DrmRule {
        serve_keys: None,
        key_uri: Some("https://k/{kid}".to_owned()),
        ..of_samples(&keys, "cenc", "cbcs")
    };
    let hidden = encrypting(vec![hidden]).await;
    assert_eq!(post(hidden.address, url, &wanted(&kids[..1])).0, 404);
    assert_ne!(AUDIO_KID, VIDEO_KID);
}
