//! The fragments of all tracks as `sidx` or `mfra` lists them.

use crate::{locate::object_reader::ObjectReader, media::IndexSource};
use bytes::Bytes;
use std::ops::Range;

/// What an index box says of one track's fragments.
#[derive(Debug, Clone, Default)]
pub(crate) struct IndexedTrack {
    /// Ascending.
    pub(crate) entries: Vec<IndexedFragment>,
    /// End of the last one's presentation where the index says so, in the entries' ticks.
    pub(crate) end: Option<i64>,
}

/// One fragment as an index box lists it.
#[derive(Debug, Clone)]
pub(crate) struct IndexedFragment {
    pub(crate) bytes: Range<u64>,
    /// Composition time before the edit list, in track ticks, as the index says.
    pub(crate) time: i64,
    /// How much later its sync sample is presented, where pictures are decoded after it and presented before; in track ticks.
    pub(crate) lead: i64,
    pub(crate) sync: bool,
}

/// Fragments of all heads by one kind of index.
#[derive(Debug)]
pub(crate) struct FragmentIndex {
    pub(crate) source: IndexSource,
    pub(crate) boxes: Vec<(u64, Bytes)>,
    /// Parallel to the heads.
    pub(crate) tracks: Vec<IndexedTrack>,
    /// Where the last fragment ends.
    pub(crate) end: u64,
}

impl FragmentIndex {
    /// When the first fragment of each track begins, as the index says.
    pub(crate) fn firsts(&self) -> Vec<Option<i64>> {
        self.tracks.iter().map(|listed| listed.entries.first().map(|first| first.time)).collect()
    }
}

/// What an index box turned out to be.
#[derive(Debug)]
pub(crate) enum IndexReading {
    /// Complete.
    Complete(FragmentIndex),
    /// Of no use but for these places where fragments start.
    Incomplete(Vec<u64>),
}

/// Fragments that are looked into beside the first and last, to see whether the index means what it says.
pub(crate) fn probes(listed: &IndexedTrack) -> impl Iterator<Item = &IndexedFragment> {
    let middle = listed.entries.len() / 2;
    [1, middle.max(1)].into_iter().filter_map(|number| listed.entries.get(number))
}

/// All that [`tables`] looks into: what follows costs no more round trip.
pub(crate) fn wanted(reader: &ObjectReader<'_>, tracks: &[IndexedTrack]) -> Vec<Range<u64>> {
    let entries = tracks.iter().flat_map(|listed| {
        let last = listed.entries.last().filter(|_| listed.end.is_none());
        listed.entries.first().into_iter().chain(last).chain(probes(listed))
    });
    entries.map(|entry| reader.window(entry.bytes.start)).collect()
}
