//! Smooth Streaming: the client manifest ([MS-SSTR] 2.2.2).
//!
//! A player switches within a stream: renditions of one kind, one name in URLs and one coding,
//! whose fragments begin at the same times. All times are in 100 ns, on the fragments' [`Clock`].

mod codec;

use super::{carries_none, check_size, is_listed, timeline::Timeline, video_of, xml::Xml};
use crate::{
    PackError,
    address::Links,
    carry::Protocol,
    protection::Protection,
    segment::{Clock, smooth},
    selection::{Extent, Selected},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use codec::CodecAttributes;
use latemux_index::{
    Track,
    media::{Role, TrackKind},
    title::TitleTrack,
};
use latemux_isobmff::codec::Media;
use latemux_protect::{DrmSystem, systems::playready_object};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the client manifest of the selected part of a title. O(segments). Fails with
/// [`PackError::CannotCarry`] if Smooth Streaming carries no track of the title.
pub(crate) fn client_manifest(
    selected: &Selected<'_>,
    links: &Links<'_>,
    protection: Option<&Protection>,
) -> Result<String, PackError> {
    let title = selected.title();
    let clock = smooth::clock(title);
    let streams = streams(selected, &clock);
    if streams.is_empty() {
        return Err(carries_none(title, Protocol::Smooth));
    }
    let start = streams.iter().filter_map(|s| s.times.first()).min().copied().unwrap_or(0);
    let end = streams.iter().filter_map(|s| s.times.last()).max().copied().unwrap_or(0);
    let mut xml = Xml::new();
    xml.tag("SmoothStreamingMedia")
        .attr("MajorVersion", 2)
        .attr("MinorVersion", 2)
        .attr("TimeScale", smooth::SCALE.get())
        .attr("Duration", end - start)
        .children();
    for stream in &streams {
        stream.write(&mut xml, links);
        check_size(xml.text())?;
    }
    write_protection(selected, protection, &mut xml)?;
    Ok(xml.finish())
}

/// Writes what PlayReady needs to request a licence ([MS-SSTR] 2.2.2.2), which also tells other
/// systems the KID.
fn write_protection(
    selected: &Selected<'_>,
    protection: Option<&Protection>,
    xml: &mut Xml,
) -> Result<(), PackError> {
    let Some(protection) = protection else { return Ok(()) };
    let names: Vec<_> = selected.title().tracks().iter().map(|track| track.name.clone()).collect();
    let Some(cover) = protection.smooth_cover(&names)? else { return Ok(()) };
    xml.tag("Protection").children();
    xml.tag("ProtectionHeader")
        .attr("SystemID", DrmSystem::PlayReady.uuid().to_ascii_uppercase())
        .text(&STANDARD.encode(playready_object(cover.key, cover.scheme)));
    xml.close();
    Ok(())
}

struct Stream<'a> {
    /// Name that no other stream has.
    name: String,
    stem: &'a str,
    kind: TrackKind,
    four_cc: String,
    /// Start of each fragment, and the end of the last one.
    times: Vec<i64>,
    levels: Vec<Level<'a>>,
    /// `Whole` if its fragments are those of the whole title.
    extent: Extent,
}

struct Level<'a> {
    track: &'a Track,
    title_track: &'a TitleTrack,
    codec: CodecAttributes,
}

fn streams<'a>(selected: &'a Selected<'_>, clock: &Clock<'_>) -> Vec<Stream<'a>> {
    let title = selected.title();
    let mut streams: Vec<Stream<'a>> = Vec::new();
    let stems: BTreeSet<&str> = title.tracks().iter().map(|t| t.name.stem.as_str()).collect();
    let mut names: BTreeSet<String> = BTreeSet::new();
    // For each stem, the first number that may be free.
    let mut next: BTreeMap<&str, u32> = BTreeMap::new();
    for (i, title_track) in title.tracks().iter().enumerate() {
        let track = title.track(title_track);
        if !is_listed(title, i, Protocol::Smooth) {
            continue;
        }
        let Some(codec) = CodecAttributes::of(track) else { continue };
        let times = clock.boundaries(i);
        let extent = selected.extent_if_moved(&[i]);
        let stem = title_track.name.stem.as_str();
        let level = Level { track, title_track, codec };
        let same = |s: &&mut Stream<'_>| {
            s.stem == stem && s.kind == track.kind && s.four_cc == level.codec.four_cc && s.times == times
        };
        if let Some(stream) = streams.iter_mut().find(same) {
            stream.levels.push(level);
            if extent == Extent::Selected {
                stream.extent = extent;
            }
            continue;
        }
        // A rendition with another coding or other cuts is a stream with a name of its own.
        let mut name = stem.to_owned();
        while names.contains(&name) || name != stem && stems.contains(name.as_str()) {
            let number = next.entry(stem).or_insert(1);
            name = format!("{stem}_{number}");
            *number += 1;
        }
        names.insert(name.clone());
        let four_cc = level.codec.four_cc.clone();
        streams.push(Stream { name, stem, kind: track.kind, four_cc, times, levels: vec![level], extent });
    }
    // Players take the first stream of video, and end with it.
    let end = |stream: &Stream<'_>| stream.times.last().copied().unwrap_or(0);
    let longest = streams.iter().filter(|s| s.kind == TrackKind::Video).map(end).max().unwrap_or(0);
    let target = i64::try_from(title.target().as_nanos() / 100).unwrap_or(i64::MAX);
    let ends_early = |s: &Stream<'_>| s.kind == TrackKind::Video && longest - end(s) > target;
    streams.sort_by_key(|stream| (stream.kind, ends_early(stream)));
    streams
}

impl Stream<'_> {
    fn write(&self, xml: &mut Xml, links: &Links<'_>) {
        let Some(first) = self.levels.first() else { return };
        let language = &first.track.language;
        let is = |role| first.track.purpose.role == role;
        let (kind, subtype) = match self.kind {
            TrackKind::Video => ("video", None),
            TrackKind::Audio => ("audio", is(Role::Description).then_some("DESC")),
            TrackKind::Text => ("text", Some(if is(Role::Captions) { "CAPT" } else { "SUBT" })),
        };
        let videos = || self.levels.iter().filter_map(|level| video_of(level.track));
        let largest = videos().max_by_key(|v| u32::from(v.width) * u32::from(v.height));
        let display_width = largest.map(|v| {
            // With square pixels, the height stays.
            let (x, y) = v.pixel_aspect;
            u64::from(v.width) * u64::from(x) / u64::from(y.max(1))
        });
        xml.tag("StreamIndex")
            .attr("Type", kind)
            .attr_if("Subtype", subtype)
            .attr("Name", &self.name)
            .attr_if("Language", language.is_known().then_some(language))
            .attr("Chunks", self.times.len().saturating_sub(1))
            .attr("QualityLevels", self.levels.len())
            .attr_if("MaxWidth", videos().map(|v| v.width).max())
            .attr_if("MaxHeight", videos().map(|v| v.height).max())
            .attr_if("DisplayWidth", display_width)
            .attr_if("DisplayHeight", largest.map(|v| v.height))
            .attr("Url", links.smooth_url(self.stem, self.extent))
            .children();
        for (index, level) in self.levels.iter().enumerate() {
            level.write(xml, index);
        }
        for run in &Timeline::new(&self.times).0 {
            xml.tag("c")
                .attr_if("t", run.time)
                .attr("d", run.duration)
                .attr_if("r", (run.repeat > 0).then_some(run.repeat + 1))
                .empty();
        }
        xml.close();
    }
}

impl Level<'_> {
    fn write(&self, xml: &mut Xml, index: usize) {
        let codec = &self.codec;
        let mut tag = xml
            .tag("QualityLevel")
            .attr("Index", index)
            .attr("Bitrate", self.title_track.name.bitrate)
            .attr("FourCC", &codec.four_cc);
        tag = match &self.track.codec.media {
            Media::Video(video) => tag.attr("MaxWidth", video.width).attr("MaxHeight", video.height),
            Media::Audio(audio) => tag
                .attr("SamplingRate", codec.sampling_rate.unwrap_or(audio.sample_rate))
                .attr("Channels", audio.channels)
                .attr("BitsPerSample", 16)
                .attr("PacketSize", u32::from(audio.channels) * 2)
                .attr_if("AudioTag", codec.audio_tag),
            Media::Text => tag,
        };
        tag.attr_if("NALUnitLengthField", codec.nal_length)
            .attr("CodecPrivateData", &codec.private_data)
            .empty();
    }
}
