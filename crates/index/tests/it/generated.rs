//! Files that ffmpeg makes: every way of storing one title.

use crate::{
    locating::{locate, locate_listed},
    packets::compare,
};
use bytes::Bytes;
use latemux_index::{
    locate::limits::Limits,
    media::IndexSource::{self, RandomAccess, SampleTables, Scan, SegmentIndex},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns a folder of this test's own.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("index").join(test);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) fn ffmpeg(args: &[&str]) {
    let status =
        Command::new("ffmpeg").args(["-v", "error", "-nostdin", "-y"]).args(args).status().expect("ffmpeg");
    assert!(status.success(), "ffmpeg {args:?}");
}

/// Encodes 20 s of test video and tones with the given codecs, to be stored in various ways.
pub(crate) fn encode(folder: &Path, name: &str, codecs: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let video = ["-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25:duration=20"];
    let audio = ["-f", "lavfi", "-i", "sine=frequency=330:beep_factor=3:duration=20:sample_rate=48000"];
    let mut args = [video, audio].concat();
    args.extend(codecs);
    args.push(path.to_str().unwrap());
    ffmpeg(&args);
    path
}

pub(crate) const AVC_AAC: [&str; 12] =
    ["-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "50", "-c:a", "aac", "-b:a", "96k"];

/// Stores streams in another way.
pub(crate) fn store(source: &Path, name: &str, args: &[&str]) -> PathBuf {
    let path = source.with_file_name(name);
    let mut all = vec!["-i", source.to_str().unwrap(), "-c", "copy"];
    all.extend(args);
    all.push(path.to_str().unwrap());
    ffmpeg(&all);
    path
}

/// Checks a file against ffprobe, the source of its index, and the number of round trips.
pub(crate) fn check(path: &Path, source: IndexSource, round_trips: u32) -> Bytes {
    let object = Bytes::from(std::fs::read(path).unwrap());
    let located = locate(&object, Limits::default()).unwrap();
    println!("{}: {:?} {}", path.display(), located.index.source, located.round_trips);
    let differences = compare(path, &object, &located);
    assert!(differences.is_empty(), "{}: {differences:#?}", path.display());
    assert_eq!(located.index.left_out, [], "{}", path.display());
    assert_eq!(located.index.source, source, "{}", path.display());
    assert_eq!(located.scanned, source == Scan, "{}", path.display());
    assert!(located.round_trips <= round_trips, "{}: {} round trips", path.display(), located.round_trips);
    // A small head makes the locator join reads. The index must be the same.
    for small in [16, 1000, 5000] {
        let again = locate(&object, Limits { head: small, tail: small, ..Limits::default() }).unwrap();
        assert_eq!(again.index.source, source, "{} with a head of {small}", path.display());
        assert_eq!(format!("{:?}", again.index.tracks), format!("{:?}", located.index.tracks));
    }
    // The index must also be the same if both ends are read at once.
    for limits in [Limits::default(), Limits { head: 5000, tail: 5000, ..Limits::default() }] {
        let listed = locate_listed(&object, limits).unwrap();
        assert_eq!(format!("{:?}", listed.index.tracks), format!("{:?}", located.index.tracks));
        let plain = locate(&object, limits).unwrap();
        assert_eq!(listed.index.fingerprint, plain.index.fingerprint);
        assert!(listed.round_trips <= plain.round_trips, "{}", path.display());
    }
    object
}

#[test]
fn progressive_files_are_indexed_by_their_tables() {
    let avc = encode(&folder("progressive"), "avc.mp4", &AVC_AAC);
    check(&avc, SampleTables, 2);
    check(&store(&avc, "fast.mp4", &["-movflags", "+faststart"]), SampleTables, 1);
    check(&store(&avc, "fast.mov", &["-movflags", "+faststart"]), SampleTables, 1);
    check(&store(&avc, "negative_cts.mp4", &["-movflags", "+negative_cts_offsets"]), SampleTables, 2);
    check(&store(&avc, "no_edts.mp4", &["-use_editlist", "0"]), SampleTables, 2);
    check(&store(&avc, "audio.m4a", &["-map", "0:a"]), SampleTables, 2);
}

#[test]
fn edited_files_play_what_ffprobe_shows() {
    let avc = encode(&folder("edited"), "avc.mp4", &AVC_AAC);
    // Starts and ends lie between sync samples: an edit list hides samples that must be decoded but
    // not shown.
    let path = avc.with_file_name("cut.mp4");
    let input = avc.to_str().unwrap();
    let output = path.to_str().unwrap();
    ffmpeg(&["-ss", "3.32", "-t", "7.72", "-i", input, "-c", "copy", output]);
    check(&path, SampleTables, 2);
    let path = avc.with_file_name("late.mp4");
    ffmpeg(&[
        "-itsoffset",
        "1.5",
        "-i",
        input,
        "-i",
        input,
        "-map",
        "0:v",
        "-map",
        "1:a",
        "-c",
        "copy",
        path.to_str().unwrap(),
    ]);
    check(&path, SampleTables, 2);
}

#[test]
fn fragmented_files_are_indexed_by_sidx() {
    let avc = encode(&folder("sidx"), "avc.mp4", &AVC_AAC);
    let video = ["-map", "0:v", "-movflags", "+dash+global_sidx+frag_keyframe+empty_moov"];
    check(&store(&avc, "video.mp4", &video), SegmentIndex, 2);
    let audio = ["-map", "0:a", "-frag_duration", "2000000", "-movflags", "+dash+global_sidx+empty_moov"];
    check(&store(&avc, "audio.mp4", &audio), SegmentIndex, 2);
    let both = ["-movflags", "+dash+global_sidx+frag_keyframe+empty_moov+default_base_moof"];
    check(&store(&avc, "both.mp4", &both), SegmentIndex, 2);
    let delayed = ["-map", "0:v", "-movflags", "+dash+global_sidx+frag_keyframe+delay_moov"];
    check(&store(&avc, "delayed.mp4", &delayed), SegmentIndex, 2);
}

#[test]
fn fragmented_files_are_indexed_by_mfra() {
    let avc = encode(&folder("mfra"), "avc.mp4", &AVC_AAC);
    check(&store(&avc, "both.mp4", &["-movflags", "+frag_keyframe+empty_moov"]), RandomAccess, 3);
    let separate = ["-movflags", "+frag_keyframe+empty_moov+separate_moof+omit_tfhd_offset"];
    check(&store(&avc, "separate.mp4", &separate), RandomAccess, 3);
    let implicit = ["-movflags", "+frag_keyframe+empty_moov+omit_tfhd_offset"];
    check(&store(&avc, "implicit.mp4", &implicit), RandomAccess, 3);
    let smooth = ["-map", "0:v", "-movflags", "+frag_keyframe"];
    check(&store(&avc, "smooth.ismv", &smooth), RandomAccess, 3);
    let spread = ["-map", "0:v", "-movflags", "+dash+frag_keyframe+empty_moov"];
    check(&store(&avc, "sidx_before_each.mp4", &spread), RandomAccess, 3);
}

#[test]
fn fragmented_files_without_an_index_are_scanned() {
    let avc = encode(&folder("scan"), "avc.mp4", &AVC_AAC);
    let neither = ["-movflags", "+frag_keyframe+empty_moov+skip_trailer"];
    check(&store(&avc, "neither.mp4", &neither), Scan, 100);
    let negative =
        ["-movflags", "+frag_keyframe+empty_moov+skip_trailer+negative_cts_offsets+default_base_moof"];
    check(&store(&avc, "negative.mp4", &negative), Scan, 100);
    // Without `tfdt`, and useless `tfxd` and `mfra`: they are below 0 and 0 for audio that starts
    // with priming.
    check(&store(&avc, "smooth.ismv", &["-movflags", "+frag_keyframe"]), Scan, 100);
    // The first fragment's samples are in `moov`.
    check(&store(&avc, "hybrid.mp4", &["-movflags", "+frag_keyframe"]), Scan, 100);
    let every = ["-movflags", "+frag_every_frame+empty_moov+skip_trailer"];
    check(&store(&avc, "every_frame.mp4", &every), Scan, 100);
}

/// Encodes two videos with key frames every `gop` frames, in fragments that a `sidx` lists. They
/// are scanned, because a fragment holds both.
fn mixed(folder: &Path, (size, rate, seconds): (&str, &str, &str), gop: &str) -> Bytes {
    let path = folder.join(format!("mixed-{gop}.mp4"));
    let source = format!("testsrc2=size={size}:rate={rate}:duration={seconds},noise=alls=30:allf=t");
    let coding = ["-map", "0:v", "-map", "0:v", "-c:v", "libx264", "-preset", "ultrafast", "-bf", "2"];
    let fragments = ["-movflags", "frag_keyframe+empty_moov+default_base_moof+global_sidx+skip_trailer"];
    let mut args = vec!["-f", "lavfi", "-i", &source];
    args.extend(coding);
    args.extend(["-g", gop, "-sc_threshold", "0", "-pix_fmt", "yuv420p"]);
    args.extend(fragments);
    args.push(path.to_str().unwrap());
    ffmpeg(&args);
    std::fs::read(path).unwrap().into()
}

#[test]
fn a_scan_reads_many_listed_fragments_at_once_and_little_of_each() {
    let folder = folder("scan_listed");
    let many = mixed(&folder, ("320x180", "25", "12"), "1");
    let located = locate(&many, Limits::default()).unwrap();
    println!("{} of {} bytes, {} round trips", located.bytes_read, many.len(), located.round_trips);
    assert!(located.scanned && many.len() > 300 * 20_000, "{}", many.len());
    // The first of both ends, and of 300 fragments 128 at a time.
    assert!(located.round_trips <= 6, "{}", located.round_trips);
    assert!(located.bytes_read < 300 * 8192 + 400_000, "{}", located.bytes_read);

    // A moof of 600 frames of each video has more than 8 KiB, which the first of them shows.
    let large = mixed(&folder, ("64x36", "600", "10"), "600");
    let located = locate(&large, Limits::default()).unwrap();
    println!("{} of {} bytes, {} round trips", located.bytes_read, large.len(), located.round_trips);
    assert!(located.scanned && located.round_trips <= 6, "{}", located.round_trips);
}

#[test]
fn other_codecs_are_indexed() {
    let hevc = [
        "-c:v",
        "libx265",
        "-preset",
        "ultrafast",
        "-x265-params",
        "log-level=error:open-gop=0:keyint=50",
        "-c:a",
        "libopus",
    ];
    let path = encode(&folder("codecs"), "hevc.mp4", &hevc);
    check(&path, SampleTables, 2);
    let fragmented = ["-movflags", "+frag_keyframe+empty_moov"];
    check(&store(&path, "hevc_fragmented.mp4", &fragmented), RandomAccess, 3);
    // An open GOP: frames are presented before the sync sample whose time `mfra` states.
    let hevc =
        hevc.map(|arg| if arg.starts_with("log") { "log-level=error:open-gop=1:keyint=50" } else { arg });
    let path = encode(&folder("codecs"), "open.mp4", &hevc);
    check(&path, SampleTables, 2);
    check(&store(&path, "open_fragmented.mp4", &fragmented), Scan, 100);
    let other = ["-t", "4", "-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-c:a", "ac3"];
    check(&encode(&folder("codecs"), "vp9.mp4", &other), SampleTables, 2);
    let mp3 = ["-map", "1:a", "-c:a", "libmp3lame"];
    check(&encode(&folder("codecs"), "mp3.mp4", &mp3), SampleTables, 2);
    let flac = ["-map", "1:a", "-c:a", "flac", "-strict", "-2"];
    check(&encode(&folder("codecs"), "flac.mp4", &flac), SampleTables, 2);
}
