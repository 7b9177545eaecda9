//! MPEG-DASH: the MPD (ISO/IEC 23009-1).
//!
//! The MPD has one static period and the profile isoff-live. Its times are the presentation times
//! of the media, with edit lists applied, exact to the tick. If no track starts at 0,
//! `@presentationTimeOffset` lets the period start with the first track. The MPD does not claim the
//! CMAF profile, which makes promises about the media that an index cannot check.

mod adaptation;
mod describe;
mod protection;
mod thumbnails;
mod trick_mode;

use super::{
    MICROS, carries_none, check_size, is_listed,
    picture::Picture,
    thumbnails::{Thumbnails, listed as listed_thumbnails},
    timeline::Timeline,
    xml::{StartTag, Xml},
};
use crate::{
    PackError,
    address::{DashTemplate, Links},
    carry::Protocol,
    protection::Protection,
    selection::{Extent, Selected},
    sizes::min_buffer_millis,
};
use adaptation::{AdaptationSet, Representation};
use describe::descriptor;
use latemux_index::media::{Captions, TrackKind};
use latemux_isobmff::{
    Time,
    codec::{Media, VideoRange},
    time::Round,
};
use latemux_text::language::shortest;
use trick_mode::TrickSet;

/// Returns the MPD of the selected part of a title. O(samples). Fails with
/// [`PackError::CannotCarry`] if DASH carries no track of the title, with
/// [`PackError::ManifestTooLarge`] for too many tracks and segments.
pub(crate) fn mpd(
    selected: &Selected<'_>,
    links: &Links<'_>,
    template: DashTemplate,
    protection: Option<&Protection>,
) -> Result<String, PackError> {
    let title = selected.title();
    let carried = (0..title.tracks().len()).filter(|&i| is_listed(title, i, Protocol::Dash)).map(|i| {
        let name = &title.tracks()[i].name;
        let cover = protection.map(|p| p.cover(Protocol::Dash, std::slice::from_ref(name)));
        Ok(Representation::new(selected, i, links, cover.transpose()?.flatten()))
    });
    let sets = adaptation::group(carried.collect::<Result<Vec<_>, PackError>>()?);
    if sets.is_empty() {
        return Err(carries_none(title, Protocol::Dash));
    }
    let representations = || sets.iter().flat_map(|s| &s.representations);
    let zero = Time::new(0, MICROS);
    let start = representations().map(Representation::start).min().unwrap_or(zero);
    let end = representations().map(Representation::end).max().unwrap_or(zero);
    let duration = end.in_scale(MICROS, Round::Up) - start.in_scale(MICROS, Round::Down);
    let with_number = (1..).zip(&sets);
    let trick_sets: Vec<TrickSet<'_>> =
        with_number.filter_map(|(number, set)| TrickSet::of(number, set, selected, links)).collect();
    let buffer = representations()
        .map(|r| min_buffer_millis(&r.segments, r.timescale.get(), r.bitrate.peak))
        .chain(trick_sets.iter().map(TrickSet::min_buffer_millis))
        .max()
        .unwrap_or(0);
    let pictures = listed_thumbnails(selected, links, protection);
    let longest = representations()
        .filter_map(|r| Some((r.segments.iter().map(|s| s.duration).max()?, r.timescale)))
        .map(|(duration, scale)| Time::new(i64::try_from(duration).unwrap_or(i64::MAX), scale))
        .chain(pictures.iter().map(Thumbnails::longest_sheet))
        .max()
        .unwrap_or(zero);

    let mut xml = Xml::new();
    root(&mut xml, &sets)
        .attr("mediaPresentationDuration", iso8601(duration))
        .attr("maxSegmentDuration", iso8601(longest.in_scale(MICROS, Round::Up)))
        .attr("minBufferTime", iso8601(i64::try_from(buffer).unwrap_or(i64::MAX).saturating_mul(1000)))
        .children();
    xml.tag("Period").attr("id", 1).attr("start", "PT0S").children();
    let captions = title.captions().unwrap_or_default();
    let writer = MpdWriter::new(&sets, (links, template), start, captions);
    for (number, set) in (1..).zip(&sets) {
        writer.write_set(&mut xml, number, (set, &sets))?;
    }
    let next = u32::try_from(sets.len()).unwrap_or(u32::MAX).saturating_add(1);
    for (number, set) in (next..).zip(&trick_sets) {
        set.write(&mut xml, number, &writer)?;
    }
    let next = next.saturating_add(u32::try_from(trick_sets.len()).unwrap_or(u32::MAX));
    for (number, of) in (next..).zip(&pictures) {
        thumbnails::write(&mut xml, number, of, &writer)?;
    }
    Ok(xml.finish())
}

/// Begins the root element, with the namespaces that these sets need.
fn root<'x>(xml: &'x mut Xml, sets: &[AdaptationSet<'_>]) -> StartTag<'x> {
    let representations = || sets.iter().flat_map(|s| &s.representations);
    let scte214 = representations().any(|r| r.video().is_some_and(|v| v.supplemental.is_some()));
    let is_encrypted = representations().any(|r| r.cover.is_some());
    xml.tag("MPD")
        .attr("xmlns", "urn:mpeg:dash:schema:mpd:2011")
        .attr_if("xmlns:cenc", is_encrypted.then_some("urn:mpeg:cenc:2013"))
        .attr_if("xmlns:mspr", is_encrypted.then_some("urn:microsoft:playready"))
        .attr_if("xmlns:dashif", is_encrypted.then_some("https://dashif.org/CPS"))
        .attr_if("xmlns:scte214", scte214.then_some("urn:scte:dash:scte214-extensions"))
        .attr("profiles", "urn:mpeg:dash:profile:isoff-live:2011")
        .attr("type", "static")
}

/// Writes adaptation sets. Holds the properties that depend on all sets.
struct MpdWriter<'a> {
    links: &'a Links<'a>,
    template: DashTemplate,
    /// Presentation time of the start of the period.
    start: Time,
    /// Language of the audio that plays by default.
    main_language: Option<&'a str>,
    /// True if there is video that every display can show.
    has_sdr: bool,
    /// Closed captions in the video.
    captions: &'a [Captions],
}

impl<'a> MpdWriter<'a> {
    fn new(
        sets: &'a [AdaptationSet<'a>],
        (links, template): (&'a Links<'a>, DashTemplate),
        start: Time,
        captions: &'a [Captions],
    ) -> Self {
        let all = || sets.iter().flat_map(|s| &s.representations);
        let main = all().find(|r| r.track.kind == TrackKind::Audio);
        let is_sdr = |r: &Representation<'_>| r.video().is_some_and(|v| v.range == VideoRange::Sdr);
        Self {
            links,
            template,
            start,
            main_language: main.map(|r| r.track.language.as_str()),
            has_sdr: all().any(is_sdr),
            captions,
        }
    }

    fn write_set(
        &self,
        xml: &mut Xml,
        number: u32,
        (set, sets): (&AdaptationSet<'_>, &[AdaptationSet<'_>]),
    ) -> Result<(), PackError> {
        let Some(first) = set.representations.first() else { return Ok(()) };
        let kind = first.track.kind;
        let language = &first.track.language;
        let (content_type, mime_type) = match kind {
            TrackKind::Video => ("video", "video/mp4"),
            TrackKind::Audio => ("audio", "audio/mp4"),
            TrackKind::Text => ("text", "application/mp4"),
        };
        let mut tag = xml
            .tag("AdaptationSet")
            .attr("id", number)
            .attr("contentType", content_type)
            .attr("mimeType", mime_type)
            .attr_if("lang", language.is_known().then(|| shortest(language.as_str())))
            .attr("segmentAlignment", set.is_aligned())
            .attr_if("startWithSAP", set.starts_with_sap());
        if kind == TrackKind::Video {
            tag = tag
                .attr_if("par", set.picture_aspect().map(|(x, y)| format!("{x}:{y}")))
                .attr_if("maxWidth", set.pictures().map(|picture| picture.width).max())
                .attr_if("maxHeight", set.pictures().map(|picture| picture.height).max());
        }
        tag.children();
        let is_foreign = self.main_language != Some(language.as_str());
        // In the order of the schema: elements of RepresentationBaseType come first.
        if let Some(cover) = &first.cover {
            protection::write(xml, cover, self.links);
        }
        if let Some(others) = set.switchable(sets, number) {
            let scheme = "urn:mpeg:dash:adaptation-set-switching:2016";
            descriptor(xml, "SupplementalProperty", scheme, others);
        }
        if let Media::Video(video) = &first.track.codec.media {
            describe::colour(xml, video, self.has_sdr);
        }
        if let Some(label) = set.label() {
            xml.tag("Label").text(label);
        }
        if kind == TrackKind::Video {
            describe::captions(xml, self.captions);
        }
        describe::purpose(xml, first.track, is_foreign);
        let shared = set.shared_timeline();
        if let Some(timeline) = shared {
            self.write_template(xml, (timeline, first), set.extent());
        }
        for representation in &set.representations {
            self.write_representation(xml, representation, shared.is_none());
            check_size(xml.text())?;
        }
        xml.close();
        check_size(xml.text())
    }

    fn write_representation(&self, xml: &mut Xml, r: &Representation<'_>, has_own_timeline: bool) {
        let codec = &r.track.codec;
        let mut tag = xml
            .tag("Representation")
            .attr("id", &r.id)
            .attr("bandwidth", r.bitrate.peak.clamp(1, u64::from(u32::MAX)))
            .attr("codecs", r.codecs());
        tag = match &codec.media {
            Media::Video(video) => video_attributes(tag, video, Picture::shown(r.track, video), r.frame_rate),
            Media::Audio(audio) => {
                tag.attr_if("audioSamplingRate", (audio.sample_rate > 0).then_some(audio.sample_rate))
            }
            Media::Text => tag,
        };
        let has_children = has_own_timeline || matches!(&codec.media, Media::Audio(_));
        if !has_children {
            tag.empty();
            return;
        }
        tag.children();
        if let Media::Audio(audio) = &codec.media {
            describe::audio(xml, audio, &codec.config);
        }
        if has_own_timeline {
            self.write_template(xml, (&r.timeline, r), r.extent);
        }
        xml.close();
    }

    /// Writes the `SegmentTemplate` of a timeline and a representation that has it.
    fn write_template(
        &self,
        xml: &mut Xml,
        (timeline, representation): (&Timeline, &Representation<'_>),
        extent: Extent,
    ) {
        let timescale = representation.timescale;
        let offset = self.start.in_scale(timescale, Round::Down);
        xml.tag("SegmentTemplate")
            .attr("timescale", timescale.get())
            .attr_if("presentationTimeOffset", (offset > 0).then_some(offset))
            .attr_if("startNumber", (self.template == DashTemplate::Number).then(|| representation.first + 1))
            .attr("initialization", self.links.dash_initialization(representation.text))
            .attr("media", self.links.dash_media(self.template, extent, representation.text))
            .children();
        write_timeline(xml, timeline);
        xml.close();
    }
}

fn write_timeline(xml: &mut Xml, timeline: &Timeline) {
    xml.tag("SegmentTimeline").children();
    for run in &timeline.0 {
        xml.tag("S")
            .attr_if("t", run.time)
            .attr("d", run.duration)
            .attr_if("r", (run.repeat > 0).then_some(run.repeat))
            .empty();
    }
    xml.close();
}

fn video_attributes<'a>(
    tag: StartTag<'a>,
    video: &latemux_isobmff::codec::Video,
    picture: Picture,
    frame_rate: Option<(u32, u32)>,
) -> StartTag<'a> {
    let frame_rate = frame_rate.map(|(n, d)| if d == 1 { n.to_string() } else { format!("{n}/{d}") });
    // Dolby Vision on a base layer: `codec/brand` (ANSI/SCTE 214-1 §6.2.1.1, §6.2.1.2).
    let supplemental = video.supplemental.as_deref().map(|s| s.split_once('/').unwrap_or((s, "")));
    let (x, y) = picture.pixel_aspect;
    tag.attr("width", picture.width)
        .attr("height", picture.height)
        .attr_if("frameRate", frame_rate)
        .attr("sar", format_args!("{x}:{y}"))
        .attr_if("scte214:supplementalCodecs", supplemental.map(|(codec, _)| codec))
        .attr_if("scte214:supplementalProfiles", supplemental.map(|(_, p)| p).filter(|p| !p.is_empty()))
}

/// Formats microseconds as xs:duration, without trailing zeros.
fn iso8601(micros: i64) -> String {
    let micros = micros.max(0);
    let text = format!("PT{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    format!("{}S", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::iso8601;

    #[test]
    fn durations_keep_their_microseconds() {
        assert_eq!(iso8601(0), "PT0S");
        assert_eq!(iso8601(10_000_000), "PT10S");
        assert_eq!(iso8601(7_200_033_334), "PT7200.033334S");
        assert_eq!(iso8601(100_000), "PT0.1S");
    }
}
