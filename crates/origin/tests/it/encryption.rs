//! Encrypted titles: what players get, who gets keys, and what is refused.

use crate::{
    client::{FullResponse, fetch, get, get_with, send},
    server::{Server, config, crawl, join, library, sample},
};
use cbc::cipher::{BlockModeDecrypt, KeyIvInit, block_padding::Pkcs7};
use http::Method;
use latemux_origin::{
    OriginConfig, check_keys,
    config::{DrmRule, KeysConfig},
};
use latemux_storage::Memory;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    process::Command,
    sync::Arc,
};
use tempfile::NamedTempFile;

pub(crate) const VIDEO_KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
pub(crate) const AUDIO_KEY: &str = "a0b1c2d3e4f5061728394a5b6c7d8e9f";
pub(crate) const VIDEO_KID: &str = "11111111111111111111111111111111";
pub(crate) const AUDIO_KID: &str = "22222222222222222222222222222222";

/// Writes a file with a key for video and one for audio.
pub(crate) fn two_keys() -> NamedTempFile {
    key_file(&format!(
        r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}","tracks":"type==\"video\""}},
            {{"kid":"{AUDIO_KID}","key":"{AUDIO_KEY}","tracks":"type==\"audio\""}}]}}"#
    ))
}

pub(crate) fn key_file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

pub(crate) fn rule(keys: &NamedTempFile) -> DrmRule {
    DrmRule {
        titles: vec!["**".to_owned()],
        hls_ts: Some("aes-128".to_owned()),
        hls_fmp4: Some("aes-128".to_owned()),
        serve_keys: Some("open".to_owned()),
        keys: KeysConfig { file: Some(keys.path().to_owned()), ..KeysConfig::default() },
        ..DrmRule::default()
    }
}

pub(crate) fn with_rules(drm: Vec<DrmRule>) -> OriginConfig {
    let config = OriginConfig { drm, ..config() };
    config.check().unwrap();
    config
}

pub(crate) async fn encrypting(rules: Vec<DrmRule>) -> Server {
    Server::with(library(), with_rules(rules), None).await
}

/// A segment that a playlist lists with a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sealed {
    url: String,
    key: String,
    iv: String,
}

/// Returns what the playlists of a title list: encrypted segments, and URLs without a key.
async fn listed(server: SocketAddr, starts: &[String]) -> (BTreeSet<Sealed>, BTreeSet<String>) {
    let mut sealed = BTreeSet::new();
    let mut clear = BTreeSet::new();
    let mut todo = starts.to_vec();
    let mut seen = BTreeSet::new();
    while let Some(url) = todo.pop() {
        if !seen.insert(url.clone()) {
            continue;
        }
        let folder = url.split('?').next().unwrap().rsplit_once('/').unwrap().0.to_owned();
        let text = String::from_utf8(fetch(server, &url).await.to_vec()).unwrap();
        let mut key = None;
        for line in text.lines() {
            let attribute = |name: &str| Some(line.split_once(name)?.1.split([',', '"']).next()?.to_owned());
            let link = attribute("URI=\"").or((!line.starts_with('#')).then(|| line.to_owned()));
            let link = link.map(|link| join(&folder, &link));
            match (line.split(':').next().unwrap(), link) {
                ("#EXT-X-KEY", Some(uri)) => {
                    assert!(line.contains("METHOD=AES-128"), "{line}");
                    key = Some((uri, attribute("IV=0x").unwrap()));
                }
                ("#EXT-X-SESSION-KEY", Some(_)) => assert!(line.contains("METHOD=AES-128"), "{line}"),
                ("#EXT-X-MAP", Some(map)) => {
                    assert_eq!(key, None, "{url}: the init segment would be encrypted");
                    clear.insert(map);
                }
                (_, Some(link)) if link.contains(".m3u8") => todo.push(link),
                (_, Some(url)) => match key.clone() {
                    Some((key, iv)) => drop(sealed.insert(Sealed { url, key, iv })),
                    None => drop(clear.insert(url)),
                },
                (_, None) => {}
            }
        }
    }
    (sealed, clear)
}

fn hex(text: &str) -> [u8; 16] {
    std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
}

fn decrypted(body: &[u8], key: &[u8], iv: &str) -> Vec<u8> {
    let cipher = cbc::Decryptor::<aes::Aes128>::new(key.try_into().unwrap(), &hex(iv).into());
    let mut body = body.to_vec();
    cipher.decrypt_padded::<Pkcs7>(&mut body).unwrap().to_vec()
}

pub(crate) const TITLES: [&str; 5] =
    ["/harbour", "/lighthouse.mp4", "/ferry.mp4", "/buoy.mp4", "/fragmented.mp4"];

/// For each segment of all titles, in TS and CMAF, I-frames, clips and joined segments: it is the
/// clear segment, encrypted with the key and the IV of its playlist. No IV is used twice under a
/// key for different bytes.
#[tokio::test]
async fn segments_decrypt_to_those_of_the_clear_title() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    let server = encrypting(vec![rule(&keys)]).await;
    let mut ivs: BTreeMap<(String, String), Vec<u8>> = BTreeMap::new();
    let mut kinds = BTreeMap::<&str, usize>::new();
    for title in TITLES {
        let starts = ["", "?hls_fmp4", "?vbegin=3&vend=7.5", "?hls_fmp4&vbegin=3&vend=7.5"]
            .into_iter()
            .chain(["?hls_minimum_fragment_length=8", "?hls_fmp4&hls_minimum_fragment_length=8"])
            .map(|query| format!("{title}/.m3u8{query}"))
            .collect::<Vec<_>>();
        let (sealed, others) = listed(server.address, &starts).await;
        for Sealed { url, key, iv } in sealed {
            let kind = ["keyframes", "vbegin", "hls_minimum", ".ts", ".m4s"];
            *kinds.entry(kind.into_iter().find(|kind| url.contains(kind)).unwrap()).or_default() += 1;
            let body = get(server.address, &url).await;
            let plain = fetch(clear.address, &url).await;
            assert_eq!((body.status.as_u16(), body.body.len()), (200, plain.len() - plain.len() % 16 + 16));
            let kid = key.rsplit_once('/').unwrap().1.trim_end_matches(".key").to_owned();
            assert_eq!(kid == AUDIO_KID, !url.contains("-video"), "{url}: {key}");
            let key = fetch(server.address, &key).await;
            assert!(decrypted(&body.body, &key, &iv) == plain, "{url}");
            if let Some(other) = ivs.insert((kid, iv), plain.to_vec()) {
                assert!(other == plain, "{url}: the IV of other bytes");
            }
        }
        for url in others {
            assert!(
                !url.contains(".ts") && !url.contains("-video=") || url.matches('-').count() == 1,
                "{url}"
            );
            assert_eq!(fetch(server.address, &url).await, fetch(clear.address, &url).await, "{url}");
        }
    }
    assert!(kinds.len() == 5 && kinds.values().sum::<usize>() > 200, "{kinds:?}");
}

/// ffmpeg, which shares no code with this server, gets the packets of the clear title.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_decrypts_every_packet() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    let server = encrypting(vec![rule(&keys)]).await;
    let packets = |address: SocketAddr, url: &str| {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg
            .args(["-v", "error", "-allowed_extensions", "ALL", "-i"])
            .arg(format!("http://{address}{url}"));
        let out = ffmpeg.args(["-map", "0", "-c", "copy", "-f", "framemd5", "-"]).output().unwrap();
        assert!(out.status.success(), "{url}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let of_samples = DrmRule { hls_ts: Some("sample-aes".to_owned()), hls_fmp4: None, ..rule(&keys) };
    let of_samples = encrypting(vec![of_samples]).await;
    for title in ["/harbour", "/lighthouse.mp4"] {
        for (server, query, is_of_samples) in
            [(&server, "", false), (&server, "?hls_fmp4", false), (&of_samples, "", true)]
        {
            let url = format!("{title}/.m3u8{query}");
            let address = server.address;
            let clear = clear.address;
            let (encrypted, plain) =
                tokio::task::spawn_blocking(move || (packets(address, &url), packets(clear, &url)))
                    .await
                    .unwrap();
            assert!(plain.lines().count() > 100, "{plain}");
            assert_eq!(encrypted.lines().count(), plain.lines().count(), "{title}{query}");
            let differing: Vec<_> = encrypted.lines().zip(plain.lines()).filter(|(a, b)| a != b).collect();
            // ffmpeg 5.1 keeps the emulation prevention that was added in the clear start of a
            // slice.
            let few = if is_of_samples { plain.lines().count() / 1000 } else { 0 };
            assert!(differing.len() <= few, "{title}{query}: {differing:?}");
        }
    }
}

#[tokio::test]
async fn ranges_heads_and_etags_are_as_for_clear_titles() {
    let keys = two_keys();
    let other = key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{AUDIO_KEY}"}}]}}"#));
    let one = encrypting(vec![rule(&keys)]).await;
    let two = encrypting(vec![rule(&keys)]).await;
    let rekeyed = encrypting(vec![rule(&other)]).await;
    let starts = ["", "?hls_fmp4"].map(|query| format!("/lighthouse.mp4/.m3u8{query}"));
    let (sealed, _) = listed(one.address, &starts).await;
    for url in sealed.iter().map(|sealed| &sealed.url).step_by(3) {
        let whole = get(one.address, url).await;
        let head = send(one.address, Method::HEAD, url, &[]).await.unwrap();
        assert_eq!(head.lasting_headers(), whole.lasting_headers(), "{url}");
        let twin = get(two.address, url).await;
        assert_eq!((twin.lasting_headers(), &twin.body), (whole.lasting_headers(), &whole.body), "{url}");
        assert_ne!(get(rekeyed.address, url).await.header("etag"), whole.header("etag"), "{url}");
        let length = whole.body.len();
        let cuts = [0, 1, 15, 16, 17, 188, length / 2, length - 17, length - 16, length - 15, length - 1];
        for from in cuts {
            for to in cuts.into_iter().filter(|to| *to >= from) {
                let part = get_with(one.address, url, &[("range", &format!("bytes={from}-{to}"))]).await;
                assert!(part.status == 206 && part.body == whole.body[from..=to], "{url} {from}-{to}");
            }
        }
        let same = get_with(one.address, url, &[("if-none-match", whole.header("etag"))]).await;
        assert_eq!(same.status, 304);
    }
    let playlist = |server: &Server| {
        let address = server.address;
        async move { get(address, "/lighthouse.mp4/.m3u8").await.header("etag").to_owned() }
    };
    assert_ne!(playlist(&one).await, playlist(&rekeyed).await);
}

pub(crate) fn refusal(response: &FullResponse) -> (u16, String) {
    (response.status.as_u16(), response.reason())
}

/// Whatever the configuration lacks, no media is sent clear.
#[tokio::test]
async fn a_form_without_a_scheme_is_refused_and_never_sent_clear() {
    let keys = two_keys();
    let clear = Server::start(library()).await;
    let only_ts = encrypting(vec![DrmRule { hls_fmp4: None, ..rule(&keys) }]).await;
    let only_cmaf = encrypting(vec![DrmRule { hls_ts: None, ..rule(&keys) }]).await;
    let cannot = (415, "cannot_protect".to_owned());
    let mut urls = crawl(clear.address, "/harbour").await;
    urls.extend(["/harbour/Manifest", "/harbour/.f4m"].map(str::to_owned));
    urls.retain(|url| url.contains("dash/") || url.ends_with(".mpd") || !url.contains(".m3u8"));
    for url in &urls {
        let is_ts = url.ends_with(".ts");
        let is_cmaf = url.contains("/hls/") || (url.contains("keyframes") && url.ends_with(".m4s"));
        for (server, is_served) in [(&only_ts, is_ts), (&only_cmaf, is_cmaf)] {
            let response = get(server.address, url).await;
            match is_served {
                true => assert_eq!(response.status, 200, "{url}"),
                false => assert_eq!(refusal(&response), cannot, "{url}"),
            }
            let is_init = url.matches('-').count() == 1;
            assert!(is_init || response.body != fetch(clear.address, url).await, "{url} is clear");
        }
    }
    assert!(urls.len() > 50);
    // Without a container in the URL, that with a scheme is chosen.
    let text = |body: bytes::Bytes| String::from_utf8(body.to_vec()).unwrap();
    assert!(text(fetch(only_cmaf.address, "/harbour/.m3u8").await).contains(".m3u8?hls_fmp4"));
    assert_eq!(refusal(&get(only_ts.address, "/harbour/.m3u8?hls_fmp4").await), cannot);
    // The order of samples is not that of the listed IVs.
    let url = urls.iter().find(|url| url.contains("/hls/") && url.matches('-').count() == 2).unwrap();
    let response = get(only_cmaf.address, &format!("{url}?order=priority")).await;
    assert_eq!(refusal(&response), cannot);
}

#[tokio::test]
async fn titles_without_all_keys_are_refused() {
    let missing = key_file("{}");
    let no_audio = key_file(&format!(
        r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}","tracks":"type==\"video\""}}]}}"#
    ));
    let ambiguous = key_file(&format!(
        r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}},{{"kid":"{AUDIO_KID}","key":"{AUDIO_KEY}"}}]}}"#
    ));
    for (keys, status, reason) in
        [(&missing, 503, "keys_unavailable"), (&no_audio, 422, "no_key"), (&ambiguous, 422, "ambiguous_key")]
    {
        let server = encrypting(vec![rule(keys)]).await;
        let clear = Server::start(library()).await;
        let mut urls = crawl(clear.address, "/lighthouse.mp4").await;
        urls.push(format!("/lighthouse.mp4/keys/{VIDEO_KID}.key"));
        for url in urls {
            assert_eq!(refusal(&get(server.address, &url).await), (status, reason.to_owned()), "{url}");
        }
    }
    assert!(check_keys(&with_rules(vec![rule(&missing)])).unwrap_err().starts_with("drm, rule 1: "));
    // What is clear on purpose needs no key.
    let server = encrypting(vec![DrmRule { clear: vec!["audio".to_owned()], ..rule(&no_audio) }]).await;
    let (sealed, clear) = listed(server.address, &["/harbour/.m3u8".to_owned()]).await;
    assert!(sealed.iter().all(|sealed| sealed.url.contains("-video")));
    assert!(!clear.is_empty() && clear.iter().all(|url| url.contains("-audio")));
}

/// A rule is for files, whatever the title that they are served in.
#[tokio::test]
async fn no_other_base_gives_the_files_of_a_rule_clear() {
    let keys = two_keys();
    let memory = Memory::new();
    for name in ["a/secret.mp4", "open.mp4"] {
        memory.put(crate::server::key(name), sample("lighthouse.mp4"));
    }
    let element = |kind: &str, track: u32| {
        format!(
            r#"<{kind} src="a/secret.mp4" systemBitrate="100000"><param name="trackID" value="{track}"/></{kind}>"#
        )
    };
    let manifest = format!(
        r#"<smil xmlns="http://www.w3.org/2001/SMIL20/Language"><body><switch>{}{}</switch></body></smil>"#,
        element("video", 1),
        element("audio", 2),
    );
    memory.put(crate::server::key("film.ism"), manifest);
    let rule = DrmRule { titles: vec!["a/*".to_owned()], ..rule(&keys) };
    let server = Server::with(Arc::new(memory), with_rules(vec![rule]), None).await;
    for base in [
        "/a/secret.mp4",
        "/a",
        "/a/,secret,.mp4.urlset",
        "/,a/secret,.mp4.urlset",
        "/,open,a/secret,.mp4.urlset",
        "/film.ism",
    ] {
        let response = get(server.address, &format!("{base}/.mpd")).await;
        assert_eq!(refusal(&response), (415, "cannot_protect".to_owned()), "{base}");
        let text = fetch(server.address, &format!("{base}/.m3u8")).await;
        assert!(String::from_utf8_lossy(&text).contains("EXT-X-SESSION-KEY"), "{base}");
    }
    assert_eq!(get(server.address, "/open.mp4/.mpd").await.status, 200);
}

#[tokio::test]
async fn keys_are_served_to_whom_the_rule_allows() {
    let keys = two_keys();
    let url = format!("/harbour/keys/{VIDEO_KID}.key");
    let open = encrypting(vec![rule(&keys)]).await;
    let key = get(open.address, &url).await;
    assert_eq!((&key.body[..], key.header("cache-control")), (&hex(VIDEO_KEY)[..], "no-store"));
    assert_eq!(key.header("etag"), "");
    let unknown = get(open.address, &format!("/harbour/keys/{}.key", "3".repeat(32))).await;
    assert_eq!(refusal(&unknown), (404, "no_such_key".to_owned()));
    assert_eq!(get(open.address, &format!("/none.mp4/keys/{VIDEO_KID}.key")).await.status, 404);
    let elsewhere =
        DrmRule { serve_keys: None, key_uri: Some("https://keys.example/{kid}".to_owned()), ..rule(&keys) };
    let elsewhere = encrypting(vec![elsewhere]).await;
    assert_eq!(refusal(&get(elsewhere.address, &url).await), (404, "no_such_url".to_owned()));
    let text = fetch(elsewhere.address, "/harbour/.m3u8").await;
    let uri = format!("URI=\"https://keys.example/{VIDEO_KID}\"");
    assert!(String::from_utf8_lossy(&text).contains(&uri));
    // The variable of the token is not set: nobody gets keys.
    let broken = DrmRule { serve_keys: Some("env:LATEMUX_NO_SUCH_VARIABLE".to_owned()), ..rule(&keys) };
    let config = with_rules(vec![broken]);
    assert!(check_keys(&config).unwrap_err().contains("LATEMUX_NO_SUCH_VARIABLE is not set"));
    let broken = Server::with(library(), config, None).await;
    assert_eq!(refusal(&get(broken.address, &url).await), (503, "keys_unavailable".to_owned()));
}

/// Keys are in the responses that deliver them and nowhere else.
#[tokio::test]
async fn no_other_response_holds_a_key() {
    let keys = two_keys();
    let server = encrypting(vec![rule(&keys)]).await;
    let needles: Vec<Vec<u8>> = [VIDEO_KEY, AUDIO_KEY]
        .into_iter()
        .flat_map(|key| {
            let number = u128::from_str_radix(key, 16).unwrap();
            [
                key.as_bytes().to_vec(),
                key.to_uppercase().into_bytes(),
                number.to_be_bytes().to_vec(),
                number.to_le_bytes().to_vec(),
            ]
        })
        .collect();
    let starts = ["", "?hls_fmp4"].map(|query| format!("/harbour/.m3u8{query}"));
    let mut urls: Vec<String> =
        listed(server.address, &starts).await.0.into_iter().map(|sealed| sealed.url).collect();
    urls.extend(starts);
    urls.extend(
        ["/harbour/.mpd", "/api/library", "/harbour/keys/33333333333333333333333333333333.key"]
            .map(str::to_owned),
    );
    let mut bodies = Vec::new();
    for url in &urls {
        bodies.push((url.clone(), get(server.address, url).await));
    }
    bodies.push(("metrics".to_owned(), get(server.admin, "/metrics").await));
    for (url, response) in bodies {
        let text = format!("{:?}", response.headers).into_bytes();
        for needle in &needles {
            let is_in = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
            assert!(!is_in(&response.body) && !is_in(&text), "{url} holds a key");
        }
    }
    let config = format!("{:?}", with_rules(vec![rule(&keys)]));
    assert!(!config.contains(VIDEO_KEY));
}
