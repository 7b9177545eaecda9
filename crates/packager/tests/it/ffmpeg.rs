//! ffmpeg makes test media, ffprobe says what is in media. Files made once are kept in the target folder.

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A folder for this test binary's files.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packager-media");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A file ffmpeg makes with these arguments (all but the output, split at blanks); `name` is its file name and stands for the
/// arguments: change one with the other. Tests run at the same time may both make it: the last rename wins, with equal content.
pub fn make(name: &str, arguments: &str) -> PathBuf {
    let file = folder().join(name);
    if !file.exists() {
        let unfinished = folder().join(format!("{}-{name}", std::process::id()));
        let output = Command::new("ffmpeg")
            .args(["-v", "error", "-nostdin", "-y"])
            .args(arguments.split_whitespace())
            .args(["-fflags", "+bitexact", "-flags", "+bitexact", "-threads", "1"])
            .arg(&unfinished)
            .output()
            .expect("ffmpeg is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::rename(&unfinished, &file).unwrap();
    }
    file
}

/// Writes bytes for a tool to read.
pub fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let file = folder().join(format!("out-{}-{name}", std::process::id()));
    fs::write(&file, bytes).unwrap();
    file
}

/// Shared media made by others, where it is at hand: `LATEMUX_MEDIA`, or the folder beside the repository.
pub fn shared(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/media");
    let folder = std::env::var_os("LATEMUX_MEDIA").map_or_else(beside, PathBuf::from);
    Some(folder.join(name)).filter(|file| file.exists())
}

/// What a packet is, as a demuxer sees it. Times in the stream's ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    pub pts: Option<i64>,
    pub dts: Option<i64>,
    pub duration: Option<i64>,
    pub size: u64,
    pub key: bool,
    pub hash: String,
}

/// One stream of a file.
#[derive(Debug, Clone)]
pub struct Stream {
    pub kind: String,
    pub codec: String,
    pub time_base: String,
    pub packets: Vec<Packet>,
}

/// Everything ffprobe sees in a file. Any word it says besides is a failure, but for those in `expected`.
pub fn probe(file: &Path, expected: &[&str]) -> Vec<Stream> {
    let output = Command::new("ffprobe")
        .args(["-v", "warning", "-of", "json", "-show_streams", "-show_packets", "-show_data_hash", "md5"])
        .arg(file)
        .output()
        .expect("ffprobe is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    let unexpected: Vec<_> =
        said.lines().filter(|line| !expected.iter().any(|word| line.contains(word))).collect();
    assert!(output.status.success() && unexpected.is_empty(), "{}: {unexpected:#?}", file.display());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let mut streams: Vec<Stream> = json["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| Stream {
            kind: text(&s["codec_type"]),
            codec: text(&s["codec_name"]),
            time_base: text(&s["time_base"]),
            packets: Vec::new(),
        })
        .collect();
    for p in json["packets"].as_array().unwrap() {
        let stream = usize::try_from(p["stream_index"].as_u64().unwrap()).unwrap();
        streams[stream].packets.push(Packet {
            pts: p["pts"].as_i64(),
            dts: p["dts"].as_i64(),
            duration: p["duration"].as_i64(),
            size: p["size"].as_str().unwrap().parse().unwrap(),
            key: p["flags"].as_str().unwrap().starts_with('K'),
            hash: text(&p["data_hash"]),
        });
    }
    streams
}

/// Two streams hold the same packets; says which differ first.
#[track_caller]
pub fn assert_same_packets(what: &str, got: &Stream, want: &Stream) {
    assert_eq!(got.time_base, want.time_base, "{what}: timescale");
    for (n, (got, want)) in got.packets.iter().zip(&want.packets).enumerate() {
        assert_eq!(got, want, "{what}: packet {n}");
    }
    assert_eq!(got.packets.len(), want.packets.len(), "{what}: number of packets");
}
