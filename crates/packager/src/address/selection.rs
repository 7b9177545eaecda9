//! What of a title is asked for: which tracks, from when to when, in segments of what length.

use crate::filter::Filter;
use latemux_index::title::TrackName;
use std::time::Duration;

/// What of a title is asked for; by default everything, cut as the grid cuts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selection {
    /// Which tracks manifests list.
    pub filter: Option<Filter>,
    /// The tracks a path has chosen already, of which manifests list no others; `None` for all.
    pub tracks: Option<Vec<TrackName>>,
    /// From when to when.
    pub clip: Clip,
    /// HLS: segments are joined until they are at least as long.
    pub minimum_segment: Option<Duration>,
}

impl Selection {
    /// Whether it is everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// What of it segments depend on: their URLs name their tracks, and only HLS joins them.
    #[must_use]
    pub fn of_segments(&self) -> Self {
        Self { clip: self.clip, ..Self::default() }
    }
}

/// From when to when, in presentation time of the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clip {
    begin: Option<Duration>,
    end: Option<Duration>,
}

impl Clip {
    /// The latest time a clip may name: as much as 64 bits of nanoseconds have room for, with room left to reckon.
    pub const LATEST: Duration = Duration::from_secs(1_000_000_000);

    /// From `begin`, or from the start of the title, to `end`, or to its end.
    ///
    /// # Errors
    /// What is wrong with them, for people: nothing in between, or later than [`Self::LATEST`].
    pub fn new(begin: Option<Duration>, end: Option<Duration>) -> Result<Self, &'static str> {
        if begin.max(end).is_some_and(|time| time > Self::LATEST) {
            return Err("later than any title");
        }
        if end.is_some_and(|end| end <= begin.unwrap_or_default()) {
            return Err("the end is not after the beginning");
        }
        Ok(Self { begin: begin.filter(|begin| !begin.is_zero()), end })
    }

    /// Where it begins; `None`: where the title does.
    #[must_use]
    pub fn begin(self) -> Option<Duration> {
        self.begin
    }

    /// Where it ends; `None`: where the title does.
    #[must_use]
    pub fn end(self) -> Option<Duration> {
        self.end
    }

    /// Whether it is the whole title.
    #[must_use]
    pub fn is_everything(self) -> bool {
        self == Self::default()
    }
}
