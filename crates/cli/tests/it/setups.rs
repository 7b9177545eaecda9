//! The configurations in `examples/setups`: each one starts, serves the same bytes, and caches what
//! it claims to cache.

use crate::{
    client::get,
    server::{Server, samples},
};
use std::{collections::BTreeMap, fs, path::Path};

/// For each set-up: the outcomes of two requests for one segment and of a third for the same time
/// in another protocol, and whether the second request reads from storage.
const EXPECTED: [(&str, [&str; 3], bool); 8] = [
    ("index", ["bypassed;off", "bypassed;off", "bypassed;off"], true),
    ("index-new-connections", ["bypassed;off", "bypassed;off", "bypassed;off"], true),
    ("ipp", ["bypassed;off", "bypassed;off", "bypassed;off"], true),
    ("ipp-new-connections", ["bypassed;off", "bypassed;off", "bypassed;off"], true),
    ("lt-double", ["filled", "hit_memory", "hit_memory"], false),
    ("lt-single", ["filled", "hit_memory", "hit_memory"], false),
    ("lt-single-block", ["filled", "hit_memory", "hit_memory"], false),
    ("lt-single-exact", ["filled", "hit_memory", "hit_memory"], false),
];

#[test]
fn every_published_setup_works_as_described() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/setups");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeMap<String, _> = files
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    assert_eq!(files.keys().collect::<Vec<_>>(), EXPECTED.iter().map(|(name, ..)| name).collect::<Vec<_>>());
    let mut bodies = Vec::new();
    for (name, outcomes, asks) in EXPECTED {
        let more = ["--config", files[name].to_str().unwrap(), "--debug-headers"];
        let server = Server::start(&samples(), &more, &[]);
        let title = "/lighthouse.mp4";
        let mpd = get(server.address, &format!("{title}/.mpd"));
        let id = mpd
            .text()
            .split(" id=\"")
            .map(|rest| rest.split('"').next().unwrap())
            .find(|id| id.starts_with("video="));
        let id = id.unwrap();
        let dash = format!("{title}/dash/x-{id}-0.dash");
        let hls = format!("{title}/hls/x-{id}-1.m4s");
        let responses = [&dash, &dash, &hls].map(|url| get(server.address, url));
        for (response, outcome) in responses.iter().zip(outcomes) {
            assert_eq!(response.status, 200, "{name}");
            // A head may be sent before the outcome is known, and while the bytes of an earlier
            // request still arrive.
            let reported = response.headers["latemux-cache"].as_str();
            let early = outcome == "filled" || (outcome == "hit_memory" && reported == "joined");
            assert!(reported == outcome || early, "{name}: {reported}");
        }
        assert_eq!(responses[1].headers["latemux-storage-requests"] != "0", asks, "{name}");
        bodies.push(responses.map(|response| response.body));
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "set-ups send different bytes");
}
