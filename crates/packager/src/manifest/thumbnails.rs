//! Thumbnails in manifests: the sheets of a title, and their tiles with times.

use super::MICROS;
use crate::{PackError, address::Links, protection::Protection, selection::Selected};
use latemux_index::{
    Title,
    media::{TrackKind, thumbnails::Tiles},
    title::{Sheet, TitleThumbnails, TitleTrack, TrackName},
};
use latemux_isobmff::{Time, Timescale, time::Round};

/// One track of thumbnails, with the sheets that the selected part of a title shows.
#[derive(Debug)]
pub(crate) struct Thumbnails<'a> {
    pub(super) name: &'a TrackName,
    pub(super) tiles: Tiles,
    /// Width and height of a sheet in pixels.
    pub(super) size: (u16, u16),
    pub(super) timescale: Timescale,
    /// The sheets with their indexes. There is at least one.
    pub(super) sheets: Vec<(u32, Sheet)>,
    /// Presentation times at which the selected part starts and ends.
    within: (Time, Time),
}

/// Returns the thumbnails that manifests of the selected part of a title list: none if they would
/// have to be encrypted, if the form of URLs has none, or if no video is listed. O(sheets).
pub(super) fn listed<'a>(
    selected: &'a Selected<'_>,
    links: &Links<'_>,
    protection: Option<&Protection>,
) -> Vec<Thumbnails<'a>> {
    let title = selected.title();
    let is_hidden = protection.is_some_and(|protection| !protection.has_clear_thumbnails());
    if is_hidden || !links.has_thumbnails() || title.of_kind(TrackKind::Video).next().is_none() {
        return Vec::new();
    }
    title.thumbnails().iter().filter_map(|of| Thumbnails::new(title, of)).collect()
}

impl<'a> Thumbnails<'a> {
    /// Returns thumbnails of a title or of a clip. `None` if no sheet is shown in it.
    fn new(title: &'a Title, of: &'a TitleThumbnails) -> Option<Self> {
        let track = title.thumbnail_track(of);
        let end = |named: &TitleTrack| Some(Time::new(*named.times.last()?, title.track(named).timescale));
        // The last frame of the sound may end a little later than the picture.
        let is_video = |named: &&TitleTrack| title.track(named).kind == TrackKind::Video;
        let of_video = title.tracks().iter().filter(is_video).filter_map(end).max();
        let within = (title.start(), of_video.or_else(|| title.tracks().iter().filter_map(end).max())?);
        let sheets: Vec<(u32, Sheet)> = track.sheets(within.0, within.1).collect();
        (!sheets.is_empty()).then_some(Self {
            name: &of.name,
            tiles: of.tiles,
            size: track.size(),
            timescale: track.track.timescale,
            sheets,
            within,
        })
    }

    /// Returns width and height of a tile in pixels.
    pub(super) fn tile_size(&self) -> (u16, u16) {
        (self.size.0 / self.tiles.columns, self.size.1 / self.tiles.rows)
    }

    /// Returns the most bits per second that fetching the sheets in time takes.
    pub(super) fn bandwidth(&self) -> u64 {
        let rate = |(_, sheet): &(u32, Sheet)| {
            let bits = u128::from(sheet.bytes.end - sheet.bytes.start) * 8 * u128::from(self.timescale.get());
            bits.div_ceil(u128::from(sheet.duration.unsigned_abs().max(1)))
        };
        u64::try_from(self.sheets.iter().map(rate).max().unwrap_or(0)).unwrap_or(u64::MAX).max(1)
    }

    /// Returns the longest time for which a sheet is shown.
    pub(super) fn longest_sheet(&self) -> Time {
        let longest = self.sheets.iter().map(|(_, sheet)| sheet.duration).max();
        Time::new(longest.unwrap_or(0), self.timescale)
    }

    /// Returns a time of the title in microseconds from the start of the selected part, at most its
    /// end.
    pub(super) fn micros(&self, ticks: i64) -> i64 {
        let micros = |time: Time| time.in_scale(MICROS, Round::Nearest);
        let start = micros(self.within.0);
        let end = micros(self.within.1);
        micros(Time::new(ticks, self.timescale)).clamp(start, end.max(start)) - start
    }

    /// Returns the start of a tile of a sheet in track ticks. The number of tiles is the end.
    pub(super) fn tile_start(&self, sheet: &Sheet, tile: u32) -> i64 {
        let count = i128::from(self.tiles.count());
        let passed = i128::from(sheet.duration) * i128::from(tile) / count;
        sheet.start + i64::try_from(passed).unwrap_or(0)
    }
}

/// Finds thumbnails of the selected part of a title: those with a name, or the first ones. Fails
/// with [`PackError::NoSuchTrack`] if there are none.
pub(super) fn find<'a>(
    selected: &'a Selected<'_>,
    name: Option<&TrackName>,
) -> Result<Thumbnails<'a>, PackError> {
    let title = selected.title();
    let of = match name {
        Some(name) => title.find_thumbnails(name),
        None => title.thumbnails().first(),
    };
    let none = || PackError::NoSuchTrack(name.map_or_else(|| "thumbs".to_owned(), TrackName::to_string));
    Thumbnails::new(title, of.ok_or_else(none)?).ok_or(PackError::NothingInClip)
}
