//! Packets that ffmpeg decrypts, of codecs that the library of samples does not have.

use crate::{
    client::{fetch, get},
    encryption::{AUDIO_KEY, VIDEO_KEY, refusal, two_keys, with_rules},
    sample_encryption::{hold_the_same_packets, of_samples, tracks},
    server::{Server, key},
};
use latemux_storage::Memory;
use latemux_testmedia::recipe;
use std::sync::Arc;

/// VP9 with hidden frames in superframes, decrypted by ffmpeg. AV1 is refused beside it.
#[tokio::test(flavor = "multi_thread")]
async fn ffmpeg_decrypts_every_packet_of_vp9() {
    let keys = two_keys();
    let vp9 = "-deadline good -cpu-used 5 -auto-alt-ref 1 -lag-in-frames 12 -g 50 -b:v 150k";
    let vp9 = recipe::coded("vp9-hidden", &format!("-c:v libvpx-vp9 {vp9} -c:a libopus"));
    let av1 =
        recipe::coded("av1-aac", "-c:v libaom-av1 -cpu-used 8 -usage realtime -g 50 -b:v 100k -c:a aac");
    let memory = Memory::new();
    for (name, file) in [("vp9.mp4", vp9), ("av1.mp4", av1)] {
        memory.put(key(name), std::fs::read(file).unwrap());
    }
    let memory = Arc::new(memory);
    let clear = Server::start(memory.clone()).await;
    for (dash, hls) in [("cenc", "cbcs"), ("cbcs", "cenc")] {
        let config = with_rules(vec![of_samples(&keys, dash, hls)]);
        let server = Server::with(memory.clone(), config, None).await;
        let all = tracks(server.address, "/vp9.mp4").await;
        assert_eq!(all.len(), 4, "{:?}", all.keys());
        for (track, urls) in all {
            let (mut encrypted, mut plain) = (Vec::new(), Vec::new());
            for url in &urls {
                encrypted.extend_from_slice(&fetch(server.address, url).await);
                plain.extend_from_slice(&fetch(clear.address, url).await);
            }
            let key = if track.contains("video") { VIDEO_KEY } else { AUDIO_KEY };
            hold_the_same_packets(encrypted, key, plain, format!("{track} of {dash} and {hls}")).await;
        }
        let (_, video) =
            tracks(clear.address, "/av1.mp4").await.into_iter().find(|(t, _)| t.contains("video")).unwrap();
        for url in video {
            assert_eq!(
                refusal(&get(server.address, &url).await),
                (415, "cannot_protect".to_owned()),
                "{url}"
            );
        }
    }
}
