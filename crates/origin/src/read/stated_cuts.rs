//! Looks up cuts that an index MP4 states, so that no media need be read before a segment is
//! planned.

use crate::{
    observe::metrics::{LookedUp, StatedCuts},
    title::index_reader::read_whole,
    title::indexed::{CutBox, IndexedObject},
};
use bytes::Bytes;
use latemux_packager::plan::NeedsCuts;
use latemux_protect::{
    CutCheck, FoundCuts,
    cut_box::{REGION, Regions},
};
use latemux_storage::{ReadRequest, StorageError};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::Ordering::{AcqRel, Relaxed},
    },
};

/// Regions that may be read for one segment beyond twice those that its bytes fill. If its samples
/// lie further apart, the segment itself is read.
const MOST_GAPS: u64 = 16;
/// Shortest reach of a read of cuts, in bytes. A cache thus gets the cuts of the segments that
/// follow, too.
const READ_ALONG: u64 = 64 << 10;

/// Looks up the cuts of samples in the index MP4 of their object. Returns `None` if the index MP4
/// does not state them or cannot be read: the media is then read instead.
///
/// The cuts may be wrong, so the response that uses them compares them with the media.
pub(super) async fn find(
    object: &IndexedObject,
    needs: &NeedsCuts,
    counts: &StatedCuts,
) -> Option<FoundCuts> {
    let cut_box = object.cut_box.as_ref()?;
    if cut_box.differs.load(Relaxed) {
        counts.count_look_up(LookedUp::Differs);
        warn(object, cut_box, "some of its cuts are not those of the media");
        return None;
    }
    match look_up(object, cut_box, needs).await {
        Ok(Some(found)) => {
            counts.count_look_up(LookedUp::Used);
            Some(found)
        }
        Ok(None) => {
            counts.count_look_up(LookedUp::Missing);
            warn(object, cut_box, "it does not state the cuts of all samples, or is damaged");
            None
        }
        Err(error) => {
            counts.count_look_up(LookedUp::Failed);
            tracing::debug!(reason = "cuts_not_used", object = %object.file, "no cuts read: {error}");
            None
        }
    }
}

async fn look_up(
    object: &IndexedObject,
    cut_box: &CutBox,
    needs: &NeedsCuts,
) -> Result<Option<FoundCuts>, StorageError> {
    let Some(regions) = regions(cut_box, needs.places()) else { return Ok(None) };
    let entries = read(object, cut_box, regions.entries()).await?;
    let Some(range) = regions.data(&entries) else { return Ok(None) };
    let data = read(object, cut_box, range).await?;
    let stated = regions.cuts(&entries, &data);
    let cuts = stated.and_then(|stated| stated.of(needs.places().iter().copied()));
    Ok(cuts.map(|cuts| FoundCuts {
        cuts: Arc::new(cuts),
        check: Some(Arc::new(CutCheck::new(cut_box.differs.clone()))),
    }))
}

/// Returns the regions of samples, unless they are too many for the size of the samples.
fn regions(cut_box: &CutBox, samples: &[(u64, u32)]) -> Option<Regions> {
    let first = samples.iter().map(|sample| sample.0).min()?;
    let last = samples.iter().map(|sample| sample.0).max()?;
    let bytes: u64 = samples.iter().map(|sample| u64::from(sample.1)).sum();
    let regions = Regions::of(cut_box.place.moov, cut_box.place.size, first, last)?;
    (regions.count() <= 2 * (bytes / REGION) + MOST_GAPS).then_some(regions)
}

/// Reads a range of the box.
async fn read(object: &IndexedObject, cut_box: &CutBox, range: Range<u64>) -> Result<Bytes, StorageError> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let file = &object.file;
    let in_file = |at: u64| cut_box.place.offset + at.min(cut_box.place.size);
    let reach = in_file(range.start)..in_file(range.end.max(range.start + READ_ALONG));
    let request = ReadRequest::range(&file.key, in_file(range.start)..in_file(range.end));
    let request = request.pinned(&cut_box.version).with_reach(reach);
    let (_, read) = read_whole(&*file.media, request, &file.to_string()).await?;
    Ok(read.bytes)
}

/// Logs once for each index MP4 that its cuts are not used.
fn warn(object: &IndexedObject, cut_box: &CutBox, why: &str) {
    if !cut_box.has_warned.swap(true, AcqRel) {
        tracing::warn!(reason = "cuts_not_used", object = %object.file, "cuts in an index MP4 are not used: {why}");
    }
}
