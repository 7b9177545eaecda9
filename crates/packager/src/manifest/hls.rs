//! HLS playlists (RFC 8216, and its successor draft-pantos-hls-rfc8216bis for later additions).
//!
//! Every track has its own playlist, except for the only audio track of a title in TS, which is
//! muxed with the video unless that makes segments long ([`muxing`]). A title is sent in TS if TS
//! carries all of its video and some of its audio, else in CMAF.

mod attributes;
mod keys;
mod media;
mod multivariant;
mod muxing;
mod rates;
mod renditions;
mod targets;
mod thumbnails;

pub(crate) use media::{iframes, media};
pub(crate) use multivariant::multivariant;
pub(crate) use thumbnails::{iframes as thumbnail_iframes, playlist as thumbnail_playlist};

use super::{MICROS, is_listed, track};
use crate::{
    PackError,
    address::HlsContainer,
    carry::{Protocol, carries, sends_webvtt},
    segment::{PackedTracks, iframes::IFrame},
};
use latemux_index::{
    Title, Track,
    media::TrackKind,
    title::{TitleTrack, TrackName},
};
use latemux_isobmff::{FourCc, Time, codec::Config, time::Round};
use std::time::Duration;

/// Returns the tracks of a kind that a protocol carries, as indexes into [`Title::tracks`].
fn carried(title: &Title, kind: TrackKind, protocol: Protocol) -> Vec<usize> {
    title.of_kind(kind).filter(|&i| is_listed(title, i, protocol)).collect()
}

/// Returns the protocol of a title as a whole.
fn protocol_of(title: &Title, container: HlsContainer) -> Protocol {
    if container == HlsContainer::Cmaf {
        return Protocol::HlsCmaf;
    }
    let count = |kind, protocol| carried(title, kind, protocol).len();
    let loses = |kind| count(kind, Protocol::HlsTs) < count(kind, Protocol::HlsCmaf);
    let is_silent = count(TrackKind::Audio, Protocol::HlsTs) == 0 && loses(TrackKind::Audio);
    if loses(TrackKind::Video) || is_silent { Protocol::HlsCmaf } else { Protocol::HlsTs }
}

/// Returns the name of a track's coding in `CODECS`. Text in WebVTT has none: RFC 8216 leaves it
/// out, and some players refuse a variant with it.
///
/// MP3 in TS is named by its audio object type (ISO/IEC 14496-3 Table 1.17). An `esds`, from which
/// the name `mp4a.6B` comes, exists in MP4 only, and hls.js refuses that name in TS.
fn codec_name<'t>(title: &Title, track: &'t Track, protocol: Protocol) -> &'t str {
    match (protocol, &track.codec.config) {
        _ if track.kind == TrackKind::Text && sends_webvtt(title, protocol) => "",
        (Protocol::HlsTs, Config::Mp3) => "mp4a.40.34",
        _ => &track.codec.rfc6381,
    }
}

/// Returns the container that URLs in a playlist of a protocol name.
fn container_of(protocol: Protocol) -> HlsContainer {
    if protocol == Protocol::HlsTs { HlsContainer::Auto } else { HlsContainer::Cmaf }
}

/// Returns the protocol in which tracks can be sent together: TS or fMP4.
fn protocol_for(title: &Title, tracks: &[usize], container: HlsContainer) -> Result<Protocol, PackError> {
    let format = tracks.first().map_or(FourCc(*b"none"), |&i| track(title, i).codec.format);
    let all = |protocol| tracks.iter().all(|&i| carries(protocol, track(title, i)).is_ok());
    if container == HlsContainer::Auto && all(Protocol::HlsTs) {
        Ok(Protocol::HlsTs)
    } else if all(Protocol::HlsCmaf) {
        Ok(Protocol::HlsCmaf)
    } else {
        Err(PackError::CannotCarry { protocol: Protocol::HlsCmaf.name(), format })
    }
}

/// Iterates over number and duration in microseconds of the segments of a playlist. Boundaries are
/// rounded, not durations: however many there are, the sum is off by less than one microsecond.
fn listed_segments<'a>(packed: &PackedTracks<'a>) -> impl Iterator<Item = (u32, i64)> + use<'a> {
    let packed = *packed;
    let micros = |time: Time| time.in_scale(MICROS, Round::Nearest);
    let mut last: Option<(Time, i64)> = None;
    packed.numbers().filter_map(move |number| {
        let (start, end) = packed.times(number)?;
        // Most segments start where the one before ends.
        let before = last.filter(|(time, _)| time.ticks == start.ticks).map(|(_, micros)| micros);
        let from = before.unwrap_or_else(|| micros(start));
        let until = micros(end);
        last = Some((end, until));
        Some((number, (until - from).max(0)))
    })
}

/// Returns the microseconds from each I-frame that the playlist of a track lists up to the next
/// one, or to the end of the playlist. Times are rounded as in [`listed_segments`].
fn iframe_durations(title: &Title, track: usize, frames: &[IFrame]) -> Vec<i64> {
    let tracks = [track];
    let Some(packed) = packed_for_playlist(title, &tracks, None) else { return Vec::new() };
    let scale = title.track(packed.lead()).timescale;
    let micros = |time: Time| time.in_scale(MICROS, Round::Nearest);
    let last = frames.last().and_then(|frame| packed.times(frame.segment));
    let end = last.map_or(0, |(_, end)| micros(end));
    let starts: Vec<i64> = frames.iter().map(|frame| micros(Time::new(frame.start, scale))).collect();
    let ends = starts.iter().copied().skip(1).chain([end]);
    starts.iter().zip(ends).map(|(start, end)| (end - start).max(0)).collect()
}

/// Packs the tracks of a media playlist. A playlist of video alone lasts as long as the title,
/// though the video may end earlier: some players play a title only as long as its shortest
/// playlist.
fn packed_for_playlist<'a>(
    title: &'a Title,
    tracks: &'a [usize],
    minimum: Option<Duration>,
) -> Option<PackedTracks<'a>> {
    let packed = PackedTracks::new(title, tracks)?.joined(minimum);
    let end = |track: &TitleTrack| Some(Time::new(*track.times.last()?, title.track(track).timescale));
    let kind = |named: &TitleTrack| title.track(named).kind;
    if tracks.len() != 1 || kind(packed.lead()) != TrackKind::Video {
        return Some(packed);
    }
    let own = end(packed.lead())?.in_scale(MICROS, Round::Up);
    let longest = title.whole_tracks().filter(|named| kind(named) != TrackKind::Text).filter_map(end).max();
    let target = i64::try_from(title.target().as_micros()).unwrap_or(i64::MAX);
    let outlasts = |end: &Time| end.in_scale(MICROS, Round::Up) - own > target;
    Some(packed.lasting(longest.filter(outlasts)))
}

/// Returns `EXT-X-TARGETDURATION` for segments: the longest duration in whole seconds (RFC 8216bis
/// §4.4.3.1).
fn target_duration(micros: impl Iterator<Item = i64>) -> i64 {
    micros.map(|micros| (micros + 500_000) / 1_000_000).max().unwrap_or(0).max(1)
}

fn find(title: &Title, names: &[TrackName]) -> Result<Vec<usize>, PackError> {
    names
        .iter()
        .map(|name| title.find(name).ok_or_else(|| PackError::NoSuchTrack(name.to_string())))
        .collect()
}
