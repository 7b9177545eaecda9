//! Titles: what is encoded, and how it is stored.

use super::{from_toml, text};
use crate::Error;
use latemux_quantity::BitRate;
use serde::Deserialize;
use std::{path::Path, str::FromStr};

/// The seconds of a title that are encoded. Longer titles repeat them.
pub(crate) const ENCODED: u32 = 24;

/// The longest title in seconds.
const MAX_SECONDS: u32 = 6 * 60 * 60;

/// The most renditions of a title.
const MAX_RENDITIONS: usize = 16;

/// A title, made with ffmpeg from its test sources.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Title {
    /// The title in one sentence.
    pub description: String,
    /// The duration in seconds.
    pub seconds: u32,
    /// The picture's width and height.
    pub size: [u32; 2],
    /// Frames per second.
    pub frames: u32,
    /// Frames from one sync sample to the next.
    pub gop: u32,
    /// The bit rates of the video renditions, each a file.
    pub video: Vec<String>,
    /// The bit rate of the audio, which is in every file.
    pub audio: String,
}

/// The files in which a title is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// MP4 with one table of samples.
    Mp4,
    /// Fragmented MP4 with `mfra`.
    Fmp4,
    /// MP4, with an index MP4 for each file, which the server manifest names.
    IndexedMp4,
    /// Fragmented MP4, with such index MP4s.
    IndexedFmp4,
}

impl Layout {
    /// Returns the name in files and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Fmp4 => "fmp4",
            Self::IndexedMp4 => "mp4-index",
            Self::IndexedFmp4 => "fmp4-index",
        }
    }

    /// Returns true if the files are fragmented.
    pub(crate) fn is_fragmented(self) -> bool {
        matches!(self, Self::Fmp4 | Self::IndexedFmp4)
    }

    /// Returns true if each file has an index MP4.
    pub(crate) fn is_indexed(self) -> bool {
        matches!(self, Self::IndexedMp4 | Self::IndexedFmp4)
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "mp4" => Ok(Self::Mp4),
            "fmp4" => Ok(Self::Fmp4),
            "mp4-index" => Ok(Self::IndexedMp4),
            "fmp4-index" => Ok(Self::IndexedFmp4),
            _ => Err(Error::invalid(format!(
                "content: layout = '{text}': not one of mp4, fmp4, mp4-index, fmp4-index"
            ))),
        }
    }
}

impl Title {
    /// Reads a title.
    ///
    /// # Errors
    /// If the file cannot be read, has an unknown key, or a value out of its range.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&text(path)?).map_err(|error| error.within(&path.display().to_string()))
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let title: Self = from_toml(text)?;
        let within = |name: &str, value: u32, most: u32| match value {
            value if (1..=most).contains(&value) => Ok(()),
            _ => Err(Error::invalid(format!("{name} must be from 1 to {most}"))),
        };
        within("seconds", title.seconds, MAX_SECONDS)?;
        within("frames", title.frames, 120)?;
        within("gop", title.gop, 1000)?;
        within("size", title.size[0].max(title.size[1]), 8192)?;
        within("size", title.size[0].min(title.size[1]), 8192)?;
        if !(1..=MAX_RENDITIONS).contains(&title.video.len()) {
            return Err(Error::invalid(format!("video must have 1 to {MAX_RENDITIONS} bit rates")));
        }
        for text in title.video.iter().chain([&title.audio]) {
            rate(text)?;
        }
        Ok(title)
    }

    /// Returns the bytes of all files, as far as they follow from the bit rates.
    pub fn bytes(&self) -> u64 {
        let audio = bytes_per_second(&self.audio);
        let all: u64 = self.video.iter().map(|video| bytes_per_second(video) + audio).sum();
        all * u64::from(self.seconds)
    }

    /// Returns the bytes of the encodings that the files repeat.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        let once = Self { seconds: self.seconds.min(ENCODED), ..self.clone() };
        once.bytes()
    }

    /// Returns the bytes of the highest rendition with its audio.
    pub fn highest(&self) -> u64 {
        let video = self.video.iter().map(|video| bytes_per_second(video)).max().unwrap_or(0);
        (video + bytes_per_second(&self.audio)) * u64::from(self.seconds)
    }
}

fn rate(text: &str) -> Result<BitRate, Error> {
    text.parse().map_err(|why| Error::invalid(format!("'{text}': {why}")))
}

/// Returns the bytes per second of a bit rate that was checked.
pub(crate) fn bytes_per_second(text: &str) -> u64 {
    rate(text).map_or(0, crate::bytes_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "
description = 'x'
seconds = 60
size = [640, 272]
frames = 24
gop = 48
video = ['400kbit/s', '1200kbit/s']
audio = '128kbit/s'";

    #[test]
    fn sizes_follow_from_bit_rates() {
        let title = Title::parse(RIGHT).unwrap();
        assert_eq!(title.highest(), (1_200_000 + 128_000) / 8 * 60);
        assert_eq!(title.bytes(), (1_600_000 + 256_000) / 8 * 60);
    }

    #[test]
    fn titles_with_mistakes_are_refused() {
        for (right, wrong, why) in [
            ("gop", "interval", "unknown field `interval`"),
            ("seconds = 60", "seconds = 0", "seconds must be from 1 to 21600"),
            ("seconds = 60", "seconds = 99999", "seconds must be"),
            ("frames = 24", "frames = 1000", "frames must be"),
            ("gop = 48", "gop = 0", "gop must be"),
            ("640", "0", "size must be"),
            ("640", "9000", "size must be"),
            ("['400kbit/s', '1200kbit/s']", "[]", "video must have 1 to 16 bit rates"),
            ("128kbit/s", "128k", "'128k': not a bit rate"),
        ] {
            let error = Title::parse(&RIGHT.replace(right, wrong)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!("ismv".parse::<Layout>().is_err());
    }
}
