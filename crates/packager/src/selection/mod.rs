//! The part of a title that a URL selects: tracks, a time range, and the length of segments.

pub mod filter;
pub(crate) mod packed_tracks;
mod selected;

pub(crate) use selected::Selected;

use filter::Filter;
use latemux_index::{Title, title::TrackName};
use latemux_isobmff::{Time, time::Round};
use packed_tracks::NANOS;
use std::time::Duration;

/// The selected part of a title. By default it is everything, cut as by the grid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selection {
    /// The filter that chooses the tracks that manifests list.
    pub filter: Option<Filter>,
    /// The tracks that a path has chosen: manifests list no others. `None` for all.
    pub tracks: Option<Vec<TrackName>>,
    /// The selected time range.
    pub clip: Clip,
    /// HLS: segments are joined until they last at least this long.
    pub minimum_segment: Option<Duration>,
    /// The order of samples in media segments of DASH and of HLS in CMAF. Other URLs have the
    /// default.
    pub order: SampleOrder,
    /// DASH: the form of text. URLs that do not depend on it have the default.
    pub text: DashText,
}

/// The form of text in DASH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DashText {
    /// TTML as it is stored, and WebVTT for all other text.
    #[default]
    Stored,
    /// TTML for all text: `stpp`.
    Stpp,
}

/// The order of the samples in a media segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SampleOrder {
    /// The order in which they are decoded.
    #[default]
    Decode,
    /// The most important samples first, so that a segment that is cut off can be restored.
    Priority,
}

impl Selection {
    /// Returns the part of the selection that a segment's bytes depend on.
    pub fn for_segments(&self) -> Self {
        Self { clip: self.clip, ..Self::default() }
    }
}

/// The extent of a segment, compared with the whole title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The segment is the same, whatever else the selection leaves out.
    Whole,
    /// The segment exists only with the selection: it is cut off or joined.
    Selected,
}

/// A time range, in presentation time of the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Clip {
    begin: Option<Duration>,
    end: Option<Duration>,
}

impl Clip {
    /// The latest time that a clip may name. In nanoseconds it fits 64 bits with room to spare.
    pub const LATEST: Duration = Duration::from_secs(1_000_000_000);

    /// Creates a clip from `begin`, or the start of the title, to `end`, or the end of the title.
    ///
    /// # Errors
    /// A message for people: the clip is empty, or a time is later than [`Self::LATEST`].
    pub fn new(begin: Option<Duration>, end: Option<Duration>) -> Result<Self, &'static str> {
        if begin.max(end).is_some_and(|time| time > Self::LATEST) {
            return Err("later than any title");
        }
        if end.is_some_and(|end| end <= begin.unwrap_or_default()) {
            return Err("the end is not after the beginning");
        }
        Ok(Self { begin: begin.filter(|begin| !begin.is_zero()), end })
    }

    /// Returns the start of the clip; `None` for the start of the title.
    pub fn begin(self) -> Option<Duration> {
        self.begin
    }

    /// Returns the end of the clip; `None` for the end of the title.
    pub fn end(self) -> Option<Duration> {
        self.end
    }

    /// Returns the clip between the times at which a title is cut for this one, unless it is this
    /// one. Times are rounded to nanoseconds, towards the inside of the clip.
    pub(crate) fn at_cuts(self, title: &Title) -> Option<Self> {
        if self.is_everything() {
            return None;
        }
        let time = |time: Duration| Time::new(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX), NANOS);
        let nanos = |time: Time, round| u64::try_from(time.in_scale(NANOS, round)).ok();
        let (begin, end) = title.clip_cuts(self.begin.map(time), self.end.map(time))?;
        let begin = begin.and_then(|time| nanos(time, Round::Up)).map(Duration::from_nanos);
        let end = end.and_then(|time| nanos(time, Round::Down)).map(Duration::from_nanos);
        let is_within = begin <= self.begin && self.end.is_none_or(|own| end.is_none_or(|end| end >= own));
        Self::new(begin, end).ok().filter(|clip| is_within && *clip != self)
    }

    /// True if the clip is the whole title.
    pub fn is_everything(self) -> bool {
        self == Self::default()
    }
}
