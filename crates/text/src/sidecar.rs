//! Files of text beside the media.

use crate::{Document, TextError, decode, limits::check_file, srt, ttml, webvtt};

/// The form of a file, which its name tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextFormat {
    /// `.vtt`
    WebVtt,
    /// `.srt`
    SubRip,
    /// `.ttml`, `.dfxp`
    Ttml,
}

impl TextFormat {
    /// Returns the form of a file by its name. `None` if it is no text.
    pub fn of_name(name: &str) -> Option<Self> {
        let (stem, extension) = name.rsplit_once('.')?;
        let is = |other: &str| extension.eq_ignore_ascii_case(other);
        match () {
            () if stem.is_empty() || stem.ends_with('/') => None,
            () if is("vtt") => Some(Self::WebVtt),
            () if is("srt") => Some(Self::SubRip),
            () if is("ttml") || is("dfxp") => Some(Self::Ttml),
            () => None,
        }
    }
}

/// Parses a file.
///
/// # Errors
/// The errors of [`decode`], [`webvtt::parse`], [`srt::parse`] and [`ttml::parse`].
pub fn parse(format: TextFormat, bytes: &[u8]) -> Result<Document, TextError> {
    check_file(bytes.len())?;
    let text = decode(bytes)?;
    match format {
        TextFormat::WebVtt => webvtt::parse(&text),
        TextFormat::SubRip => srt::parse(&text),
        TextFormat::Ttml => ttml::parse(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::TextFormat;

    #[test]
    fn names_tell_the_form() {
        assert_eq!(TextFormat::of_name("a/film.eng.VTT"), Some(TextFormat::WebVtt));
        assert_eq!(TextFormat::of_name("x.srt"), Some(TextFormat::SubRip));
        assert_eq!(TextFormat::of_name("x.dfxp"), Some(TextFormat::Ttml));
        for name in ["x.mp4", ".vtt", "a/.srt", "vtt", "x.vtt.gz"] {
            assert_eq!(TextFormat::of_name(name), None, "{name}");
        }
    }
}
