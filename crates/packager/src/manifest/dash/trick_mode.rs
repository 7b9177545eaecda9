//! Sets of I-frames for fast forward and rewind (DASH-IF IOP §3.2.9).

use super::{
    MpdWriter,
    adaptation::{AdaptationSet, Representation},
    describe::descriptor,
    protection, write_timeline,
};
use crate::{
    PackError,
    address::Links,
    carry::Protocol,
    manifest::{check_size, picture::Picture, timeline::Timeline, xml::Xml},
    segment::iframes::{self, TrickFrames},
    selection::Selected,
    sizes::{Bitrate, SegmentSize, min_buffer_millis, sizes_alone},
};
use latemux_index::title::Segment;
use latemux_isobmff::time::Round;

/// Least height in pixels of the rendition whose I-frames are listed. If no rendition has it, those
/// of the tallest one are listed.
const LEAST_HEIGHT: u16 = 240;

/// The I-frames of one rendition.
pub(super) struct TrickSet<'a> {
    /// `@id` of the set that it belongs to.
    main: u32,
    representation: &'a Representation<'a>,
    frames: TrickFrames,
    segments: Vec<SegmentSize>,
    bitrate: Bitrate,
    initialization: String,
    media: String,
}

impl<'a> TrickSet<'a> {
    /// Returns the set of I-frames for a set of video: those of its smallest rendition with
    /// [`LEAST_HEIGHT`] pixels and more. `None` for other sets, and if there are too many I-frames.
    pub(super) fn of(
        main: u32,
        set: &'a AdaptationSet<'_>,
        selected: &Selected<'_>,
        links: &Links<'_>,
    ) -> Option<Self> {
        let height = |r: &Representation<'_>| r.video().map(|video| video.height);
        let is_tall = |r: &&Representation<'_>| height(r).is_some_and(|height| height >= LEAST_HEIGHT);
        let video = || set.representations.iter().filter(|r| r.video().is_some());
        let representation = video().find(is_tall).or_else(|| video().max_by_key(|r| height(r)))?;
        let title = selected.title();
        let name = &title.tracks().get(representation.index)?.name;
        let (initialization, media) = links.dash_iframes(name)?;
        let frames = iframes::for_trick_mode(title, representation.index)?;
        let sizes = sizes_alone(title, representation.index, Protocol::Dash, &frames.frames);
        let duration = |frame: &Segment| u64::try_from(frame.end - frame.start).unwrap_or(0);
        let added = representation.cover.as_ref().map_or(0, |cover| cover.added_bytes(true, 1));
        let sized = frames.frames.iter().zip(sizes);
        let size = |(frame, bytes)| SegmentSize { bytes: bytes + added, duration: duration(frame) };
        let segments: Vec<SegmentSize> = sized.map(size).collect();
        let bitrate = Bitrate::of(&segments, representation.timescale.get());
        Some(Self { main, representation, frames, segments, bitrate, initialization, media })
    }

    /// Returns the least time to buffer in milliseconds, see [`min_buffer_millis`].
    pub(super) fn min_buffer_millis(&self) -> u64 {
        min_buffer_millis(&self.segments, self.representation.timescale.get(), self.bitrate.peak)
    }

    /// Writes the set. `number` is its `@id`.
    pub(super) fn write(&self, xml: &mut Xml, number: u32, writer: &MpdWriter<'_>) -> Result<(), PackError> {
        let r = self.representation;
        let Some(video) = r.video() else { return Ok(()) };
        let frames = &self.frames.frames;
        let offset = writer.start.in_scale(r.timescale, Round::Down);
        let picture = Picture::shown(r.track, video);
        let (x, y) = picture.pixel_aspect;
        xml.tag("AdaptationSet")
            .attr("id", number)
            .attr("contentType", "video")
            .attr("mimeType", "video/mp4")
            .attr("segmentAlignment", true)
            .attr("startWithSAP", 1)
            .children();
        if let Some(cover) = &r.cover {
            protection::write(xml, cover, writer.links);
        }
        descriptor(xml, "EssentialProperty", "http://dashif.org/guidelines/trickmode", self.main);
        xml.tag("SegmentTemplate")
            .attr("timescale", r.timescale.get())
            .attr_if("presentationTimeOffset", (offset > 0).then_some(offset))
            .attr("startNumber", self.frames.first)
            .attr("initialization", &self.initialization)
            .attr("media", &self.media)
            .children();
        let times = frames.iter().map(|frame| frame.start).chain(frames.last().map(|frame| frame.end));
        write_timeline(xml, &Timeline::new(&times.collect::<Vec<_>>()));
        xml.close();
        xml.tag("Representation")
            .attr("id", format_args!("{}-trick", r.id))
            .attr("bandwidth", self.bitrate.peak.clamp(1, u64::from(u32::MAX)))
            .attr("codecs", &r.track.codec.rfc6381)
            .attr("width", picture.width)
            .attr("height", picture.height)
            .attr("sar", format_args!("{x}:{y}"))
            .attr_if("maxPlayoutRate", self.frames.every)
            .attr("codingDependency", false)
            .empty();
        xml.close();
        check_size(xml.text())
    }
}
