//! The titles that `latemux lab run` makes.

use latemux_lab::{
    content::{Programs, make},
    experiment::{Layout, Title},
};
use latemux_testmedia::process::tool;
use std::{
    collections::BTreeMap, fs, path::Path, process::Command, sync::atomic::AtomicBool, time::SystemTime,
};

/// Returns the encodings in the folder of a title, with the time of each one.
fn encodings(titles: &Path) -> BTreeMap<String, SystemTime> {
    let files = fs::read_dir(titles).unwrap().map(Result::unwrap).filter(|file| file.path().is_file());
    files
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().modified().unwrap()))
        .collect()
}

/// Returns the number of video packets that ffprobe reads.
fn packets(file: &Path) -> usize {
    let mut probe = Command::new("ffprobe");
    probe.args(["-v", "error", "-select_streams", "v", "-show_entries", "packet=size", "-of", "csv"]);
    String::from_utf8(probe.arg(file).output().unwrap().stdout).unwrap().lines().count()
}

#[test]
fn each_layout_and_length_was_encoded_again() {
    if tool("ffmpeg").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let latemux = Path::new(env!("CARGO_BIN_EXE_latemux"));
    let title = |seconds, gop| Title {
        description: "x".to_owned(),
        seconds,
        size: [64, 36],
        frames: 24,
        gop,
        video: ["20kbit/s", "40kbit/s"].map(str::to_owned).to_vec(),
        audio: "32kbit/s".to_owned(),
    };
    let stop = AtomicBool::new(false);
    let programs = Programs { latemux, stop: &stop };
    let made = |layout, seconds, gop| {
        let place = make(folder.path(), "t", layout, &title(seconds, gop), programs).unwrap();
        packets(&place.join("video-1.mp4"))
    };
    let first = made(Layout::Mp4, 24, 48);
    let once = encodings(&folder.path().join("t"));
    assert_eq!(once.len(), 2, "one for each rate");
    let longer = made(Layout::Mp4, 48, 48);
    // Two frames more than the length are copied.
    assert_eq!((first / 24, longer / 24), (24, 48));
    assert_eq!(made(Layout::Fmp4, 24, 48), first);
    assert_eq!(encodings(&folder.path().join("t")), once);
    made(Layout::Mp4, 24, 24);
    let other = encodings(&folder.path().join("t"));
    assert_eq!(other.len(), 4, "another interval of sync samples needs other encodings");
}

#[test]
fn a_stop_waited_until_a_title_was_encoded() {
    if tool("ffmpeg").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = Programs { latemux: Path::new("none"), stop: &AtomicBool::new(true) };
    let title = Title {
        description: "x".to_owned(),
        seconds: 24,
        size: [3840, 2160],
        frames: 60,
        gop: 120,
        video: vec!["20Mbit/s".to_owned()],
        audio: "32kbit/s".to_owned(),
    };
    let error = make(folder.path(), "t", Layout::Mp4, &title, programs).unwrap_err();
    assert_eq!(error.to_string(), "ffmpeg was stopped");
    assert_eq!(fs::read_dir(folder.path().join("t")).unwrap().count(), 0, "a part of the title is left");
}
