//! `latemux inspect --captions`: finds the closed captions in video, so that a server manifest can
//! declare them. The index cannot know them, since they are part of the media.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use latemux_index::media::TrackKind;
use latemux_isobmff::{
    codec::{
        Config,
        captions::{CaptionChannel, CaptionScan},
    },
    fragment::Moof,
};
use latemux_origin::{LoadedTitle, Origin};
use latemux_packager::Resource;
use serde_json::{Value, json};

/// Most segments that are read of each video, evenly over its length.
const MAX_SEGMENTS: u32 = 8;
/// Most bytes that are read of each segment.
const MAX_BYTES: usize = 16 << 20;
/// Most samples that are searched in each segment.
const MAX_SAMPLES: usize = 1500;

/// Returns what was found in each video of a title.
pub(crate) async fn find(origin: &Origin, title: &LoadedTitle) -> Result<Value> {
    let mut found = Vec::new();
    for named in title.title.tracks() {
        let track = title.title.track(named);
        let (nal_length_size, is_hevc) = match &track.codec.config {
            _ if track.kind != TrackKind::Video => continue,
            Config::Avc(avc) => (avc.nal_length_size, false),
            Config::Hevc(hevc) => (hevc.nal_length_size, true),
            _ => continue,
        };
        let mut scan = CaptionScan::default();
        let mut samples = 0;
        let count = named.segment_count();
        let step = count.div_ceil(MAX_SEGMENTS).max(1);
        for place in (0..count).step_by(step as usize) {
            // Numbers in URLs count from 1.
            let number = named.first.saturating_add(place).saturating_add(1);
            let segment = read(origin, title, Resource::DashSegment(named.name.clone(), number)).await;
            let segment = segment.with_context(|| format!("segment {number} of {}", named.name))?;
            for (_, sample) in samples_of(&segment)? {
                scan.add(&sample, nal_length_size, is_hevc);
                samples += 1;
            }
        }
        found.push(json!({
            "track": named.name.to_string(),
            "samples": samples,
            "messages": scan.messages,
            "channels": scan.channels.iter().map(CaptionChannel::to_string).collect::<Vec<_>>(),
        }));
    }
    Ok(found.into())
}

/// Reads the first bytes of a segment.
async fn read(origin: &Origin, title: &LoadedTitle, resource: Resource) -> Result<Bytes> {
    let plan = origin.plan(title, resource).await?;
    let mut body = origin.read(title, plan).await?;
    let mut bytes = Vec::new();
    while let Some(more) = body.next().await? {
        bytes.extend_from_slice(&more);
        if bytes.len() >= MAX_BYTES {
            break;
        }
    }
    Ok(bytes.into())
}

/// Returns the samples of a segment in the order of presentation, each with its time.
fn samples_of(segment: &Bytes) -> Result<Vec<(i64, Bytes)>> {
    let mut at = 0;
    let mut samples = Vec::new();
    while let Some(size) = segment.get(at..at + 4).and_then(|size| size.first_chunk::<4>()) {
        let end = at.saturating_add(u32::from_be_bytes(*size) as usize);
        if end <= at || end > segment.len() {
            break;
        }
        if segment.get(at + 4..at + 8) == Some(b"moof") {
            let moof = Moof::parse(&segment.slice(at..end), at as u64)?;
            for fragment in &moof.tracks {
                let default = fragment.default_size.unwrap_or(0);
                let mut time = 0;
                for (range, run) in fragment.placed_runs(at as u64..end as u64, default) {
                    let mut from = usize::try_from(range.start)?;
                    for sample in run.iter() {
                        let size = sample.size.unwrap_or(default) as usize;
                        let until = from.saturating_add(size);
                        if until > segment.len() || samples.len() >= MAX_SAMPLES {
                            break;
                        }
                        let shown = time + i64::from(sample.composition_offset);
                        samples.push((shown, segment.slice(from..until)));
                        from = until;
                        time += i64::from(sample.duration.or(fragment.default_duration).unwrap_or(1));
                    }
                }
            }
        }
        at = end;
    }
    samples.sort_by_key(|(time, _)| *time);
    Ok(samples)
}

/// Returns what was found as text: the channels, and the param that declares them.
pub(crate) fn text(found: &Value) -> String {
    let mut out = String::from("\nclosed captions:\n");
    let mut all: Vec<&str> = Vec::new();
    for video in found.as_array().into_iter().flatten() {
        let channels: Vec<&str> =
            video["channels"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let listed = match (channels.is_empty(), video["messages"].as_u64()) {
            (false, _) => channels.join(", "),
            (true, Some(1..)) => "none, though there is room for them".to_owned(),
            (true, _) => "none".to_owned(),
        };
        let track = video["track"].as_str().unwrap_or_default();
        out += &format!("  {track}: {listed} (in {} frames)\n", video["samples"]);
        all.extend(channels.into_iter().filter(|channel| !all.contains(channel)).collect::<Vec<_>>());
    }
    let declared: Vec<String> = all.iter().map(|channel| format!("{channel}=LANGUAGE")).collect();
    out += "  to declare them in a server manifest, with codes such as eng in place of LANGUAGE:\n";
    out += &format!("  <param name=\"captions\" value=\"{}\" />\n", declared.join(";"));
    out
}
