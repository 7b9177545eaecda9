//! `latemux inspect`: shows the tracks of a file or title, their bit rates in manifests, and the
//! problems found.

use crate::{
    captions, location::error_at, serve_flags::segment_duration, standard_output::say,
    storage_flags::StorageFlags,
};
use anyhow::{Result, ensure};
use clap::Args;
use latemux_index::{
    Title,
    media::{IndexSource, MediaIndex, Role, Samples, TrackKind},
    title::{TitleThumbnails, TitleTrack},
};
use latemux_isobmff::{Time, codec::Media};
use latemux_origin::{LoadedTitle, Origin, OriginConfig};
use latemux_packager::{
    carry::{Protocol, carries},
    sizes::Bitrate,
};
use latemux_quantity::TimeSpan;
use serde_json::{Value, json};
use std::fmt::Write;

const PROTOCOLS: [(&str, Protocol); 5] = [
    ("dash", Protocol::Dash),
    ("hls_cmaf", Protocol::HlsCmaf),
    ("hls_ts", Protocol::HlsTs),
    ("smooth", Protocol::Smooth),
    ("hds", Protocol::Hds),
];

/// Show the tracks, segments and problems of a file or folder
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Path or URL: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) target: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Find closed captions: reads up to 8 segments of each video, and at most 16 MiB of each
    /// segment
    #[arg(long)]
    pub(crate) captions: bool,
    /// Target duration of segments
    #[arg(long, value_name = "DURATION", default_value_t = segment_duration())]
    pub(crate) segment_duration: TimeSpan,
    #[command(flatten)]
    pub(crate) storage: StorageFlags,
}

/// Prints the report.
pub(crate) fn run(flags: &Inspect) -> Result<()> {
    let duration = flags.segment_duration;
    ensure!(
        OriginConfig::SEGMENT_DURATIONS.contains(&duration.0),
        "--segment-duration must be between 100ms and 10m, not {duration}"
    );
    let config =
        OriginConfig { segment_duration: duration.0, any_extension: true, ..OriginConfig::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (title, captions) = runtime.block_on(async {
        let (storage, key) = latemux_storage::open::open_object(&flags.target, &flags.storage.options())?;
        let origin = Origin::new(storage, config);
        let title = origin.title(key.as_str()).await;
        let title = title.map_err(|error| error_at(&flags.target, &key, &error))?;
        let captions = if flags.captions { Some(captions::find(&origin, &title).await?) } else { None };
        anyhow::Ok((title, captions))
    })?;
    let mut report = report(&title);
    let mut found = String::new();
    if let Some(captions) = captions {
        found = captions::text(&captions);
        report["captions"] = captions;
    }
    say(&if flags.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        text(&report) + &found
    })
}

/// Makes the report as JSON. The text form is made from the JSON, so both agree.
fn report(loaded: &LoadedTitle) -> Value {
    let title = &loaded.title;
    let objects: Vec<Value> = loaded.objects.iter().map(|o| object(o.key().as_str(), &o.index)).collect();
    let tracks: Vec<Value> = title.tracks().iter().enumerate().map(|(i, t)| track(loaded, i, t)).collect();
    let problems: Vec<Value> = title
        .problems()
        .iter()
        .map(|p| {
            let object = p.object.and_then(|o| loaded.objects.get(o)).map(|o| o.key().to_string());
            json!({"reason": p.reason, "detail": p.detail, "object": object})
        })
        .collect();
    let thumbnails: Vec<Value> = title.thumbnails().iter().map(|of| thumbnails(loaded, of)).collect();
    json!({
        "objects": objects,
        "tracks": tracks,
        "thumbnails": thumbnails,
        "grid": grid(title),
        "problems": problems,
    })
}

fn object(key: &str, index: &MediaIndex) -> Value {
    let source = match index.source {
        IndexSource::SampleTables => "sample tables",
        IndexSource::SegmentIndex => "sidx",
        IndexSource::RandomAccess => "mfra",
        IndexSource::Scan => "scan of all fragments",
    };
    let left_out: Vec<Value> =
        index.left_out.iter().map(|p| json!({"reason": p.reason(), "detail": p.to_string()})).collect();
    json!({
        "name": key,
        "bytes": index.object_size,
        "index": source,
        "index_bytes": index.source_bytes,
        "index_bytes_in_memory": index.heap_bytes(),
        "left_out": left_out,
    })
}

fn grid(title: &Title) -> Value {
    let starts = &title.grid().starts;
    let ends = starts.iter().skip(1).chain([&title.grid().end]);
    let lengths: Vec<f64> = starts.iter().zip(ends).map(|(s, e)| e.seconds() - s.seconds()).collect();
    json!({
        "target_seconds": title.target().as_secs_f64(),
        "segments": lengths.len(),
        "shortest_seconds": lengths.iter().copied().reduce(f64::min),
        "longest_seconds": lengths.iter().copied().reduce(f64::max),
        "start_seconds": starts.first().map(|t| t.seconds()),
        "end_seconds": title.grid().end.seconds(),
    })
}

fn track(loaded: &LoadedTitle, number: usize, named: &TitleTrack) -> Value {
    let title = &loaded.title;
    let track = title.track(named);
    let mut value = json!({
        "name": named.name.to_string(),
        "object": loaded.objects.get(named.object).map(|o| o.key().to_string()),
        "id": track.id,
        "kind": kind(track.kind),
        "codecs": track.codec.rfc6381,
        "language": track.language.as_str(),
        "label": track.label.as_deref(),
        "role": role(track.purpose.role),
        "forced": track.purpose.forced,
        "enabled": track.enabled,
        "timescale": track.timescale.get(),
        "start_seconds": Time::new(track.start, track.timescale).seconds(),
        "end_seconds": Time::new(track.end, track.timescale).seconds(),
        "edit_media_time": track.presentation.media_time,
        "edit_shift": track.presentation.shift,
        "average_bitrate": track.average_bitrate,
        "segments": named.segment_count(),
    });
    let more = match &track.codec.media {
        Media::Video(v) => json!({
            "width": v.width, "height": v.height, "pixel_aspect": [v.pixel_aspect.0, v.pixel_aspect.1],
            "video_range": format!("{:?}", v.range).to_uppercase(), "supplemental_codecs": v.supplemental,
            "rotation": track.matrix.quarter_turns(),
        }),
        Media::Audio(a) => json!({"channels": a.channels, "sample_rate": a.sample_rate, "joc": a.joc}),
        Media::Text => json!({}),
    };
    let count = match &track.samples {
        Samples::Table(table) => json!({"samples": table.len()}),
        Samples::Fragments(table) => json!({"fragments": table.len()}),
    };
    let carried: Value = PROTOCOLS
        .iter()
        .map(|(name, protocol)| {
            let value = match carries(*protocol, track) {
                Ok(()) => {
                    let Bitrate { peak, average } = Bitrate::of_tracks(title, &[number], *protocol);
                    json!({"bandwidth": peak, "average_bandwidth": average})
                }
                Err(why) => json!({"left_out": why}),
            };
            ((*name).to_owned(), value)
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    for part in [more, count, json!({"protocols": carried})] {
        if let (Some(value), Value::Object(part)) = (value.as_object_mut(), part) {
            value.extend(part);
        }
    }
    value
}

fn thumbnails(loaded: &LoadedTitle, of: &TitleThumbnails) -> Value {
    let track = loaded.title.thumbnail_track(of);
    let (width, height) = track.size();
    json!({
        "name": of.name.to_string(),
        "object": loaded.objects.get(of.object).map(|o| o.key().to_string()),
        "id": track.track.id,
        "tiles": of.tiles.to_string(),
        "sheets": track.sheet_count(),
        "width": width,
        "height": height,
    })
}

fn role(role: Role) -> Option<&'static str> {
    match role {
        Role::Plain => None,
        Role::Captions => Some("caption"),
        Role::Description => Some("description"),
        Role::Commentary => Some("commentary"),
        Role::Dub => Some("dub"),
    }
}

fn kind(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "video",
        TrackKind::Audio => "audio",
        TrackKind::Text => "text",
    }
}

/// Returns the report as text.
fn text(report: &Value) -> String {
    let mut out = String::new();
    let list = |key: &str| report[key].as_array().map_or(&[][..], Vec::as_slice);
    for o in list("objects") {
        line(
            &mut out,
            format_args!(
                "{}  {} bytes, indexed by {} ({} bytes, {} in memory)",
                plain(&o["name"]),
                o["bytes"],
                plain(&o["index"]),
                o["index_bytes"],
                o["index_bytes_in_memory"]
            ),
        );
        for p in o["left_out"].as_array().into_iter().flatten() {
            line(&mut out, format_args!("  left out: {} ({})", plain(&p["detail"]), plain(&p["reason"])));
        }
    }
    let g = &report["grid"];
    line(
        &mut out,
        format_args!(
            "\ngrid: {} segments of {:.3} to {:.3} s (target {} s), {:.3} s in total",
            g["segments"],
            float(&g["shortest_seconds"]),
            float(&g["longest_seconds"]),
            g["target_seconds"],
            float(&g["end_seconds"]) - float(&g["start_seconds"])
        ),
    );
    for t in list("tracks") {
        track_lines(&mut out, t);
    }
    for t in list("thumbnails") {
        line(
            &mut out,
            format_args!(
                "\n{}  (track {} of {})\n  {} sheets of {}x{}, {} tiles each",
                plain(&t["name"]),
                t["id"],
                plain(&t["object"]),
                t["sheets"],
                t["width"],
                t["height"],
                plain(&t["tiles"]),
            ),
        );
    }
    let problems = list("problems");
    if !problems.is_empty() {
        line(&mut out, format_args!("\nproblems:"));
    }
    for p in problems {
        line(&mut out, format_args!("  {}: {}", plain(&p["reason"]), plain(&p["detail"])));
    }
    out
}

/// Appends the lines of a track.
fn track_lines(out: &mut String, t: &Value) {
    let shape = match plain(&t["kind"]) {
        "video" => format!("{}x{} {}", t["width"], t["height"], plain(&t["video_range"])),
        "audio" => format!("{} channels {} Hz", t["channels"], t["sample_rate"]),
        _ => String::new(),
    };
    let count =
        if t["samples"].is_null() { ("fragments", &t["fragments"]) } else { ("samples", &t["samples"]) };
    line(
        out,
        format_args!(
            "\n{}  (track {} of {})\n  {} {shape}, language {}, {} {}, {:.3} to {:.3} s",
            plain(&t["name"]),
            t["id"],
            plain(&t["object"]),
            plain(&t["codecs"]),
            plain(&t["language"]),
            count.1,
            count.0,
            float(&t["start_seconds"]),
            float(&t["end_seconds"])
        ),
    );
    let stated =
        [t["label"].as_str(), t["role"].as_str(), t["forced"].as_bool().filter(|&f| f).map(|_| "forced")];
    let stated: Vec<&str> = stated.into_iter().flatten().collect();
    if !stated.is_empty() {
        line(out, format_args!("  {}", stated.join(", ")));
    }
    for (name, value) in t["protocols"].as_object().into_iter().flatten() {
        match value["left_out"].as_str() {
            Some(why) => line(out, format_args!("  {name}: left out: {why}")),
            None => line(
                out,
                format_args!(
                    "  {name}: BANDWIDTH {} AVERAGE-BANDWIDTH {}",
                    value["bandwidth"], value["average_bandwidth"]
                ),
            ),
        }
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}
