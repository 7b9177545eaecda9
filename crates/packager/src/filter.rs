//! `filter=`: which tracks of a title a manifest lists.
//!
//! ```text
//! filter     = any
//! any        = all *("||" all)
//! all        = term *("&&" term)
//! term       = "(" any ")" | VARIABLE OPERATOR VALUE
//! VARIABLE   = "type" | "systemBitrate" | "systemLanguage" | "trackID" | "trackName" | "FourCC" | "MaxWidth" | "MaxHeight"
//!            | "Channels" | "SamplingRate"
//! OPERATOR   = "==" | "!=" | "<" | "<=" | ">" | ">="
//! VALUE      = NUMBER | '"' TEXT '"' | "'" TEXT "'"
//! ```
//!
//! White space between tokens means nothing. Numbers are compared with numbers, text for equality only, without regard to case.
//! What a track does not have (the height of sound, a language that is not known) equals nothing and is neither less nor
//! more than anything: of all comparisons only `!=` is true of it.

mod parse;

use crate::manifest::server::four_cc;
use latemux_index::{Title, media::TrackKind};
use latemux_isobmff::codec::Media;
use std::fmt;

pub use parse::MAX_BYTES;

/// An expression over the properties of a track.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter(Expression);

/// An expression. `Any` and `All` have at least two members.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Expression {
    Any(Vec<Expression>),
    All(Vec<Expression>),
    Number(Number, Operator, u64),
    /// A comparison of text: `true` for `==`, `false` for `!=`.
    Text(Text, bool, String),
}

/// A variable that holds a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Number {
    Bitrate,
    Id,
    Width,
    Height,
    Channels,
    SamplingRate,
}

/// A variable that holds text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Text {
    Kind,
    Language,
    Name,
    FourCc,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

impl Filter {
    /// Parses an expression.
    ///
    /// # Errors
    /// A message for people with the problem and its position.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::expression(text).map(Self)
    }

    /// True if the filter is true of a track (an index into [`Title::tracks`]).
    #[must_use]
    pub fn takes(&self, title: &Title, track: usize) -> bool {
        title.tracks().get(track).is_some() && self.0.holds(title, track)
    }
}

impl Expression {
    fn holds(&self, title: &Title, track: usize) -> bool {
        match self {
            Self::Any(terms) => terms.iter().any(|term| term.holds(title, track)),
            Self::All(terms) => terms.iter().all(|term| term.holds(title, track)),
            Self::Number(number, operator, value) => match number.of(title, track) {
                Some(known) => operator.holds(known, *value),
                None => *operator == Operator::NotEqual,
            },
            Self::Text(text, equal, value) => {
                text.of(title, track).iter().any(|known| known.eq_ignore_ascii_case(value)) == *equal
            }
        }
    }
}

impl Number {
    fn of(self, title: &Title, index: usize) -> Option<u64> {
        let title_track = title.tracks().get(index)?;
        let track = title.track(title_track);
        let (video, audio) = match &track.codec.media {
            Media::Video(video) => (Some(video), None),
            Media::Audio(audio) => (None, Some(audio)),
            Media::Text => (None, None),
        };
        match self {
            Self::Bitrate => Some(title_track.name.bitrate),
            Self::Id => Some(track.id.into()),
            Self::Width => Some(video?.width.into()),
            Self::Height => Some(video?.height.into()),
            Self::Channels => Some(audio?.channels.into()),
            Self::SamplingRate => Some(audio?.sample_rate.into()),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Bitrate => "systemBitrate",
            Self::Id => "trackID",
            Self::Width => "MaxWidth",
            Self::Height => "MaxHeight",
            Self::Channels => "Channels",
            Self::SamplingRate => "SamplingRate",
        }
    }
}

impl Text {
    /// Returns all names of the property. A comparison holds if it holds for any of them.
    fn of(self, title: &Title, index: usize) -> Vec<String> {
        let Some(title_track) = title.tracks().get(index) else { return Vec::new() };
        let track = title.track(title_track);
        let language = Some(&track.language).filter(|language| language.is_known());
        match self {
            Self::Kind => {
                let kind = match track.kind {
                    TrackKind::Video => "video",
                    TrackKind::Audio => "audio",
                    TrackKind::Text => "textstream",
                };
                vec![kind.to_owned()]
            }
            Self::Language => language.map(ToString::to_string).into_iter().collect(),
            Self::Name => {
                // The name in the server manifest, and the stem that URLs derive from it.
                let stem = &title_track.name.stem;
                let plain = language.map(|language| stem.replacen(&format!("_{language}"), "", 1));
                plain.into_iter().chain([stem.clone()]).collect()
            }
            Self::FourCc => vec![four_cc(track), track.codec.format.to_string()],
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Kind => "type",
            Self::Language => "systemLanguage",
            Self::Name => "trackName",
            Self::FourCc => "FourCC",
        }
    }
}

impl Operator {
    fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::More => left > right,
            Self::MoreOrEqual => left >= right,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::More => ">",
            Self::MoreOrEqual => ">=",
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (terms, between) = match self {
            Self::Any(terms) => (terms, "||"),
            Self::All(terms) => (terms, "&&"),
            Self::Number(number, operator, value) => {
                return write!(f, "{}{}{value}", number.word(), operator.word());
            }
            Self::Text(text, equal, value) => {
                let quote = if value.contains('"') { '\'' } else { '"' };
                let operator = if *equal { "==" } else { "!=" };
                return write!(f, "{}{operator}{quote}{value}{quote}", text.word());
            }
        };
        for (number, term) in terms.iter().enumerate() {
            if number > 0 {
                f.write_str(between)?;
            }
            // `&&` binds closer than `||`. A list in a list of the same kind was written with
            // parentheses, which are kept.
            match (self, term) {
                (Self::All(_), Self::All(_) | Self::Any(_)) | (Self::Any(_), Self::Any(_)) => {
                    write!(f, "({term})")?;
                }
                _ => term.fmt(f)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
pub(crate) mod tests;
