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
        let mut found = Self::default();
        let mut is_hi = false;
        for part in stem.split('.').rev() {
            match part.to_ascii_lowercase().as_str() {
                "forced" | "foreign" => found.purpose.forced = true,
                "sdh" | "cc" => found.purpose.captions = true,
                "default" => found.purpose.default = true,
                "hi" => is_hi = true,
                _ if found.language.is_none() && language::is_tag(part) => {
                    found.language = Some(part.to_owned());
                }
                _ => break,
            }
        }
        // `hi` is Hindi, unless another part states the language.
        if is_hi && found.language.is_some() {
            found.purpose.captions = true;
        } else if is_hi {
            found.language = Some("hi".to_owned());
        }
        found
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
}
