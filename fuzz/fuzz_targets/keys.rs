//! Reads arbitrary text as key documents: CPIX, and the JSON of nginx-vod-module. No input may
//! panic, the number of keys is limited, and an error never repeats the text.
#![no_main]

use latemux_protect::{DrmSystem, Scheme, cpix, document::MAX_KEYS, key_json, systems::playready_object};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else { return };
    for read in [cpix::read, key_json::read] {
        let keys = match read(text) {
            Ok(keys) => keys,
            Err(error) => {
                assert!(error.to_string().len() < 100);
                continue;
            }
        };
        assert!((1..=MAX_KEYS).contains(&keys.len()) && keys.len() <= data.len() / 32);
        for stated in &keys {
            assert_ne!(*stated.key.id().bytes(), [0; 16]);
            for system in [DrmSystem::Widevine, DrmSystem::PlayReady, DrmSystem::ClearKey] {
                let pssh = system.pssh(&stated.key, Scheme::Cbcs).expect("a box");
                let size = u32::from_be_bytes([pssh[0], pssh[1], pssh[2], pssh[3]]);
                assert!(size as usize == pssh.len() && pssh[4..8] == *b"pssh");
            }
            assert!(playready_object(&stated.key, Scheme::Cenc).len() <= data.len() + 1024);
            // One line, which a playlist can hold.
            let hls = stated.key.signalling().iter().filter_map(|stated| stated.hls.as_ref());
            hls.for_each(|tag| assert!(tag.starts_with("METHOD=") && !tag.contains(char::is_control)));
        }
    }
});
