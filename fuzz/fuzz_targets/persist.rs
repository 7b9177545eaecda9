//! Reads arbitrary bytes as a persisted index or fragment, with a valid header as well as with the
//! given one. No input may panic, no index may be much larger than its bytes, and a parsed one is
//! written back to the same bytes. The first byte selects the kind.
#![no_main]

use latemux_index::{
    MediaIndex, media::Samples, media::fragment_samples::FragmentSamples, persist::error::FORMAT,
};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::Xxh3;

fuzz_target!(|data: &[u8]| {
    let _ = MediaIndex::from_bytes(data);
    let Some((&kind, payload)) = data.split_first() else { return };
    let bytes = with_header(kind, payload);
    if let Ok(index) = MediaIndex::from_bytes(&bytes) {
        assert_eq!(index.to_bytes(), bytes);
        assert!(index.heap_bytes() <= 16 * bytes.len() + 4096, "{} bytes", index.heap_bytes());
        for track in &index.tracks {
            match &track.samples {
                Samples::Table(table) => {
                    let last = table.len().saturating_sub(500);
                    let some = table.range(0..500).chain(table.range(last..u32::MAX).take(500));
                    assert!(some.count() <= 1000);
                    let _ = (table.sync_from(last), table.sync_until(last), table.decoded_until(1 << 30));
                }
                Samples::Fragments(table) => {
                    let _ = (table.get(0), table.get(table.len().saturating_sub(1)), table.at(1 << 20));
                    let _ = (table.starting_from(1 << 20), table.sync_from(1), table.sync_before(2));
                }
            }
        }
    }
    if let Ok(samples) = FragmentSamples::from_bytes(&bytes) {
        assert_eq!(samples.to_bytes(), bytes);
        assert!(samples.heap_bytes() <= 2 * bytes.len());
    }
});

/// Puts a valid header before a payload.
fn with_header(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"lmx index".to_vec();
    bytes.extend(FORMAT.to_le_bytes());
    bytes.push(kind);
    bytes.extend((payload.len() as u64).to_le_bytes());
    let mut digest = Xxh3::new();
    digest.update(&bytes);
    digest.update(payload);
    bytes.extend(digest.digest().to_le_bytes());
    bytes.extend(payload);
    bytes
}
