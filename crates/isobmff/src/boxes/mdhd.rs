//! `mdhd` and `elng`: timescale, duration and language of a track (ISO/IEC 14496-12 §8.4.2, §8.4.6).

use std::fmt;

/// A BCP 47 language tag: the packed ISO 639-2/T code of `mdhd`, or the tag of `elng`.
/// Only letters, digits and `-`; at most 35 bytes; `und` where the file says nothing usable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language(Box<str>);

impl Language {
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
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
