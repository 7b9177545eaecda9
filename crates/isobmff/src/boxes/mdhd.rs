//! `mdhd` and `elng`: timescale, duration and language of a track (ISO/IEC 14496-12 §8.4.2, §8.4.6).

use crate::{
    Error, FourCc, Timescale,
    cursor::Cursor,
    emit::{WriteBox, put_time, put_version_and_flags, version_for_duration},
};
use bytes::BufMut;
use std::fmt;

/// A BCP 47 language tag: the packed ISO 639-2/T code of `mdhd`, or the tag of `elng`.
/// Only letters, digits and `-`; at most 35 bytes; `und` where the file says nothing usable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language(Box<str>);

impl Language {
    /// The longest tag: what RFC 5646 §4.4.1 asks everybody to take.
    pub const MAX_LEN: usize = 35;

    /// A tag of letters, digits and `-`; `None` for anything else, and for more than [`Self::MAX_LEN`] bytes.
    #[must_use]
    pub fn new(tag: &str) -> Option<Self> {
        let sound = !tag.is_empty()
            && tag.len() <= Self::MAX_LEN
            && tag.split('-').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric()));
        sound.then(|| Self(tag.into()))
    }

    /// `und`: not known.
    #[must_use]
    pub fn unknown() -> Self {
        Self("und".into())
    }

    /// The tag, e.g. `eng` or `pt-BR`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the language is known, i.e. not `und`.
    #[must_use]
    pub fn is_known(&self) -> bool {
        &*self.0 != "und"
    }

    /// The three letters in 5 bits each, as `mdhd` has them. Numbers that are not letters, among them the
    /// Macintosh language codes of QuickTime (below 0x400), are `und`.
    #[must_use]
    pub fn from_packed(packed: u16) -> Self {
        let letter = |shift: u16| match packed >> shift & 31 {
            n @ 1..=26 => char::from_u32(u32::from(n) + 0x60),
            _ => None,
        };
        let letters = [letter(10), letter(5), letter(0)];
        letters.into_iter().collect::<Option<String>>().map_or_else(Self::unknown, |tag| Self(tag.into()))
    }

    /// The packed code, where the tag is three small letters; else `mdhd` says `und` and `elng` the tag.
    #[must_use]
    pub fn packed(&self) -> Option<u16> {
        let letters: [u8; 3] = self.0.as_bytes().try_into().ok()?;
        letters.iter().try_fold(0, |packed, letter| {
            letter.is_ascii_lowercase().then(|| packed << 5 | u16::from(letter - 0x60))
        })
    }

    /// Reads the payload of an `elng`; `None` where it holds no usable tag.
    ///
    /// # Errors
    /// Truncated.
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

/// `und`, packed.
const PACKED_UNKNOWN: u16 = 0x55c4;

/// A media header; creation times are neither kept nor written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mdhd {
    /// Scale of the track's sample times.
    pub timescale: Timescale,
    /// Duration in [`Self::timescale`] ticks; 0 or all ones mean unknown.
    pub duration: u64,
    /// Language.
    pub language: Language,
}

impl Mdhd {
    /// Reads the payload of a `mdhd`.
    ///
    /// # Errors
    /// Truncated, zero timescale, or a version nobody knows yet.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (version, _) = payload.version_up_to(1)?;
        payload.skip(if version == 0 { 8 } else { 16 })?;
        let zero = payload.bad("timescale is 0");
        let timescale = Timescale::new(payload.u32()?).ok_or(zero)?;
        let duration = match payload.u32_or_u64(version)? {
            // All ones is "unknown" in both widths: say it in one way.
            0xffff_ffff if version == 0 => u64::MAX,
            duration => duration,
        };
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

/// An `elng` to write, for a tag that `mdhd` cannot say.
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
    fn packed_codes_as_in_the_standard() {
        assert_eq!(Language::from_packed(PACKED_UNKNOWN).as_str(), "und");
        assert_eq!(Language::from_packed(0x15c7).as_str(), "eng");
        assert_eq!(Language::new("eng").unwrap().packed(), Some(0x15c7));
        for unusable in [0, 11, 0x3ff, 0x7fff, 0x15c0, 0x15db] {
            assert_eq!(Language::from_packed(unusable), Language::unknown(), "{unusable:#x}");
        }
        for tag in ["pt-BR", "en", "Eng", "e2g"] {
            assert_eq!(Language::new(tag).unwrap().packed(), None, "{tag}");
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
    fn an_unknown_duration_is_all_ones_in_both_versions() {
        let bytes = Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\xff\xff\xff\xff\x15\xc7\0\0");
        assert_eq!(Mdhd::parse(Cursor::new(&bytes, 0)).unwrap().duration, u64::MAX);
    }
}
