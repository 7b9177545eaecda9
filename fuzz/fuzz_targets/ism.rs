//! Parses arbitrary server manifests. No input may panic, there are no more elements than the bytes
//! can hold, and names are valid in URLs.
#![no_main]

use latemux_isobmff::boxes::mdhd::Language;
use latemux_packager::{
    Address, Resource,
    manifest::server::{MAX_BYTES, parse},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(manifest) = parse(data) else { return };
    assert!(data.len() <= MAX_BYTES);
    assert!((1..=data.len() / 32 + 1).contains(&manifest.elements.len()));
    let unknown = Language::new("und").expect("a tag");
    for element in &manifest.elements {
        assert!(element.bitrate > 0 && element.track_id > 0 && !element.src.is_empty());
        assert!(element.line as usize <= data.len() && element.describe().len() < data.len() + 64);
        let resource = Resource::DashInit(element.track_name(&unknown));
        let url = Address::new("x".to_owned(), resource.clone()).to_url();
        assert_eq!(Address::parse(&url, None).expect("a written URL").resource, resource, "{url}");
    }
});
