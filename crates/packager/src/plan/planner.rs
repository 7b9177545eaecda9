//! The planner: finds the tracks, segments and samples of a request and makes a plan of them.

use super::{
    Class, Needs, Part, Plan, Planned, SourceRange,
    sealed::{ClearSegment, Sealing},
};
use crate::{
    Address, PackError,
    address::{Profile, displayed_rep_id},
    carry::{Protocol, find_carried},
    clear_lead::LeadCheck,
    digest::{CmafText, SampleChoice, cut_text, digest_of},
    segment::{
        MAX_SAMPLES,
        cmaf::{self, SampleForm},
        iframes,
        layers::nal_length_size,
        smooth,
        text::{CONVERTER, TextForm, TtmlSegment, is_made_for_smooth, is_made_ttml},
    },
    selection::{SampleOrder, Selected},
};
use bytes::Bytes;
use latemux_index::{
    Sample, Title, Track,
    media::fragment_samples::KnownFragments,
    media::{Samples, TrackKind},
    title::{Segment, SegmentSamples, TrackName},
};
use latemux_isobmff::codec::Config;
use std::{fmt::Write as _, iter, ops::Range};

/// The inputs of every plan.
pub(super) struct Planner<'a> {
    pub(super) selected: &'a Selected<'a>,
    /// The selected part of the title.
    pub(super) title: &'a Title,
    pub(super) address: &'a Address,
    pub(super) known: &'a dyn KnownFragments,
    /// The encryption of samples, if they are to be encrypted one by one.
    pub(super) sealing: Option<Sealing<'a>>,
    /// The clear lead, if the title has one.
    pub(super) lead: &'a LeadCheck,
}

impl<'a> Planner<'a> {
    /// Returns the digest of everything that a body depends on, see [`digest_of`].
    pub(super) fn digest(&self, what: std::fmt::Arguments<'_>) -> u128 {
        digest_of(self.title, what)
    }

    /// Returns the text for a digest that tells where a clip starts whose times count from there.
    pub(super) fn moved(&self) -> String {
        let start = self.title.start();
        if self.selected.is_moved() {
            format!(" from {}/{}", start.ticks, start.scale.get())
        } else {
            String::new()
        }
    }

    /// Returns the plan of a body that needs no transform. `what` is the text of its digest.
    pub(super) fn ready(
        &self,
        class: Class,
        content_type: &'static str,
        what: std::fmt::Arguments<'_>,
        mut parts: Vec<Part>,
        reach: Vec<SourceRange>,
    ) -> Planned {
        for part in &mut parts {
            if let Some(bytes) = self.in_memory(part) {
                *part = Part::Inline(bytes);
            }
        }
        Planned::Ready(Plan {
            content_type,
            content_length: parts.iter().map(Part::len).sum(),
            digest: self.digest(what),
            class,
            parts,
            transform: None,
            reach,
        })
    }

    /// Returns the bytes of a source range of media that was made in memory.
    pub(super) fn in_memory(&self, part: &Part) -> Option<Bytes> {
        let Part::Source(SourceRange { object, range }) = part else { return None };
        let bytes = self.title.objects().get(*object)?.inline.as_ref()?;
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        Some(bytes.slice(at(range.start)..at(range.end)))
    }

    /// Returns the plan of an init segment. `what` is the text of its digest.
    pub(super) fn init(&self, kind: TrackKind, what: std::fmt::Arguments<'_>, init: Bytes) -> Planned {
        self.ready(Class::Init, cmaf_type(kind), what, vec![Part::Inline(init)], Vec::new())
    }

    pub(super) fn manifest(
        &self,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Result<Planned, PackError> {
        let mut what = format!("manifest {} {}", self.address.name(), self.address.relative_to_base());
        if let Profile::NginxVod(urls) = &self.address.profile {
            // The spelling of URLs depends on the configuration and on the number of files.
            let _ = write!(what, " {}", urls.digest_text());
        }
        let parts = vec![Part::Inline(body.into())];
        Ok(self.ready(Class::Manifest, content_type, format_args!("{what}"), parts, Vec::new()))
    }

    pub(super) fn cmaf_init(&self, protocol: Protocol, name: &TrackName) -> Result<Planned, PackError> {
        let (_, track) = find_carried(self.title, protocol, name)?;
        if is_made_ttml(track, self.address.selection.text) {
            let what = format_args!("ttml init {CONVERTER} {}", displayed_rep_id(name));
            return Ok(self.init(track.kind, what, cmaf::ttml_init(track)));
        }
        let Some(Sealing { cover, .. }) = self.sealing else {
            let what = format_args!("cmaf init {}", displayed_rep_id(name));
            return Ok(self.init(track.kind, what, cmaf::init(track)));
        };
        let encryption = cover.track_encryption(track.kind == TrackKind::Video);
        // In DASH, a track has one init segment, which describes its lead too.
        let has_lead = protocol == Protocol::Dash && !self.lead.lead().is_empty();
        let init = cmaf::encrypted_init(track, &encryption, cover.pssh(), has_lead);
        let more = if has_lead { " with a lead" } else { "" };
        let what = format_args!("cmaf init {}{}{more}", displayed_rep_id(name), cover.systems_text());
        Ok(match self.init(track.kind, what, init) {
            Planned::Ready(plan) => Planned::Ready(Plan { digest: cover.digest(plan.digest), ..plan }),
            other => other,
        })
    }

    /// Plans a CMAF segment by its number (1-based).
    pub(super) fn cmaf_segment_number(
        &self,
        protocol: Protocol,
        name: &TrackName,
        number: u32,
        choice: SampleChoice,
    ) -> Result<Planned, PackError> {
        let find = |t: usize| self.title.tracks().get(t)?.segment(number.checked_sub(1)?);
        self.cmaf_segment(protocol, name, find, u64::from(number), choice)
    }

    /// Plans the CMAF segment of DASH that starts at a time.
    pub(super) fn dash_segment_at(&self, name: &TrackName, time: u64) -> Result<Planned, PackError> {
        let find = |t: usize| self.title.tracks().get(t)?.segment_at(i64::try_from(time).ok()?);
        self.cmaf_segment(Protocol::Dash, name, find, time, SampleChoice::All)
    }

    /// Plans a CMAF segment. `find` returns the segment of a track, given by its index. `requested`
    /// is the number or time in the request, for errors.
    pub(super) fn cmaf_segment(
        &self,
        protocol: Protocol,
        name: &TrackName,
        find: impl Fn(usize) -> Option<Segment>,
        requested: u64,
        choice: SampleChoice,
    ) -> Result<Planned, PackError> {
        let (index, track) = find_carried(self.title, protocol, name)?;
        if choice != SampleChoice::All && track.kind != TrackKind::Video {
            return Err(PackError::NoSuchTrack(name.to_string()));
        }
        let object = self.title.tracks()[index].object;
        let segment = find(index).filter(|segment| has_choice(track, segment, choice));
        if is_made_ttml(track, self.address.selection.text) {
            let Some(found) = &segment else {
                return self.converted(index, segment, requested, TextForm::Wvtt(0));
            };
            let form = TextForm::Stpp(TtmlSegment::new(track, found));
            return self.converted(index, segment, requested, form);
        }
        if track.codec.config == Config::Tx3g {
            let form = TextForm::Wvtt(segment.as_ref().map_or(0, |segment| segment.number + 1));
            return self.converted(index, segment, requested, form);
        }
        let number = segment.as_ref().map_or(0, |segment| segment.number + 1);
        let what = format_args!("{}", CmafText(choice, name, number));
        let order = self.address.selection.order;
        if order == SampleOrder::Priority
            && choice == SampleChoice::All
            && let Some(nal_length_size) = nal_length_size(&track.codec.config)
        {
            return self.layered(index, segment, requested, nal_length_size, what);
        }
        self.single(index, segment, requested, choice, what, |_, samples, form| {
            if form == SampleForm::Lead && protocol == Protocol::Dash {
                return Ok((cmaf::media(object, number, samples, form)?, cmaf::LEAD_TEXT));
            }
            // In HLS, the lead has an init segment of its own, and is as that of a clear title.
            let form = form.encryption().map_or(SampleForm::Clear, SampleForm::Encrypted);
            if choice == SampleChoice::All
                && order == SampleOrder::Priority
                && let Some(parts) = cmaf::prioritised_media(object, number, samples)?
            {
                return Ok((parts, " by priority"));
            }
            if track.kind == TrackKind::Text && form == SampleForm::Clear {
                return Ok((cmaf::text_media(object, number, samples)?, " with sizes"));
            }
            Ok((cmaf::media(object, number, samples, form)?, ""))
        })
    }

    /// Plans the I-frame of DASH with a number (1-based), which lasts until the next one.
    pub(super) fn dash_iframe(&self, name: &TrackName, number: u32) -> Result<Planned, PackError> {
        let (index, track) = find_carried(self.title, Protocol::Dash, name)?;
        if track.kind != TrackKind::Video {
            return Err(PackError::NoSuchTrack(name.to_string()));
        }
        let title_track = &self.title.tracks()[index];
        let segment = iframes::numbered(title_track, track, number);
        let what = format_args!("dash iframe {} {number}", displayed_rep_id(name));
        let choice = SampleChoice::LastingIFrame;
        self.single(index, segment, u64::from(number), choice, what, |_, samples, form| {
            let more = if form == SampleForm::Lead { cmaf::LEAD_TEXT } else { "" };
            Ok((cmaf::media(title_track.object, number, samples, form)?, more))
        })
    }

    /// Plans a segment of one track. `what` is the text of its digest without the cut, to which
    /// `parts` may add.
    fn single(
        &self,
        index: usize,
        segment: Option<Segment>,
        requested: u64,
        choice: SampleChoice,
        what: std::fmt::Arguments<'_>,
        parts: impl FnOnce(&Segment, &[Sample], SampleForm<'_>) -> MadeParts,
    ) -> Result<Planned, PackError> {
        let title_track = &self.title.tracks()[index];
        let (segment, mut samples) = match self.resolve(index, segment, requested, choice)? {
            Resolved::Known(segment, samples) => (segment, samples),
            Resolved::Needs(needs) => return Ok(Planned::Needs(needs)),
        };
        let reach = || self.reach([(index, &segment)]);
        if choice == SampleChoice::LastingIFrame {
            let duration = u32::try_from(segment.end - segment.start).unwrap_or(u32::MAX);
            samples.iter_mut().for_each(|sample| sample.duration = duration);
        }
        let cut = match choice {
            SampleChoice::All => {
                cut_text(self.selected, &[index], segment.number, iter::once(Some(&segment)))
            }
            SampleChoice::IFrame(_) | SampleChoice::LastingIFrame => String::new(),
        };
        let reach = if choice == SampleChoice::All { reach() } else { Vec::new() };
        let content_type = cmaf_type(self.title.track(title_track).kind);
        let is_lead = self.lead.holds(self.selected, [(index, &segment)]);
        if let Some(sealing) = self.sealing.filter(|_| !is_lead) {
            let clear =
                ClearSegment { index, digest: self.digest(format_args!("{what}{cut}")), content_type, reach };
            return self.sealed(sealing, clear, &samples, |encryption| {
                parts(&segment, &samples, SampleForm::Encrypted(encryption)).map(|(parts, _)| parts)
            });
        }
        let form = if is_lead { SampleForm::Lead } else { SampleForm::Clear };
        let (parts, more) = parts(&segment, &samples, form)?;
        Ok(self.ready(Class::Media, content_type, format_args!("{what}{more}{cut}"), parts, reach))
    }

    /// Returns a segment with its samples, or the fragments that must be read to know them.
    /// `requested` is its number or time in the request, for errors.
    pub(super) fn resolve(
        &self,
        index: usize,
        segment: Option<Segment>,
        requested: u64,
        choice: SampleChoice,
    ) -> Result<Resolved, PackError> {
        let track = || self.title.tracks()[index].name.to_string();
        let none = || PackError::NoSuchSegment { track: track(), segment: requested.to_string() };
        let segment = segment.ok_or_else(none)?;
        match self.samples(index, &segment, choice)? {
            SegmentSamples::Known(samples) if samples.is_empty() => Err(none()),
            SegmentSamples::Known(samples) => Ok(Resolved::Known(segment, samples)),
            SegmentSamples::Needs(ranges) => {
                let fragments = self.of_object(index, ranges).collect();
                Ok(Resolved::Needs(Needs { fragments, reach: self.reach([(index, &segment)]) }))
            }
        }
    }

    /// Returns the samples of a segment, or the ranges that must be read to know them.
    pub(super) fn samples(
        &self,
        track: usize,
        segment: &Segment,
        choice: SampleChoice,
    ) -> Result<SegmentSamples, PackError> {
        let of_title = self.title.track(&self.title.tracks()[track]);
        let mut segment = segment.clone();
        if let Some(place) = choice.place() {
            let index = iframes::at_place(of_title, &segment, place).unwrap_or(segment.cut.end);
            segment.cut = index..index.saturating_add(1).min(segment.cut.end);
        }
        if matches!(of_title.samples, Samples::Table(_)) && segment.cut.len() > MAX_SAMPLES {
            return Err(PackError::TooLarge("more samples than a segment takes"));
        }
        let mut samples = self.title.samples(track, &segment, self.known);
        if let (SegmentSamples::Known(samples), Some(_)) = (&mut samples, choice.place()) {
            samples.truncate(1);
        }
        Ok(samples)
    }

    /// Returns byte ranges of a track's object.
    pub(super) fn of_object(
        &self,
        track: usize,
        ranges: Vec<Range<u64>>,
    ) -> impl Iterator<Item = SourceRange> + use<> {
        let object = self.title.tracks()[track].object;
        ranges.into_iter().map(move |range| SourceRange { object, range })
    }

    /// Returns the bytes of the objects in the same stretch of the grid as these segments.
    pub(super) fn reach<'s>(
        &self,
        segments: impl IntoIterator<Item = (usize, &'s Segment)>,
    ) -> Vec<SourceRange> {
        let mut reach: Vec<SourceRange> = Vec::new();
        let mut last = None;
        for (track, segment) in segments {
            // A segment that a clip cuts has the whole stretch: caches cut by the grid.
            let Some(grid) = self.selected.whole.grid_range(track, &segment.cut) else { continue };
            let object = self.title.tracks()[track].object;
            if self.title.objects()[object].inline.is_some() {
                continue;
            }
            let same = Some((object, grid.clone()));
            if last == same {
                continue;
            }
            last = same;
            let Some(range) = self.selected.whole.reach_of(object, &grid) else { continue };
            match reach.iter_mut().find(|known| known.object == object) {
                Some(SourceRange { range: known, .. }) => {
                    *known = known.start.min(range.start)..known.end.max(range.end);
                }
                None => reach.push(SourceRange { object, range }),
            }
        }
        reach
    }

    /// Plans the Smooth Streaming fragment that begins at `time`, in units of 100 ns.
    pub(super) fn smooth_fragment(&self, name: &TrackName, time: u64) -> Result<Planned, PackError> {
        let (index, track) = find_carried(self.title, Protocol::Smooth, name)?;
        let clock = smooth::clock(self.title);
        let number = i64::try_from(time).ok().and_then(|time| clock.segment_at(index, time));
        let title_track = &self.title.tracks()[index];
        let segment = number.and_then(|number| title_track.segment(number));
        if is_made_for_smooth(track)
            && let Some(segment) = &segment
        {
            let form = TextForm::Ttml(smooth::TextFragment::new(&clock, index, segment));
            return self.converted(index, Some(segment.clone()), time, form);
        }
        let moved = self.moved();
        let what = format_args!("smooth segment {} {time}{moved}", displayed_rep_id(name));
        self.single(index, segment, time, SampleChoice::All, what, |segment, samples, form| {
            let place = (index, title_track.object);
            Ok((smooth::media(&clock, place, segment, samples, form.encryption())?, ""))
        })
    }
}

/// The parts of a segment, and a text that its digest adds.
type MadeParts = Result<(Vec<Part>, &'static str), PackError>;

/// A segment with its samples, or what must be read to know them.
pub(super) enum Resolved {
    Known(Segment, Vec<Sample>),
    Needs(Needs),
}

/// Returns true if a segment has the samples of a choice.
pub(super) fn has_choice(track: &Track, segment: &Segment, choice: SampleChoice) -> bool {
    choice.place().is_none_or(|place| iframes::at_place(track, segment, place).is_some())
}

/// Returns `Content-Type` of CMAF tracks (ISO/IEC 23000-19 §7.3.3.1 and RFC 4337).
pub(super) fn cmaf_type(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "video/mp4",
        TrackKind::Audio => "audio/mp4",
        TrackKind::Text => "application/mp4",
    }
}
