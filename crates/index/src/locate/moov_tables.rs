//! Packing the sample tables of `moov` (ISO/IEC 14496-12 §8.6 and §8.7), checked against each other
//! and against the object's size.

use crate::{
    error::TrackProblemKind,
    locate::chunks::Chunks,
    table::{
        column::{ColumnBuilder, unpacked::UnpackedValues},
        rice::BLOCK,
        sample_builder::SampleTableBuilder,
        samples::{MAX_SAMPLES, SampleTable},
    },
};
use latemux_isobmff::{
    boxes::{ctts::CompositionOffsets, stsz::SampleSizes},
    movie::SampleTables,
};

/// Bound of the size of an object that is not at hand: no storage has larger ones.
pub(crate) const MAX_OBJECT_SIZE: u64 = i64::MAX.unsigned_abs();

fn malformed<T>(what: impl Into<String>) -> Result<T, TrackProblemKind> {
    Err(TrackProblemKind::malformed(what))
}

/// Returns the sample entry (1-based index) that the samples use. Only one for each track is
/// supported, since a second one would change the decoder's configuration.
pub(crate) fn sample_description(tables: &SampleTables) -> Result<u32, TrackProblemKind> {
    let chunks = tables.stco.count();
    let mut used = None;
    for run in tables.stsc.iter() {
        // A run that starts after the last chunk describes no chunk.
        let has_chunks = run.first_chunk as usize <= chunks && run.samples_per_chunk > 0;
        if !has_chunks {
            continue;
        }
        match used {
            None => used = Some(run.sample_description_index),
            Some(index) if index == run.sample_description_index => {}
            Some(_) => {
                return Err(TrackProblemKind::Unsupported(
                    "a track with several sample entries in use".into(),
                ));
            }
        }
    }
    used.ok_or(TrackProblemKind::Empty)
}

/// Returns the number of samples, if reading them can be tried.
pub(crate) fn sample_count(tables: &SampleTables, object_size: u64) -> Result<u32, TrackProblemKind> {
    let count = tables.stsz.count();
    if count == 0 {
        return Err(TrackProblemKind::Empty);
    }
    if count > MAX_SAMPLES {
        return Err(TrackProblemKind::TooLarge(format!("{count} samples, more than {MAX_SAMPLES}")));
    }
    if let SampleSizes::Constant { size, .. } = tables.stsz {
        // No entries confirm this count, so the object must be large enough for it.
        if u64::from(size) * u64::from(count) > object_size {
            return malformed(format!("stsz: {count} samples of {size} bytes are larger than the object"));
        }
    }
    Ok(count)
}

/// Packs the tables, except for chunks: those of all tracks are checked and described together by
/// [`super::placement::place`]. Decode times start at 0 and all samples play. `all_sync` is for
/// media in which an empty `stss` means nothing (audio, text). `unpacked` keeps the values of
/// packed columns.
///
/// Deviations that ffmpeg plays are accepted too: `stts`, `ctts`, `stss` and `stco` that continue
/// after the last sample, and `ctts` that ends before it.
pub(crate) fn read(
    tables: &SampleTables,
    object_size: u64,
    all_sync: bool,
    unpacked: Option<&mut UnpackedValues>,
) -> Result<SampleTable, TrackProblemKind> {
    sample_count(tables, object_size)?;
    let of_chunks = |problem| Chunks::new(tables, object_size).check().unwrap_or(problem);
    read_columns(tables, all_sync, unpacked).map_err(of_chunks)
}

fn read_columns(
    tables: &SampleTables,
    all_sync: bool,
    unpacked: Option<&mut UnpackedValues>,
) -> Result<SampleTable, TrackProblemKind> {
    let count = tables.stsz.count();
    let mut builder = SampleTableBuilder::default();
    let sizes = read_sizes(&tables.stsz, &mut builder.sizes);
    for run in tables.stts.iter() {
        // Broken writers put negative deltas in `stts`, which have the highest bit set.
        if i32::try_from(run.delta).is_err() {
            return malformed(format!("stts: a sample lasts {} ticks, which is too long", run.delta));
        }
        builder.durations.push_run(run.delta, run.count.min(count - builder.durations.len()));
    }
    if builder.durations.len() < count {
        return malformed(format!("stts has {} samples, but stsz has {count}", builder.durations.len()));
    }

    let offsets = tables.ctts.iter().flat_map(CompositionOffsets::iter).map(|run| (run.offset, run.count));
    // An entry can state a run of billions, so values are unpacked only if there are at most two
    // for each entry.
    let runs = tables.ctts.as_ref().map_or(0, |ctts| ctts.iter().len());
    let compositions = match runs >= count as usize / 2 {
        true => builder.extend_dense_compositions(offsets, count),
        false => {
            builder.extend_compositions(offsets, count);
            Vec::new()
        }
    };

    match &tables.stss {
        Some(stss) if !(all_sync && stss.iter().len() == 0) => {
            // §8.6.2: numbers ascend strictly from 1. Repeated numbers are harmless. A table that
            // starts with 0 counts from 0, as players assume, too.
            let base = u32::from(stss.iter().next() != Some(0));
            let mut last = None;
            for number in stss.iter() {
                if last.is_some_and(|last| number < last) {
                    return malformed("stss: sample numbers do not ascend");
                }
                if last != Some(number) && number - base < count {
                    builder.push_sync(number - base);
                }
                last = Some(number);
            }
        }
        _ => builder.set_all_sync(),
    }
    let mut table = builder.finish(0);
    if let Some(unpacked) = unpacked {
        table.keep_values(sizes, compositions, unpacked);
    }
    Ok(table)
}

/// Appends all sizes to a column. Returns them if they take no more memory than their table.
fn read_sizes(table: &SampleSizes, sizes: &mut ColumnBuilder) -> Vec<u32> {
    if let SampleSizes::Constant { size, count } = *table {
        sizes.push_run(size, count);
        return Vec::new();
    }
    if let Some(words) = table.words() {
        let values: Vec<u32> = words.iter().map(|&word| u32::from_be_bytes(word)).collect();
        sizes.extend(&values);
        return values;
    }
    let mut block = [0; BLOCK];
    loop {
        let filled = table.fill(sizes.len(), &mut block);
        if filled == 0 {
            return Vec::new();
        }
        sizes.extend(block.get(..filled).unwrap_or_default());
    }
}

#[cfg(test)]
#[path = "moov_tables_tests.rs"]
mod tests;
