//! Packets decrypted by mp4ff, which shares no code with ffmpeg either, and by ffmpeg for codecs
//! that the library of samples does not have.

use crate::{
    client::{fetch, fetch_all},
    encryption::{AUDIO_KEY, TITLES, VIDEO_KEY, VIDEO_KID, encrypting, key_file, rule, two_keys, with_rules},
    sample_encryption::{ffmpeg, hold_the_same_packets, of_samples, packets, smooth_tracks, tracks},
    server::{Server, key, library},
};
use latemux_origin::config::DrmRule;
use latemux_storage::Memory;
use latemux_testmedia::{process::tool, recipe};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

/// Returns the packets of a file that mp4ff decrypts with a key.
pub(crate) fn decrypted(mp4ff: &Path, file: &[u8], key: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let sealed = folder.path().join("sealed.mp4");
    let opened = folder.path().join("opened.mp4");
    std::fs::write(&sealed, file).unwrap();
    let out = Command::new(mp4ff).args(["-key", key]).args([&sealed, &opened]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    packets(&std::fs::read(&opened).unwrap(), None)
}

#[tokio::test(flavor = "multi_thread")]
async fn mp4ff_decrypts_every_packet_of_both_schemes() {
    let Some(mp4ff) = tool("mp4ff-decrypt") else { return };
    let keys = two_keys();
    let clear = Server::start(library()).await;
    let mut seen = 0;
    for (dash, hls) in [("cenc", "cbcs"), ("cbcs", "cenc")] {
        let server = encrypting(vec![of_samples(&keys, dash, hls)]).await;
        for title in TITLES {
            for (track, urls) in tracks(server.address, title).await {
                let sealed = fetch_all(server.address, &urls).await;
                let plain = fetch_all(clear.address, &urls).await;
                let key = if track.contains("video") { VIDEO_KEY } else { AUDIO_KEY };
                let mp4ff = mp4ff.clone();
                let read = move || (decrypted(&mp4ff, &sealed, key), packets(&plain, None));
                let (opened, expected) = tokio::task::spawn_blocking(read).await.unwrap();
                assert!(expected.lines().count() > 20, "{title} {track}: {expected}");
                assert!(opened == expected, "{title} {track} of {dash} and {hls}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 48, "{seen}");
}

/// mp4ff reads the `uuid` box of PIFF as it is. The init segment is that of DASH, as players make
/// one of the manifest.
#[tokio::test(flavor = "multi_thread")]
async fn mp4ff_decrypts_every_packet_of_smooth_streaming() {
    let Some(mp4ff) = tool("mp4ff-decrypt") else { return };
    let keys = key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}"}}]}}"#));
    let systems = vec!["playready".to_owned()];
    let rule = DrmRule { mss: Some("piff".to_owned()), systems, ..of_samples(&keys, "cenc", "cenc") };
    let clear = Server::start(library()).await;
    let server = encrypting(vec![rule]).await;
    let mut seen = 0;
    for title in TITLES {
        let inits = tracks(server.address, title).await;
        for (track, urls) in smooth_tracks(server.address, title).await {
            let Some(init) = inits.get(&format!("/dash/{track}")).and_then(|urls| urls.first()) else {
                continue;
            };
            let mut sealed = fetch(server.address, init).await.to_vec();
            let tenc = sealed.windows(4).position(|four| four == b"tenc").unwrap();
            sealed[tenc + 11] = 8;
            let mut plain = fetch(clear.address, init).await.to_vec();
            for url in &urls {
                sealed.extend(of_track_1(&fetch(server.address, url).await));
                plain.extend(of_track_1(&fetch(clear.address, url).await));
            }
            let mp4ff = mp4ff.clone();
            let read = move || (decrypted(&mp4ff, &sealed, VIDEO_KEY), packets(&plain, None));
            let (opened, expected) = tokio::task::spawn_blocking(read).await.unwrap();
            assert!(expected.lines().count() > 20 && opened == expected, "{title} {track}");
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen}");
}

/// Returns a fragment for the only track of an init segment.
fn of_track_1(fragment: &[u8]) -> Vec<u8> {
    let mut out = fragment.to_vec();
    let track = out.windows(4).position(|name| name == b"tfhd").unwrap() + 8;
    out[track..track + 4].copy_from_slice(&1_u32.to_be_bytes());
    out
}

/// VP9 with hidden frames in superframes, decrypted by ffmpeg.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_decrypts_every_packet_of_vp9() {
    let vp9 = "-deadline good -cpu-used 5 -auto-alt-ref 1 -lag-in-frames 12 -g 50 -b:v 150k";
    let file = recipe::coded("vp9-hidden", &format!("-c:v libvpx-vp9 {vp9} -c:a libopus"));
    for sealed in sealed_tracks(&[("vp9.mp4", file)]).await {
        hold_the_same_packets(sealed.encrypted, sealed.key, sealed.clear, sealed.name).await;
    }
}

/// A track in one scheme, and in clear.
struct SealedTrack {
    name: String,
    key: &'static str,
    encrypted: Vec<u8>,
    clear: Vec<u8>,
}

/// Returns the tracks of titles with video and audio, in DASH and HLS and in both schemes.
async fn sealed_tracks(files: &[(&str, PathBuf)]) -> Vec<SealedTrack> {
    let keys = two_keys();
    let memory = Memory::new();
    for (name, file) in files {
        memory.put(key(name), std::fs::read(file).unwrap());
    }
    let memory = Arc::new(memory);
    let clear = Server::start(memory.clone()).await;
    let mut sealed = Vec::new();
    for (dash, hls) in [("cenc", "cbcs"), ("cbcs", "cenc")] {
        let config = with_rules(vec![of_samples(&keys, dash, hls)]);
        let server = Server::with(memory.clone(), config, None).await;
        for (title, _) in files {
            let all = tracks(server.address, &format!("/{title}")).await;
            assert_eq!(all.len(), 4, "{title}: {:?}", all.keys());
            for (track, urls) in all {
                sealed.push(SealedTrack {
                    name: format!("{title} {track} of {dash} and {hls}"),
                    key: if track.contains("video") { VIDEO_KEY } else { AUDIO_KEY },
                    encrypted: fetch_all(server.address, &urls).await,
                    clear: fetch_all(clear.address, &urls).await,
                });
            }
        }
    }
    sealed
}

/// Returns the fields of all headers in a file of AV1, as ffmpeg reads them without a key. The
/// `pssh` is side data of the first packet.
fn traced(file: &[u8]) -> Vec<String> {
    let out = ffmpeg(&["-v", "verbose"], file, &["-bsf:v", "trace_headers", "-f", "null"]);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once("[trace_headers")?.1.split_once("] "));
    lines.map(|(_, field)| field.to_owned()).filter(|field| !field.starts_with("Packet")).collect()
}

/// AV1 with tiles in several groups, some smaller than a block, with frames that are shown again,
/// with references of other sizes, and with frames that state the order hints of all references.
/// Without a key, ffmpeg reads the same headers as in the clear title.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_and_mp4ff_decrypt_every_packet_of_av1() {
    let mp4ff = tool("mp4ff-decrypt");
    let aom = "-c:v libaom-av1 -cpu-used 8 -g 50 -b:v 60k";
    let svt = "-c:v libsvtav1 -preset 8 -g 50 -b:v 60k";
    let coded = |name: &str, video: &str| recipe::coded(&format!("av1-{name}"), &format!("{video} -c:a aac"));
    let files = [
        ("tiles.mp4", coded("tiles", &format!("{aom} -lag-in-frames 19 -tile-columns 1 -tile-rows 1"))),
        (
            "groups.mp4",
            coded(
                "groups",
                &format!("{aom} -usage realtime -tile-columns 1 -tile-rows 1 -aom-params num-tile-groups=3"),
            ),
        ),
        ("resilient.mp4", coded("resilient", &format!("{aom} -usage realtime -error-resilience default"))),
        ("resized.mp4", coded("resized", &format!("{svt} -svtav1-params resize-mode=2"))),
        ("grain.mp4", coded("grain", &format!("{svt} -svtav1-params film-grain=20:superres-mode=2"))),
    ];
    let mut seen = 0;
    for sealed in sealed_tracks(&files).await {
        let SealedTrack { name, key, encrypted, clear } = sealed;
        let is_video = name.contains("video");
        let mp4ff = mp4ff.clone();
        let check = move || {
            let expected = packets(&clear, None);
            if is_video {
                let encrypted = traced(&encrypted);
                let clear = traced(&clear);
                assert!(clear.len() > 1000 && encrypted == clear, "{name}");
            }
            let raw = packets(&encrypted, None);
            let same = raw.lines().zip(expected.lines()).filter(|(raw, clear)| raw == clear).count();
            // Clear are some header lines, frames that are shown again, and small tiles.
            assert!(4 * same < 3 * expected.lines().count(), "{name}: {same}");
            assert!(packets(&encrypted, Some(key)) == expected, "{name}");
            assert!(mp4ff.is_none_or(|mp4ff| decrypted(&mp4ff, &encrypted, key) == expected), "{name}");
        };
        tokio::task::spawn_blocking(check).await.unwrap();
        seen += 1;
    }
    assert_eq!(seen, 40);
}

/// Returns the packets of all streams that ffmpeg gets by a playlist, with the keys that it names.
pub(crate) fn packets_of_playlist(url: &str) -> Vec<String> {
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-allowed_extensions", "ALL", "-i", url]);
    let out = ffmpeg.args(["-map", "0", "-c", "copy", "-f", "framemd5", "-"]).output().unwrap();
    assert!(out.status.success(), "{url}: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// AC-3 and E-AC-3 in transport streams, encrypted by SAMPLE-AES.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_decrypts_dolby_audio_of_transport_streams() {
    let keys = two_keys();
    let memory = Memory::new();
    for codec in ["ac3", "eac3"] {
        let file = recipe::coded(&format!("avc-{codec}"), &format!("{} -c:a {codec} -b:a 192k", recipe::AVC));
        memory.put(key(&format!("{codec}.mp4")), std::fs::read(file).unwrap());
    }
    let memory = Arc::new(memory);
    let clear = Server::start(memory.clone()).await;
    let sealing = DrmRule { hls_ts: Some("sample-aes".to_owned()), hls_fmp4: None, ..rule(&keys) };
    let server = Server::with(memory, with_rules(vec![sealing]), None).await;
    for (codec, most) in [("ac3", 1), ("eac3", 2)] {
        let url = |server: &Server| format!("http://{}/{codec}.mp4/.m3u8", server.address);
        let sent = url(&server);
        let plain = url(&clear);
        let read = move || (packets_of_playlist(&sent), packets_of_playlist(&plain));
        let (opened, expected) = tokio::task::spawn_blocking(read).await.unwrap();
        assert!(expected.len() > 300, "{}", expected.len());
        assert_eq!(opened.len(), expected.len(), "{codec}");
        // ffmpeg 5.1 leaves the last packet of each stream encrypted, and the last one of E-AC-3 in
        // each of the two segments.
        for (stream, most) in [("0,", 1), ("1,", most)] {
            let pairs = opened.iter().zip(&expected).filter(|(_, packet)| packet.starts_with(stream));
            let pairs: Vec<_> = pairs.collect();
            let differing = pairs.iter().filter(|(packet, expected)| packet != expected).count();
            assert!(differing <= most, "{codec} {stream} {differing}");
            assert!(
                pairs[pairs.len() / 2..].iter().rev().skip(1).all(|(packet, expected)| packet == expected)
            );
        }
    }
}
