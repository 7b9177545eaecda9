//! The storyboard: WebVTT whose cues are tiles, as JW Player, Video.js and Vidstack read it.

use super::{check_size, thumbnails::find};
use crate::{PackError, address::Links, selection::Selected};
use std::fmt::Write as _;

/// Returns a cue for each tile of the first thumbnails that is shown in the selected part of a
/// title. Times count from its start. O(tiles). Fails with [`PackError::NoSuchTrack`] if the title
/// has no thumbnails, with [`PackError::NothingInClip`] if none is shown.
pub(crate) fn storyboard(selected: &Selected<'_>, links: &Links<'_>) -> Result<String, PackError> {
    let thumbnails = find(selected, None)?;
    let (width, height) = thumbnails.tile_size();
    let columns = u32::from(thumbnails.tiles.columns);
    let mut text = "WEBVTT\n".to_owned();
    for (index, sheet) in &thumbnails.sheets {
        let url = links.thumbnail_sheet(thumbnails.name, index + 1);
        for tile in 0..thumbnails.tiles.count() {
            let millis =
                |tile: u32| (thumbnails.micros(thumbnails.tile_start(sheet, tile)) + 500).div_euclid(1000);
            let start = millis(tile);
            let end = millis(tile + 1);
            if start >= end {
                continue;
            }
            let x = tile % columns * u32::from(width);
            let y = tile / columns * u32::from(height);
            // Writing to a string cannot fail.
            let _ =
                write!(text, "\n{} --> {}\n{url}#xywh={x},{y},{width},{height}\n", time(start), time(end));
            check_size(&text)?;
        }
    }
    Ok(text)
}

/// Formats milliseconds as a time of WebVTT.
fn time(millis: i64) -> String {
    let seconds = millis / 1000;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600, seconds / 60 % 60, seconds % 60, millis % 1000)
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_hours_and_milliseconds() {
        assert_eq!(time(0), "00:00:00.000");
        assert_eq!(time(7_384_005), "02:03:04.005");
        assert_eq!(time(360_000_000), "100:00:00.000");
    }
}
