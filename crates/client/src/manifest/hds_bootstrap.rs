//! HDS bootstrap information: the `abst` box and its run tables (Adobe Flash Video File Format
//! Specification 10.1 §2.11.2).

use super::limits::SegmentBudget;
use crate::manifest_error::ManifestError;
use crate::presentation::{
    Addresses, Container, Resource, Segment, SegmentGroup, Segments, deferred::ReadSegments,
};
use bytes::Bytes;
use latemux_isobmff::{Error, cursor::Cursor};
use std::sync::Arc;
use url::Url;

/// The tolerance in seconds. Times are rounded to milliseconds, and the first tag of a fragment may
/// be one of the other track.
const TOLERANCE: f64 = 0.2;

impl From<Error> for ManifestError {
    fn from(error: Error) -> Self {
        Self::invalid(error.to_string())
    }
}

/// A run of fragments of the same duration. A duration of 0 marks a discontinuity (§2.11.2.2).
struct FragmentRun {
    first: u32,
    timestamp: u64,
    duration: u32,
    discontinuity: u8,
}

/// Reads bootstrap information of fragments at an address, to which players append their numbers.
#[derive(Debug)]
pub(super) struct Bootstrap(pub(super) Url);

impl ReadSegments for Bootstrap {
    fn read(&self, _: &Url, _: &Resource, body: &[u8]) -> Result<Segments, ManifestError> {
        read(&self.0, body)
    }
}

pub(super) fn read(fragments: &Url, bytes: &[u8]) -> Result<Segments, ManifestError> {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut abst = Cursor::new(&bytes, 0).find(b"abst")?.payload;
    abst.version_and_flags()?;
    abst.u32()?;
    let live = abst.u8()? >> 5 & 1 != 0;
    if live {
        return Err(ManifestError::unsupported("live bootstrap information"));
    }
    let scale = abst.u32()?;
    abst.skip(8 + 8)?;
    string(&mut abst)?; // movie
    strings(&mut abst)?; // servers
    strings(&mut abst)?; // qualities
    string(&mut abst)?; // DRM
    string(&mut abst)?; // metadata
    // There is a table for each quality. The first one applies to all qualities.
    let mut segment_runs = Vec::new();
    for place in 0..abst.u8()? {
        let table = segment_run_table(take_box(&mut abst, b"asrt")?)?;
        if place == 0 {
            segment_runs = table;
        }
    }
    abst.u8()?;
    let (timescale, runs) = fragment_run_table(take_box(&mut abst, b"afrt")?)?;
    let timescale = if timescale == 0 { scale } else { timescale };
    if timescale == 0 {
        return Err(ManifestError::invalid("a timescale of 0"));
    }
    expand(fragments, timescale, &segment_runs, &runs)
}

fn expand(
    fragments: &Url,
    timescale: u32,
    segment_runs: &[(u32, u32)],
    runs: &[FragmentRun],
) -> Result<Segments, ManifestError> {
    let first = runs.iter().find(|run| run.duration > 0).map_or(1, |run| run.first);
    let total = fragment_count(segment_runs);
    SegmentBudget::default().take(total)?;
    let end = u64::from(first) + total;
    let mut entries = Vec::new();
    let mut addresses = Vec::new();
    let mut expected = u64::from(first);
    let mut runs = runs.iter().filter(|run| run.first > 0).peekable();
    while let Some(run) = runs.next() {
        match (run.duration, run.discontinuity) {
            // 0 marks the end of the presentation, and 1 a gap in the fragment numbers only.
            (0, 0 | 1) => continue,
            (0, _) => return Err(ManifestError::unsupported("a presentation with discontinuities")),
            _ => {}
        }
        let numbers = u64::from(run.first)..runs.peek().map_or(end, |next| u64::from(next.first).min(end));
        if numbers.start < expected {
            return Err(ManifestError::invalid("runs of fragments in the wrong order"));
        }
        for number in numbers {
            expected = number + 1;
            let steps = number - u64::from(run.first);
            let beyond = || ManifestError::beyond("a time");
            let time = run.timestamp.checked_add(steps * u64::from(run.duration)).ok_or_else(beyond)?;
            let start = i64::try_from(time).map_err(|_| beyond())?;
            let segment = segment_of(segment_runs, number - u64::from(first));
            let mut url = fragments.clone();
            url.set_path(&format!("{}Seg{segment}-Frag{number}", fragments.path()));
            let index = addresses.len() as u64;
            addresses.push(Arc::new(url));
            entries.push(Segment { start, duration: run.duration.into(), number: index, time, range: None });
        }
    }
    if entries.is_empty() {
        return Err(ManifestError::invalid("bootstrap information without fragments"));
    }
    let group = SegmentGroup::new(Container::F4f, timescale.into(), TOLERANCE, Addresses::List(addresses));
    Ok(Segments::uniform(SegmentGroup { origin: Some(0), ..group }, entries))
}

/// Returns the number of fragments in all segments. Each pair is a run's first segment and the
/// number of fragments in each of its segments. A run ends where the next run starts; the last run
/// has one segment.
fn fragment_count(runs: &[(u32, u32)]) -> u64 {
    let next = runs.iter().skip(1).map(|&(first, _)| Some(first)).chain([None]);
    runs.iter().zip(next).fold(0, |total: u64, (&(first, each), next)| {
        let segments = u64::from(next.map_or(1, |next| next.saturating_sub(first)));
        total.saturating_add(segments * u64::from(each))
    })
}

/// Returns the number of the segment that holds the fragment with the 0-based index `place`.
fn segment_of(runs: &[(u32, u32)], place: u64) -> u64 {
    let mut left = place;
    for (index, &(first, each)) in runs.iter().enumerate() {
        let next = runs.get(index + 1).map(|&(next, _)| next);
        let segments = u64::from(next.map_or(u32::MAX, |next| next.saturating_sub(first)));
        let fragments = segments * u64::from(each);
        if left < fragments {
            return u64::from(first) + left / u64::from(each);
        }
        left -= fragments;
    }
    1
}

/// Reads the next box, which must have the given type.
fn take_box<'a>(cursor: &mut Cursor<'a>, kind: &[u8; 4]) -> Result<Cursor<'a>, ManifestError> {
    match cursor.boxes().next().transpose()? {
        Some(found) if found.kind() == kind => {
            cursor.skip(found.raw().len())?;
            Ok(found.payload)
        }
        _ => Err(ManifestError::invalid("run tables are missing")),
    }
}

/// The maximum number of runs of segments. Most titles have one.
const MAX_SEGMENT_RUNS: u32 = 1024;

/// Reads the runs of segments: the first segment, and the number of fragments in each segment.
fn segment_run_table(mut asrt: Cursor<'_>) -> Result<Vec<(u32, u32)>, ManifestError> {
    asrt.version_and_flags()?;
    strings(&mut asrt)?;
    let count = asrt.u32()?;
    asrt.check_count("segment runs", count.into(), 8)?;
    if count > MAX_SEGMENT_RUNS {
        return Err(ManifestError::TooMuch { what: "segment runs", limit: MAX_SEGMENT_RUNS as usize });
    }
    (0..count).map(|_| Ok((asrt.u32()?, asrt.u32()?))).collect()
}

/// Reads the timescale and the runs of fragments.
fn fragment_run_table(mut afrt: Cursor<'_>) -> Result<(u32, Vec<FragmentRun>), ManifestError> {
    afrt.version_and_flags()?;
    let timescale = afrt.u32()?;
    strings(&mut afrt)?;
    let count = afrt.u32()?;
    afrt.check_count("fragment runs", count.into(), 16)?;
    let mut runs = Vec::new();
    for _ in 0..count {
        let first = afrt.u32()?;
        let timestamp = afrt.u64()?;
        let duration = afrt.u32()?;
        let discontinuity = if duration == 0 { afrt.u8()? } else { 0 };
        runs.push(FragmentRun { first, timestamp, duration, discontinuity });
    }
    Ok((timescale, runs))
}

/// Skips strings that follow a byte with their number.
fn strings(cursor: &mut Cursor<'_>) -> Result<(), ManifestError> {
    let count = cursor.u8()?;
    (0..count).try_for_each(|_| string(cursor))
}

/// Skips a string that ends with a zero byte.
fn string(cursor: &mut Cursor<'_>) -> Result<(), ManifestError> {
    while cursor.u8()? != 0 {}
    Ok(())
}
