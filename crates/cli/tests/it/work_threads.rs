//! The priorities of the threads of `latemux serve`.
#![cfg(target_os = "linux")]

use crate::{client::get, server::Server};
use latemux_testmedia::hostile::{HostileFile, HostileTrack, MAX_SIZE};
use std::{collections::BTreeMap, fs};

/// Returns the lowest and the highest `nice` value of the threads of each name.
fn nice_values(process: u32) -> BTreeMap<String, (i32, i32)> {
    let mut values = BTreeMap::new();
    for thread in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        // A thread may end meanwhile.
        let Ok(stat) = fs::read_to_string(thread.unwrap().path().join("stat")) else { continue };
        let (start, rest) = stat.rsplit_once(") ").unwrap();
        let name = start.split_once('(').unwrap().1.to_owned();
        let nice: i32 = rest.split(' ').nth(16).unwrap().parse().unwrap();
        let (low, high) = values.entry(name).or_insert((nice, nice));
        (*low, *high) = (nice.min(*low), nice.max(*high));
    }
    values
}

#[test]
fn titles_were_made_at_the_priority_of_responses() {
    let track = HostileTrack {
        repeat: 1,
        timescale: 90_000,
        samples: 40_000,
        size_bits: 8,
        durations: vec![(1, 3_600)],
        sync_every: 50,
        chunk: 40_000,
        most_runs: 1,
        ..HostileTrack::default()
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("long.mp4"),
        HostileFile { tracks: vec![track], size: MAX_SIZE, ..HostileFile::default() }.write(),
    )
    .unwrap();
    let server = Server::start(folder.path().to_str().unwrap(), &[], &[]);
    let before = nice_values(server.id());
    let (own, _) = before["latemux"];
    let mut values = before;
    // A thread ends if it has no work for ten seconds, which may pass on a busy machine before the
    // values are read. Then another manifest is made.
    for clip in 1..20 {
        let manifest = get(server.address, &format!("/long.mp4/.mpd?vbegin={clip}"));
        assert_eq!(manifest.status, 200, "{}", manifest.text());
        values = nice_values(server.id());
        if values.contains_key("latemux-titles") {
            break;
        }
    }
    let lower = (own + 10).min(19);
    assert_eq!(values.remove("latemux-titles"), Some((lower, lower)));
    // The file was read by another blocking thread, and segments are read in the same way.
    assert!(values.contains_key("tokio-rt-worker"));
    assert!(values.values().all(|range| *range == (own, own)), "{values:?}");
}
