//! The beginning of a segment in order of importance, as a client keeps it that truncates segments
//! at their deadline: it is restored to a file that plays.

use crate::chunks::{CHUNK, fetch, ranged, settings};
use latemux_client::http::Streams;
use latemux_packager::{
    address::{Address, Resource},
    restore::restore,
    selection::{SampleOrder, Selection},
};
use latemux_testmedia::{
    memory_server::{MemoryServer, Reply},
    origin::{NAME, Origin},
    probe::probe,
    recipe,
};
use std::{fs, path::Path, process::Command, time::Duration};

/// The time that the server takes to answer each request.
const DELAY: Duration = Duration::from_millis(20);
const STREAMS: u32 = 3;

/// A segment of video with B-frames.
struct Segment {
    init: Vec<u8>,
    /// Its bytes in decode order, and in order of importance.
    plain: Vec<u8>,
    prioritised: Vec<u8>,
}

impl Segment {
    fn make() -> Self {
        let file = recipe::avc("client-restored", "320x180", "");
        let mut origin = Origin::open(&[file], Duration::from_secs(2));
        let name = origin.title.tracks()[0].name.clone();
        let mut get = |resource, order| {
            let selection = Selection { order, ..Selection::default() };
            let address = Address { selection, ..Address::new(NAME, resource) };
            origin.get_address(&address).unwrap().bytes
        };
        let segment = Resource::DashSegment(name.clone(), 2);
        Self {
            init: get(Resource::DashInit(name), SampleOrder::Decode),
            plain: get(segment.clone(), SampleOrder::Decode),
            prioritised: get(segment, SampleOrder::Priority),
        }
    }
}

/// Decodes a file. Returns what ffmpeg reports as errors.
fn decoding_errors(file: &Path) -> String {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-v", "error", "-nostdin", "-i"]).arg(file);
    command.args(["-fps_mode", "passthrough", "-f", "null", "-"]);
    String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned()
}

#[tokio::test(start_paused = true)]
async fn the_bytes_that_a_client_kept_of_a_segment_play() {
    let Segment { init, plain, prioritised } = Segment::make();
    assert!(prioritised != plain, "the frames have another order");
    let body = prioritised.clone();
    let server = MemoryServer::new(move |request| Reply { delay: DELAY, ..ranged(&body, request) });
    // Half of the chunks arrive in this time, and none at its end.
    let chunks = u32::try_from(prioritised.len() as u64 / CHUNK).unwrap();
    let end = DELAY * (chunks / STREAMS / 2) + DELAY / 2;
    let mut streams = Streams::new(settings(STREAMS as usize));
    let (fetched, kept, _) = fetch(&server, &mut streams, Some(end)).await;
    let fetched = fetched.unwrap();
    assert!(fetched.is_truncated() && prioritised.starts_with(&kept), "{fetched:?}");

    let restored = restore(&init.clone().into(), &kept.into()).unwrap();
    assert!(restored.kept > 5 && restored.lost > 5, "{} kept, {} lost", restored.kept, restored.lost);
    let at = |name: &str| recipe::folder().join(format!("{name}-{}.mp4", std::process::id()));
    let (whole, cut) = (at("client-whole"), at("client-cut"));
    fs::write(&whole, [init, plain].concat()).unwrap();
    fs::write(&cut, &restored.file).unwrap();
    assert_eq!(decoding_errors(&cut), "");
    let probed = probe(&cut, &[]);
    assert_eq!((probed.warnings.as_str(), probed.streams[0].packets.len() as u64), ("", restored.kept));
    let all = probe(&whole, &[]);
    for packet in &probed.streams[0].packets {
        let same = all.streams[0].packets.iter().find(|other| other.pts == packet.pts);
        assert_eq!(same.map(|other| &other.hash), Some(&packet.hash), "{packet:?}");
    }
    fs::remove_file(whole).unwrap();
    fs::remove_file(cut).unwrap();
}
