//! The fragments of all tracks as `sidx` or `mfra` lists them.

use crate::{locate::object_reader::ObjectReader, media::IndexSource};
use bytes::Bytes;
use std::ops::Range;

/// One track's fragments as an index box lists them.
#[derive(Debug, Clone, Default)]
pub(crate) struct IndexedTrack {
    /// The fragments, ascending.
    pub(crate) entries: Vec<IndexedFragment>,
    /// End of the last fragment's presentation in the ticks of `entries`, if the index states it.
    pub(crate) end: Option<i64>,
}

/// One fragment as an index box lists it.
#[derive(Debug, Clone)]
pub(crate) struct IndexedFragment {
    pub(crate) bytes: Range<u64>,
    /// Composition time before the edit list, in track ticks, as the index states it.
    pub(crate) time: i64,
    /// Time from the start of the fragment to the presentation of its sync sample, in track ticks.
    /// It is not 0 if frames that are decoded after the sync sample are presented before it.
    pub(crate) lead: i64,
    pub(crate) sync: bool,
}

/// The fragments of all described tracks, as listed by one kind of index box.
#[derive(Debug)]
pub(crate) struct FragmentIndex {
    pub(crate) source: IndexSource,
    pub(crate) boxes: Vec<(u64, Bytes)>,
    /// One entry for each of [`crate::locate::movie::FoundMovie::descriptions`].
    pub(crate) tracks: Vec<IndexedTrack>,
    /// End of the last fragment, in bytes from the start of the object.
    pub(crate) end: u64,
}

impl FragmentIndex {
    /// Returns the offsets of all fragments, track by track.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u64> {
        self.tracks.iter().flat_map(|track| track.entries.iter().map(|entry| entry.bytes.start))
    }

    /// Returns the start of each track's first fragment, as the index states it.
    pub(crate) fn firsts(&self) -> Vec<Option<i64>> {
        self.tracks.iter().map(|listed| listed.entries.first().map(|first| first.time)).collect()
    }
}

/// The result of reading an index box.
#[derive(Debug)]
pub(crate) enum IndexReading {
    /// It covers all tracks.
    Complete(FragmentIndex),
    /// It does not cover all tracks, but these offsets are starts of fragments.
    Incomplete(Vec<u64>),
}

/// Returns the fragments, besides the first and the last one, that are read to check the times of
/// the index.
pub(crate) fn fragments_to_check(listed: &IndexedTrack) -> impl Iterator<Item = &IndexedFragment> {
    let middle = listed.entries.len() / 2;
    [1, middle.max(1)].into_iter().filter_map(|number| listed.entries.get(number))
}

/// Returns all ranges that checking an index reads, so that one round trip reads them all.
pub(crate) fn ranges_to_check(reader: &ObjectReader<'_>, tracks: &[IndexedTrack]) -> Vec<Range<u64>> {
    let entries = tracks.iter().flat_map(|listed| {
        let last = listed.entries.last().filter(|_| listed.end.is_none());
        listed.entries.first().into_iter().chain(last).chain(fragments_to_check(listed))
    });
    entries.map(|entry| reader.window(entry.bytes.start)).collect()
}
