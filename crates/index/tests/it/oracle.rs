//! The streams and packets of a file as ffprobe shows them.

use serde_json::Value;
use std::{path::Path, process::Command};

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) dts: i64,
    pub(crate) pts: i64,
    pub(crate) sync: bool,
    /// True if it is decoded but not shown, since it is outside of the edit list.
    pub(crate) discard: bool,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// `track_ID`.
    pub(crate) id: u32,
    pub(crate) packets: Vec<Packet>,
}

/// Returns all streams of a file with their packets, or `None` if ffprobe cannot read it.
pub(crate) fn streams(path: &Path) -> Option<Vec<Stream>> {
    streams_with(path, &[])
}

/// Like [`streams`], with options.
pub(crate) fn streams_with(path: &Path, options: &[&str]) -> Option<Vec<Stream>> {
    let output = Command::new("ffprobe")
        .args(options)
        .args(["-v", "error", "-of", "json", "-show_entries"])
        .arg("stream=index,id:packet=stream_index,pts,dts,size,pos,flags")
        .arg(path)
        .output()
        .expect("ffprobe is installed");
    if !output.status.success() {
        return None;
    }
    let json: Value = serde_json::from_slice(&output.stdout).ok()?;
    let mut streams: Vec<Stream> = json["streams"]
        .as_array()?
        .iter()
        .map(|stream| {
            let id = stream["id"].as_str().and_then(|id| id.strip_prefix("0x"));
            Stream {
                id: id.and_then(|id| u32::from_str_radix(id, 16).ok()).unwrap_or(0),
                packets: Vec::new(),
            }
        })
        .collect();
    for packet in json["packets"].as_array()? {
        let text = |name: &str| packet[name].as_str().and_then(|n| n.parse::<u64>().ok());
        let number = |name: &str| packet[name].as_i64().unwrap_or(i64::MIN);
        let flags = packet["flags"].as_str().unwrap_or("");
        let stream = usize::try_from(number("stream_index")).ok()?;
        streams.get_mut(stream)?.packets.push(Packet {
            offset: text("pos").unwrap_or(u64::MAX),
            size: u32::try_from(text("size").unwrap_or(0)).ok()?,
            dts: number("dts"),
            pts: number("pts"),
            sync: flags.starts_with('K'),
            discard: flags.contains('D'),
        });
    }
    Some(streams)
}
