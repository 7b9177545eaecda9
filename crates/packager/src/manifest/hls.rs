//! HLS playlists (RFC 8216, and its successor draft-pantos-hls-rfc8216bis for later additions).
//!
//! Every track has its own playlist, except for the only audio track of a title in TS, which is
//! muxed with the video. A title is sent in TS if TS carries all of its video and some of its
//! audio, else in CMAF.

mod attributes;
mod media;
mod multivariant;
mod rates;
mod renditions;

pub(crate) use media::{iframes, media};
pub(crate) use multivariant::multivariant;

use super::{MICROS, is_listed, track};
use crate::{
    PackError,
    address::HlsContainer,
    carry::{Protocol, carries},
    segment::PackedTracks,
};
use latemux_index::{Title, Track, media::TrackKind, title::TrackName};
use latemux_isobmff::{FourCc, Time, codec::Config, time::Round};

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

/// Returns the name of a track's coding in `CODECS`.
///
/// MP3 in TS is named by its audio object type (ISO/IEC 14496-3 Table 1.17). An `esds`, from which
/// the name `mp4a.6B` comes, exists in MP4 only, and hls.js refuses that name in TS.
fn codec_name(track: &Track, protocol: Protocol) -> &str {
    match (protocol, &track.codec.config) {
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
        let (from, until) = (before.unwrap_or_else(|| micros(start)), micros(end));
        last = Some((end, until));
        Some((number, (until - from).max(0)))
    })
}

fn find(title: &Title, names: &[TrackName]) -> Result<Vec<usize>, PackError> {
    names
        .iter()
        .map(|name| title.find(name).ok_or_else(|| PackError::NoSuchTrack(name.to_string())))
        .collect()
}
