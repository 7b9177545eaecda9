//! Fragmented files: finding all fragments by `sidx`, by `mfra` or by a scan.

use crate::{
    error::{IndexError, TrackProblemKind},
    locate::{
        edits::Edits,
        fragment_index::{FragmentIndex, IndexReading, IndexedTrack, fragments_to_check, ranges_to_check},
        moof_samples::{self, FragmentError, FragmentedTrack, FragmentedTracks, Wanted},
        movie::FoundMovie,
        object_reader::{ObjectReader, Pause, TopBox},
        random_access,
        scan::{PARALLEL_READS, Scan},
        segment_index,
        track_description::{TrackDescription, rate},
    },
    media::{IndexSource, TrackKind},
    table::{
        fragment_table::{FragmentTable, FragmentTableBuilder, SampleCounts, SampleRates},
        samples::{Sample, SampleTable},
    },
};
use bytes::Bytes;
use latemux_isobmff::{Timescale, fragment::Moof};
use std::{collections::BTreeSet, ops::Range, sync::atomic::Ordering::Relaxed};

/// A table and, if its fragments hold several tracks, the track's bit rate in bits per second.
type RatedTable = (FragmentTable, Option<u64>);

/// The way to a file's samples.
#[derive(Debug)]
pub(crate) enum FoundSamples {
    /// All samples are in the tables of `moov`.
    Tables,
    /// Fragments are known: a table for each described track.
    Fragments {
        source: IndexSource,
        /// The boxes the tables were made from, with their offsets in the object.
        boxes: Vec<(u64, Bytes)>,
        tables: Vec<RatedTable>,
    },
    /// Every `moof` must be read.
    Scan(Box<Scan>),
    /// Every `moof` has been read: a table for each described track.
    Scanned(Vec<Result<SampleTable, TrackProblemKind>>),
}

/// Finds all fragments of a file whose `moov` announces them.
pub(crate) fn find(reader: &ObjectReader<'_>, found: &FoundMovie) -> Result<FoundSamples, Pause> {
    if found.descriptions.is_empty() {
        return Ok(FoundSamples::Tables);
    }
    let (sidx, first_moof) = after_moov(reader, found)?;
    let Some(first_moof) = first_moof else { return Ok(FoundSamples::Tables) };
    let in_moov = found.descriptions.iter().any(|(number, _)| {
        let track = found.movie.tracks.get(*number);
        track.is_some_and(|track| track.as_ref().is_ok_and(|track| track.tables.stsz.count() > 0))
    });
    let mut known = BTreeSet::new();
    let mut firsts = Vec::new();
    if !in_moov {
        if !sidx.is_empty() {
            match segment_index::read(reader, found, &sidx)? {
                IndexReading::Complete(index) => match tables(reader, found, &index)? {
                    Some(tables) => return Ok(fragments(index, tables)),
                    None => known.extend(index.starts()),
                },
                IndexReading::Incomplete(starts) => known.extend(starts),
            }
        }
        match random_access::read(reader, found, first_moof)? {
            IndexReading::Complete(index) => match tables(reader, found, &index)? {
                Some(tables) => return Ok(fragments(index, tables)),
                None => {
                    firsts = index.firsts();
                    known.extend(index.starts());
                }
            },
            IndexReading::Incomplete(starts) => known.extend(starts),
        }
    }
    scan(reader, found, known.into_iter().collect(), &firsts)
}

fn fragments(index: FragmentIndex, tables: Vec<RatedTable>) -> FoundSamples {
    FoundSamples::Fragments { source: index.source, boxes: index.boxes, tables }
}

/// Like [`find`], but reads every `moof`. An index box is used only for the starts of fragments.
pub(crate) fn find_all(reader: &ObjectReader<'_>, found: &FoundMovie) -> Result<FoundSamples, Pause> {
    let (sidx, first_moof) = after_moov(reader, found)?;
    let Some(first_moof) = first_moof else { return Ok(FoundSamples::Tables) };
    let reading = if sidx.is_empty() {
        random_access::read(reader, found, first_moof)?
    } else {
        segment_index::read(reader, found, &sidx)?
    };
    let (starts, firsts) = match reading {
        IndexReading::Complete(index) => (index.starts().collect(), index.firsts()),
        IndexReading::Incomplete(starts) => (starts, Vec::new()),
    };
    let known: BTreeSet<u64> = starts.into_iter().collect();
    scan(reader, found, known.into_iter().collect(), &firsts)
}

/// Returns all `sidx` between `moov` and the first `moof`, and the offset of that `moof`.
fn after_moov(reader: &ObjectReader<'_>, found: &FoundMovie) -> Result<(Vec<TopBox>, Option<u64>), Pause> {
    let mut sidx = Vec::new();
    let mut at = found.range.end;
    // The number of boxes is bounded for hostile files. Other boxes before a `moof` hold metadata.
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

fn fragmented_track(description: &TrackDescription) -> FragmentedTrack {
    FragmentedTrack {
        id: description.id,
        timescale: description.timescale,
        sample_description: description.sample_description,
        all_sync: description.every_sample_is_sync(),
        shift: description.edits.presentation.shift,
        next: None,
        expected_composition: None,
        listed: None,
    }
}

/// Starts a scan. `firsts` are the tracks' first times as stated by an index box that is otherwise
/// not used.
fn scan(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    known: Vec<u64>,
    firsts: &[Option<i64>],
) -> Result<FoundSamples, Pause> {
    let mut tracks = Vec::new();
    for (index, (number, description)) in found.descriptions.iter().enumerate() {
        let in_moov = match found.movie.tracks.get(*number) {
            Some(Ok(track)) if track.tables.stsz.count() > 0 => {
                description.read_placed_tables(track, reader.object_size).ok()
            }
            _ => None,
        };
        // The edit list is applied when all samples are known.
        let listed = firsts.get(index).copied().flatten();
        tracks.push((FragmentedTrack { shift: 0, listed, ..fragmented_track(description) }, in_moov));
    }
    let defaults = found.defaults.clone();
    Ok(FoundSamples::Scan(Box::new(Scan::new(found.range.end, known, defaults, tracks))))
}

/// Largest error of a sum of rounded times, in ticks.
const ROUNDED: u64 = 2;

/// The times and sizes of one track's samples in the fragments that were read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FragmentMeasurement {
    /// Earliest presentation time, in track ticks.
    first: i64,
    /// Latest end of presentation, in track ticks.
    end: i64,
    /// True if the first sample is a sync sample.
    sync: bool,
    counts: SampleCounts,
    /// Sum of sample durations in track ticks.
    duration: u64,
    /// True if the fragment states its own times, by `tfdt` or `tfxd`.
    timed: bool,
    /// Composition offset of the first sample in decode order, in track ticks.
    composition: i32,
    /// Smallest composition offset, in track ticks.
    least_composition: i32,
    /// End of presentation in track ticks, as the last `tfxd` states it.
    stated_end: Option<i64>,
}

impl FragmentMeasurement {
    /// Starts with the first sample, which is presented at `time`.
    fn new(sample: &Sample, time: i64, timed: bool) -> Self {
        Self {
            first: time,
            end: time,
            sync: sample.sync,
            counts: SampleCounts::default(),
            duration: 0,
            timed,
            composition: sample.composition_offset,
            least_composition: sample.composition_offset,
            stated_end: None,
        }
    }

    /// Counts a sample that is presented at `time`.
    fn add(&mut self, sample: &Sample, time: i64) {
        self.least_composition = self.least_composition.min(sample.composition_offset);
        self.first = self.first.min(time);
        self.end = self.end.max(time + i64::from(sample.duration));
        self.counts.samples += 1;
        self.counts.sync_samples += u64::from(sample.sync);
        self.counts.bytes += u64::from(sample.size);
        self.duration += u64::from(sample.duration);
    }

    fn rates(&self, scale: Timescale) -> Option<SampleRates> {
        SampleRates::of(self.counts, self.duration, scale)
    }

    /// Returns the end of presentation in track ticks. The stated end is exact. The sum of samples
    /// may not be, if each has times rounded to the ticks of the file.
    fn end(&self) -> i64 {
        self.stated_end.filter(|end| end.abs_diff(self.end) <= ROUNDED).unwrap_or(self.end)
    }

    /// Returns how long before its presentation the first sample must be decoded so that no sample
    /// is decoded after it is presented, in track ticks.
    fn reorder(&self) -> u32 {
        u32::try_from(i64::from(self.composition) - i64::from(self.least_composition)).unwrap_or(0)
    }
}

/// Largest number of samples that are walked to check an index against its fragments. Beyond it the
/// index is not used. Each track is checked by itself, so a hostile file could have the same
/// samples walked thousands of times.
const MAX_CHECKED: u64 = 1 << 22;

/// Counts the samples of a `moof` as walked. Returns true if that is one check too many.
fn is_too_costly(found: &FoundMovie, moof: &Moof) -> bool {
    let runs = moof.tracks.iter().flat_map(|traf| &traf.runs);
    let samples = runs.map(|run| u64::from(run.count)).sum::<u64>() + 8 * moof.tracks.len() as u64;
    found.checked.fetch_add(samples, Relaxed) + samples > MAX_CHECKED
}

/// Reads the `moof`s in a range until one has samples of described track number `number`, or, with
/// `all`, every `moof` in the range. `expected` is the composition time on the source timeline that
/// the index states for the start.
fn measure(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    number: usize,
    range: &Range<u64>,
    expected: i64,
    all: bool,
) -> Result<Option<FragmentMeasurement>, Pause> {
    let Some((_, description)) = found.descriptions.get(number) else { return Ok(None) };
    let presentation = description.edits.presentation;
    let mut track = fragmented_track(description);
    track.expected_composition = Some(expected + presentation.shift);
    let mut tracks = FragmentedTracks::new(vec![track]);
    let mut measured: Option<FragmentMeasurement> = None;
    let mut at = range.start;
    while at < range.end && (all || measured.is_none()) {
        let Some(next) = reader.top_box(at, reader.window(at))? else { break };
        if next.kind == b"moof" {
            let bytes = reader.whole(&next, "moof")?;
            let moof = Moof::parse(&bytes, at)?;
            if is_too_costly(found, &moof) {
                return Ok(None);
            }
            let timed = moof.tracks.iter().any(|traf| {
                traf.track_id == description.id && (traf.decode_time.is_some() || traf.tfxd.is_some())
            });
            let resolved =
                moof_samples::resolve(&moof, at, reader.object_size, &found.defaults, &mut tracks, |_, s| {
                    let s = s.map_err(FragmentError::Track)?;
                    let first = presentation.time(s.decode_time, s.composition_offset);
                    measured.get_or_insert(FragmentMeasurement::new(&s, first, timed)).add(&s, first);
                    Ok(Wanted::Yes)
                });
            resolved.map_err(IndexError::from)?;
            let own_times = moof
                .tracks
                .iter()
                .filter(|traf| traf.track_id == description.id)
                .filter_map(|traf| traf.tfxd);
            if let (Some(m), Some((time, duration))) = (&mut measured, own_times.last()) {
                let end = time.checked_add(duration).and_then(|end| i64::try_from(end).ok());
                let presented = end.and_then(|end| end.checked_add(presentation.shift));
                m.stated_end = presented.map(|end| end - presentation.media_time);
            }
        }
        at = next.range.end;
    }
    Ok(measured)
}

/// Largest number of fragments that are scanned because they hold several videos: 128 round trips,
/// and nine hours of fragments of 2 s.
const MOST_MIXED: usize = 128 * PARALLEL_READS;

/// Returns true if fragments hold several videos, and are few enough to be scanned. An index box
/// does not state the share of each video, and bit rates estimated from three fragments can be far
/// too high.
fn mixes_videos(found: &FoundMovie, index: &FragmentIndex) -> bool {
    let described = index.tracks.iter().zip(&found.descriptions);
    let videos = described.filter(|(_, (_, description))| description.kind == TrackKind::Video);
    let videos: Vec<&IndexedTrack> = videos.map(|(listed, _)| listed).collect();
    let mut starts = BTreeSet::new();
    videos.iter().all(|listed| listed.entries.len() <= MOST_MIXED)
        && !videos.iter().flat_map(|listed| &listed.entries).all(|entry| starts.insert(entry.bytes.start))
}

/// Makes a table for each described track. Returns `None` if the index contradicts the fragments
/// that are read to check it, or if all samples must be known: because an edit list hides some, or
/// because fragments mix videos.
fn tables(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    index: &FragmentIndex,
) -> Result<Option<Vec<RatedTable>>, Pause> {
    if !same_ends(&index.tracks) || mixes_videos(found, index) {
        return Ok(None);
    }
    reader.need_all(ranges_to_check(reader, &index.tracks))?;

    let several = found.descriptions.len() > 1;
    let mut tables = Vec::new();
    for (number, (listed, (_, description))) in index.tracks.iter().zip(&found.descriptions).enumerate() {
        let (Some(first), Some(last)) = (listed.entries.first(), listed.entries.last()) else {
            return Ok(None);
        };
        let Some(measured) = measure(reader, found, number, &first.bytes, first.time, false)? else {
            return Ok(None);
        };
        let Some(origin) = origin(reader, found, number, listed, &measured)? else {
            return Ok(None);
        };
        let Origin { offset, first_start, reorder, rates } = origin;
        if Edits::hides_samples(first_start, description.kind, description.timescale) {
            return Ok(None);
        }
        let end = match listed.end {
            Some(end) => end + offset,
            None => {
                let to_end = last.bytes.start..index.end;
                let Some(at_end) = measure(reader, found, number, &to_end, last.time, true)? else {
                    return Ok(None);
                };
                // This rejects an index with decode times in place of presentation times.
                if at_end.timed && at_end.first - last.time != offset {
                    return Ok(None);
                }
                at_end.end()
            }
        };
        // An index without any random access point states nothing about sync samples.
        let states_sync = listed.entries.iter().any(|entry| entry.sync);
        let all_sync = description.kind != TrackKind::Video
            || description.every_sample_is_sync()
            || (!states_sync && measured.sync);
        let mut builder = FragmentTableBuilder::default().first_offset(measured.composition).rates(rates);
        for (number, entry) in listed.entries.iter().enumerate() {
            let time = if number == 0 { first_start } else { entry.time + offset };
            let size = entry.bytes.end - entry.bytes.start;
            if !builder.push(entry.bytes.start, size, time, entry.lead, entry.sync || all_sync) {
                return Ok(None);
            }
        }
        let bitrate = several.then(|| {
            let seconds = (measured.duration, description.timescale.get());
            description.declared_bitrate().unwrap_or_else(|| rate(measured.counts.bytes, seconds))
        });
        tables.push((builder.finish(end, reorder), bitrate));
    }
    Ok(Some(tables))
}

/// The origin of the times of an index.
#[derive(Debug, Clone, Copy)]
struct Origin {
    /// Difference from the index's times to presentation times, in track ticks.
    offset: i64,
    /// Start of the first fragment's presentation, in track ticks.
    first_start: i64,
    /// The longest [`FragmentMeasurement::reorder`] of the fragments that were read.
    reorder: u32,
    rates: SampleRates,
}

/// Finds the origin of the times of an index. Writers differ: times count from the start of the
/// media or of its presentation. The samples show which is the case; `measured` are those of the
/// first fragment. Returns `None` if fragments contradict each other.
fn origin(
    reader: &ObjectReader<'_>,
    found: &FoundMovie,
    number: usize,
    listed: &IndexedTrack,
    measured: &FragmentMeasurement,
) -> Result<Option<Origin>, Pause> {
    let (Some((_, description)), Some(first)) = (found.descriptions.get(number), listed.entries.first())
    else {
        return Ok(None);
    };
    let mut probed = Vec::new();
    let mut reorder = measured.reorder();
    let mut rates = measured.rates(description.timescale);
    for probe in fragments_to_check(listed) {
        let Some(at_probe) = measure(reader, found, number, &probe.bytes, probe.time, false)? else {
            return Ok(None);
        };
        // The writer marks every fragment as a random access point, so the marks mean nothing.
        if probe.sync && !at_probe.sync && description.kind == TrackKind::Video {
            return Ok(None);
        }
        reorder = reorder.max(at_probe.reorder());
        rates = rates.into_iter().chain(at_probe.rates(description.timescale)).reduce(SampleRates::with);
        if at_probe.timed {
            probed.push(at_probe.first - probe.time);
        }
    }
    let presentation = description.edits.presentation;
    let by_first = if measured.timed {
        measured.first - first.time
    } else {
        presentation.shift - presentation.media_time
    };
    // If media begins with priming, before 0, writers that count from its presentation write 0 for
    // the first fragment, whose time is unsigned (§8.16.3, §8.8.10), and the true times of the
    // later ones. So later fragments determine the offset, and the samples of the first fragment
    // determine its start.
    let offset = match probed.first() {
        Some(&by_second) if measured.timed && first.time == 0 && by_first < by_second => by_second,
        _ => by_first,
    };
    // This rejects indexes of open GOPs that state the times of sync samples, not those of the
    // frames presented before them. It also rejects times in a coarser scale than the track's.
    if probed.iter().any(|&by_probe| by_probe != offset) {
        return Ok(None);
    }
    // The samples must not last longer than the index states, apart from half a sample if there are
    // several fragments.
    let half_a_sample = i64::try_from(measured.duration / measured.counts.samples.max(1) / 2).unwrap_or(0);
    let tolerance = if listed.entries.len() > 1 { half_a_sample } else { 0 };
    let next = listed.entries.get(1).map(|next| next.time).or(listed.end);
    if next.is_some_and(|next| measured.end - (next + offset) > tolerance) {
        return Ok(None);
    }
    let first_start = first.time + by_first;
    Ok(Some(Origin { offset, first_start, reorder, rates: rates.unwrap_or_default() }))
}

/// Returns true if fragments of different tracks that start at one offset also end at one: samples
/// of a fragment are cached by its start.
fn same_ends(tracks: &[IndexedTrack]) -> bool {
    let mut ends = std::collections::BTreeMap::new();
    tracks
        .iter()
        .flat_map(|listed| &listed.entries)
        .all(|entry| *ends.entry(entry.bytes.start).or_insert(entry.bytes.end) == entry.bytes.end)
}
