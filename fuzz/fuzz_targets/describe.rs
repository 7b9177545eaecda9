//! Describes arbitrary sample entries. No input may panic, codec strings must be valid in
//! manifests, and parameter sets must lie in the entry. The first byte selects the handler of the
//! track.
#![no_main]

use bytes::Bytes;
use latemux_isobmff::{
    FourCc,
    boxes::stsd::SampleEntry,
    codec::{Config, Media, configuration_record, describe},
};
use libfuzzer_sys::fuzz_target;

const HANDLERS: [&[u8; 4]; 4] = [b"vide", b"soun", b"text", b"subt"];

fuzz_target!(|data: &[u8]| {
    let Some((&handler, rest)) = data.split_first() else { return };
    let Some(&[a, b, c, d]) = rest.first_chunk() else { return };
    // The size of the box is right, since the caller cuts it out of a file by that size.
    let mut raw = u32::try_from(rest.len() + 4).expect("short").to_be_bytes().to_vec();
    raw.extend(rest);
    let raw = Bytes::from(raw);
    let entry = SampleEntry { format: FourCc([a, b, c, d]), data_reference_index: 1, raw: raw.clone() };
    for kind in [b"avcC", b"hvcC", b"esds", b"dec3", b"btrt"] {
        assert!(configuration_record(&entry, kind).is_none_or(|record| record.len() < raw.len()));
    }
    let handler = HANDLERS[usize::from(handler) % HANDLERS.len()];
    let Ok(codec) = describe(&entry, FourCc(*handler)) else { return };
    assert_manifest_safe(&codec.rfc6381);
    let inside = |views: &[Bytes]| {
        assert!(views.len() <= raw.len());
        let whole = raw.as_ptr_range();
        for view in views.iter().filter(|view| !view.is_empty()) {
            let view = view.as_ptr_range();
            assert!(whole.start <= view.start && view.end <= whole.end);
        }
    };
    match &codec.config {
        Config::Avc(avc) => [&avc.sps, &avc.pps, &avc.sps_ext].into_iter().for_each(|sets| inside(sets)),
        Config::Hevc(hevc) => inside(&hevc.nal_units),
        Config::Aac(aac) => inside(std::slice::from_ref(&aac.asc)),
        _ => {}
    }
    if let Media::Video(video) = &codec.media {
        assert!(video.pixel_aspect.0 > 0 && video.pixel_aspect.1 > 0);
        video.supplemental.iter().for_each(|name| assert_manifest_safe(name));
    }
});

/// Asserts that a name cannot end a quoted attribute or a line.
fn assert_manifest_safe(name: &str) {
    assert!(!name.is_empty() && name.len() < 1024, "{name:?}");
    assert!(name.bytes().all(|b| b.is_ascii_graphic() && !b"\"<>&'".contains(&b)), "{name:?}");
}
