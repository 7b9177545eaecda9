//! The plan of a range: its cached, pending and missing bytes, and fetches for the missing ones.

use crate::{
    Outcome, ReadObserver, Tier,
    disk::DiskRange,
    fetch::{
        filler::Filler,
        ranges::{group, split},
    },
    memory::{
        extents::{Extents, State},
        fill::{Fill, Interest},
        gauge::to_usize,
        object::Object,
        pending::PendingUnit,
    },
    store::Store,
};
use bytes::Bytes;
use latemux_storage::{
    Storage,
    client::{current_client, on_behalf_of},
};
use std::{ops::Range, sync::Arc};

/// The source of bytes that a reader gets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ByteSource {
    Memory,
    /// From disk, read for this reader or while it waited.
    Disk,
    /// From storage, fetched for this reader or while it waited.
    Storage,
}

impl ByteSource {
    pub(crate) fn fill(fill: &Fill) -> Self {
        if fill.from_disk { Self::Disk } else { Self::Storage }
    }
}

/// The state of a byte that was looked up.
#[derive(Debug)]
pub(crate) enum Lookup {
    Ready(Bytes, ByteSource),
    Pending(Arc<PendingUnit>),
}

struct FetchStart {
    fill: Arc<Fill>,
    pending_units: Vec<Arc<PendingUnit>>,
    disk_ranges: Vec<DiskRange>,
}

/// Looks up the bytes from `at` on, up to `end`. Returns `None` if the first one is missing.
pub(crate) fn look_up(object: &Object, at: u64, end: u64, interests: &mut Vec<Interest>) -> Option<Lookup> {
    let extents = object.extents();
    let (start, part, state) = extents.parts(at..end).next()?;
    match state? {
        State::Ready { bytes, unit } => {
            // A unit that was fetched for this reader does not count as a hit.
            let from = if interests.iter().any(|interest| Arc::ptr_eq(&interest.0, &unit.fill)) {
                ByteSource::fill(&unit.fill)
            } else {
                unit.hits.record();
                ByteSource::Memory
            };
            Some(Lookup::Ready(bytes.slice(to_usize(part.start - start)..to_usize(part.end - start)), from))
        }
        State::Filling(pending) => {
            add_interest(interests, &pending.fill);
            Some(Lookup::Pending(pending.clone()))
        }
    }
}

/// Starts the fetches that a range needs, and registers interest in all fetches that concern it. If
/// storage must be requested, all missing bytes of `reach`, which contains the range, are fetched.
/// Returns the position up to which the range is planned, because one reader may start only a
/// limited number of requests. Also returns the unit in flight at the start of the range: without
/// room to keep units, it would be gone at a later lookup.
pub(crate) fn plan(
    store: &Arc<Store>,
    source: &Arc<dyn Storage>,
    object: &Arc<Object>,
    range: Range<u64>,
    reach: Range<u64>,
    interests: &mut Vec<Interest>,
    observer: Option<&Arc<dyn ReadObserver>>,
) -> (u64, Outcome, Option<Arc<PendingUnit>>) {
    let mut outcome = Outcome::Hit(Tier::Memory);
    let mut first = None;
    let mut missing = Vec::new();
    let mut extents = object.extents();
    for (_, part, state) in extents.parts(range.clone()) {
        match state {
            None => missing.push(part),
            Some(State::Ready { .. }) => {}
            Some(State::Filling(pending)) => {
                outcome = Outcome::Joined;
                add_interest(interests, &pending.fill);
                if part.start == range.start {
                    first = Some(pending.clone());
                }
            }
        }
    }
    let report = |outcome| {
        if let Some(observer) = observer {
            observer.on_outcome(outcome);
        }
    };
    if missing.is_empty() {
        drop(extents);
        report(outcome);
        return (range.end, outcome, first);
    }
    let (to, starts) = start_fetches(store, object, &mut extents, missing, &range, &reach);
    for start in &starts {
        let cost = if start.fill.from_disk { Outcome::Hit(Tier::Disk) } else { Outcome::Filled };
        outcome = if cost.rank() > outcome.rank() { cost } else { outcome };
        interests.push(Interest::new(start.fill.clone()));
        first = first.or_else(|| {
            start.pending_units.iter().find(|pending| pending.range.start == range.start).cloned()
        });
    }
    drop(extents);
    report(outcome);
    for FetchStart { fill, pending_units, disk_ranges } in starts {
        // A fetch that starts at storage sends one request, which is reported now. A fetch that
        // starts at the disk may still have to request storage later.
        if let Some(observer) = observer.filter(|_| !fill.from_disk) {
            observer.on_storage_request();
        }
        let store = store.clone();
        let source = source.clone();
        let object = object.clone();
        let turns = store.turns.clone();
        let filler = Filler::new(store, source, object, fill, pending_units, observer.cloned());
        let client = current_client();
        let fetch = on_behalf_of(client, filler.run(disk_ranges));
        tokio::spawn(turns.take_for(client, Box::pin(fetch)));
    }
    (to, outcome, first)
}

fn add_interest(interests: &mut Vec<Interest>, fill: &Arc<Fill>) {
    if !interests.iter().any(|interest| Arc::ptr_eq(&interest.0, fill)) {
        interests.push(Interest::new(fill.clone()));
    }
}

/// Registers units for the missing ranges, and returns how far they reach.
fn start_fetches(
    store: &Arc<Store>,
    object: &Object,
    extents: &mut Extents,
    missing: Vec<Range<u64>>,
    range: &Range<u64>,
    reach: &Range<u64>,
) -> (u64, Vec<FetchStart>) {
    let mut disk_ranges = Vec::new();
    let mut holes = Vec::new();
    match &store.disk {
        Some(disk) => {
            for gap in missing {
                disk.find(object.id, gap, &mut disk_ranges, &mut holes);
            }
        }
        None => holes = missing,
    }
    let fills_reach = !holes.is_empty() && reach != range;
    if fills_reach {
        let around = [reach.start..range.start, range.end..reach.end];
        for (_, gap, state) in around.into_iter().flat_map(|part| extents.parts(part)) {
            match (&store.disk, state) {
                (_, Some(_)) => {}
                (Some(disk), None) => disk.find(object.id, gap, &mut Vec::new(), &mut holes),
                (None, None) => holes.push(gap),
            }
        }
        holes.sort_unstable_by_key(|hole| hole.start);
    }
    let mut runs = group(holes, store.config.bridge);
    let mut to = range.end;
    if let Some(over) = runs.get(store.config.parallel).and_then(|run| run.first()) {
        to = over.start.clamp(range.start, range.end);
        runs.truncate(store.config.parallel);
        disk_ranges.retain(|disk_range| disk_range.range.start < to);
    }
    let mut starts = Vec::new();
    let mut start = |ranges: Vec<Range<u64>>, disk_ranges: Vec<DiskRange>| {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return };
        let fill =
            Fill::new(first.start..last.end, !disk_ranges.is_empty(), fills_reach && disk_ranges.is_empty());
        let pending_units: Vec<_> =
            ranges.iter().map(|range| Arc::new(PendingUnit::new(range.clone(), fill.clone()))).collect();
        pending_units.iter().for_each(|pending| extents.expect(pending.clone()));
        starts.push(FetchStart { fill, pending_units, disk_ranges });
    };
    start(disk_ranges.iter().map(|disk_range| disk_range.range.clone()).collect(), disk_ranges);
    for run in runs {
        start(run.into_iter().flat_map(|range| split(range, store.config.unit)).collect(), Vec::new());
    }
    (to, starts)
}
