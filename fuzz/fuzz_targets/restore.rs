//! Restores a file of arbitrary bytes. No input may panic, the output is bounded by the input, and
//! a restored file has nothing left to restore.
#![no_main]

use bytes::Bytes;
use latemux_packager::restore::{RestoreError, restore};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The first two bytes state the length of the init segment.
    let Some((&[high, low], rest)) = data.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
    let (init, segments) = rest.split_at(length);
    let init = Bytes::copy_from_slice(init);
    let segments = Bytes::copy_from_slice(segments);
    let Ok(restored) = restore(&init, &segments) else { return };
    assert!(restored.kept > 0);
    assert!(restored.file.len() <= init.len() + 32 * segments.len() + 256);
    match restore(&init, &restored.file) {
        Ok(again) => {
            assert_eq!((again.kept, again.lost), (restored.kept, 0));
            assert_eq!(restore(&init, &again.file).map(|third| third.file), Ok(again.file));
        }
        // Samples without bytes may be more than the bytes of the smaller file.
        Err(RestoreError::Overlapping) => {}
        Err(error) => panic!("{error}"),
    }
});
