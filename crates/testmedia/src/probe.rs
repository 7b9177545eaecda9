//! The contents of a file according to ffprobe, which tests of bit-exactness compare with.

use serde::Deserialize;
use std::{
    path::Path,
    process::{Command, Stdio},
};

/// One packet of one stream, as ffprobe's demuxer returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Decode time in stream ticks.
    pub dts: i64,
    /// Presentation time in stream ticks.
    pub pts: i64,
    /// Duration in stream ticks; 0 if the demuxer does not know it.
    pub duration: i64,
    /// Size in bytes.
    pub size: u64,
    /// True for a key frame.
    pub key: bool,
    /// MD5 of the data, in hexadecimal.
    pub hash: String,
    /// Offset in the file, if the demuxer states it.
    pub pos: Option<u64>,
}

/// One stream with its packets in file order.
#[derive(Debug, Clone)]
pub struct Stream {
    /// `video`, `audio`, `subtitle`, …
    pub kind: String,
    /// ffmpeg's codec name.
    pub codec: String,
    /// Ticks per second.
    pub timescale: u32,
    /// Packets in file order.
    pub packets: Vec<Packet>,
}

/// A probed file.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Streams in order.
    pub streams: Vec<Stream>,
    /// Log output of ffprobe at level warning: empty for a well-formed file.
    pub warnings: String,
}

impl Probe {
    /// Returns the first stream of a kind.
    pub fn first(&self, kind: &str) -> &Stream {
        self.streams.iter().find(|s| s.kind == kind).unwrap_or_else(|| panic!("no {kind} stream"))
    }
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    packets: Vec<RawPacket>,
    #[serde(default)]
    streams: Vec<RawStream>,
}

#[derive(Deserialize)]
struct RawPacket {
    stream_index: usize,
    pts: Option<i64>,
    dts: Option<i64>,
    duration: Option<i64>,
    size: String,
    pos: Option<String>,
    flags: String,
    data_hash: String,
}

#[derive(Deserialize)]
struct RawStream {
    index: usize,
    codec_type: Option<String>,
    codec_name: Option<String>,
    time_base: String,
}

/// Probes a file (or URL) with ffprobe, with extra options before the input.
pub fn probe(input: &Path, options: &[&str]) -> Probe {
    let out = Command::new("ffprobe")
        .args(["-hide_banner", "-v", "warning", "-of", "json", "-show_streams", "-show_packets"])
        .args(["-show_data_hash", "md5"])
        .args(options)
        .arg(input)
        .stdin(Stdio::null())
        .output()
        .expect("ffprobe is installed (make tools)");
    let warnings = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "ffprobe {}: {warnings}", input.display());
    let raw: Output = serde_json::from_slice(&out.stdout).expect("ffprobe prints JSON");
    let mut streams: Vec<Stream> = raw
        .streams
        .iter()
        .enumerate()
        .map(|(i, s)| {
            assert_eq!(s.index, i, "streams are numbered in order");
            Stream {
                kind: s.codec_type.clone().unwrap_or_default(),
                codec: s.codec_name.clone().unwrap_or_default(),
                timescale: s.time_base.trim_start_matches("1/").parse().expect("1/timescale"),
                packets: Vec::new(),
            }
        })
        .collect();
    for p in raw.packets {
        let dts = p.dts.or(p.pts).unwrap_or(i64::MIN);
        streams[p.stream_index].packets.push(Packet {
            dts,
            pts: p.pts.unwrap_or(dts),
            duration: p.duration.unwrap_or(0),
            size: p.size.parse().expect("a size"),
            key: p.flags.starts_with('K'),
            hash: p.data_hash,
            pos: p.pos.and_then(|p| p.parse().ok()),
        });
    }
    Probe { streams, warnings }
}

/// Returns the bytes of each packet of one stream, in order, as ffmpeg's demuxer returns them. Only
/// for files without edit lists, such as TS.
pub fn data(input: &Path, stream: usize, packets: &[Packet]) -> Vec<Vec<u8>> {
    let out = Command::new("ffmpeg")
        .args(["-hide_banner", "-v", "error", "-nostdin", "-copyts", "-i"])
        .arg(input)
        .args(["-map", &format!("0:{stream}"), "-c", "copy", "-copyinkf", "-f", "data", "-"])
        .stdin(Stdio::null())
        .output()
        .expect("ffmpeg is installed (make tools)");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut rest = out.stdout.as_slice();
    let cut = packets
        .iter()
        .map(|p| {
            let (head, tail) = rest.split_at(usize::try_from(p.size).expect("fits memory"));
            rest = tail;
            head.to_vec()
        })
        .collect();
    assert!(rest.is_empty(), "ffmpeg returns {} bytes more than ffprobe's packets have", rest.len());
    cut
}
