//! Fragmented files: which of `sidx`, `mfra` and a scan tells where all fragments lie.

use crate::{
    error::{IndexError, TrackProblem},
    locate::{
        fragment_index::{FragmentIndex, IndexReading, IndexedTrack, probes, wanted},
        moof_samples::{self, FragmentedTrack},
        movie::FoundMovie,
        object_reader::{ObjectReader, Pause, TopBox},
        random_access,
        scan::Scan,
        segment_index,
        track_head::{TrackHead, rate},
    },
    media::{IndexSource, TrackKind},
    table::{
        fragment_table::{FragmentTable, FragmentTableBuilder},
        samples::SampleTable,
    },
};
use bytes::Bytes;
use latemux_isobmff::fragment::Moof;
use std::{collections::BTreeSet, ops::Range};

/// How the samples of a file are found.
#[derive(Debug)]
pub(crate) enum FoundSamples {
    /// In `moov`.
    Tables,
    /// By fragment: for each head a table and, where fragments are shared, its bit rate.
    Fragments {
        source: IndexSource,
        /// Boxes the tables were made from, with their places.
        boxes: Vec<(u64, Bytes)>,
        tables: Vec<(FragmentTable, Option<u64>)>,
    },
    /// Every `moof` must be read.
    Scan(Box<Scan>),
    /// Every `moof` has been read: a table for each head.
    Scanned(Vec<Result<SampleTable, TrackProblem>>),
}

/// Finds all fragments of a file whose `moov` announces them.
pub(crate) fn find(reader: &ObjectReader<'_>, found: &FoundMovie) -> Result<FoundSamples, Pause> {
    if found.heads.is_empty() {
        return Ok(FoundSamples::Tables);
    }
    let (sidx, first_moof) = behind_moov(reader, found)?;
    let Some(first_moof) = first_moof else { return Ok(FoundSamples::Tables) };
    let in_moov = found.heads.iter().any(|(number, _)| {
        let track = found.movie.tracks.get(*number);
        track.is_some_and(|track| track.as_ref().is_ok_and(|track| track.tables.stsz.count() > 0))
    });
    let (mut known, mut firsts) = (BTreeSet::new(), Vec::new());
    if !in_moov {
        if !sidx.is_empty() {
            match segment_index::read(reader, found, &sidx)? {
                IndexReading::Complete(index) => match tables(reader, found, index)? {
                    Ok(found) => return Ok(found),
                    Err(starts) => known.extend(starts),
                },
                IndexReading::Incomplete(starts) => known.extend(starts),
            }
        }
        match random_access::read(reader, found, first_moof)? {
            IndexReading::Complete(index) => {
                firsts = index.firsts();
                match tables(reader, found, index)? {
                    Ok(found) => return Ok(found),
                    Err(starts) => known.extend(starts),
                }
            }
            IndexReading::Incomplete(starts) => known.extend(starts),
        }
    }
    scan(reader, found, known.into_iter().collect(), &firsts)
}

/// As [`find`], but every `moof` is to be read: an index box only tells where to look for them, many at once.
pub(crate) fn find_all(reader: &ObjectReader<'_>, found: &FoundMovie) -> Result<FoundSamples, Pause> {
    let (sidx, first_moof) = behind_moov(reader, found)?;
    let Some(first_moof) = first_moof else { return Ok(FoundSamples::Tables) };
    let attempt = if sidx.is_empty() {
        random_access::read(reader, found, first_moof)?
    } else {
        segment_index::read(reader, found, &sidx)?
    };
    let mut firsts = Vec::new();
    let known: BTreeSet<u64> = match attempt {
        IndexReading::Complete(index) => {
            firsts = index.firsts();
            index.tracks.iter().flat_map(|listed| listed.entries.iter().map(|e| e.bytes.start)).collect()
        }
        IndexReading::Incomplete(starts) => starts.into_iter().collect(),
    };
    scan(reader, found, known.into_iter().collect(), &firsts)
}

/// The boxes behind `moov` up to the first `moof`: all `sidx`, and where that `moof` is.
fn behind_moov(reader: &ObjectReader<'_>, found: &FoundMovie) -> Result<(Vec<TopBox>, Option<u64>), Pause> {
    let mut sidx = Vec::new();
    let mut at = found.range.end;
    // Not more boxes than a head may hold: what else stands here is metadata.
    for _ in 0..1 << 12 {
        let Some(next) = reader.top_box(at, reader.window(at))? else { break };
        match &next.kind.0 {
            b"moof" => return Ok((sidx, Some(at))),
            b"sidx" => sidx.push(next.clone()),
            _ => {}
        }
        at = next.range.end;
        if at >= reader.object_size {
            break;
        }
    }
    Ok((sidx, None))
}

fn fragmented_track(head: &TrackHead) -> FragmentedTrack {
    let shift = head.edits.presentation.shift;
    let all_sync = head.every_sample_is_sync();
    FragmentedTrack::new(head.id, head.timescale, head.sample_description, all_sync, shift)
}

/// `firsts` are the tracks' first times by an index box that is not followed, where there is one.
fn scan(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    known: Vec<u64>,
    firsts: &[Option<i64>],
) -> Result<FoundSamples, Pause> {
    let mut tracks = Vec::new();
    for (place, (number, head)) in found.heads.iter().enumerate() {
        let in_moov = match found.movie.tracks.get(*number) {
            Some(Ok(track)) if track.tables.stsz.count() > 0 => {
                head.read_tables(track, reader.object_size).ok()
            }
            _ => None,
        };
        // The edit list is applied when all samples are known.
        let listed = firsts.get(place).copied().flatten();
        tracks.push((FragmentedTrack { shift: 0, listed, ..fragmented_track(head) }, in_moov));
    }
    let defaults = found.movie.fragments.clone().unwrap_or_default();
    Ok(FoundSamples::Scan(Box::new(Scan::new(found.range.end, known, defaults, tracks))))
}

/// How far off the sum of rounded times may be, in ticks.
const ROUNDED: u64 = 2;

/// What one fragment's samples say of a track.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FragmentMeasurement {
    /// Earliest presentation time and latest end, in track ticks.
    first: i64,
    end: i64,
    /// The first sample is a sync sample.
    sync: bool,
    count: u64,
    bytes: u64,
    /// Sum of sample durations in track ticks.
    duration: u64,
    /// Its times are its own: from `tfdt` or `tfxd`.
    timed: bool,
    /// Composition offset of the first sample in decode order, in track ticks.
    composition: i32,
    /// The least composition offset.
    least_composition: i32,
    /// End of presentation in track ticks, as the last `tfxd` says.
    stated_end: Option<i64>,
}

impl FragmentMeasurement {
    /// How long before its presentation the first sample must be decoded, so that none is decoded after it, in track ticks.
    fn reorder(&self) -> u32 {
        u32::try_from(i64::from(self.composition) - i64::from(self.least_composition)).unwrap_or(0)
    }
}

/// Reads the `moof`s in a range until one has samples of head number `number`; with `all`, every one in the range.
/// `expected` is the composition time the index gives for the start, source timeline.
fn measure(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    number: usize,
    range: &Range<u64>,
    expected: i64,
    all: bool,
) -> Result<Option<FragmentMeasurement>, Pause> {
    let Some((_, head)) = found.heads.get(number) else { return Ok(None) };
    let defaults = found.movie.fragments.as_deref().unwrap_or_default();
    let presentation = head.edits.presentation;
    let mut track = fragmented_track(head);
    track.expected_composition = Some(expected.saturating_add(presentation.shift));
    let mut tracks = [track];
    let mut measured: Option<FragmentMeasurement> = None;
    let mut at = range.start;
    while at < range.end && (all || measured.is_none()) {
        let Some(next) = reader.top_box(at, reader.window(at))? else { break };
        if next.kind == b"moof" {
            let bytes = reader.whole(&next, "moof")?;
            let moof = Moof::parse(&bytes, at)?;
            let timed = moof
                .tracks
                .iter()
                .any(|traf| traf.track_id == head.id && (traf.decode_time.is_some() || traf.tfxd.is_some()));
            let resolved =
                moof_samples::resolve(&moof, at, reader.object_size, defaults, &mut tracks, |_, s| {
                    let first = presentation.time(s.decode_time, s.composition_offset);
                    let end = first.saturating_add(s.duration.into());
                    let (bytes, duration) = (u64::from(s.size), u64::from(s.duration));
                    let m = measured.get_or_insert(FragmentMeasurement {
                        first,
                        end,
                        sync: s.sync,
                        count: 0,
                        bytes: 0,
                        duration: 0,
                        timed,
                        composition: s.composition_offset,
                        least_composition: s.composition_offset,
                        stated_end: None,
                    });
                    m.least_composition = m.least_composition.min(s.composition_offset);
                    m.first = m.first.min(first);
                    m.end = m.end.max(end);
                    m.count += 1;
                    m.bytes += bytes;
                    m.duration += duration;
                    Ok(())
                });
            resolved.map_err(IndexError::from)?;
            let of_head =
                moof.tracks.iter().filter(|traf| traf.track_id == head.id).filter_map(|traf| traf.tfxd);
            if let (Some(m), Some((time, duration))) = (&mut measured, of_head.last()) {
                let end = i64::try_from(time.saturating_add(duration)).ok();
                let presented =
                    |end: i64| end.saturating_add(presentation.shift).checked_sub(presentation.media_time);
                m.stated_end = end.and_then(presented);
            }
        }
        at = next.range.end;
    }
    Ok(measured)
}

/// Makes tables of a complete index, checked against each track's first and last fragment. The places of fragments where it does
/// not hold.
fn tables(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    index: FragmentIndex,
) -> Result<Result<FoundSamples, Vec<u64>>, Pause> {
    let starts = |index: &FragmentIndex| -> Vec<u64> {
        index.tracks.iter().flat_map(|listed| listed.entries.iter().map(|e| e.bytes.start)).collect()
    };
    let shared_bounds = same_ends(&index.tracks);
    if !shared_bounds {
        return Ok(Err(starts(&index)));
    }
    reader.need_all(wanted(reader, &index.tracks))?;

    let several = found.heads.len() > 1;
    let mut tables = Vec::new();
    for (number, (listed, (_, head))) in index.tracks.iter().zip(&found.heads).enumerate() {
        let (Some(first), Some(last)) = (listed.entries.first(), listed.entries.last()) else {
            return Ok(Err(starts(&index)));
        };
        let Some(measured) = measure(reader, found, number, &first.bytes, first.time, false)? else {
            return Ok(Err(starts(&index)));
        };
        let Some(origin) = origin(reader, found, number, listed, &measured)? else {
            return Ok(Err(starts(&index)));
        };
        let Origin { offset, first_start, reorder } = origin;
        let end = match listed.end {
            Some(end) => end.saturating_add(offset),
            None => {
                let to_end = last.bytes.start..index.end;
                let Some(at_end) = measure(reader, found, number, &to_end, last.time, true)? else {
                    return Ok(Err(starts(&index)));
                };
                // Decode times in place of presentation times would show here.
                if at_end.timed && at_end.first.saturating_sub(last.time) != offset {
                    return Ok(Err(starts(&index)));
                }
                // Exact where samples, each with times rounded to the ticks of the file, are not.
                let stated = at_end.stated_end.filter(|end| end.abs_diff(at_end.end) <= ROUNDED);
                stated.unwrap_or(at_end.end)
            }
        };
        // An index that calls no fragment a random access point does not say anything of them.
        let says_sync = listed.entries.iter().any(|entry| entry.sync);
        let all_sync =
            head.kind != TrackKind::Video || head.every_sample_is_sync() || (!says_sync && measured.sync);
        let mut builder = FragmentTableBuilder::new().first_offset(measured.composition);
        for (number, entry) in listed.entries.iter().enumerate() {
            let time = if number == 0 { first_start } else { entry.time.saturating_add(offset) };
            if !builder.push(
                entry.bytes.start,
                entry.bytes.end - entry.bytes.start,
                time,
                entry.lead,
                entry.sync || all_sync,
            ) {
                return Ok(Err(starts(&index)));
            }
        }
        let bitrate = several.then(|| {
            let seconds = (measured.duration, head.timescale.get());
            head.declared_bitrate().unwrap_or_else(|| rate(measured.bytes, seconds))
        });
        tables.push((builder.finish(end, reorder), bitrate));
    }
    Ok(Ok(FoundSamples::Fragments { source: index.source, boxes: index.boxes, tables }))
}

/// What the times of an index count from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    /// From the index's times to presentation times, in track ticks.
    offset: i64,
    /// Where the first fragment's presentation starts, in track ticks.
    first_start: i64,
    /// See [`FragmentMeasurement::reorder`]; the longest of the fragments that were looked into.
    reorder: u32,
}

/// Writers differ in what the times of an index count from: the start of the media, or of its presentation. The samples
/// themselves decide; `measured` are those of the first fragment. `None` where the index does not mean one and the same.
fn origin(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    number: usize,
    listed: &IndexedTrack,
    measured: &FragmentMeasurement,
) -> Result<Option<Origin>, Pause> {
    let (Some((_, head)), Some(first)) = (found.heads.get(number), listed.entries.first()) else {
        return Ok(None);
    };
    let mut probed = Vec::new();
    let mut reorder = measured.reorder();
    for probe in probes(listed) {
        let Some(at_probe) = measure(reader, found, number, &probe.bytes, probe.time, false)? else {
            return Ok(None);
        };
        // A writer that calls every fragment a random access point.
        if probe.sync && !at_probe.sync && head.kind == TrackKind::Video {
            return Ok(None);
        }
        reorder = reorder.max(at_probe.reorder());
        if at_probe.timed {
            probed.push(at_probe.first.saturating_sub(probe.time));
        }
    }
    let presentation = head.edits.presentation;
    let by_first = if measured.timed {
        measured.first.saturating_sub(first.time)
    } else {
        presentation.shift - presentation.media_time
    };
    // Where media begins with priming, before 0, writers that count from its presentation have written 0 of the first fragment,
    // whose time is unsigned (§8.16.3, §8.8.10), and the true times of the others. These tell; of the first, its samples do.
    let offset = match probed.first() {
        Some(&by_second) if measured.timed && first.time == 0 && by_first < by_second => by_second,
        _ => by_first,
    };
    // An open GOP shows here: an index that gives the times of sync samples, not those of the pictures before them.
    // So do times in a coarser scale than the track's.
    if probed.iter().any(|&by_probe| by_probe != offset) {
        return Ok(None);
    }
    // Samples that last longer than the index says; a single fragment is as soon read as argued about.
    let half_a_sample = i64::try_from(measured.duration / measured.count.max(1) / 2).unwrap_or(0);
    let tolerance = if listed.entries.len() > 1 { half_a_sample } else { 0 };
    let next = listed.entries.get(1).map(|next| next.time).or(listed.end);
    let next = next.map_or(i64::MAX, |next| next.saturating_add(offset));
    if measured.end.saturating_sub(next) > tolerance {
        return Ok(None);
    }
    let first_start = first.time.saturating_add(by_first);
    Ok(Some(Origin { offset, first_start, reorder }))
}

/// Whether fragments of different tracks that start at one place also end at one: what is read of it is remembered by its start.
fn same_ends(tracks: &[IndexedTrack]) -> bool {
    let mut ends = std::collections::BTreeMap::new();
    tracks
        .iter()
        .flat_map(|listed| &listed.entries)
        .all(|entry| *ends.entry(entry.bytes.start).or_insert(entry.bytes.end) == entry.bytes.end)
}
