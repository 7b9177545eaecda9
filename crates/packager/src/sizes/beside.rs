//! Sizes of tracks that are packed beside one video after another.

use super::{Bitrate, share_sizes, sizes_of_shares, with_durations};
use crate::{carry::Protocol, segment::PackedTracks};
use latemux_index::Title;
use std::{cell::RefCell, collections::VecDeque, rc::Rc};

/// Number of shares that are kept. Most videos of a title have the same segments.
const MOST_KEPT: usize = 4;

/// Computes the sizes of segments of several sets of tracks. Renditions of video are packed with
/// the same sound, whose samples are read once for all videos with the same segments.
#[derive(Debug)]
pub(crate) struct SizesBeside<'a> {
    title: &'a Title,
    protocol: Protocol,
    kept: RefCell<VecDeque<Kept>>,
}

#[derive(Debug)]
struct Kept {
    lead: usize,
    track: usize,
    sizes: Rc<[u64]>,
}

impl<'a> SizesBeside<'a> {
    pub(crate) fn new(title: &'a Title, protocol: Protocol) -> Self {
        Self { title, protocol, kept: RefCell::default() }
    }

    /// Returns the bytes of every segment of tracks packed together, whose segments are not joined.
    pub(crate) fn packed(&self, packed: &PackedTracks<'_>) -> Vec<u64> {
        sizes_of_shares(self.title, packed, self.protocol, |track| self.share(packed, track))
    }

    /// Returns the bit rates of tracks packed together, like [`Bitrate::of_tracks`].
    pub(crate) fn rates(&self, packed: &PackedTracks<'_>) -> Bitrate {
        let (segments, timescale) = with_durations(self.title, packed, self.packed(packed));
        Bitrate::of(&segments, timescale)
    }

    fn share(&self, packed: &PackedTracks<'_>, track: usize) -> Rc<[u64]> {
        let sizes = || share_sizes(self.title, packed, track, self.protocol).into();
        let tracks = self.title.tracks();
        let is_lead = |&index: &usize| tracks.get(index).is_some_and(|own| std::ptr::eq(own, packed.lead()));
        let Some(lead) = packed.tracks().find(is_lead).filter(|&lead| lead != track) else {
            return sizes();
        };
        // The share follows from where the segments of the lead begin on the grid.
        let grid = |index: usize| tracks.get(index).map(|track| (track.first, &track.grid_segments));
        let is_same = |kept: &&Kept| kept.track == track && grid(kept.lead) == grid(lead);
        let found = self.kept.borrow().iter().find(is_same).map(|kept| Rc::clone(&kept.sizes));
        found.unwrap_or_else(|| {
            let sizes: Rc<[u64]> = sizes();
            let mut kept = self.kept.borrow_mut();
            kept.truncate(MOST_KEPT - 1);
            kept.push_front(Kept { lead, track, sizes: Rc::clone(&sizes) });
            sizes
        })
    }
}
