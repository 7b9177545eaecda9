//! The multivariant playlist.

use super::{
    attributes::PlaylistTag,
    carried, codec_name, container_of,
    keys::write_session_keys,
    media::INDEPENDENT,
    muxing::muxed_audio,
    protocol_of,
    rates::Rates,
    renditions::{CAPTIONS_GROUP, Group, Renditions, groups, write_captions},
    thumbnails,
};
use crate::{
    PackError,
    address::{HlsContainer, Links},
    carry::Protocol,
    manifest::{
        access_point::is_independent, carries_none, check_size, constant_frame_rate, picture::Picture,
        thumbnails::listed as listed_thumbnails, track, video_of,
    },
    protection::Protection,
    selection::Selected,
    sizes::Bitrate,
};
use latemux_index::{Title, Track, media::TrackKind};
use latemux_isobmff::codec::{Video, VideoRange};

/// Returns the multivariant playlist of the selected part of a title: a variant for every video
/// with every group of audio, or for every audio without video. O(samples). Fails with
/// [`PackError::CannotCarry`] if HLS carries no audio and no video of the title, with
/// [`PackError::ManifestTooLarge`] for too many variants.
pub(crate) fn multivariant(
    selected: &Selected<'_>,
    links: &Links<'_>,
    container: HlsContainer,
    protection: Option<&Protection>,
) -> Result<String, PackError> {
    let title = selected.title();
    let protocol = protocol_of(title, container);
    let rates = Rates::new(title, protocol, selected.minimum, protection);
    let list = Multivariant { title, links, protocol, rates };
    let video = carried(title, TrackKind::Video, protocol);
    let audio = carried(title, TrackKind::Audio, protocol);
    if video.is_empty() && audio.is_empty() {
        return Err(carries_none(title, protocol));
    }
    // EXT-X-MEDIA came with version 4, EXT-X-MAP of the media playlists with version 6.
    let version = if protocol == Protocol::HlsTs { 4 } else { 6 };
    // The attributes of keys need version 5.
    let version = if protection.is_some() { version.max(5) } else { version };
    let mut text = format!("#EXTM3U\n#EXT-X-VERSION:{version}\n");
    // The tag applies to the segments of all media playlists.
    let text_tracks = carried(title, TrackKind::Text, protocol);
    if [&video, &audio, &text_tracks].into_iter().flatten().all(|&i| is_independent(title, i)) {
        text.push_str(INDEPENDENT);
    }
    if let Some(protection) = protection {
        let listed = video.iter().chain(&audio).map(|&i| &title.tracks()[i].name);
        write_session_keys(protection, protocol, listed, links, &mut text)?;
    }
    if video.is_empty() {
        list.audio_only(&audio, &mut text)?;
    } else {
        list.with_video(&video, &audio, &mut text)?;
    }
    // The tags cannot say that a clip starts inside a sheet.
    if !selected.is_moved() {
        for of in &listed_thumbnails(selected, links, protection) {
            thumbnails::write_stream(of, links, &mut text);
            // hls.js shows pictures of other times if the film is in TS, whose times start later.
            if protection.is_none() && protocol == Protocol::HlsCmaf {
                thumbnails::write_iframes(of, links, &mut text);
            }
        }
    }
    Ok(text)
}

struct Multivariant<'a> {
    title: &'a Title,
    links: &'a Links<'a>,
    protocol: Protocol,
    rates: Rates<'a>,
}

const NO_BITRATE: Bitrate = Bitrate { peak: 0, average: 0 };

/// One `EXT-X-STREAM-INF`.
struct Variant<'a> {
    /// Indexes of the tracks in its playlist.
    tracks: Vec<usize>,
    bitrate: Bitrate,
    codecs: Vec<&'a str>,
    audio: Option<&'a str>,
    subtitles: Option<&'a str>,
}

impl<'a> Multivariant<'a> {
    fn with_video(&self, video: &[usize], audio: &[usize], text: &mut String) -> Result<(), PackError> {
        let is_muxed = self.protocol == Protocol::HlsTs && muxed_audio(self.title, video, audio).is_some();
        let audio = groups(self.title, audio, self.protocol, "audio");
        if !is_muxed {
            self.write_groups("AUDIO", &audio, text)?;
        }
        let subtitles = carried(self.title, TrackKind::Text, self.protocol);
        let subtitles = groups(self.title, &subtitles, self.protocol, "subtitles");
        self.write_groups("SUBTITLES", &subtitles, text)?;
        write_captions(self.title.captions().unwrap_or_default(), text);

        // Returns one `None` if there are no groups, so that a variant without a group is written.
        fn or_none(groups: &[Group]) -> Vec<Option<&Group>> {
            if groups.is_empty() { vec![None] } else { groups.iter().map(Some).collect() }
        }
        for audio in or_none(&audio) {
            for subtitles in or_none(&subtitles) {
                for &video in video {
                    let muxed = audio.filter(|_| is_muxed).map(|group| group.default);
                    let beside = [audio.filter(|_| !is_muxed), subtitles];
                    let codecs = [
                        Some(self.codec(video)),
                        audio.map(|group| self.codec(group.default)),
                        subtitles.map(|group| self.codec(group.default)),
                    ];
                    self.write_variant(
                        &Variant {
                            // URLs name audio first.
                            tracks: muxed.into_iter().chain([video]).collect(),
                            bitrate: self.bitrate(video, muxed, beside),
                            codecs: codecs.into_iter().flatten().filter(|codec| !codec.is_empty()).collect(),
                            audio: audio.filter(|_| !is_muxed).map(|group| group.id.as_str()),
                            subtitles: subtitles.map(|group| group.id.as_str()),
                        },
                        text,
                    )?;
                }
            }
        }
        for &video in video {
            self.write_iframes(video, text);
        }
        Ok(())
    }

    /// Writes a variant for every track with the default's language and purpose, and renditions for
    /// others.
    fn audio_only(&self, audio: &[usize], text: &mut String) -> Result<(), PackError> {
        let groups = groups(self.title, audio, self.protocol, "audio");
        let content = |i: usize| (&self.track(i).language, self.track(i).purpose);
        let has_others = |group: &Group| group.members.iter().any(|&i| content(i) != content(group.default));
        for group in groups.iter().filter(|group| has_others(group)) {
            // The other tracks with the default's content are variants.
            let mut members = group.members.clone();
            members.retain(|&i| i == group.default || content(i) != content(group.default));
            let listed = Group { id: group.id.clone(), members, default: group.default };
            self.write_groups("AUDIO", std::slice::from_ref(&listed), text)?;
        }
        for group in &groups {
            let same = |&&i: &&usize| content(i) == content(group.default);
            for &i in group.members.iter().filter(same) {
                // A rendition with other content plays in its place.
                let others = group.members.iter().filter(|&&other| content(other) != content(i));
                let rates = others.chain([&i]).map(|&member| self.rates.of(&[member]));
                let variant = Variant {
                    tracks: vec![i],
                    bitrate: rates.fold(NO_BITRATE, highest),
                    codecs: vec![self.codec(i)],
                    audio: has_others(group).then_some(group.id.as_str()),
                    subtitles: None,
                };
                self.write_variant(&variant, text)?;
            }
        }
        Ok(())
    }

    fn write_groups(&self, kind: &'static str, groups: &[Group], text: &mut String) -> Result<(), PackError> {
        let renditions = Renditions { title: self.title, links: self.links, kind, protocol: self.protocol };
        groups.iter().try_for_each(|group| renditions.write(group, text))
    }

    fn write_variant(&self, variant: &Variant<'_>, text: &mut String) -> Result<(), PackError> {
        let video = variant.tracks.iter().find_map(|&i| Some((i, video_of(self.track(i))?)));
        let frame_rate = video.and_then(|(i, _)| constant_frame_rate(self.title, i)).map(decimal);
        let names = variant.tracks.iter().map(|&i| self.title.tracks()[i].name.clone()).collect();
        let uri = self.links.hls_playlist(names, container_of(self.protocol));
        // Without the attribute, some players list captions that do not exist.
        let captions = video.and_then(|_| self.title.captions());
        let captions = captions.map(|listed| if listed.is_empty() { "NONE" } else { CAPTIONS_GROUP });
        PlaylistTag::new("EXT-X-STREAM-INF")
            .plain("BANDWIDTH", variant.bitrate.peak.max(1))
            .plain("AVERAGE-BANDWIDTH", variant.bitrate.average.max(1))
            .quoted("CODECS", &variant.codecs.join(","))
            .quoted_if("SUPPLEMENTAL-CODECS", video.and_then(|(_, video)| video.supplemental.as_deref()))
            .plain_if("RESOLUTION", video.map(|(i, video)| self.resolution(i, video)))
            .plain_if("FRAME-RATE", frame_rate)
            .plain_if("VIDEO-RANGE", video.map(|(_, video)| range(video)))
            .quoted_if("AUDIO", variant.audio)
            .quoted_if("SUBTITLES", variant.subtitles)
            .plain_if("CLOSED-CAPTIONS", captions)
            .write(text);
        text.push_str(&uri);
        text.push('\n');
        check_size(text)
    }

    fn write_iframes(&self, track: usize, text: &mut String) {
        let Some(video) = video_of(self.track(track)) else { return };
        let bitrate = self.rates.of_iframes(track);
        let name = self.title.tracks()[track].name.clone();
        let uri = self.links.hls_iframe_playlist(name, container_of(self.protocol));
        PlaylistTag::new("EXT-X-I-FRAME-STREAM-INF")
            .plain("BANDWIDTH", bitrate.peak.max(1))
            .plain("AVERAGE-BANDWIDTH", bitrate.average.max(1))
            .quoted("CODECS", &self.track(track).codec.rfc6381)
            .quoted_if("SUPPLEMENTAL-CODECS", video.supplemental.as_deref())
            .plain("RESOLUTION", self.resolution(track, video))
            .plain("VIDEO-RANGE", range(video))
            .quoted("URI", &uri)
            .write(text);
    }

    /// Returns the largest sum of bit rates of the playlists that may play together (RFC 8216bis
    /// §4.4.6.2): a video, with the audio muxed into it, and one rendition of each group.
    fn bitrate(&self, video: usize, muxed: Option<usize>, beside: [Option<&Group>; 2]) -> Bitrate {
        let tracks: Vec<usize> = [video].into_iter().chain(muxed).collect();
        let highest_of =
            |group: &Group| group.members.iter().map(|&i| self.rates.of(&[i])).fold(NO_BITRATE, highest);
        beside.into_iter().flatten().map(highest_of).fold(self.rates.of(&tracks), |sum, rate| Bitrate {
            peak: sum.peak.saturating_add(rate.peak),
            average: sum.average.saturating_add(rate.average),
        })
    }

    /// Returns `RESOLUTION`: the size of the picture as shown, with square pixels. TS has no field
    /// for a rotation.
    fn resolution(&self, track: usize, video: &Video) -> String {
        let picture = match self.protocol {
            Protocol::HlsTs => Picture::coded(video),
            _ => Picture::shown(self.track(track), video),
        };
        let (x, y) = picture.pixel_aspect;
        let x = u64::from(x);
        let y = u64::from(y).max(1);
        let width = (u64::from(picture.width) * x + y / 2) / y;
        format!("{width}x{}", picture.height)
    }

    fn track(&self, index: usize) -> &'a Track {
        track(self.title, index)
    }

    fn codec(&self, index: usize) -> &'a str {
        codec_name(self.title, self.track(index), self.protocol)
    }
}

fn highest(a: Bitrate, b: Bitrate) -> Bitrate {
    Bitrate { peak: a.peak.max(b.peak), average: a.average.max(b.average) }
}

fn range(video: &Video) -> &'static str {
    match video.range {
        VideoRange::Sdr => "SDR",
        VideoRange::Hlg => "HLG",
        VideoRange::Pq => "PQ",
    }
}

/// Formats a fraction with three decimals, rounded to the nearest.
fn decimal((numerator, denominator): (u32, u32)) -> String {
    let denominator = u64::from(denominator).max(1);
    let thousandths = (u64::from(numerator) * 2000 + denominator) / (denominator * 2);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn frame_rates_have_three_decimals() {
        assert_eq!(decimal((30_000, 1001)), "29.970");
        assert_eq!(decimal((24_000, 1001)), "23.976");
        assert_eq!(decimal((25, 1)), "25.000");
    }
}
