//! Finding fragments by `mfra` (ISO/IEC 14496-12 §8.8.9) at the end of a file.

use crate::{
    locate::{
        fragment_index::{self, FragmentIndex, IndexReading, IndexedFragment, IndexedTrack},
        movie::FoundMovie,
        object_reader::{ObjectReader, Pause},
    },
    media::IndexSource,
};
use latemux_isobmff::{
    Time,
    boxes::mfra::{Mfra, Tfra, mfro_size},
    fragment::Moof,
};
use std::collections::BTreeSet;

/// Largest number of `moof`s before a track's first listed one that are checked for samples.
const MAX_UNLISTED: u32 = 64;

/// Reads the `mfra` of a file, if it has one.
pub(crate) fn read(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    first_moof: u64,
) -> Result<IndexReading, Pause> {
    let none = || Ok(IndexReading::Incomplete(Vec::new()));
    let tail = reader.need(&reader.tail())?;
    let Some(size) = mfro_size(&tail) else { return none() };
    let Some(start) = reader.object_size.checked_sub(size.into()) else { return none() };
    if u64::from(size) > reader.limits.max_index || start < first_moof {
        return none();
    }
    let bytes = reader.need(&(start..reader.object_size))?;
    let Ok(mfra) = Mfra::parse(&bytes, start) else { return none() };

    let mut lists: Vec<Vec<(u64, i64)>> = Vec::new();
    let mut complete = true;
    for (_, description) in &found.descriptions {
        let list = mfra
            .tracks
            .iter()
            .find(|tfra| tfra.track_id == description.id)
            .and_then(|tfra| starts(tfra, start));
        complete &= list.as_ref().is_some_and(|list| !list.is_empty());
        lists.push(list.unwrap_or_default());
    }
    let known: BTreeSet<u64> = lists.iter().flatten().map(|(offset, _)| *offset).collect();
    let incomplete = || Ok(IndexReading::Incomplete(known.iter().copied().collect()));
    if !complete {
        return incomplete();
    }
    // Tracks that share a `moof` must share all, or their fragments would end at different offsets.
    let common: BTreeSet<u64> = lists
        .iter()
        .map(|list| list.iter().map(|(offset, _)| *offset).collect::<BTreeSet<u64>>())
        .reduce(|a, b| a.intersection(&b).copied().collect())
        .unwrap_or_default();
    let total: usize = lists.iter().map(Vec::len).sum();
    let shared = known.len() < total;
    if shared {
        let firsts: BTreeSet<_> = lists.iter().filter_map(|list| list.first()).map(|first| first.0).collect();
        if firsts.len() != 1 || !firsts.is_subset(&common) {
            return incomplete();
        }
        lists.iter_mut().for_each(|list| list.retain(|(offset, _)| common.contains(offset)));
    }
    let tracks = lists.iter().map(|list| {
        let ends = list.iter().skip(1).map(|(offset, _)| *offset).chain([start]);
        let entry =
            |(&(offset, time), end)| IndexedFragment { bytes: offset..end, time, lead: 0, sync: true };
        IndexedTrack { entries: list.iter().zip(ends).map(entry).collect(), end: None }
    });
    let tracks: Vec<IndexedTrack> = tracks.collect();
    if !begins_with_first(reader, found, first_moof, &tracks)? {
        return incomplete();
    }
    Ok(IndexReading::Complete(FragmentIndex {
        source: IndexSource::RandomAccess,
        tracks,
        boxes: vec![(start, bytes)],
        end: start,
    }))
}

/// Returns offsets and times of the fragments of a track that start with a listed sample, or `None`
/// if they do not ascend or leave the file.
fn starts(tfra: &Tfra, end: u64) -> Option<Vec<(u64, i64)>> {
    let mut list: Vec<(u64, i64)> = Vec::new();
    for entry in &tfra.entries {
        let time = i64::try_from(entry.time).ok().filter(|time| *time <= Time::MAX_TICKS)?;
        // A track cannot be cut at a sync sample in the middle of a fragment.
        if entry.trun > 1 || entry.sample > 1 {
            continue;
        }
        match list.last() {
            Some(last) if last.0 == entry.moof_offset => continue,
            Some(last) if last.0 > entry.moof_offset || last.1 >= time => return None,
            _ => list.push((entry.moof_offset, time)),
        }
    }
    list.last().is_none_or(|last| last.0 < end).then_some(list)
}

/// Returns true if no track has samples before its first listed fragment.
fn begins_with_first(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    first_moof: u64,
    tracks: &[IndexedTrack],
) -> Result<bool, Pause> {
    let firsts: Vec<u64> = tracks.iter().filter_map(|t| t.entries.first()).map(|e| e.bytes.start).collect();
    let last_first = firsts.iter().copied().max().unwrap_or(first_moof);
    // The ranges needed next are read in the same round trip.
    let mut ranges = fragment_index::ranges_to_check(reader, tracks);
    ranges.push(reader.window(first_moof));
    reader.need_all(ranges)?;
    let mut at = first_moof;
    for _ in 0..MAX_UNLISTED {
        if at >= last_first {
            return Ok(at == last_first);
        }
        let Some(next) = reader.top_box(at, reader.window(at))? else { return Ok(false) };
        if next.kind == b"moof" {
            let bytes = reader.whole(&next, "moof")?;
            let Ok(moof) = Moof::parse(&bytes, at) else { return Ok(false) };
            let early = found.descriptions.iter().zip(&firsts).any(|((_, description), first)| {
                at < *first && moof.tracks.iter().any(|t| t.track_id == description.id && !t.runs.is_empty())
            });
            if early {
                return Ok(false);
            }
        }
        at = next.range.end;
    }
    Ok(false)
}
