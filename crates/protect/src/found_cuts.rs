//! Cuts of a segment, which were found in the media or stated by an index MP4.

use crate::PackedCuts;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Cuts of the samples of a segment.
#[derive(Debug, Clone)]
pub struct FoundCuts {
    /// The cuts.
    pub cuts: Arc<PackedCuts>,
    /// The check of cuts that an index MP4 states. Until it matches, each response compares them
    /// with the media. `None` for cuts that were found in the media.
    pub check: Option<Arc<CutCheck>>,
}

impl FoundCuts {
    /// Returns cuts that were found in the media.
    pub fn in_media(cuts: Arc<PackedCuts>) -> Self {
        Self { cuts, check: None }
    }

    /// Returns true if the cuts are known to be those of the media.
    pub fn is_checked(&self) -> bool {
        self.check.as_ref().is_none_or(|check| check.matches())
    }
}

/// The result of comparing the cuts that an index MP4 states with the media.
#[derive(Debug, Default)]
pub struct CutCheck {
    matches: AtomicBool,
    differs: Arc<AtomicBool>,
}

impl CutCheck {
    /// Creates a check that has no result yet. `differs` is shared by all segments of an object:
    /// once stated cuts of one segment are wrong, those of the others are not used either.
    pub fn new(differs: Arc<AtomicBool>) -> Self {
        Self { matches: AtomicBool::new(false), differs }
    }

    /// Returns true if the whole segment was compared, and its media had these cuts.
    pub fn matches(&self) -> bool {
        self.matches.load(Relaxed)
    }

    /// Returns true if the media of any segment of the object had other cuts than stated.
    pub fn differs(&self) -> bool {
        self.differs.load(Relaxed)
    }

    /// Records that the media of the whole segment had these cuts.
    pub fn set_matches(&self) {
        self.matches.store(true, Relaxed);
    }

    /// Records that the media had other cuts.
    pub fn set_differs(&self) {
        self.differs.store(true, Relaxed);
    }
}
