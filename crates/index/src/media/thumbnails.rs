//! Tracks of JPEG pictures from which players show thumbnails.

use crate::media::{Samples, Track};
use latemux_isobmff::codec::Media;
use std::fmt;

/// A track whose samples are JPEG pictures, called sheets. It is not cut by the grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThumbnailTrack {
    /// The track. Its samples are known, and each of them can be decoded alone.
    pub track: Track,
    /// The grid of tiles in each sheet as stated, such as `5x4`. `None` if nothing states it.
    pub stated_tiles: Option<Box<str>>,
}

/// The grid of pictures in a sheet, which are in the order of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// Number of pictures beside each other, at least 1.
    pub columns: u16,
    /// Number of rows, at least 1.
    pub rows: u16,
}

impl Tiles {
    /// A sheet that is one picture.
    pub const ONE: Self = Self { columns: 1, rows: 1 };
    /// Most columns and most rows.
    pub const MOST: u16 = 100;

    /// Parses columns and rows, such as `5x4`. `None` if it is no such text, or if a number is 0 or
    /// above [`Self::MOST`].
    pub fn parse(text: &str) -> Option<Self> {
        let (columns, rows) = text.split_once('x')?;
        let number = |digits: &str| {
            let is_plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
            digits.parse().ok().filter(|number| is_plain && (1..=Self::MOST).contains(number))
        };
        Some(Self { columns: number(columns)?, rows: number(rows)? })
    }

    /// Returns the number of pictures in a sheet.
    pub fn count(self) -> u32 {
        u32::from(self.columns) * u32::from(self.rows)
    }
}

impl fmt::Display for Tiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.columns, self.rows)
    }
}

impl ThumbnailTrack {
    /// Returns width and height of a sheet in pixels.
    pub fn size(&self) -> (u16, u16) {
        match &self.track.codec.media {
            Media::Video(video) => (video.width, video.height),
            Media::Audio(_) | Media::Text => (0, 0),
        }
    }

    /// Returns the grid of tiles, or for people the reason why there is none.
    pub(crate) fn tiles(&self) -> Result<Tiles, String> {
        let Some(stated) = &self.stated_tiles else { return Ok(Tiles::ONE) };
        let shown: String = stated.chars().take(40).collect();
        let tiles = Tiles::parse(stated).ok_or_else(|| format!("no grid of tiles is called {shown:?}"))?;
        let (width, height) = self.size();
        if !width.is_multiple_of(tiles.columns) || !height.is_multiple_of(tiles.rows) {
            return Err(format!("a sheet of {width}x{height} pixels cannot be divided into {tiles} tiles"));
        }
        Ok(tiles)
    }

    /// Returns the number of sheets.
    pub fn sheet_count(&self) -> u32 {
        match &self.track.samples {
            Samples::Table(table) => table.len(),
            Samples::Fragments(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tiles;

    #[test]
    fn grids_of_tiles_are_two_numbers_from_one_to_a_hundred() {
        assert_eq!(Tiles::parse("5x4"), Some(Tiles { columns: 5, rows: 4 }));
        assert_eq!(Tiles::parse("100x1").map(Tiles::count), Some(100));
        for wrong in ["", "x", "5", "0x5", "5x0", "05x4", "5x4x3", "5 x4", "+5x4", "101x1", "5x99999", "5X4"]
        {
            assert_eq!(Tiles::parse(wrong), None, "{wrong:?}");
        }
    }
}
