//! Finding fragments by `sidx` (ISO/IEC 14496-12 §8.16.3): a single one, one for each track, or a
//! tree of them.

use crate::{
    error::IndexError,
    locate::{
        fragment_index::{self, FragmentIndex, IndexReading, IndexedFragment, IndexedTrack},
        movie::FoundMovie,
        object_reader::{ObjectReader, Pause, TopBox},
    },
    media::IndexSource,
};
use bytes::Bytes;
use latemux_isobmff::{Time, boxes::sidx::Sidx, time::Round};
use std::{collections::BTreeMap, ops::Range};

/// Largest depth of references from index to index. In a chain, each index adds a level.
const MAX_DEPTH: u32 = 64;

/// Largest number of `sidx` boxes of an object. Files have one for each track, or some hundred in
/// a tree.
const MAX_BOXES: usize = 1 << 11;

/// Largest number of fragments in one tree of `sidx`.
const MAX_FRAGMENTS: usize = 1 << 20;

/// One track's tree of `sidx`.
#[derive(Debug)]
struct SidxTree {
    reference_id: u32,
    timescale: latemux_isobmff::Timescale,
    first_time: u64,
    media: Vec<Subsegment>,
}

/// One subsegment.
#[derive(Debug)]
struct Subsegment {
    bytes: Range<u64>,
    duration: u32,
    sync: bool,
    /// Time from the earliest presentation to that of the sync sample, in ticks of the `sidx`.
    lead: u32,
}

/// Reads the `sidx` before the first fragment.
pub(crate) fn read(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    roots: &[TopBox],
) -> Result<IndexReading, Pause> {
    let mut trees: Vec<SidxTree> = Vec::new();
    let mut boxes: BTreeMap<u64, Bytes> = BTreeMap::new();
    let mut bytes = 0;
    for root in roots {
        // A `sidx` that another one has referred to is no root.
        if boxes.contains_key(&root.range.start) {
            continue;
        }
        let mut walk =
            SidxWalk { reader, boxes: &mut boxes, bytes: &mut bytes, media: Vec::new(), same_scale: true };
        let sidx = walk.read_index(root, None, MAX_DEPTH)?;
        let repeated = trees.iter().any(|tree| tree.reference_id == sidx.reference_id);
        let same_scale = walk.same_scale;
        trees.push(SidxTree {
            reference_id: sidx.reference_id,
            timescale: sidx.timescale,
            first_time: sidx.earliest_presentation_time,
            media: walk.media,
        });
        if repeated || !same_scale {
            return Ok(IndexReading::Incomplete(starts(&trees)));
        }
    }

    // With one track and one tree, the track ID in the `sidx` does not matter.
    let only = match trees.as_slice() {
        [tree] if found.descriptions.len() == 1 => Some(tree),
        _ => None,
    };
    let mut tracks = Vec::new();
    for (_, description) in &found.descriptions {
        let tree = trees.iter().find(|tree| tree.reference_id == description.id).or(only);
        let tree = tree.filter(|tree| !tree.media.is_empty());
        match tree.and_then(|tree| indexed_track(tree, description.timescale)) {
            Some(track) => tracks.push(track),
            None => return Ok(IndexReading::Incomplete(starts(&trees))),
        }
    }
    let end = tracks.iter().flat_map(|t| t.entries.last()).map(|entry| entry.bytes.end).max().unwrap_or(0);
    if end > reader.object_size {
        let what = format!("sidx refers to byte {end}, but the object ends at {}", reader.object_size);
        return Err(IndexError::Truncated(what).into());
    }
    if end < reader.object_size && has_more_media(reader, end, &tracks)? {
        return Ok(IndexReading::Incomplete(starts(&trees)));
    }
    let boxes = boxes.into_iter().collect();
    Ok(IndexReading::Complete(FragmentIndex { source: IndexSource::SegmentIndex, boxes, tracks, end }))
}

fn starts(trees: &[SidxTree]) -> Vec<u64> {
    trees.iter().flat_map(|tree| tree.media.iter().map(|media| media.bytes.start)).collect()
}

/// Returns true if more than boxes without media follows the last indexed fragment.
fn has_more_media(reader: &ObjectReader<'_>, end: u64, tracks: &[IndexedTrack]) -> Result<bool, Pause> {
    // One round trip reads the bytes for both results: `mfra` if there is more media, else the
    // fragments to check.
    let mut ranges = fragment_index::ranges_to_check(reader, tracks);
    ranges.extend([reader.window(end), reader.tail()]);
    reader.need_all(ranges)?;
    let mut at = end;
    loop {
        let next = match reader.top_box(at, reader.window(at)) {
            Ok(Some(next)) => next,
            Err(pause @ (Pause::Read(_) | Pause::Long)) => return Err(pause),
            Ok(None) => return Ok(false),
            Err(Pause::Fail(_)) => return Ok(true),
        };
        match &next.kind.0 {
            b"free" | b"skip" | b"uuid" => at = next.range.end,
            b"mfra" | b"meta" | b"udta" => return Ok(false),
            // This is more media, or the middle of some if the indexed sizes ignore a box that was
            // inserted later.
            _ => return Ok(true),
        }
    }
}

/// Returns the fragments that a tree lists, or `None` if their times are too large.
fn indexed_track(tree: &SidxTree, scale: latemux_isobmff::Timescale) -> Option<IndexedTrack> {
    let mut time = i64::try_from(tree.first_time).ok().filter(|time| *time <= Time::MAX_TICKS)?;
    let in_track = |time: i64| Time::new(time, tree.timescale).in_scale(scale, Round::Nearest);
    let mut entries = Vec::with_capacity(tree.media.len());
    for media in &tree.media {
        entries.push(IndexedFragment {
            bytes: media.bytes.clone(),
            time: in_track(time),
            lead: in_track(media.lead.into()),
            sync: media.sync,
        });
        time += i64::from(media.duration);
    }
    Some(IndexedTrack { entries, end: Some(in_track(time)) })
}

struct SidxWalk<'a, 'r> {
    reader: &'a ObjectReader<'r>,
    /// The boxes read so far by offset, and their size in bytes.
    boxes: &'a mut BTreeMap<u64, Bytes>,
    bytes: &'a mut u64,
    media: Vec<Subsegment>,
    same_scale: bool,
}

impl SidxWalk<'_, '_> {
    /// Refuses a box that makes the walk too deep, circular or too long.
    fn check_limits(&self, at: &TopBox, depth: u32) -> Result<(), IndexError> {
        if depth == 0 {
            return Err(IndexError::OverLimit { what: "levels of sidx", limit: MAX_DEPTH.into() });
        }
        if self.boxes.contains_key(&at.range.start) {
            return Err(IndexError::Malformed("sidx: circular references".to_owned()));
        }
        if *self.bytes > self.reader.limits.max_index {
            let limit = self.reader.limits.max_index;
            let value = *self.bytes;
            return Err(IndexError::TooLarge { what: "all sidx boxes together", value, limit });
        }
        if self.boxes.len() == MAX_BOXES {
            return Err(IndexError::OverLimit { what: "sidx boxes", limit: MAX_BOXES as u64 });
        }
        Ok(())
    }

    /// Reads one index and, depth first, all indexes it refers to.
    fn read_index(&mut self, at: &TopBox, parent: Option<&Sidx>, depth: u32) -> Result<Sidx, Pause> {
        let bytes = self.reader.whole(at, "sidx")?;
        let sidx = Sidx::parse(&bytes, at.range.start)?;
        self.check_limits(at, depth)?;
        *self.bytes += bytes.len() as u64;
        self.boxes.insert(at.range.start, bytes);
        self.same_scale &= parent.is_none_or(|parent| parent.timescale == sidx.timescale);

        let mut ranges = Vec::with_capacity(sidx.references.len());
        let first = at.range.end.checked_add(sidx.first_offset);
        let mut end = first.filter(|first| *first <= self.reader.object_size).ok_or_else(|| {
            let size = self.reader.object_size;
            IndexError::Truncated(format!("sidx refers beyond the end of an object of {size} bytes"))
        })?;
        for reference in &sidx.references {
            let start = end;
            end = start + u64::from(reference.size);
            ranges.push(start..end);
        }
        // All indexes of this level are read at once.
        let indexes = sidx.references.iter().zip(&ranges).filter(|(reference, _)| reference.is_index);
        let windows = indexes.map(|(_, range)| {
            let window = self.reader.window(range.start);
            window.start..window.end.min(range.end.max(window.start))
        });
        self.reader.need_all(windows.collect())?;
        for (reference, range) in sidx.references.iter().zip(ranges) {
            if !reference.is_index {
                if self.media.len() >= MAX_FRAGMENTS {
                    let limit = MAX_FRAGMENTS as u64;
                    return Err(IndexError::OverLimit { what: "fragments in sidx", limit }.into());
                }
                // A fragment of 0 bytes is ignored.
                if !range.is_empty() {
                    let sync = reference.starts_with_sap || matches!(reference.sap_type, 1..=3);
                    let leads = reference.starts_with_sap && reference.sap_delta < reference.duration;
                    let lead = if leads { reference.sap_delta } else { 0 };
                    self.media.push(Subsegment { bytes: range, duration: reference.duration, sync, lead });
                }
                continue;
            }
            match self.reader.top_box(range.start, self.reader.window(range.start))? {
                Some(next) if next.kind == b"sidx" => self.read_index(&next, Some(&sidx), depth - 1)?,
                _ => {
                    return Err(IndexError::Malformed(
                        "sidx: a reference to another sidx leads to something else".to_owned(),
                    )
                    .into());
                }
            };
        }
        Ok(sidx)
    }
}
