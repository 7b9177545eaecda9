//! References to tracks by number: `-f2-v1-a1`.

use crate::address::{AddressError, native::number};
use latemux_index::media::TrackKind;
use std::fmt;

/// Most references in one URL: enough for a title of 64 files, each named.
const MAX_PICKS: usize = 128;

/// One reference by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pick {
    /// `fN`: the references that follow are to tracks of the title's file N, from 1.
    File(u32),
    /// `vN`, `aN`, `tN`: the Nth video, audio or text track of its file, from 1; 0 for all.
    Track(TrackKind, u32),
}

/// References in the order of the URL. An empty list stands for every track, or for video and
/// audio.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Picks(Vec<Pick>);

impl Picks {
    /// Creates a list of references. References beyond the most that one URL holds are dropped.
    pub fn new(mut picks: Vec<Pick>) -> Self {
        picks.truncate(MAX_PICKS);
        Self(picks)
    }

    /// Returns the references in order.
    pub fn as_slice(&self) -> &[Pick] {
        &self.0
    }

    /// True if there are no references.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses `-f2-v1-a1`, as in a file's name. Empty text gives an empty list. Fails with
    /// [`AddressError::BadTracks`] if the text is no list of references,
    /// [`AddressError::IndexZero`] for file 0, [`AddressError::TooLong`] for too many of them.
    pub(super) fn parse(text: &str) -> Result<Self, AddressError> {
        match text.strip_prefix('-') {
            Some(rest) => Self::listed(rest),
            None if text.is_empty() => Ok(Self::default()),
            None => Err(AddressError::BadTracks(text.to_owned())),
        }
    }

    /// Parses `f2-v1-a1`, as it follows `/tracks/`. Fails like [`Self::parse`].
    pub(super) fn listed(text: &str) -> Result<Self, AddressError> {
        let picks = text.split('-').take(MAX_PICKS + 1).map(pick).collect::<Result<Vec<_>, _>>()?;
        if picks.len() > MAX_PICKS {
            return Err(AddressError::TooLong { what: "references to tracks", limit: MAX_PICKS });
        }
        Ok(Self(picks))
    }
}

fn pick(text: &str) -> Result<Pick, AddressError> {
    let bad = || AddressError::BadTracks(text.to_owned());
    let mut chars = text.chars();
    let letter = chars.next().ok_or_else(bad)?;
    let n = number(chars.as_str()).ok_or_else(bad)?;
    match letter {
        'f' if n == 0 => Err(AddressError::IndexZero),
        'f' => Ok(Pick::File(n)),
        'v' => Ok(Pick::Track(TrackKind::Video, n)),
        'a' => Ok(Pick::Track(TrackKind::Audio, n)),
        't' => Ok(Pick::Track(TrackKind::Text, n)),
        _ => Err(bad()),
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(n) => write!(f, "f{n}"),
            Self::Track(TrackKind::Video, n) => write!(f, "v{n}"),
            Self::Track(TrackKind::Audio, n) => write!(f, "a{n}"),
            Self::Track(TrackKind::Text, n) => write!(f, "t{n}"),
        }
    }
}

/// Prints each reference with a hyphen before it.
impl fmt::Display for Picks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|pick| write!(f, "-{pick}"))
    }
}
