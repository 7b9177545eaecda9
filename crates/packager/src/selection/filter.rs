//! `filter=`: the tracks of a title that a manifest lists.
//!
//! ```text
//! filter     = any
//! any        = all *("||" all)
//! all        = term *("&&" term)
//! term       = "(" any ")" | VARIABLE OPERATOR VALUE
//! VARIABLE   = "type" | "systemBitrate" | "systemLanguage" | "trackID" | "trackName" | "FourCC"
//!            | "MaxWidth" | "MaxHeight" | "Channels" | "SamplingRate"
//! OPERATOR   = "==" | "!=" | "<" | "<=" | ">" | ">="
//! VALUE      = NUMBER | '"' TEXT '"' | "'" TEXT "'"
//! ```
//!
//! White space between tokens has no meaning. Numbers are compared with numbers. Text is compared
//! for equality only, without regard to case. If a track lacks a property (audio has no height,
//! a language may be unknown), only `!=` is true of it.

mod parse;

use latemux_index::{Title, Track, media::TrackKind};
use latemux_isobmff::codec::{Config, Media};
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
    Number(NumberVariable, Operator, u64),
    /// A comparison of text: `true` for `==`, `false` for `!=`.
    Text(TextVariable, bool, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NumberVariable {
    Bitrate,
    Id,
    Width,
    Height,
    Channels,
    SamplingRate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TextVariable {
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

const NUMBERS: [(NumberVariable, &str); 6] = [
    (NumberVariable::Bitrate, "systemBitrate"),
    (NumberVariable::Id, "trackID"),
    (NumberVariable::Width, "MaxWidth"),
    (NumberVariable::Height, "MaxHeight"),
    (NumberVariable::Channels, "Channels"),
    (NumberVariable::SamplingRate, "SamplingRate"),
];
const TEXTS: [(TextVariable, &str); 4] = [
    (TextVariable::Kind, "type"),
    (TextVariable::Language, "systemLanguage"),
    (TextVariable::Name, "trackName"),
    (TextVariable::FourCc, "FourCC"),
];
/// The symbols of operators. Each symbol comes before its prefixes: `<=` before `<`.
const OPERATORS: [(Operator, &str); 6] = [
    (Operator::Equal, "=="),
    (Operator::NotEqual, "!="),
    (Operator::LessOrEqual, "<="),
    (Operator::MoreOrEqual, ">="),
    (Operator::Less, "<"),
    (Operator::More, ">"),
];

fn symbol_of<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    table.iter().find(|(other, _)| other == value).map_or("", |(_, symbol)| symbol)
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
    pub fn matches(&self, title: &Title, track: usize) -> bool {
        title.tracks().get(track).is_some() && self.0.is_true_of(title, track)
    }
}

impl Expression {
    fn is_true_of(&self, title: &Title, track: usize) -> bool {
        match self {
            Self::Any(terms) => terms.iter().any(|term| term.is_true_of(title, track)),
            Self::All(terms) => terms.iter().all(|term| term.is_true_of(title, track)),
            Self::Number(number, operator, value) => match number.of(title, track) {
                Some(known) => operator.compare(known, *value),
                None => *operator == Operator::NotEqual,
            },
            Self::Text(text, equal, value) => {
                text.of(title, track).iter().any(|known| known.eq_ignore_ascii_case(value)) == *equal
            }
        }
    }
}

impl NumberVariable {
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
}

impl TextVariable {
    /// Returns all names of the property. A comparison holds if it holds for any of them.
    fn of(self, title: &Title, index: usize) -> Vec<String> {
        let Some(title_track) = title.tracks().get(index) else { return Vec::new() };
        let track = title.track(title_track);
        let language = Some(&track.language).filter(|language| language.is_known());
        match self {
            Self::Kind => vec![kind_name(track.kind).to_owned()],
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
}

/// Returns the name of a kind of tracks in filters and server manifests.
pub(crate) fn kind_name(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "video",
        TrackKind::Audio => "audio",
        TrackKind::Text => "textstream",
    }
}

/// Returns the FourCC of a track in filters and server manifests.
pub(crate) fn four_cc(track: &Track) -> String {
    match &track.codec.config {
        Config::Avc(_) => "AVC1".to_owned(),
        Config::Aac(_) => "AACL".to_owned(),
        _ => track.codec.format.to_string(),
    }
}

impl Operator {
    fn compare(self, left: u64, right: u64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::More => left > right,
            Self::MoreOrEqual => left >= right,
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
                let operator = symbol_of(&OPERATORS, operator);
                return write!(f, "{}{operator}{value}", symbol_of(&NUMBERS, number));
            }
            Self::Text(text, equal, value) => {
                let quote = if value.contains('"') { '\'' } else { '"' };
                let operator = if *equal { "==" } else { "!=" };
                return write!(f, "{}{operator}{quote}{value}{quote}", symbol_of(&TEXTS, text));
            }
        };
        for (number, term) in terms.iter().enumerate() {
            if number > 0 {
                f.write_str(between)?;
            }
            // `&&` binds closer than `||`. Lists within lists of their kind keep their parentheses.
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
