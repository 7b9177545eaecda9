//! Media files from other writers.

use crate::{locating::locate, packets::compare};
use bytes::Bytes;
use latemux_index::locate::limits::Limits;
use std::path::PathBuf;

/// Returns all media files, none if the folder does not exist.
pub(crate) fn files() -> Vec<PathBuf> {
    let root = std::env::var_os("LATEMUX_MEDIA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/media")),
        PathBuf::from,
    );
    let folders = ["androidx", "mp4ff"].map(|folder| root.join(folder));
    let mut files: Vec<PathBuf> =
        folders.iter().flat_map(std::fs::read_dir).flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    if files.is_empty() {
        println!("skipped: no shared media at {}", root.display());
    }
    files
}

/// Files without an index, and the reasons.
const NO_INDEX: [(&str, &str); 1] = [("sample_fragmented_sideloaded_track.mp4", "malformed")];

#[test]
fn every_sample_equals_the_packet_ffprobe_shows() {
    let mut wrong = Vec::new();
    let mut served = 0;
    for path in files() {
        let object = Bytes::from(std::fs::read(&path).unwrap());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let located = match locate(&object, Limits::default()) {
            Ok(located) => located,
            Err(error) => {
                let expected =
                    NO_INDEX.iter().find(|(no_index, _)| *no_index == name).map(|(_, reason)| *reason);
                assert_eq!(expected, Some(error.reason()), "{name}: {error}");
                continue;
            }
        };
        let index = &located.index;
        let left_out: Vec<_> = index.left_out.iter().map(ToString::to_string).collect();
        println!(
            "{name}: {:?}, {} round trips, {} of {} bytes, left out {left_out:?}",
            index.source,
            located.round_trips,
            located.bytes_read,
            object.len()
        );
        for t in &index.tracks {
            let scale = t.timescale.get();
            println!(
                "  {} {} {}..{}/{scale} {} b/s",
                t.id, t.codec.rfc6381, t.start, t.end, t.average_bitrate
            );
        }
        if left_out.iter().any(|problem| problem.contains("encrypted")) {
            // ffprobe does not read packets that it cannot decrypt.
            continue;
        }
        served += index.tracks.len();
        wrong.extend(compare(&path, &object, &located).into_iter().map(|w| format!("{name}: {w}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{served} tracks compared");
}
