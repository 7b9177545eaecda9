//! Thumbnails in HLS, as Roku's extension describes them (Image Media Playlist specification 0.4).

use super::attributes::PlaylistTag;
use crate::{
    PackError, Resource,
    address::{HlsContainer, IFrameNumber, Links},
    manifest::{
        MICROS, check_size,
        thumbnails::{Thumbnails, find},
    },
    selection::Selected,
};
use latemux_index::{
    media::thumbnails::Tiles,
    title::{Sheet, TrackName},
};
use latemux_isobmff::{Time, Timescale, time::Round};
use std::fmt::Write as _;

/// Writes the tag of a multivariant playlist that names the playlist of sheets.
pub(super) fn write_stream(thumbnails: &Thumbnails<'_>, links: &Links<'_>, text: &mut String) {
    let (width, height) = thumbnails.tile_size();
    PlaylistTag::new("EXT-X-IMAGE-STREAM-INF")
        .plain("BANDWIDTH", thumbnails.bandwidth())
        .plain("RESOLUTION", format_args!("{width}x{height}"))
        .quoted("CODECS", "jpeg")
        .quoted("URI", &links.thumbnail_playlist(thumbnails.name.clone()))
        .write(text);
}

/// Returns the playlist of the sheets of thumbnails. O(sheets). Fails with
/// [`PackError::NoSuchTrack`] if the title has none of this name, with
/// [`PackError::NothingInClip`] if the clip starts later than the title: the tiles of a sheet that
/// it starts in would be shown at wrong times.
pub(crate) fn playlist(
    selected: &Selected<'_>,
    links: &Links<'_>,
    name: &TrackName,
) -> Result<String, PackError> {
    if selected.is_moved() {
        return Err(PackError::NothingInClip);
    }
    let thumbnails = find(selected, Some(name))?;
    let (width, height) = thumbnails.tile_size();
    let mut text = head(&thumbnails, 7, "#EXT-X-IMAGES-ONLY\n");
    for (index, sheet, micros) in lengths(&thumbnails) {
        let tile = seconds(thumbnails.tile_start(sheet, 1) - sheet.start, thumbnails.timescale);
        write_length(micros, &mut text);
        PlaylistTag::new("EXT-X-TILES")
            .plain("RESOLUTION", format_args!("{width}x{height}"))
            .plain("LAYOUT", thumbnails.tiles)
            .plain("DURATION", tile)
            .write(&mut text);
        let _ = writeln!(text, "{}", links.thumbnail_sheet(thumbnails.name, index + 1));
        check_size(&text)?;
    }
    text.push_str("#EXT-X-ENDLIST\n");
    Ok(text)
}

/// Writes the tag that names the playlist of pictures as I-frames, as Apple's players read them. A
/// sheet of several tiles is no picture of the film.
pub(super) fn write_iframes(thumbnails: &Thumbnails<'_>, links: &Links<'_>, text: &mut String) {
    if thumbnails.tiles != Tiles::ONE {
        return;
    }
    let (width, height) = thumbnails.size;
    PlaylistTag::new("EXT-X-I-FRAME-STREAM-INF")
        .plain("BANDWIDTH", thumbnails.bandwidth())
        .quoted("CODECS", "mjpg")
        .plain("RESOLUTION", format_args!("{width}x{height}"))
        .quoted("URI", &links.hls_iframe_playlist(thumbnails.name.clone(), HlsContainer::Cmaf))
        .write(text);
}

/// Returns the playlist of pictures as I-frames. Fails like [`playlist`], and with
/// [`PackError::NoSuchTrack`] for sheets of several tiles.
pub(crate) fn iframes(
    selected: &Selected<'_>,
    links: &Links<'_>,
    name: &TrackName,
) -> Result<String, PackError> {
    let thumbnails = find(selected, Some(name))?;
    if thumbnails.tiles != Tiles::ONE {
        return Err(PackError::NoSuchTrack(name.to_string()));
    }
    let mut text = head(&thumbnails, 6, "#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-I-FRAMES-ONLY\n");
    PlaylistTag::new("EXT-X-MAP").quoted("URI", &links.hls_init(vec![name.clone()])).write(&mut text);
    for (index, _, micros) in lengths(&thumbnails) {
        let frame = Resource::HlsIFrameCmaf(name.clone(), IFrameNumber::first_of(index + 1));
        write_length(micros, &mut text);
        let _ = writeln!(text, "{}", links.hls_iframe(&frame));
        check_size(&text)?;
    }
    text.push_str("#EXT-X-ENDLIST\n");
    Ok(text)
}

/// Returns the sheets with their indexes and the microseconds for which they are shown.
fn lengths<'t>(thumbnails: &'t Thumbnails<'_>) -> impl Iterator<Item = (u32, &'t Sheet, i64)> {
    thumbnails.sheets.iter().map(|(index, sheet)| {
        let start = thumbnails.micros(sheet.start);
        (*index, sheet, thumbnails.micros(sheet.start + sheet.duration) - start)
    })
}

/// Returns the first lines of a playlist. `tags` are those that not all playlists have.
fn head(thumbnails: &Thumbnails<'_>, version: u32, tags: &str) -> String {
    let longest = lengths(thumbnails).map(|(.., micros)| micros).max().unwrap_or(0);
    let target = ((longest + 500_000) / 1_000_000).max(1);
    format!(
        "#EXTM3U\n#EXT-X-VERSION:{version}\n#EXT-X-TARGETDURATION:{target}\n#EXT-X-PLAYLIST-TYPE:VOD\n{tags}"
    )
}

fn write_length(micros: i64, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "#EXTINF:{}.{:06},", micros / 1_000_000, micros % 1_000_000);
}

/// Formats ticks in seconds, without trailing zeros.
fn seconds(ticks: i64, scale: Timescale) -> String {
    let micros = Time::new(ticks, scale).in_scale(MICROS, Round::Nearest);
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
