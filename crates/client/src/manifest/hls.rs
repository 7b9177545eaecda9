//! HLS playlists (RFC 8216), parsed by `m3u8-rs`.

use super::{
    limits::{MAX_RENDITIONS, MAX_SEGMENTS},
    reference::join,
};
use crate::manifest_error::ManifestError;
use crate::presentation::{
    Addresses, ByteRange, Container, Deferred, Index, MediaKind, Presentation, Protocol, Rendition,
    RenditionSet, Resource, Segment, SegmentGroup, Segments, deferred::ReadSegments,
};
use m3u8_rs::{
    AlternativeMedia, AlternativeMediaType, Key, KeyMethod, Map, MasterPlaylist, MediaPlaylist, MediaSegment,
    Playlist, VariantStream,
};
use std::sync::Arc;
use url::Url;

/// Ticks per second: `EXTINF` is read in microseconds.
const TIMESCALE: u64 = 1_000_000;

/// The minimum tolerance in seconds. `EXTINF` may be rounded to whole seconds (§4.3.2.1), and
/// players follow the times of the media.
const TOLERANCE: f64 = 0.5;

pub(super) fn read(url: &Url, text: &str) -> Result<Presentation, ManifestError> {
    let sets = match parse(text)? {
        Playlist::MasterPlaylist(master) => multivariant(url, &master)?,
        Playlist::MediaPlaylist(media) => {
            let index = Index::Known(Arc::new(segments(url, &media)?));
            let rendition =
                Rendition { name: "media playlist".to_owned(), bandwidth: 0, index, coding: None };
            vec![RenditionSet { kind: MediaKind::Muxed, renditions: vec![rendition] }]
        }
    };
    Ok(Presentation { protocol: Protocol::Hls, sets })
}

/// Reads media playlists.
#[derive(Debug)]
struct PlaylistReader;

impl ReadSegments for PlaylistReader {
    fn read(&self, url: &Url, _: &Resource, body: &[u8]) -> Result<Segments, ManifestError> {
        let text = std::str::from_utf8(body).map_err(|_| ManifestError::invalid("not UTF-8"))?;
        media_playlist(url, text)
    }
}

fn media_playlist(url: &Url, text: &str) -> Result<Segments, ManifestError> {
    match parse(text)? {
        Playlist::MediaPlaylist(media) => segments(url, &media),
        Playlist::MasterPlaylist(_) => {
            Err(ManifestError::invalid("a multivariant playlist instead of a media playlist"))
        }
    }
}

fn parse(text: &str) -> Result<Playlist, ManifestError> {
    if !text.starts_with("#EXTM3U") {
        return Err(ManifestError::invalid("a playlist that does not begin with #EXTM3U"));
    }
    m3u8_rs::parse_playlist_res(text.as_bytes()).map_err(|_| ManifestError::invalid("not a playlist"))
}

/// Returns up to three sets: the variants that share the audio group of the first variant, that
/// group's default audio, and the default text.
fn multivariant(url: &Url, master: &MasterPlaylist) -> Result<Vec<RenditionSet>, ManifestError> {
    if master.variants.len() > MAX_RENDITIONS {
        return Err(ManifestError::TooMuch { what: "variants", limit: MAX_RENDITIONS });
    }
    let playable: Vec<&VariantStream> = master.variants.iter().filter(|v| !v.is_i_frame).collect();
    // Variants of audio alone are a fallback for bad connections if there are variants with video.
    let with_video: Vec<&VariantStream> = playable.iter().copied().filter(|v| has_video(v)).collect();
    let variants = if with_video.is_empty() { playable } else { with_video };
    let first = variants.first().ok_or_else(|| ManifestError::invalid("a playlist without variants"))?;
    let audio =
        first.audio.as_ref().and_then(|group| default_of(master, &AlternativeMediaType::Audio, group));
    let audio_url = audio.and_then(|audio| audio.uri.as_deref());
    let kind = match (audio_url, has_video(first)) {
        (Some(_), true) => MediaKind::Video,
        (None, true) => MediaKind::Muxed,
        (_, false) => MediaKind::Audio,
    };
    let mut renditions = Vec::new();
    for variant in variants.iter().filter(|v| v.audio == first.audio) {
        let bandwidth = variant.average_bandwidth.unwrap_or(variant.bandwidth);
        renditions.push(rendition(url, &variant.uri, bandwidth)?);
    }
    renditions.sort_by_key(|rendition| rendition.bandwidth);
    let mut sets = vec![RenditionSet { kind, renditions }];
    // Variants of audio alone already contain the audio of their group.
    if let Some(audio_url) = audio_url.filter(|_| kind == MediaKind::Video) {
        sets.push(RenditionSet { kind: MediaKind::Audio, renditions: vec![rendition(url, audio_url, 0)?] });
    }
    let text = first.subtitles.as_ref();
    let text = text.and_then(|group| default_of(master, &AlternativeMediaType::Subtitles, group));
    if let Some(text_url) = text.and_then(|text| text.uri.as_deref()) {
        sets.push(RenditionSet { kind: MediaKind::Text, renditions: vec![rendition(url, text_url, 0)?] });
    }
    Ok(sets)
}

/// Returns true if a variant has video, or does not state its codecs.
fn has_video(variant: &VariantStream) -> bool {
    const AUDIO_CODECS: [&str; 8] = ["mp4a", "ac-3", "ec-3", "ac-4", "Opus", "fLaC", "mhm1", "alac"];
    let is_audio =
        |codecs: &str| codecs.split(',').all(|c| AUDIO_CODECS.iter().any(|s| c.trim().starts_with(s)));
    variant.resolution.is_some() || !variant.codecs.as_deref().is_some_and(is_audio)
}

/// Returns the member of a group that plays by default (§4.3.4.1).
fn default_of<'a>(
    master: &'a MasterPlaylist,
    kind: &AlternativeMediaType,
    group: &str,
) -> Option<&'a AlternativeMedia> {
    let mut members =
        master.alternatives.iter().filter(|media| media.media_type == *kind && media.group_id == group);
    members.clone().find(|media| media.default).or_else(|| members.next())
}

fn rendition(url: &Url, reference: &str, bandwidth: u64) -> Result<Rendition, ManifestError> {
    let resource = Resource { url: join(url, reference)?, range: None };
    let index = Index::Deferred(Arc::new(Deferred::new(resource, PlaylistReader)));
    Ok(Rendition { name: reference.to_owned(), bandwidth, index, coding: None })
}

fn segments(url: &Url, media: &MediaPlaylist) -> Result<Segments, ManifestError> {
    if !media.end_list {
        return Err(ManifestError::unsupported("a live playlist (without EXT-X-ENDLIST)"));
    }
    if media.segments.len() > MAX_SEGMENTS {
        return Err(ManifestError::TooMuch { what: "segments of a rendition", limit: MAX_SEGMENTS });
    }
    if media.segments.is_empty() {
        return Err(ManifestError::invalid("a playlist without segments"));
    }
    let half = media.target_duration as f64 / 2.0;
    let encrypted = media.segments.iter().filter_map(|s| s.key.as_ref()).any(hides_container);
    let mut groups: Vec<SegmentGroup> = Vec::new();
    let mut map: Option<&Map> = None;
    let mut timeline = 0_u32;
    let mut addresses: Vec<Arc<Url>> = Vec::new();
    let mut last_uri: Option<&str> = None;
    let mut next_offset = 0;
    let mut start: i64 = 0;
    let mut entries = Vec::with_capacity(media.segments.len());
    for segment in &media.segments {
        // A new map and a discontinuity both start a group: the first changes the init segment, the
        // second the times (§4.3.2.3, §4.3.2.5).
        let breaks = segment.discontinuity && !groups.is_empty();
        let maps = segment.map.as_ref().is_some_and(|new| map != Some(new));
        map = segment.map.as_ref().or(map);
        timeline += u32::from(breaks);
        if groups.is_empty() || breaks || maps {
            if let Some(group) = groups.last_mut() {
                group.addresses = Addresses::List(std::mem::take(&mut addresses));
                last_uri = None;
            }
            let container = if encrypted { Container::Opaque } else { container(segment, map.is_some()) };
            let init = map.map(|map| init(url, map)).transpose()?;
            let later = Addresses::List(Vec::new());
            let group = SegmentGroup::new(container, TIMESCALE, half.max(TOLERANCE), later);
            groups.push(SegmentGroup { first: entries.len(), timeline, init, ..group });
        }
        if last_uri != Some(segment.uri.as_str()) {
            addresses.push(Arc::new(join(url, &segment.uri)?));
            (last_uri, next_offset) = (Some(segment.uri.as_str()), 0);
        }
        // Without an offset, a range starts where the one before it ended (§4.3.2.2).
        let range = segment.byte_range.as_ref();
        let range = range.map(|r| byte_range(r.length, r.offset.unwrap_or(next_offset))).transpose()?;
        next_offset = range.map_or(next_offset, |range| range.last.saturating_add(1));
        let duration = microseconds(segment)?;
        let number = addresses.len() as u64 - 1;
        entries.push(Segment { start, duration, number, time: 0, range });
        start = start.checked_add_unsigned(duration).ok_or_else(|| ManifestError::beyond("a time"))?;
    }
    if let Some(group) = groups.last_mut() {
        group.addresses = Addresses::List(addresses);
    }
    Ok(Segments { entries, groups })
}

fn init(url: &Url, map: &Map) -> Result<Resource, ManifestError> {
    let range = map.byte_range.as_ref().map(|range| byte_range(range.length, range.offset.unwrap_or(0)));
    Ok(Resource { url: join(url, &map.uri)?, range: range.transpose()? })
}

fn byte_range(length: u64, offset: u64) -> Result<ByteRange, ManifestError> {
    ByteRange::new(offset, length)
        .ok_or_else(|| ManifestError::invalid(format!("an invalid byte range: {length}@{offset}")))
}

/// Returns true for AES-128, which encrypts whole segments. The other methods leave packets and
/// boxes readable (§4.3.2.4).
fn hides_container(key: &Key) -> bool {
    !matches!(key.method, KeyMethod::None | KeyMethod::SampleAES)
        && key.method != KeyMethod::Other("SAMPLE-AES-CTR".to_owned())
}

/// Returns the container that the extension of a segment suggests. A playlist does not state it.
fn container(first: &MediaSegment, has_init: bool) -> Container {
    if has_init {
        return Container::Cmaf;
    }
    let path = first.uri.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit('.').next().map(str::to_ascii_lowercase).as_deref() {
        Some("aac" | "ac3" | "ec3" | "mp3") => Container::PackedAudio,
        Some("vtt" | "webvtt") => Container::WebVtt,
        _ => Container::Ts,
    }
}

fn microseconds(segment: &MediaSegment) -> Result<u64, ManifestError> {
    let duration = f64::from(segment.duration);
    // The limit is a day.
    if !(0.0..=86_400.0).contains(&duration) {
        return Err(ManifestError::invalid(format!("an invalid EXTINF: {duration}")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 86400 s")]
    let micros = (duration * 1e6).round() as u64;
    Ok(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(uri: &str, duration: f32) -> MediaSegment {
        MediaSegment { uri: uri.to_owned(), duration, ..MediaSegment::default() }
    }

    #[test]
    fn extensions_select_the_container() {
        for (uri, expected) in [
            ("a.ts", Container::Ts),
            ("a.AAC?b=c.vtt", Container::PackedAudio),
            ("a.ec3#x", Container::PackedAudio),
            ("a/b.webvtt", Container::WebVtt),
            ("a", Container::Ts),
        ] {
            assert_eq!(container(&segment(uri, 1.0), false), expected, "{uri}");
            assert_eq!(container(&segment(uri, 1.0), true), Container::Cmaf, "{uri} with a map");
        }
    }

    #[test]
    fn only_encryption_of_whole_segments_hides_the_container() {
        let hides = |method: KeyMethod| hides_container(&Key { method, ..Key::default() });
        assert!(hides(KeyMethod::AES128));
        assert!(!hides(KeyMethod::None) && !hides(KeyMethod::SampleAES));
        assert!(!hides(KeyMethod::Other("SAMPLE-AES-CTR".to_owned())));
        assert!(hides(KeyMethod::Other("AES-256".to_owned())));
    }

    #[test]
    fn durations_are_limited_to_a_day() {
        assert_eq!(
            (microseconds(&segment("a", 2.5)), microseconds(&segment("a", 0.0))),
            (Ok(2_500_000), Ok(0))
        );
        for wrong in [-1.0, 86_401.0, f32::NAN, f32::INFINITY] {
            assert!(microseconds(&segment("a", wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variants_without_codecs_count_as_video() {
        let variant = |codecs: Option<&str>| VariantStream {
            codecs: codecs.map(str::to_owned),
            ..VariantStream::default()
        };
        assert!(has_video(&variant(None)) && has_video(&variant(Some("mp4a.40.2, avc1.64001f"))));
        assert!(!has_video(&variant(Some("mp4a.40.2"))) && !has_video(&variant(Some("ec-3, mp4a.40.5"))));
    }
}
