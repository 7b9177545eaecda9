//! The clear lead of an encrypted title: its first segments, which are sent clear so that players
//! can start before they have a licence.
//!
//! The lead ends at a boundary of the segment grid, so that it is the same in all tracks, in DASH
//! and HLS, and on all nodes. A segment of which any part lies after that boundary is encrypted
//! whole. The last segment of a track always is, because no boundary follows it.

use crate::selection::{
    Selected,
    packed_tracks::{NANOS, PackedTracks},
};
use latemux_index::{Title, title::Segment};
use latemux_isobmff::{Time, time::Round};
use std::{cell::Cell, time::Duration};

/// The clear lead of a title. Empty by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClearLead {
    /// Count of the grid's segments in the lead.
    segments: u32,
    length: Duration,
}

impl ClearLead {
    /// Returns the lead that ends at the last boundary of a title's grid that is at most `longest`
    /// after its start.
    pub(crate) fn new(title: &Title, longest: Duration) -> Self {
        let nanos = |time: &Time| u64::try_from(time.in_scale(NANOS, Round::Up)).unwrap_or(0);
        let starts = &title.grid().starts;
        let Some(first) = starts.first().map(nanos) else { return Self::default() };
        let since = |time: &Time| Duration::from_nanos(nanos(time).saturating_sub(first));
        let last = starts.partition_point(|start| since(start) <= longest).saturating_sub(1);
        let length = starts.get(last).map(since).unwrap_or_default();
        Self { segments: u32::try_from(last).unwrap_or(0), length }
    }

    /// Returns true if no segment is clear.
    pub(crate) fn is_empty(self) -> bool {
        self.segments == 0
    }

    /// Returns the time from the start of the title to the end of the lead.
    pub(crate) fn length(self) -> Duration {
        self.length
    }

    /// Returns the text of the lead in digests.
    pub(crate) fn text(self) -> String {
        format!(" lead {}", self.segments)
    }

    /// Returns true if every one of these segments, which are sent together, lies in the lead from
    /// its first sample to its last. Tracks are indexes into the selected [`Title::tracks`].
    pub(crate) fn holds<'s>(
        self,
        selected: &Selected<'_>,
        shares: impl IntoIterator<Item = (usize, &'s Segment)>,
    ) -> bool {
        if self.is_empty() {
            return false;
        }
        // A segment that a clip cuts is treated as the one of the whole title.
        let ends = |(track, segment): (usize, &Segment)| {
            let range = selected.whole.grid_range(selected.index_in_whole(track)?, &segment.cut)?;
            Some(range.end)
        };
        let mut last = None;
        for share in shares {
            let Some(end) = ends(share) else { return false };
            last = last.max(Some(end));
        }
        last.is_some_and(|last| last <= self.segments)
    }

    /// Returns true if the shares of packed tracks in a segment (0-based) are part of the lead.
    pub(crate) fn holds_packed(
        self,
        selected: &Selected<'_>,
        packed: &PackedTracks<'_>,
        number: u32,
    ) -> bool {
        if self.is_empty() {
            return false;
        }
        let shares: Vec<_> = packed.shares(number).collect();
        self.holds(selected, shares.iter().filter_map(|(track, share)| Some((*track, share.as_ref()?))))
    }
}

/// The lead as the planner of one response uses it. It remembers whether the response is part of
/// it: whatever is planned without being looked up here is encrypted.
#[derive(Debug, Default)]
pub(crate) struct LeadCheck {
    lead: ClearLead,
    is_clear: Cell<bool>,
}

impl LeadCheck {
    pub(crate) fn new(lead: ClearLead) -> Self {
        Self { lead, is_clear: Cell::new(false) }
    }

    /// Returns the lead.
    pub(crate) fn lead(&self) -> ClearLead {
        self.lead
    }

    /// Returns true if the segment of the response is part of the lead, see [`ClearLead::holds`].
    pub(crate) fn holds<'s>(
        &self,
        selected: &Selected<'_>,
        shares: impl IntoIterator<Item = (usize, &'s Segment)>,
    ) -> bool {
        let is_clear = self.lead.holds(selected, shares);
        self.is_clear.set(is_clear);
        is_clear
    }

    /// Returns true if the response is clear as a part of the lead.
    pub(crate) fn is_clear(&self) -> bool {
        self.is_clear.get()
    }
}
