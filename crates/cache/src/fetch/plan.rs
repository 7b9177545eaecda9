//! From a range to what is here, what is under way and what has to be fetched; and to the fetches.

use crate::{
    Outcome, ReadObserver, Tier,
    disk::Piece,
    fetch::{
        filler::Filler,
        ranges::{group, split},
    },
    memory::{
        extents::{Extents, State},
        fill::{Fill, Interest},
        gauge::narrow,
        object::Object,
        pending::Cell,
    },
    store::Core,
};
use bytes::Bytes;
use latemux_storage::Storage;
use std::{ops::Range, sync::Arc};

/// Where bytes given to a reader came from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Memory,
    /// For this reader, or while it waited.
    Disk,
    /// For this reader, or while it waited.
    Storage,
}

impl Source {
    pub(crate) fn fill(fill: &Fill) -> Self {
        if fill.from_disk { Self::Disk } else { Self::Storage }
    }
}

/// What is known of a byte.
#[derive(Debug)]
pub(crate) enum Known {
    Here(Bytes, Source),
    UnderWay(Arc<Cell>),
}

/// What a range consists of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found {
    disk: bool,
    joined: bool,
    filled: bool,
}

impl Found {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self { filled: true, .. } => Outcome::Filled,
            Self { joined: true, .. } => Outcome::Joined,
            Self { disk: true, .. } => Outcome::Hit(Tier::Disk),
            _ => Outcome::Hit(Tier::Memory),
        }
    }
}

/// A fetch to be started.
struct Start {
    fill: Arc<Fill>,
    cells: Vec<Arc<Cell>>,
    pieces: Vec<Piece>,
}

/// What is known of the byte `at`, and what follows it up to `end`; `None` if nothing.
pub(crate) fn look(object: &Object, at: u64, end: u64, interests: &mut Vec<Interest>) -> Option<Known> {
    let extents = object.extents();
    let (start, part, state) = extents.parts(at..end).next()?;
    match state? {
        State::Ready { bytes, unit } => {
            // What was brought for this reader it does not hit.
            let from = if interests.iter().any(|interest| Arc::ptr_eq(&interest.0, &unit.fill)) {
                Source::fill(&unit.fill)
            } else {
                unit.mark.hit();
                Source::Memory
            };
            Some(Known::Here(bytes.slice(narrow(part.start - start)..narrow(part.end - start)), from))
        }
        State::Filling(cell) => {
            join(interests, &cell.fill);
            Some(Known::UnderWay(cell.clone()))
        }
    }
}

/// Starts what fetches a range needs, and takes an interest in all that concern it. Says how far that goes: one reader may
/// start only so many. Where storage must be asked, it is asked for all of `reach`, which holds the range. The unit under way at the start of the range comes with it: where there is no room to keep units, it
/// would be gone when looked for later.
pub(crate) fn plan(
    core: &Arc<Core>,
    source: &Arc<dyn Storage>,
    object: &Arc<Object>,
    range: Range<u64>,
    reach: Range<u64>,
    interests: &mut Vec<Interest>,
    observer: Option<&Arc<dyn ReadObserver>>,
) -> (u64, Found, Option<Arc<Cell>>) {
    let (mut found, mut first, mut missing) = (Found::default(), None, Vec::new());
    let mut extents = object.extents();
    for (_, part, state) in extents.parts(range.clone()) {
        match state {
            None => missing.push(part),
            Some(State::Ready { .. }) => {}
            Some(State::Filling(cell)) => {
                found.joined = true;
                join(interests, &cell.fill);
                if part.start == range.start {
                    first = Some(cell.clone());
                }
            }
        }
    }
    let tell = |found: Found| {
        if let Some(observer) = observer {
            observer.on_outcome(found.outcome());
        }
    };
    if missing.is_empty() {
        drop(extents);
        tell(found);
        return (range.end, found, first);
    }
    let (to, starts) = fetches(core, object, &mut extents, missing, &range, &reach);
    for start in &starts {
        found.disk |= start.fill.from_disk;
        found.filled |= !start.fill.from_disk;
        interests.push(Interest::new(start.fill.clone()));
        first = first.or_else(|| start.cells.iter().find(|cell| cell.range.start == range.start).cloned());
    }
    drop(extents);
    tell(found);
    for Start { fill, cells, pieces } in starts {
        // What is begun at storage asks it once, and that is known now; what is begun at the disk may yet have to.
        if let Some(observer) = observer.filter(|_| !fill.from_disk) {
            observer.on_storage_request();
        }
        let (core, source, object) = (core.clone(), source.clone(), object.clone());
        let filler = Filler::new(core, source, object, fill, cells, observer.cloned());
        tokio::spawn(filler.run(pieces));
    }
    (to, found, first)
}

fn join(interests: &mut Vec<Interest>, fill: &Arc<Fill>) {
    if !interests.iter().any(|interest| Arc::ptr_eq(&interest.0, fill)) {
        interests.push(Interest::new(fill.clone()));
    }
}

/// Takes note of the units that will fill what is missing, and says how far these go.
fn fetches(
    core: &Arc<Core>,
    object: &Object,
    extents: &mut Extents,
    missing: Vec<Range<u64>>,
    range: &Range<u64>,
    reach: &Range<u64>,
) -> (u64, Vec<Start>) {
    let (mut pieces, mut holes) = (Vec::new(), Vec::new());
    match &core.disk {
        Some(disk) => missing.into_iter().for_each(|gap| disk.find(object.id, gap, &mut pieces, &mut holes)),
        None => holes = missing,
    }
    let asked = !holes.is_empty() && reach != range;
    if asked {
        let around = [reach.start..range.start, range.end..reach.end];
        for (_, gap, state) in around.into_iter().flat_map(|part| extents.parts(part)) {
            match (&core.disk, state) {
                (_, Some(_)) => {}
                (Some(disk), None) => disk.find(object.id, gap, &mut Vec::new(), &mut holes),
                (None, None) => holes.push(gap),
            }
        }
        holes.sort_unstable_by_key(|hole| hole.start);
    }
    let mut runs = group(holes, core.config.bridge);
    let mut to = range.end;
    if let Some(over) = runs.get(core.config.parallel).and_then(|run| run.first()) {
        to = over.start.clamp(range.start, range.end);
        runs.truncate(core.config.parallel);
        pieces.retain(|piece| piece.range.start < to);
    }
    let mut starts = Vec::new();
    let mut start = |ranges: Vec<Range<u64>>, pieces: Vec<Piece>| {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return };
        let fill = Fill::new(first.start..last.end, !pieces.is_empty(), asked && pieces.is_empty());
        let cells: Vec<_> =
            ranges.iter().map(|range| Arc::new(Cell::new(range.clone(), fill.clone()))).collect();
        cells.iter().for_each(|cell| extents.expect(cell.clone()));
        starts.push(Start { fill, cells, pieces });
    };
    start(pieces.iter().map(|piece| piece.range.clone()).collect(), pieces);
    for run in runs {
        start(run.into_iter().flat_map(|range| split(range, core.config.unit)).collect(), Vec::new());
    }
    (to, starts)
}
