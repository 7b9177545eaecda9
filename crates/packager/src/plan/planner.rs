//! The planner: finds the tracks, segments and samples of a request and makes a plan of them.

use super::{
    Class, MediaFirst, MediaSegment, Needs, Part, Plan, Planned, SourceRange, TS_TYPE,
    sealed::{ClearSegment, Sealing},
};
use crate::{
    Address, PackError,
    address::{Profile, displayed_rep_id, rep_id},
    carry::{Protocol, find_carried},
    clear_lead::LeadCheck,
    digest::{CmafText, Fmp4Text, SampleChoice, TsText, cut_text, digest_of, packed_text},
    segment::{
        MAX_SAMPLES, PackedTracks, TrackShare,
        cmaf::{self, SampleForm},
        f4f, iframes, smooth,
        text::{CONVERTER, TextForm, TtmlSegment, is_made_for_smooth, is_made_ttml},
        ts,
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
use latemux_protect::SampleAes;
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
    fn moved(&self) -> String {
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
    fn samples(
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
    fn of_object(&self, track: usize, ranges: Vec<Range<u64>>) -> impl Iterator<Item = SourceRange> + use<> {
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

    /// Returns tracks of different kinds that are packed together. Video comes first, whatever the
    /// order in the URL, so that a segment has one body.
    fn together(
        &self,
        protocol: Protocol,
        names: &[TrackName],
    ) -> Result<Vec<(usize, &'a Track)>, PackError> {
        let find = |name| find_carried(self.title, protocol, name);
        let mut tracks = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        tracks.sort_by_key(|&(index, track)| (track.kind, index));
        let has_twice = tracks.windows(2).any(|w| w[0].1.kind == w[1].1.kind);
        if has_twice || tracks.is_empty() {
            Err(PackError::NoSuchTrack(joined_names(names)))
        } else {
            Ok(tracks)
        }
    }

    /// Plans the init segment of tracks that share segments of fMP4.
    pub(super) fn muxed_init(&self, names: &[TrackName]) -> Result<Planned, PackError> {
        if self.sealing.is_some() {
            return Err(PackError::CannotProtect("segments of several tracks"));
        }
        let tracks = self.together(Protocol::HlsCmaf, names)?;
        let ids: Vec<String> =
            tracks.iter().map(|&(index, _)| rep_id(&self.title.tracks()[index].name)).collect();
        let tracks: Vec<&Track> = tracks.into_iter().map(|(_, track)| track).collect();
        let kind = tracks.first().map_or(TrackKind::Video, |track| track.kind);
        Ok(self.init(kind, format_args!("fmp4 init {}", ids.join(" ")), cmaf::muxed_init(&tracks)))
    }

    /// Plans an fMP4 segment (1-based) of several tracks.
    pub(super) fn muxed_segment(&self, names: &[TrackName], number: u32) -> Result<Planned, PackError> {
        self.muxed(Protocol::HlsCmaf, names, number, SampleChoice::All, |segment| {
            let kind = segment.shares.first().map_or(TrackKind::Video, |share| share.track.kind);
            let parts = cmaf::muxed_media(number, &segment.shares)?;
            let what = format_args!("{}", Fmp4Text(&segment.what));
            Ok(self.ready(Class::Media, cmaf_type(kind), what, parts, segment.reach))
        })
    }

    /// Plans a segment (1-based) of several tracks. `plan` plans it once its samples are known.
    fn muxed(
        &self,
        protocol: Protocol,
        names: &[TrackName],
        number: u32,
        choice: SampleChoice,
        plan: impl FnOnce(MuxedSegment<'a>) -> Result<Planned, PackError>,
    ) -> Result<Planned, PackError> {
        let all = || joined_names(names);
        if self.sealing.is_some_and(|sealing| sealing.cover.scheme.is_common_encryption()) {
            return Err(PackError::CannotProtect("segments of several tracks"));
        }
        let tracks = self.together(protocol, names)?;
        if let Some((_, text)) = tracks.iter().find(|(_, track)| !is_muxable(protocol, track)) {
            return Err(PackError::CannotCarry { protocol: protocol.name(), format: text.codec.format });
        }
        let is_video = tracks.iter().all(|(_, track)| track.kind == TrackKind::Video);
        if choice != SampleChoice::All && !is_video {
            return Err(PackError::NoSuchTrack(all()));
        }
        let indexes: Vec<usize> = tracks.iter().map(|&(index, _)| index).collect();
        let none = || PackError::NoSuchSegment { track: all(), segment: number.to_string() };
        let joined =
            self.selected.minimum.filter(|_| protocol != Protocol::Hds && choice == SampleChoice::All);
        let packed = PackedTracks::new(self.title, &indexes).ok_or_else(none)?.joined(joined);
        let is_there = |n: &u32| packed.lead().numbers().contains(n);
        let at = number.checked_sub(1).filter(is_there).ok_or_else(none)?;
        let mut shares = Vec::with_capacity(indexes.len());
        let mut fragments: Vec<SourceRange> = Vec::new();
        let segments: Vec<_> = packed.shares(at).collect();
        let mut shared = segments.iter().zip(&tracks);
        let has_choice = |(share, track): (&(usize, Option<Segment>), &(usize, &Track))| {
            share.1.as_ref().is_none_or(|segment| has_choice(track.1, segment, choice))
        };
        if !shared.all(has_choice) {
            return Err(none());
        }
        let used = segments.iter().filter_map(|(index, segment)| Some((*index, segment.as_ref()?)));
        let reach = if choice == SampleChoice::All { self.reach(used) } else { Vec::new() };
        for ((index, segment), &(_, track)) in segments.into_iter().zip(&tracks) {
            let known = segment.as_ref().map(|segment| self.samples(index, segment, choice)).transpose()?;
            match known.unwrap_or_else(|| SegmentSamples::Known(Vec::new())) {
                SegmentSamples::Known(samples) => {
                    let object = self.title.tracks()[index].object;
                    shares.push(TrackShare { track, index, object, segment, samples });
                }
                SegmentSamples::Needs(ranges) => fragments.extend(self.of_object(index, ranges)),
            }
        }
        // Tracks of one object often share fragments.
        fragments.sort_by_key(|source| (source.object, source.range.start));
        fragments.dedup();
        if !fragments.is_empty() {
            return Ok(Planned::Needs(Needs { fragments, reach }));
        }
        let names = indexes.iter().map(|&i| &self.title.tracks()[i].name);
        let segments = shares.iter().map(|share| share.segment.as_ref());
        let cut = cut_text(self.selected, &indexes, at, segments);
        let present = shares.iter().filter_map(|share| Some((share.index, share.segment.as_ref()?)));
        let is_lead = self.lead.holds(self.selected, present);
        plan(MuxedSegment { at, what: packed_text(names, number, &cut), is_lead, shares, reach })
    }

    /// Plans a TS segment (1-based).
    pub(super) fn ts_segment(
        &self,
        names: &[TrackName],
        number: u32,
        choice: SampleChoice,
    ) -> Result<Planned, PackError> {
        self.muxed(Protocol::HlsTs, names, number, choice, |segment| {
            let MuxedSegment { at, what, is_lead, shares, reach } = segment;
            let clear = self.digest(format_args!("{}", TsText(choice, &what)));
            let cover = self.sealing.filter(|_| !is_lead).map(|sealing| sealing.cover);
            let digest = cover.map_or(clear, |cover| cover.digest(clear));
            let cipher = cover.map(|cover| Box::new(SampleAes::new(cover.key)));
            Ok(match ts::plan_ts(shares, at, cipher)? {
                ts::TsPlan::Ready(segment) => Planned::Ready(Plan {
                    content_type: TS_TYPE,
                    content_length: segment.content_length,
                    digest,
                    class: Class::Media,
                    parts: segment.parts,
                    transform: Some(segment.muxer),
                    reach,
                }),
                ts::TsPlan::NeedsMedia(segment) => {
                    let segment = MediaSegment::Ts { segment, track: joined_names(names) };
                    Planned::NeedsMedia(MediaFirst { digest, segment, reach, seal: None })
                }
            })
        })
    }

    /// Plans an HDS fragment (1-based).
    pub(super) fn hds_fragment(&self, names: &[TrackName], number: u32) -> Result<Planned, PackError> {
        self.muxed(Protocol::Hds, names, number, SampleChoice::All, |segment| {
            let parts = f4f::media(&f4f::clock(self.title), number, &segment.shares)?;
            let what = format_args!("f4f segment {}{}", segment.what, self.moved());
            Ok(self.ready(Class::Media, "video/f4f", what, parts, segment.reach))
        })
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

/// Returns true if a track can be in a segment with others. Text beside TS has segments of its own,
/// and 3GPP text is converted.
fn is_muxable(protocol: Protocol, track: &Track) -> bool {
    track.kind != TrackKind::Text || (protocol != Protocol::HlsTs && track.codec.config != Config::Tx3g)
}

/// Returns true if a segment has the samples of a choice.
fn has_choice(track: &Track, segment: &Segment, choice: SampleChoice) -> bool {
    choice.place().is_none_or(|place| iframes::at_place(track, segment, place).is_some())
}

/// A segment of tracks packed together.
struct MuxedSegment<'a> {
    /// The segment's number, 0-based.
    at: u32,
    /// Text for digests: names of the tracks, video first, number and cut.
    what: String,
    /// True if it is part of the clear lead.
    is_lead: bool,
    /// The share of each track, video first.
    shares: Vec<TrackShare<'a>>,
    /// The ranges that a cache may fetch along, see [`Plan::reach`].
    reach: Vec<SourceRange>,
}

/// Characters that usually follow the stem of a name in such a message.
const USUAL_SUFFIX: usize = 16;

/// Joins the names of tracks for an error message.
fn joined_names(names: &[TrackName]) -> String {
    let mut text = String::with_capacity(names.iter().map(|name| name.stem.len() + USUAL_SUFFIX).sum());
    for (place, name) in names.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{name}", if place > 0 { " with " } else { "" });
    }
    text
}

/// Returns `Content-Type` of CMAF tracks (ISO/IEC 23000-19 §7.3.3.1 and RFC 4337).
fn cmaf_type(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "video/mp4",
        TrackKind::Audio => "audio/mp4",
        TrackKind::Text => "application/mp4",
    }
}
