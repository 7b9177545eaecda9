//! Encrypted I-frames: each one that a playlist of HLS or a trick mode set of DASH lists decrypts
//! to the picture of the clear title.

use crate::{
    client::fetch,
    encryption::{VIDEO_KEY, VIDEO_KID, encrypting, rule, two_keys},
    server::{Server, join, library},
};
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use latemux_isobmff::bits::without_emulation_prevention;
use latemux_origin::config::DrmRule;
use std::{
    io::Write as _,
    net::SocketAddr,
    process::{Command, Stdio},
};

const TITLES: [&str; 4] = ["/lighthouse.mp4", "/ferry.mp4", "/buoy.mp4", "/fragmented.mp4"];

/// Runs ffmpeg on an input, and returns the time and the hash of each decoded picture.
fn pictures(input: &[&str], bytes: Vec<u8>) -> Vec<String> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error"]).args(input);
    ffmpeg.args(["-map", "0:v", "-vsync", "passthrough", "-f", "framemd5", "-"]);
    let mut running =
        ffmpeg.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = running.stdin.take().unwrap();
    let out = std::thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(&bytes));
        running.wait_with_output().unwrap()
    });
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Checks that I-frames, decrypted by ffmpeg with a key, are the pictures of the clear ones.
async fn show_the_same(name: &str, encrypted: Vec<u8>, clear: Vec<u8>, count: usize) {
    let read = move || {
        let with_key = pictures(&["-decryption_key", VIDEO_KEY, "-i", "pipe:0"], encrypted);
        (with_key, pictures(&["-i", "pipe:0"], clear))
    };
    let (shown, expected) = tokio::task::spawn_blocking(read).await.unwrap();
    assert_eq!(expected.len(), count, "{name}: {expected:?}");
    assert_eq!(shown, expected, "{name}");
}

async fn text(server: SocketAddr, url: &str) -> String {
    String::from_utf8(fetch(server, url).await.to_vec()).unwrap()
}

/// Returns the URL of the first I-frame playlist that a playlist names.
pub(crate) async fn iframe_playlist(server: SocketAddr, url: &str) -> String {
    let all = text(server, url).await;
    let line = all.lines().find(|line| line.starts_with("#EXT-X-I-FRAME-STREAM-INF")).unwrap();
    let link = line.split_once("URI=\"").unwrap().1.split('"').next().unwrap();
    let folder = url.split('?').next().unwrap().rsplit_once('/').unwrap().0;
    join(folder, link)
}

/// Returns the init segment of a playlist, if it has one, and the segments that it lists.
async fn listed(server: SocketAddr, url: &str) -> (Option<String>, Vec<String>) {
    let all = text(server, url).await;
    assert!(all.contains("#EXT-X-I-FRAMES-ONLY"), "{all}");
    let folder = url.split('?').next().unwrap().rsplit_once('/').unwrap().0;
    let map = all.lines().find_map(|line| line.strip_prefix("#EXT-X-MAP:URI=\"")?.split('"').next());
    let segments = all.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    (map.map(|map| join(folder, map)), segments.map(|link| join(folder, link)).collect())
}

async fn concatenated(server: SocketAddr, urls: &[String]) -> Vec<u8> {
    let mut all = Vec::new();
    for url in urls {
        all.extend_from_slice(&fetch(server, url).await);
    }
    all
}

fn of_samples(dash: &str, hls: &str) -> (DrmRule, tempfile::NamedTempFile) {
    let keys = two_keys();
    let rule =
        DrmRule { dash: Some(dash.to_owned()), hls_fmp4: Some(hls.to_owned()), hls_ts: None, ..rule(&keys) };
    (rule, keys)
}

#[tokio::test(flavor = "multi_thread")]
async fn iframes_of_cmaf_decrypt_to_the_clear_pictures() {
    let clear = Server::start(library()).await;
    for scheme in ["cbcs", "cenc"] {
        let (rule, _keys) = of_samples(scheme, scheme);
        let server = encrypting(vec![rule]).await;
        for title in TITLES {
            let playlist = iframe_playlist(server.address, &format!("{title}/.m3u8?hls_fmp4")).await;
            let (init, frames) = listed(server.address, &playlist).await;
            let method = if scheme == "cbcs" { "METHOD=SAMPLE-AES," } else { "METHOD=SAMPLE-AES-CTR," };
            assert!(text(server.address, &playlist).await.contains(method), "{playlist}");
            assert!(frames.len() > 5, "{frames:?}");
            let urls = [init.into_iter().collect(), frames.clone()].concat();
            let sent = concatenated(server.address, &urls).await;
            let plain = concatenated(clear.address, &urls).await;
            show_the_same(&format!("{scheme} {playlist}"), sent, plain, frames.len()).await;
        }
    }
}

/// ffmpeg requests the keys and the I-frames by their playlist, as players do.
#[tokio::test(flavor = "multi_thread")]
async fn iframes_of_transport_streams_decrypt_to_the_clear_pictures() {
    let clear = Server::start(library()).await;
    let keys = two_keys();
    for scheme in ["sample-aes", "aes-128"] {
        let ts = DrmRule { hls_ts: Some(scheme.to_owned()), hls_fmp4: None, ..rule(&keys) };
        let server = encrypting(vec![ts]).await;
        // HEVC is not sent in transport streams.
        for title in TITLES.into_iter().filter(|title| *title != "/buoy.mp4") {
            let playlist = iframe_playlist(server.address, &format!("{title}/.m3u8")).await;
            let (_, frames) = listed(server.address, &playlist).await;
            assert!(frames.len() > 5, "{frames:?}");
            let at = |server: &Server| format!("http://{}{playlist}", server.address);
            let sent = at(&server);
            let plain = at(&clear);
            let read = move || {
                let of = |url: &str| pictures(&["-allowed_extensions", "ALL", "-i", url], Vec::new());
                (of(&sent), of(&plain))
            };
            let (shown, expected) = tokio::task::spawn_blocking(read).await.unwrap();
            assert_eq!(expected.len(), frames.len(), "{playlist}");
            // ffmpeg 5.1 leaves the last frame that it reads by SAMPLE-AES encrypted. The next test
            // decrypts that, too.
            let last = frames.len() - usize::from(scheme == "sample-aes");
            assert_eq!(shown[..last], expected[..last], "{scheme} {playlist}");
        }
    }
}

/// Returns the NAL units of the only stream of a transport stream.
fn nal_units(body: &[u8]) -> Vec<Vec<u8>> {
    let mut stream = Vec::new();
    for packet in body.as_chunks::<188>().0 {
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        let adaptation = if packet[3] & 0x20 > 0 { 1 + usize::from(packet[4]) } else { 0 };
        if packet[3] & 0x10 > 0 && (0x100..0x1000).contains(&pid) {
            let payload = &packet[4 + adaptation..];
            let header = if packet[1] & 0x40 > 0 { 9 + usize::from(payload[8]) } else { 0 };
            stream.extend_from_slice(&payload[header..]);
        }
    }
    let starts: Vec<usize> =
        (0..stream.len() - 3).filter(|&at| stream[at..at + 3] == [0, 0, 1]).map(|at| at + 3).collect();
    let ends = starts.iter().skip(1).map(|next| next - 3).chain([stream.len()]);
    let units = starts.iter().zip(ends).map(|(&start, end)| stream[start..end].to_vec());
    // The next start code may have a zero more.
    units.map(|unit| unit[..unit.iter().rposition(|byte| *byte != 0).unwrap() + 1].to_vec()).collect()
}

/// Decrypts a NAL unit as Apple describes it, with the IV in place of what was encrypted before.
fn decrypted(nal_unit: &[u8]) -> Vec<u8> {
    if !matches!(nal_unit[0] & 31, 1 | 5) || nal_unit.len() <= 48 {
        return nal_unit.to_vec();
    }
    let mut out = without_emulation_prevention(nal_unit);
    let hex = |text: &str| u128::from_str_radix(text, 16).unwrap().to_be_bytes();
    let mut cipher = cbc::Decryptor::<aes::Aes128>::new(&hex(VIDEO_KEY).into(), &hex(VIDEO_KID).into());
    let mut at = 32;
    while out.len() - at > 16 {
        let mut block = <[u8; 16]>::try_from(&out[at..at + 16]).unwrap().into();
        cipher.decrypt_block(&mut block);
        out[at..at + 16].copy_from_slice(&block);
        at = (at + 160).min(out.len());
    }
    out
}

/// Every NAL unit of every I-frame in transport streams, decrypted here, is the clear one.
#[tokio::test]
async fn nal_units_of_iframes_by_sample_aes_are_the_clear_ones() {
    let clear = Server::start(library()).await;
    let keys = two_keys();
    let server =
        encrypting(vec![DrmRule { hls_ts: Some("sample-aes".to_owned()), hls_fmp4: None, ..rule(&keys) }])
            .await;
    let mut seen = 0;
    for title in TITLES.into_iter().filter(|title| *title != "/buoy.mp4") {
        let playlist = iframe_playlist(server.address, &format!("{title}/.m3u8")).await;
        for url in listed(server.address, &playlist).await.1 {
            let sent = nal_units(&fetch(server.address, &url).await);
            let plain = nal_units(&fetch(clear.address, &url).await);
            assert_eq!(sent.len(), plain.len(), "{url}");
            for (sent, plain) in sent.iter().zip(&plain) {
                let is_slice = plain[0] & 31 == 5 && plain.len() > 48;
                assert_eq!(sent != plain, is_slice, "{url}");
                let expected = if is_slice { without_emulation_prevention(plain) } else { plain.clone() };
                assert!(decrypted(sent) == expected, "{url}");
                seen += usize::from(is_slice);
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Returns the init segment and the I-frames of the trick mode set of an MPD.
fn trick_set(mpd: &str, base: &str) -> Vec<String> {
    let attribute = |text: &str, name: &str| {
        Some(text.split_once(&format!(" {name}=\""))?.1.split('"').next()?.to_owned())
    };
    let set = mpd.split("<AdaptationSet").find(|set| set.contains("guidelines/trickmode")).unwrap();
    assert!(set.contains("mp4protection:2011"), "{set}");
    let template = set.split_once("<SegmentTemplate").unwrap().1;
    let number = |text: &str, name: &str| attribute(text, name).map(|value| value.parse::<usize>().unwrap());
    let first = number(template, "startNumber").unwrap();
    let runs = template.split("<S ").skip(1).map(|run| {
        let run = format!(" {}", run.split('>').next().unwrap());
        1 + number(&run, "r").unwrap_or(0)
    });
    let media = attribute(template, "media").unwrap();
    assert!(media.contains("$Number$"), "{media}");
    let id = attribute(set.split_once("<Representation").unwrap().1, "id").unwrap();
    let full = |link: String| format!("{base}/{}", link.replace("$RepresentationID$", &id));
    let count: usize = runs.sum();
    let frames = (first..first + count).map(|n| full(media.replace("$Number$", &n.to_string())));
    std::iter::once(full(attribute(template, "initialization").unwrap())).chain(frames).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn trick_mode_sets_of_dash_decrypt_to_the_clear_pictures() {
    let clear = Server::start(library()).await;
    for scheme in ["cenc", "cbcs"] {
        let (rule, _keys) = of_samples(scheme, scheme);
        let server = encrypting(vec![rule]).await;
        for title in TITLES {
            let mpd = text(server.address, &format!("{title}/.mpd")).await;
            let urls = trick_set(&mpd, title);
            assert!(urls.len() > 5, "{urls:?}");
            let sent = concatenated(server.address, &urls).await;
            let plain = concatenated(clear.address, &urls).await;
            show_the_same(&format!("{scheme} {title}"), sent, plain, urls.len() - 1).await;
        }
    }
}
