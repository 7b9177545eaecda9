//! `mdhd` and `elng`: timescale, duration and language of a track (ISO/IEC 14496-12 §8.4.2,
//! §8.4.6).

use super::macintosh_language;
use crate::{
    Error, FourCc, Timescale,
    cursor::Cursor,
    write::{WriteBox, put_time, put_version_and_flags, version_for_duration},
};
use bytes::BufMut;
use std::fmt;

/// A BCP 47 language tag: the packed ISO 639-2/T code of `mdhd`, or the tag of `elng`. It holds
/// only letters, digits and `-`, and at most 35 bytes. It is `und` if the file has no usable tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language(Box<str>);

impl Language {
    /// Maximum length in bytes: RFC 5646 §4.4.1 asks implementations to support at least this.
    pub const MAX_LEN: usize = 35;

    /// Returns a tag of letters, digits and `-`, or `None` for other characters and for more than
    /// [`Self::MAX_LEN`] bytes.
    pub fn new(tag: &str) -> Option<Self> {
        let is_valid = !tag.is_empty()
            && tag.len() <= Self::MAX_LEN
            && tag.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric()));
        is_valid.then(|| Self(tag.into()))
    }

    /// Returns `und`, the tag of an unknown language.
    pub fn unknown() -> Self {
        Self("und".into())
    }

    /// Returns the tag, e.g. `eng` or `pt-BR`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the language is known, that is, not `und`.
    pub fn is_known(&self) -> bool {
        &*self.0 != "und"
    }

    /// Unpacks the code of `mdhd`: three letters of 5 bits each, or a Macintosh language code
    /// (below 0x400) of QuickTime. Other values that are not letters give `und`.
    pub fn from_packed(packed: u16) -> Self {
        if packed < 0x400 {
            return macintosh_language::tag(packed).map_or_else(Self::unknown, |tag| Self(tag.into()));
        }
        let letter = |shift: u16| match packed >> shift & 31 {
            n @ 1..=26 => char::from_u32(u32::from(n) + 0x60),
            _ => None,
        };
        let letters = [letter(10), letter(5), letter(0)];
        letters.into_iter().collect::<Option<String>>().map_or_else(Self::unknown, |tag| Self(tag.into()))
    }

    /// Returns the packed code if the tag has three lower-case letters. For other tags `mdhd`
    /// states `und`, and `elng` holds the tag.
    pub fn packed(&self) -> Option<u16> {
        let letters: [u8; 3] = self.0.as_bytes().try_into().ok()?;
        letters.iter().try_fold(0, |packed, letter| {
            letter.is_ascii_lowercase().then(|| packed << 5 | u16::from(letter - 0x60))
        })
    }

    /// Reads the payload of an `elng`; `None` if it holds no usable tag.
    pub fn parse_elng(mut payload: Cursor<'_>) -> Result<Option<Self>, Error> {
        payload.version_and_flags()?;
        let tag = payload.peek().split(|&b| b == 0).next().unwrap_or_default();
        Ok(std::str::from_utf8(tag).ok().and_then(Self::new))
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `und` in packed form.
const PACKED_UNKNOWN: u16 = 0x55c4;

/// A media header; creation and modification time are neither kept nor written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mdhd {
    /// Timescale of the track's sample times.
    pub timescale: Timescale,
    /// Duration in [`Self::timescale`] ticks; 0 and all ones mean unknown.
    pub duration: u64,
    /// Language.
    pub language: Language,
}

impl Mdhd {
    /// Reads the payload of a `mdhd`.
    ///
    /// # Errors
    /// [`Error::BadValue`] for timescale 0.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (timescale, duration) = payload.scale_and_duration()?;
        let language = Language::from_packed(payload.u16()?);
        Ok(Self { timescale, duration, language })
    }
}

impl WriteBox for Mdhd {
    fn kind(&self) -> FourCc {
        FourCc(*b"mdhd")
    }

    fn payload_size(&self) -> u64 {
        if version_for_duration(self.duration) == 0 { 24 } else { 36 }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let version = version_for_duration(self.duration);
        put_version_and_flags(out, version, 0);
        put_time(out, version, 0);
        put_time(out, version, 0);
        out.put_u32(self.timescale.get());
        put_time(out, version, self.duration);
        out.put_u16(self.language.packed().unwrap_or(PACKED_UNKNOWN));
        out.put_u16(0);
    }
}

/// An `elng` to write, for a tag that does not fit `mdhd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elng<'a>(pub &'a Language);

impl WriteBox for Elng<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"elng")
    }

    fn payload_size(&self) -> u64 {
        4 + self.0.as_str().len() as u64 + 1
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        out.put_slice(self.0.as_str().as_bytes());
        out.put_u8(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn packed_codes_match_the_standard() {
        assert_eq!(Language::from_packed(PACKED_UNKNOWN).as_str(), "und");
        assert_eq!(Language::from_packed(0x15c7).as_str(), "eng");
        assert_eq!(Language::new("eng").unwrap().packed(), Some(0x15c7));
        for unusable in [0, 0x3ff, 0x7fff, 0x15c0, 0x15db] {
            assert_eq!(Language::from_packed(unusable), Language::unknown(), "{unusable:#x}");
        }
        for tag in ["pt-BR", "en", "Eng", "e2g"] {
            assert_eq!(Language::new(tag).unwrap().packed(), None, "{tag}");
        }
    }

    #[test]
    fn macintosh_codes_were_an_unknown_language() {
        for (code, tag) in [(1, "fra"), (2, "deu"), (11, "jpn"), (33, "zh-Hans"), (130, "cat")] {
            assert_eq!(Language::from_packed(code).as_str(), tag, "{code}");
        }
    }

    #[test]
    fn tags_that_could_break_a_manifest_are_refused() {
        let long = "a".repeat(36);
        for tag in ["", "-", "en-", "en--us", "e n", "en\"", "é", "en\0", &long] {
            assert_eq!(Language::new(tag), None, "{tag:?}");
        }
        assert_eq!(Language::new("zh-Hant-TW").unwrap().to_string(), "zh-Hant-TW");
    }

    #[test]
    fn elng_with_and_without_terminator() {
        for payload in [&b"\0\0\0\0sr-Latn\0"[..], b"\0\0\0\0sr-Latn", b"\0\0\0\0sr-Latn\0\xff"] {
            let bytes = Bytes::from_static(payload);
            let tag = Language::parse_elng(Cursor::new(&bytes, 0)).unwrap().unwrap();
            assert_eq!(tag.as_str(), "sr-Latn");
        }
        let bytes = Bytes::from_static(b"\0\0\0\0\xc3\x28\0");
        assert_eq!(Language::parse_elng(Cursor::new(&bytes, 0)).unwrap(), None);
    }

    #[test]
    fn an_unknown_duration_reads_as_all_ones_in_both_versions() {
        let bytes = Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\x15\xc7\0\0");
        assert_eq!(Mdhd::parse(Cursor::new(&bytes, 0)).unwrap().duration, u64::MAX);
    }
}
