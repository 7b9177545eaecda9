//! Names of tracks in URLs.

use crate::media::{Track, TrackKind};
use std::collections::{BTreeMap, BTreeSet};

/// A track's name in URLs, `trackName[_lang][_n]=bitrate`, unique within a title.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackName {
    /// `video`, `audio`, `textstream` or `thumbs`, with `_lang` if known, and `_n` (from 1) after
    /// collisions.
    pub stem: String,
    /// Bit rate in bits per second, rounded to thousands, at least 1000.
    pub bitrate: u64,
}

impl std::fmt::Display for TrackName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.stem, self.bitrate)
    }
}

/// Names of tracks, each given once.
#[derive(Default)]
pub(super) struct UniqueNames {
    taken: BTreeSet<TrackName>,
    /// For each name that was wanted again, the first number that may be free.
    next: BTreeMap<TrackName, u32>,
}

impl UniqueNames {
    /// Returns the name, or the first of `_1`, `_2`, … that is free.
    pub(super) fn unique(&mut self, name: &TrackName) -> TrackName {
        let mut free = name.clone();
        while self.taken.contains(&free) {
            let number = self.next.entry(name.clone()).or_insert(1);
            free.stem = format!("{}_{number}", name.stem);
            *number += 1;
        }
        self.taken.insert(free.clone());
        free
    }
}

/// Returns the names of tracks in this order.
pub(super) fn names(tracks: &[&Track]) -> Vec<TrackName> {
    let mut names = UniqueNames::default();
    tracks
        .iter()
        .map(|track| {
            let word = match track.kind {
                TrackKind::Video => "video",
                TrackKind::Audio => "audio",
                TrackKind::Text => "textstream",
            };
            let stem = match &track.language {
                known if known.is_known() => format!("{word}_{known}"),
                _ => word.to_owned(),
            };
            names.unique(&TrackName { stem, bitrate: track.rounded_bitrate() })
        })
        .collect()
}
