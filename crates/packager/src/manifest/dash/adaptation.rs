//! Adaptation sets: representations that a player may switch between.

use crate::{
    address::Links,
    carry::Protocol,
    manifest::{
        access_point::access_point_type, constant_frame_rate, picture::Picture, reduced, timeline::Timeline,
        video_of,
    },
    protection::Cover,
    segment::text,
    selection::{DashText, Extent, Selected},
    sizes::{Bitrate, SegmentSize, sized_encrypted},
};
use latemux_index::{
    Track,
    media::{Purpose, TrackKind},
};
use latemux_isobmff::{
    Time, Timescale,
    codec::{Config, Media, Video, VideoRange},
};
use latemux_protect::KeyId;
use std::mem::{Discriminant, discriminant};

/// One track of the title.
#[derive(Debug)]
pub(super) struct Representation<'a> {
    pub(super) track: &'a Track,
    /// Index into the selected `Title::tracks`.
    pub(super) index: usize,
    /// `@id`, the text that replaces `$RepresentationID$` in URLs.
    pub(super) id: String,
    pub(super) timescale: Timescale,
    pub(super) segments: Vec<SegmentSize>,
    pub(super) bitrate: Bitrate,
    pub(super) timeline: Timeline,
    pub(super) frame_rate: Option<(u32, u32)>,
    /// Highest type of stream access point at the start of its segments; `None` if there is none.
    sap: Option<u8>,
    /// Boundaries of its segments, in track ticks.
    times: &'a [i64],
    /// Number of its first segment, 0-based.
    pub(super) first: u32,
    /// `Whole` if its segments are those of the whole title.
    pub(super) extent: Extent,
    /// The form it is sent in, `Stored` unless it is text that is converted.
    pub(super) text: DashText,
    /// Its encryption, if it is encrypted.
    pub(super) cover: Option<Cover<'a>>,
}

impl<'a> Representation<'a> {
    /// Creates the representation of a track of the title. `index` must be in range.
    pub(super) fn new(
        selected: &'a Selected<'_>,
        index: usize,
        links: &Links<'_>,
        cover: Option<Cover<'a>>,
    ) -> Self {
        let title = selected.title();
        let title_track = &title.tracks()[index];
        let track = title.track(title_track);
        let text = if text::is_made_ttml(track, links.text()) { DashText::Stpp } else { DashText::Stored };
        // TTML has the same size in both protocols.
        let protocol = if text == DashText::Stpp { Protocol::Smooth } else { Protocol::Dash };
        let (segments, timescale) = sized_encrypted(title, &[index], protocol, cover.as_ref());
        let is_video = track.kind == TrackKind::Video;
        Self {
            track,
            index,
            id: links.representation_id(&title_track.name),
            timescale: track.timescale,
            bitrate: Bitrate::of(&segments, timescale),
            segments,
            timeline: Timeline::new(&title_track.times),
            frame_rate: is_video.then(|| constant_frame_rate(title, index)).flatten(),
            sap: access_point_type(track, title_track),
            times: &title_track.times,
            first: title_track.first,
            extent: selected.extent_of_all(&[index]),
            text,
            cover,
        }
    }

    /// Returns `@codecs`.
    pub(super) fn codecs(&self) -> &'a str {
        if self.text == DashText::Stpp { text::STPP_CODECS } else { &self.track.codec.rfc6381 }
    }

    pub(super) fn start(&self) -> Time {
        Time::new(self.times.first().copied().unwrap_or(0), self.timescale)
    }

    pub(super) fn end(&self) -> Time {
        Time::new(self.times.last().copied().unwrap_or(0), self.timescale)
    }

    pub(super) fn video(&self) -> Option<&'a Video> {
        video_of(self.track)
    }

    /// Returns the picture as it is shown; `None` without one.
    pub(super) fn picture(&self) -> Option<Picture> {
        self.video().map(|video| Picture::shown(self.track, video))
    }
}

/// Representations of the same content that decoders can switch between.
#[derive(Debug)]
pub(super) struct AdaptationSet<'a> {
    key: SetKey<'a>,
    /// The content key that all representations have.
    content_key: Option<KeyId>,
    pub(super) representations: Vec<Representation<'a>>,
}

/// The properties that all representations of a set share.
#[derive(Debug, PartialEq, Eq)]
struct SetKey<'a> {
    kind: TrackKind,
    family: Discriminant<Config>,
    is_dolby_vision: bool,
    language: &'a str,
    purpose: Purpose,
    /// Label of text and audio: those with different labels are different content.
    label: Option<&'a str>,
    range: Option<VideoRange>,
    /// Channels, samples per second and codec. Audio decoders are not changed within a set.
    audio: Option<(u16, u32, &'a str)>,
}

impl<'a> SetKey<'a> {
    fn of(track: &'a Track) -> Self {
        let codec = &track.codec;
        let (range, supplemental, audio) = match &codec.media {
            Media::Video(v) => (Some(v.range), v.supplemental.is_some(), None),
            Media::Audio(a) => (None, false, Some((a.channels, a.sample_rate, codec.rfc6381.as_str()))),
            Media::Text => (None, false, None),
        };
        Self {
            kind: track.kind,
            family: discriminant(&codec.config),
            is_dolby_vision: supplemental || codec.format.0.starts_with(b"dv"),
            language: track.language.as_str(),
            purpose: track.purpose,
            label: track.label.as_deref().filter(|_| track.kind != TrackKind::Video),
            range,
            audio,
        }
    }
}

/// Groups representations into sets, both in the order of the input.
pub(super) fn group(representations: Vec<Representation<'_>>) -> Vec<AdaptationSet<'_>> {
    let mut sets: Vec<AdaptationSet<'_>> = Vec::new();
    for representation in representations {
        let key = SetKey::of(representation.track);
        let content_key = representation.cover.as_ref().map(|cover| cover.key.id());
        match sets.iter_mut().find(|set| set.key == key && set.content_key == content_key) {
            Some(set) => set.representations.push(representation),
            None => sets.push(AdaptationSet { key, content_key, representations: vec![representation] }),
        }
    }
    sets
}

impl AdaptationSet<'_> {
    /// Returns the name for viewers.
    pub(super) fn label(&self) -> Option<&str> {
        self.key.label
    }

    /// Returns the numbers, from 1 on, of the other sets that differ from this one by their key
    /// alone. `None` if there are none.
    pub(super) fn switchable(&self, sets: &[AdaptationSet<'_>], own: u32) -> Option<String> {
        let others = (1_u32..).zip(sets).filter(|(number, set)| *number != own && set.key == self.key);
        let others: Vec<String> = others.map(|(number, _)| number.to_string()).collect();
        (!others.is_empty()).then(|| others.join(","))
    }

    /// True if segments of the same number begin and end at the same times in all representations,
    /// and so none overlaps another one's neighbours (§5.3.3.2). A representation may end early.
    pub(super) fn is_aligned(&self) -> bool {
        let Some(longest) = self.representations.iter().max_by_key(|r| r.times.len()) else { return true };
        self.representations.iter().all(|r| {
            let at = |r: &Representation<'_>, ticks: &i64| Time::new(*ticks, r.timescale);
            let Some((end, starts)) = r.times.split_last() else { return true };
            let ends_early = r.times.len() < longest.times.len();
            let is_last_aligned = longest.times.get(starts.len()).is_some_and(|bound| {
                let end = at(r, end);
                let bound = at(longest, bound);
                if ends_early { end <= bound } else { end == bound }
            });
            is_last_aligned && starts.iter().zip(longest.times).all(|(a, b)| at(r, a) == at(longest, b))
        })
    }

    /// Returns the highest access point type, if all are known.
    pub(super) fn starts_with_sap(&self) -> Option<u8> {
        self.representations.iter().map(|r| r.sap).try_fold(1, |highest, sap| Some(highest.max(sap?)))
    }

    /// Returns the timeline, if all representations have the same one in the same timescale.
    pub(super) fn shared_timeline(&self) -> Option<&Timeline> {
        let (first, rest) = self.representations.split_first()?;
        rest.iter()
            .all(|r| (r.timescale, r.first, &r.timeline) == (first.timescale, first.first, &first.timeline))
            .then_some(&first.timeline)
    }

    /// Returns `Whole` if the segments of all representations are those of the whole title.
    pub(super) fn extent(&self) -> Extent {
        let whole = self.representations.iter().all(|r| r.extent == Extent::Whole);
        if whole { Extent::Whole } else { Extent::Selected }
    }

    /// Returns width and height of the picture as a ratio, if all representations agree.
    pub(super) fn picture_aspect(&self) -> Option<(u32, u32)> {
        let mut aspects = self.pictures().map(|picture| {
            let (x, y) = picture.pixel_aspect;
            Some(reduced(u32::from(picture.width).checked_mul(x)?, u32::from(picture.height).checked_mul(y)?))
        });
        let first = aspects.next()??;
        aspects.all(|a| a == Some(first)).then_some(first)
    }

    pub(super) fn pictures(&self) -> impl Iterator<Item = Picture> {
        self.representations.iter().filter_map(Representation::picture)
    }
}
