//! Settings of FairPlay: the IV that licences bring, and the URI of keys.

use crate::{
    client::{fetch, get},
    encryption::{VIDEO_KEY, VIDEO_KID, encrypting, key_file, refusal, two_keys},
    sample_encryption::{of_samples, tracks},
};
use latemux_origin::config::{DrmRule, FairPlayConfig};
use tempfile::NamedTempFile;

pub(crate) fn fairplay(iv: Option<&str>, uri: Option<&str>) -> FairPlayConfig {
    FairPlayConfig { iv: iv.map(str::to_owned), uri: uri.map(str::to_owned) }
}

/// Players of FairPlay get the IV with the licence. A title is refused if nothing states it.
#[tokio::test]
async fn fairplay_has_the_iv_and_the_uri_of_the_configuration() {
    let keys = two_keys();
    let own = "000102030405060708090a0b0c0d0e0f";
    let with_iv =
        key_file(&format!(r#"{{"keys":[{{"kid":"{VIDEO_KID}","key":"{VIDEO_KEY}","iv":"{own}"}}]}}"#));
    let systems = vec!["fairplay".to_owned()];
    let start = |keys: &NamedTempFile, fairplay| {
        let systems = systems.clone();
        let hls_ts = Some("sample-aes".to_owned());
        encrypting(vec![DrmRule { systems, fairplay, hls_ts, ..of_samples(keys, "cbcs", "cbcs") }])
    };
    let refused = start(&keys, fairplay(None, None)).await;
    for url in ["/lighthouse.mp4/.m3u8", "/lighthouse.mp4/.mpd"] {
        assert_eq!(refusal(&get(refused.address, url).await), (422, "no_iv".to_owned()), "{url}");
    }
    let configured = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
    for (keys, fairplay, iv) in [
        (&keys, fairplay(Some("kid"), None), VIDEO_KID),
        (&keys, fairplay(Some(configured), Some("skd://films?kid={kid}&a")), configured),
        // The IV of the key has precedence.
        (&with_iv, fairplay(Some(configured), None), own),
    ] {
        let server = start(keys, fairplay.clone()).await;
        let uri = fairplay.uri.as_deref().unwrap_or("skd://{kid}").replace("{kid}", VIDEO_KID);
        for url in ["/lighthouse.mp4/.m3u8", "/lighthouse.mp4/.m3u8?hls_fmp4"] {
            let text = String::from_utf8(fetch(server.address, url).await.to_vec()).unwrap();
            assert!(text.contains(&format!("SESSION-KEY:METHOD=SAMPLE-AES,URI=\"{uri}\"")), "{text}");
        }
        // The last 16 bytes of `tenc` are the constant IV.
        let urls = &tracks(server.address, "/lighthouse.mp4").await;
        let (_, video) = urls.iter().find(|(track, _)| track.starts_with("/dash/video")).unwrap();
        let init = fetch(server.address, &video[0]).await;
        let tenc = init.windows(4).position(|four| four == b"tenc").unwrap();
        let size = usize::try_from(u32::from_be_bytes(init[tenc - 4..tenc].try_into().unwrap())).unwrap();
        let stated: String =
            init[..tenc - 4 + size][tenc + size - 20..].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(stated, iv);
    }
}
