//! HDS: the manifest (Flash Media Manifest File Format Specification 1.0) and bootstrap
//! information.
//!
//! Video is muxed with the audio that plays by default. Other languages are alternatives.

mod bootstrap;
mod metadata;

use super::{carries_none, check_size, is_listed, track, video_of, xml::Xml};
use crate::{
    PackError,
    address::Links,
    carry::{Protocol, find_carried},
    segment::{Clock, PackedTracks, f4f},
    selection::Selected,
    sizes::SizesBeside,
};
use latemux_index::{
    Title,
    media::TrackKind,
    title::{TitleTrack, TrackName},
};

/// Returns the manifest of the selected part of a title. O(samples). Fails with
/// [`PackError::CannotCarry`] if HDS carries no track of the title, with [`PackError::TooLarge`] if
/// it lasts too long for FLV.
pub(crate) fn manifest(selected: &Selected<'_>, links: &Links<'_>) -> Result<String, PackError> {
    let title = selected.title();
    let clock = f4f::clock(title);
    let media = media_elements(title);
    if media.is_empty() {
        return Err(carries_none(title, Protocol::Hds));
    }
    let times: Vec<Fragments> = media.iter().map(|m| Fragments::of(title, &clock, &m.tracks)).collect();
    let start = times.iter().filter_map(|t| t.times.first()).min().copied().unwrap_or(0);
    let end = times.iter().filter_map(|t| t.times.last()).max().copied().unwrap_or(0);
    f4f::check_time(end)?;
    let millis = u64::try_from(end - start).unwrap_or(0);

    let mut xml = Xml::new();
    xml.tag("manifest").attr("xmlns", "http://ns.adobe.com/f4m/1.0").children();
    xml.tag("id").text(links.name());
    xml.tag("streamType").text("recorded");
    xml.tag("deliveryType").text("streaming");
    xml.tag("duration").text(&seconds(millis));
    // Elements whose fragments have the same numbers and times share one bootstrap.
    let mut bootstraps: Vec<&Fragments> = Vec::new();
    let mut shared = Vec::new();
    for times in &times {
        let known = bootstraps.iter().position(|&b| b == times);
        shared.push(known.unwrap_or(bootstraps.len()) + 1);
        if known.is_none() {
            bootstraps.push(times);
        }
    }
    for (number, times) in (1..).zip(&bootstraps) {
        xml.tag("bootstrapInfo")
            .attr("profile", "named")
            .attr("id", format_args!("bootstrap{number}"))
            .text(&base64(&bootstrap::information(times)));
        check_size(xml.text())?;
    }
    let sizes = SizesBeside::new(title, Protocol::Hds);
    for (media, bootstrap) in media.iter().zip(shared) {
        media.write(&mut xml, selected, links, bootstrap, millis, &sizes);
        check_size(xml.text())?;
    }
    Ok(xml.finish())
}

/// Returns the bootstrap information of tracks packed together, as a resource. O(segments). Fails
/// with [`PackError::NoSuchTrack`] if the title has no such track, with [`PackError::CannotCarry`]
/// if HDS does not carry it, with [`PackError::NothingInClip`] without fragments.
pub(crate) fn bootstrap(selected: &Selected<'_>, names: &[TrackName]) -> Result<Vec<u8>, PackError> {
    let title = selected.title();
    let find = |name| find_carried(title, Protocol::Hds, name).map(|(index, _)| index);
    let tracks = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let fragments = Fragments::of(title, &f4f::clock(title), &tracks);
    if fragments.times.len() < 2 {
        return Err(PackError::NothingInClip);
    }
    Ok(bootstrap::information(&fragments))
}

/// The tracks of one `media` element.
struct MediaElement {
    /// Indexes into [`Title::tracks`] in the order of URLs: audio first.
    tracks: Vec<usize>,
    /// True if it replaces the audio of other elements.
    is_alternate: bool,
}

/// Returns the elements of a title: video with the default audio, then other languages.
fn media_elements(title: &Title) -> Vec<MediaElement> {
    let carried = |kind| title.of_kind(kind).filter(|&i| is_listed(title, i, Protocol::Hds));
    let audio: Vec<usize> = carried(TrackKind::Audio).collect();
    let track = |i: usize| track(title, i);
    let default = audio.first().copied();
    let mut media: Vec<MediaElement> = carried(TrackKind::Video)
        .map(|video| MediaElement {
            tracks: default.into_iter().chain([video]).collect(),
            is_alternate: false,
        })
        .collect();
    if media.is_empty() {
        return audio.into_iter().map(|i| MediaElement { tracks: vec![i], is_alternate: false }).collect();
    }
    let mut languages: Vec<&str> = default.map(|i| track(i).language.as_str()).into_iter().collect();
    for i in audio {
        let language = track(i).language.as_str();
        if !languages.contains(&language) {
            languages.push(language);
            media.push(MediaElement { tracks: vec![i], is_alternate: true });
        }
    }
    media
}

impl MediaElement {
    fn write(
        &self,
        xml: &mut Xml,
        selected: &Selected<'_>,
        links: &Links<'_>,
        bootstrap: usize,
        millis: u64,
        sizes: &SizesBeside<'_>,
    ) {
        let title = selected.title();
        let peak = PackedTracks::new(title, &self.tracks).map_or(0, |packed| sizes.rates(&packed).peak);
        let extent = selected.extent_if_moved(&self.tracks);
        let names: Vec<TrackName> = self.tracks.iter().map(|&i| title.tracks()[i].name.clone()).collect();
        let tracks = || self.tracks.iter().map(|&i| track(title, i));
        let video = tracks().find_map(video_of);
        let language = tracks().map(|track| &track.language).find(|language| language.is_known());
        let language = language.filter(|_| self.is_alternate);
        xml.tag("media")
            .attr_if("alternate", self.is_alternate.then_some(true))
            .attr_if("type", self.is_alternate.then_some("audio"))
            .attr_if("label", language)
            .attr_if("lang", language)
            .attr("bitrate", peak.div_ceil(1000))
            .attr_if("width", video.map(|v| v.width))
            .attr_if("height", video.map(|v| v.height))
            .attr("bootstrapInfoId", format_args!("bootstrap{bootstrap}"))
            .attr("url", links.hds_url(&names, extent))
            .children();
        xml.tag("metadata").text(&base64(&metadata::on_meta_data(tracks(), millis)));
        xml.close();
    }
}

/// The fragments of tracks packed together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fragments {
    /// Number of the first fragment, 1-based.
    first: u32,
    /// Start of each fragment, and the end of the last one, in milliseconds.
    times: Vec<i64>,
}

impl Fragments {
    fn of(title: &Title, clock: &Clock<'_>, tracks: &[usize]) -> Self {
        let Some(packed) = PackedTracks::new(title, tracks) else { return Self::default() };
        let Some(lead) = title.find(&packed.lead().name) else { return Self::default() };
        let mut times = clock.boundaries(lead);
        let numbers = |&i: &usize| title.tracks().get(i).map(TitleTrack::numbers);
        // Fragments of a source cannot be cut, so their tracks may bring samples from before the
        // lead's start. The first segment always brings all earlier samples of the others.
        for (number, time) in packed.numbers().zip(&mut times) {
            let shares = packed.shares(number).filter_map(|(i, share)| clock.boundary(i, share?.number));
            *time = shares.fold(*time, i64::min);
        }
        // The last fragment holds the samples of the other tracks after the end of the lead.
        let ends = tracks.iter().filter_map(|i| clock.boundary(*i, numbers(i)?.end));
        if let (Some(last), Some(end)) = (times.last_mut(), ends.max()) {
            *last = end.max(*last);
        }
        Self { first: packed.lead().first + 1, times }
    }
}

/// Formats milliseconds as seconds with three decimals.
fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// Encodes bytes in Base64 (RFC 4648 §4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, &byte| group << 8 | u32::from(byte));
        let group = group << (8 * (3 - chunk.len()));
        for position in 0..4 {
            if position > chunk.len() {
                text.push('=');
                continue;
            }
            let digit = usize::try_from(group >> (18 - 6 * position) & 63).unwrap_or(0);
            text.push(DIGITS.get(digit).map_or('=', |&d| char::from(d)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn the_test_vectors_of_rfc_4648_are_encoded() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xFB, 0xEF, 0xFF]), "++//");
    }
}
