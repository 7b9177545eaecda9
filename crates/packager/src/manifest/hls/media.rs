//! Media and I-frame playlists.

use super::{
    attributes::PlaylistTag, container_of, find, iframe_durations, keys::SegmentKeys, listed_segments,
    packed_for_playlist, protocol_for, target_duration, targets::VideoTargets,
};
use crate::{
    PackError, Resource,
    address::{HlsContainer, IFrameNumber, Links},
    carry::{Protocol, sends_webvtt},
    digest::SampleChoice,
    manifest::{access_point::is_independent, check_size},
    protection::Protection,
    segment::iframes::{self, IFrame},
    selection::Selected,
};
use latemux_index::{media::TrackKind, title::TrackName};
use std::{fmt::Write as _, time::Duration};

/// Returns a media playlist of one track, or of video and audio muxed. Fails with
/// [`PackError::NoSuchTrack`] for unknown tracks or two of one kind, with
/// [`PackError::CannotCarry`] if the container lacks their codec, with [`PackError::NothingInClip`]
/// without segments, with [`PackError::ManifestTooLarge`] for too many or too long URLs.
pub(crate) fn media(
    selected: &Selected<'_>,
    links: &Links<'_>,
    tracks: &[TrackName],
    container: HlsContainer,
    protection: Option<&Protection>,
) -> Result<String, PackError> {
    let title = selected.title();
    let mut indexes = find(title, tracks)?;
    let kind = |i: usize| title.track(&title.tracks()[i]).kind;
    // Audio comes first, whatever the order of names, so that a segment has one URL.
    indexes.sort_by_key(|&i| (std::cmp::Reverse(kind(i)), i));
    if indexes.is_empty() || indexes.windows(2).any(|pair| kind(pair[0]) == kind(pair[1])) {
        let all: Vec<String> = tracks.iter().map(TrackName::to_string).collect();
        return Err(PackError::NoSuchTrack(all.join(" with ")));
    }
    let protocol = protocol_for(title, &indexes, container)?;
    let names: Vec<TrackName> = indexes.iter().map(|&i| title.tracks()[i].name.clone()).collect();
    let minimum = selected.minimum;
    let keys = SegmentKeys::of(protection, selected, links, protocol, &indexes, minimum)?;
    let list = Playlist { selected, tracks: &indexes, minimum, keys };
    let entries = list.segments()?;
    let tags = if indexes.iter().all(|&i| is_independent(title, i)) { INDEPENDENT } else { "" };
    let url = |segment: &Resource, number| {
        links.hls_segment(segment, selected.extent(&indexes, selected.minimum, number))
    };
    if let ([name], Some(&index)) = (names.as_slice(), indexes.first())
        && kind(index) == TrackKind::Text
        && sends_webvtt(title, protocol)
    {
        let container = container_of(protocol);
        let segment = |n: u32| Resource::HlsText(name.clone(), n + 1, container);
        return list.text(3, tags, None, &entries, |n, _| url(&segment(n), n));
    }
    if protocol == Protocol::HlsTs {
        // Decimal durations need version 3.
        return list
            .text(3, tags, None, &entries, |n, _| url(&Resource::HlsTsSegment(names.clone(), n + 1), n));
    }
    // EXT-X-MAP outside of I-frame playlists needs version 6.
    let init = InitUrls::of(links, &names);
    list.text(6, tags, Some(&init), &entries, |n, _| url(&Resource::HlsSegment(names.clone(), n + 1), n))
}

/// Returns an I-frame playlist: every sync sample of a video track, each as a resource of its own.
/// Fails like [`media`], and for tracks that are not video.
pub(crate) fn iframes(
    selected: &Selected<'_>,
    links: &Links<'_>,
    name: &TrackName,
    container: HlsContainer,
    protection: Option<&Protection>,
) -> Result<String, PackError> {
    let title = selected.title();
    let indexes = find(title, std::slice::from_ref(name))?;
    if indexes.iter().any(|&i| title.track(&title.tracks()[i]).kind != TrackKind::Video) {
        return Err(PackError::NoSuchTrack(name.to_string()));
    }
    let protocol = protocol_for(title, &indexes, container)?;
    let keys = SegmentKeys::of(protection, selected, links, protocol, &indexes, None)?;
    let list = Playlist { selected, tracks: &indexes, minimum: None, keys };
    let entries = list.iframes()?;
    let number = |segment, choice| IFrameNumber {
        segment: segment + 1,
        place: if let SampleChoice::IFrame(place) = choice { place } else { 1 },
    };
    // A sync sample is decodable alone, even at the start of an open GOP.
    let only = format!("{INDEPENDENT}#EXT-X-I-FRAMES-ONLY\n");
    if protocol == Protocol::HlsTs {
        list.text(4, &only, None, &entries, |n, choice| {
            links.hls_iframe(&Resource::HlsIFrameTs(name.clone(), number(n, choice)))
        })
    } else {
        let init = InitUrls::of(links, std::slice::from_ref(name));
        list.text(6, &only, Some(&init), &entries, |n, choice| {
            links.hls_iframe(&Resource::HlsIFrameCmaf(name.clone(), number(n, choice)))
        })
    }
}

/// The tag that promises that each segment is decodable without others (RFC 8216 §4.3.5.1).
pub(super) const INDEPENDENT: &str = "#EXT-X-INDEPENDENT-SEGMENTS\n";

/// The common parts of all playlists that list segments.
struct Playlist<'a> {
    selected: &'a Selected<'a>,
    tracks: &'a [usize],
    /// The shortest length of its segments, if they are joined.
    minimum: Option<Duration>,
    /// The keys of its segments, if they are encrypted.
    keys: Option<SegmentKeys<'a>>,
}

/// URLs of the init segments of a playlist.
struct InitUrls {
    /// URL for encrypted segments, and for all segments of a clear title.
    own: String,
    /// URL for the clear lead of an encrypted track.
    lead: Option<String>,
}

impl InitUrls {
    fn of(links: &Links<'_>, names: &[TrackName]) -> Self {
        let lead = match names {
            [only] => Some(links.hls_lead_init(only.clone())),
            _ => None,
        };
        Self { own: links.hls_init(names.to_vec()), lead }
    }

    /// Returns the URL for the first of the listed segments.
    fn first(&self, keys: Option<&SegmentKeys<'_>>, entries: &[Entry]) -> &str {
        let has_lead_init =
            |keys: &SegmentKeys<'_>| entries.first().is_some_and(|entry| keys.has_lead_init(entry.segment));
        let lead = self.lead.as_deref().filter(|_| keys.is_some_and(has_lead_init));
        lead.unwrap_or(&self.own)
    }
}

/// A URL of a playlist.
struct Entry {
    /// Number of the segment, 0-based in the whole title.
    segment: u32,
    choice: SampleChoice,
    /// Duration in microseconds.
    micros: i64,
}

impl Playlist<'_> {
    /// Returns the segments of the playlist. Fails with [`PackError::NothingInClip`] if there are
    /// none: the track may have ended before the clip begins.
    fn segments(&self) -> Result<Vec<Entry>, PackError> {
        let packed = packed_for_playlist(self.selected.title(), self.tracks, self.minimum);
        let packed = packed.ok_or(PackError::NothingInClip)?;
        let listed = listed_segments(&packed);
        let entry = |(segment, micros)| Entry { segment, choice: SampleChoice::All, micros };
        let entries: Vec<Entry> = listed.map(entry).collect();
        if entries.is_empty() { Err(PackError::NothingInClip) } else { Ok(entries) }
    }

    /// Returns the I-frames of the playlist's only track. Fails like [`Self::segments`].
    fn iframes(&self) -> Result<Vec<Entry>, PackError> {
        let index = self.tracks.first().copied().unwrap_or_default();
        let whole = self.selected.index_in_whole(index).and_then(|i| self.selected.whole.tracks().get(i));
        let title = self.selected.title();
        let frames = iframes::of_track(title, index);
        let (Some(whole), false) = (whole, frames.is_empty()) else { return Err(PackError::NothingInClip) };
        let places = iframes::places(self.selected.whole, whole, &frames);
        let entry = |((frame, place), micros): ((&IFrame, u32), i64)| Entry {
            segment: frame.segment,
            choice: SampleChoice::IFrame(place),
            micros,
        };
        let durations = iframe_durations(title, index, &frames);
        Ok(frames.iter().zip(places).zip(durations).map(entry).collect())
    }

    /// Returns the text of the playlist. `tags` are those that not all playlists have. `url`
    /// receives the 0-based number of a segment, and the samples of it.
    fn text(
        &self,
        version: u32,
        tags: &str,
        init: Option<&InitUrls>,
        entries: &[Entry],
        url: impl Fn(u32, SampleChoice) -> String,
    ) -> Result<String, PackError> {
        // The attributes of keys need version 5.
        let has_keys = self.keys.as_ref().is_some_and(SegmentKeys::are_some);
        let version = if has_keys { version.max(5) } else { version };
        let mut text = format!("#EXTM3U\n#EXT-X-VERSION:{version}\n");
        let target = target_duration(entries.iter().map(|entry| entry.micros));
        let target = target.max(VideoTargets::new(self.selected.title(), self.minimum).least(self.tracks));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "#EXT-X-TARGETDURATION:{target}");
        text.push_str("#EXT-X-PLAYLIST-TYPE:VOD\n");
        text.push_str(tags);
        if let Some(init) = init {
            // Before any key, because the key of a segment would apply to it, too.
            let first = init.first(self.keys.as_ref(), entries);
            PlaylistTag::new("EXT-X-MAP").quoted("URI", first).write(&mut text);
        }
        let own_init = init.map(|init| init.own.as_str());
        let mut keys = self.keys.as_ref().map(|keys| keys.writer(own_init));
        for &Entry { segment, choice, micros } in entries {
            if let Some(keys) = &mut keys {
                keys.write(segment, choice, &mut text);
            }
            let seconds = micros / 1_000_000;
            let fraction = micros % 1_000_000;
            let _ = writeln!(text, "#EXTINF:{seconds}.{fraction:06},\n{}", url(segment, choice));
            check_size(&text)?;
        }
        text.push_str("#EXT-X-ENDLIST\n");
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::target_duration;

    #[test]
    fn the_target_is_the_longest_duration_rounded() {
        let target = |micros: &[i64]| target_duration(micros.iter().copied());
        assert_eq!(target([4_499_999, 3_000_000].as_slice()), 4);
        assert_eq!(target(&[4_500_000]), 5);
        assert_eq!(target(&[10]), 1);
        assert_eq!(target(&[]), 1);
    }
}
