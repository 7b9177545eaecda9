//! Language and purpose that the name of a text file states.

use crate::language;

/// The purpose of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purpose {
    /// Shown even if the viewer chooses no subtitles: signs and foreign speech.
    pub forced: bool,
    /// For the deaf: states sounds too.
    pub captions: bool,
    /// Preferred to other text of its language.
    pub default: bool,
}

/// The parts of the name of a text file that tell what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileName {
    /// The last language tag between dots, as it is written.
    pub language: Option<String>,
    /// Flags between dots.
    pub purpose: Purpose,
}

impl FileName {
    /// Reads the last parts of a name such as `film.pt-BR.forced.srt`: a language tag, and the
    /// flags `forced`, `foreign`, `sdh`, `cc`, `hi` and `default`. Folders before it do not count.
    pub fn of(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        Self::of_parts(stem.split('.').rev()).0
    }

    /// Returns true if a name is that of text beside a file whose name without extension is `stem`:
    /// between the two names and before the extension there are only a language tag and flags.
    pub fn is_beside(name: &str, stem: &str) -> bool {
        let Some((parts, _extension)) = name.strip_prefix(stem).and_then(|rest| rest.rsplit_once('.')) else {
            return false;
        };
        let Some(parts) = parts.strip_prefix('.') else { return parts.is_empty() };
        Self::of_parts(parts.rsplit('.')).1
    }

    /// Reads parts, the last one first, up to one that states nothing. Returns false if there is
    /// such a part.
    fn of_parts<'a>(parts: impl Iterator<Item = &'a str>) -> (Self, bool) {
        let mut is_all = true;
        let mut found = Self::default();
        let mut is_hi = false;
        for part in parts {
            match part.to_ascii_lowercase().as_str() {
                "forced" | "foreign" => found.purpose.forced = true,
                "sdh" | "cc" => found.purpose.captions = true,
                "default" => found.purpose.default = true,
                "hi" => is_hi = true,
                _ if found.language.is_none() && language::is_tag(part) => {
                    found.language = Some(part.to_owned());
                }
                _ => {
                    is_all = false;
                    break;
                }
            }
        }
        // `hi` is Hindi, unless another part states the language.
        if is_hi && found.language.is_some() {
            found.purpose.captions = true;
        } else if is_hi {
            found.language = Some("hi".to_owned());
        }
        (found, is_all)
    }
}

#[cfg(test)]
mod tests {
    use super::{FileName, Purpose};

    #[test]
    fn names_state_language_and_purpose() {
        let read = |name: &str| {
            let FileName { language, purpose: Purpose { forced, captions, default } } = FileName::of(name);
            (language.unwrap_or_default(), [forced, captions, default])
        };
        for (name, language, purpose) in [
            ("eng.vtt", "eng", [false; 3]),
            ("film/de.vtt", "de", [false; 3]),
            ("film.pt-BR.forced.srt", "pt-BR", [true, false, false]),
            ("film.eng.sdh.srt", "eng", [false, true, false]),
            ("film.eng.hi.default.srt", "eng", [false, true, true]),
            ("film.hi.vtt", "hi", [false; 3]),
            ("film.vtt", "", [false; 3]),
            ("the.out.vtt", "", [false; 3]),
            ("this.is.film.vtt", "", [false; 3]),
            ("a.b.c.ttml", "", [false; 3]),
        ] {
            assert_eq!(read(name), (language.to_owned(), purpose), "{name}");
        }
    }

    #[test]
    fn text_beside_a_file_has_its_name_with_flags() {
        for name in ["film.srt", "film.eng.srt", "film.eng.sdh.vtt", "film.forced.pt-BR.ttml", "film.hi.srt"]
        {
            assert!(FileName::is_beside(name, "film"), "{name}");
        }
        for name in ["film2.srt", "film-eng.srt", "film.part2.eng.srt", "film", "fil.srt", "a/film.srt"] {
            assert!(!FileName::is_beside(name, "film"), "{name}");
        }
    }
}
