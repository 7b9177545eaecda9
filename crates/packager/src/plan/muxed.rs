//! Plans of segments that hold several tracks: transport streams, fMP4 of HLS, and HDS.

use super::{
    Class, MediaFirst, MediaSegment, Needs, Plan, Planned, SourceRange, TS_TYPE,
    planner::{Planner, cmaf_type, has_choice},
};
use crate::{
    PackError,
    address::rep_id,
    carry::{Protocol, find_carried},
    digest::{Fmp4Text, SampleChoice, TsText, cut_text, packed_text},
    segment::{PackedTracks, TrackShare, cmaf, f4f, ts},
};
use latemux_index::{
    Track,
    media::TrackKind,
    title::{Segment, SegmentSamples, TrackName},
};
use latemux_isobmff::codec::Config;
use latemux_protect::SampleAes;
use std::fmt::Write as _;

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

impl<'a> Planner<'a> {
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

    /// Plans an fMP4 segment of HLS (1-based): the CMAF segment of one track, or several tracks.
    pub(super) fn hls_segment(&self, names: &[TrackName], number: u32) -> Result<Planned, PackError> {
        let [name] = names else { return self.muxed_segment(names, number) };
        let find = |t: usize| {
            let packed =
                PackedTracks::new(self.title, std::slice::from_ref(&t))?.joined(self.selected.minimum);
            packed.share(t, number.checked_sub(1)?)
        };
        self.cmaf_segment(Protocol::HlsCmaf, name, find, u64::from(number), SampleChoice::All)
    }

    /// Plans an fMP4 segment (1-based) of several tracks.
    fn muxed_segment(&self, names: &[TrackName], number: u32) -> Result<Planned, PackError> {
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
}

/// Returns true if a track can be in a segment with others. Text beside TS has segments of its own,
/// and 3GPP text is converted.
fn is_muxable(protocol: Protocol, track: &Track) -> bool {
    track.kind != TrackKind::Text || (protocol != Protocol::HlsTs && track.codec.config != Config::Tx3g)
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
