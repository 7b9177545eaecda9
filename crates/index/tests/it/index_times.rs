//! Index boxes whose times have another origin than the samples: media begins with priming, before
//! 0, for which ffmpeg writes 0, while later fragments have their true times.

use crate::{
    generated::{AVC_AAC, check, encode, ffmpeg, folder, store},
    locating::{locate, samples_of},
};
use bytes::Bytes;
use latemux_index::{
    Sample,
    locate::limits::Limits,
    media::{
        IndexSource::{self, RandomAccess, Scan, SegmentIndex},
        Samples, TrackKind,
    },
};
use std::path::{Path, PathBuf};

/// Like [`check`], and checks that every track ends where its samples do.
fn ends(path: &Path, source: IndexSource, round_trips: u32) {
    ends_with_samples(path, &check(path, source, round_trips));
}

fn ends_with_samples(path: &Path, object: &Bytes) {
    let index = locate(object, Limits::default()).unwrap().index;
    for (number, track) in index.tracks.iter().enumerate() {
        let time = |s: &Sample| track.presentation.time(s.decode_time, s.composition_offset);
        let samples = samples_of(&index, object, number);
        let end = samples.iter().map(|s| time(s) + i64::from(s.duration)).max();
        assert_eq!(Some(track.end), end, "{} track {}", path.display(), track.id);
        if let (Samples::Fragments(table), TrackKind::Video) = (&track.samples, track.kind) {
            let late = samples.iter().map(|s| s.composition_offset).min().unwrap();
            let reorder = i64::from(samples[0].composition_offset) - i64::from(late);
            assert_eq!(i64::from(table.reorder()), reorder, "{}", path.display());
        }
    }
}

/// Makes fragments of about 2 s with ffmpeg.
fn fragments(source: &Path, streams: &str, flags: &str, index: &str) -> PathBuf {
    let flags = format!("{flags}+default_base_moof{index}");
    // Every packet of audio is a sync sample: a fragment for each would be too many.
    let (cut, flags) = match streams {
        "0:a" => (["-frag_duration", "2000000"], flags),
        _ => (["-min_frag_duration", "0"], format!("{flags}+frag_keyframe")),
    };
    let map = ["-map", streams];
    store(source, "times.mp4", &[&map[..], &cut, &["-movflags", &flags]].concat())
}

#[test]
fn media_that_begins_before_0_keeps_its_times() {
    let folder = folder("times_before_0");
    for (name, codec) in [("aac.mp4", "aac"), ("opus.mp4", "libopus")] {
        let codecs = AVC_AAC.map(|arg| if arg == "aac" { codec } else { arg });
        let source = encode(&folder, name, &codecs);
        for streams in ["0", "0:a", "0:v"] {
            for flags in
                ["+delay_moov", "+empty_moov+negative_cts_offsets", "+delay_moov+negative_cts_offsets"]
            {
                // One round trip for the head, one for some fragments, and one for `mfra` before
                // these.
                ends(&fragments(&source, streams, flags, "+global_sidx"), SegmentIndex, 2);
                ends(&fragments(&source, streams, flags, ""), RandomAccess, 3);
            }
        }
    }
}

/// A single fragment with an index of its own: only the end of its samples shows whether its time
/// counts from 0 or from a negative time.
#[test]
fn a_single_fragment_keeps_its_times() {
    let folder = folder("times_of_one");
    let source = encode(&folder, "aac.mp4", &["-map", "1:a", "-c:a", "libopus"]);
    let flags = "+delay_moov+default_base_moof+skip_trailer+global_sidx";
    let path = store(&source, "one.mp4", &["-frag_duration", "60000000", "-movflags", flags]);
    let object = Bytes::from(std::fs::read(&path).unwrap());
    let located = locate(&object, Limits::default()).unwrap();
    assert_eq!((located.index.source, located.round_trips), (Scan, 3));
    ends_with_samples(&path, &object);
}

/// ffmpeg marks every fragment as a random access point, even if it cuts by duration only.
#[test]
fn fragments_that_start_within_a_gop_are_not_cut_points() {
    let folder = folder("times_within_gop");
    let path = folder.join("within.mp4");
    let video = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=20", "-c:v", "libx264"];
    let cut = ["-preset", "ultrafast", "-bf", "0", "-g", "50", "-frag_duration", "1480000"];
    let flags = ["-movflags", "+empty_moov+global_sidx+default_base_moof", path.to_str().unwrap()];
    ffmpeg(&[&video[..], &cut, &flags].concat());
    ends(&path, Scan, 100);
}

#[test]
fn the_sample_library_needs_no_scan() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/library");
    let folders = [library.clone(), library.join("harbour")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).filter(|path| path.is_file()).collect();
    assert_eq!(files.len(), 8, "{files:?}");
    for path in files {
        let object = Bytes::from(std::fs::read(&path).unwrap());
        let located = locate(&object, Limits::default()).unwrap();
        assert!(!located.scanned && located.round_trips <= 2, "{}: {located:?}", path.display());
        if path.ends_with("ferry.mp4") {
            ends(&path, SegmentIndex, 2);
        }
    }
}
