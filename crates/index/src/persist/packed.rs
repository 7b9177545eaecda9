//! Packed columns, and the tables made of them, as bytes.

use crate::{
    persist::{
        cursor::{ByteReader, ByteWriter},
        error::PersistError,
    },
    table::{
        column::{Column, ColumnEncoding, DirectoryEntry, Packed, Run, Runs, STRIDE, unpacked::UnpackedLink},
        fragment_table::{FragmentTable, SampleRates},
        layout::{ChunkPositions, Layout, MAX_TRACKS, TrackLayout},
        positions::{Positions, PositionsEncoding},
        samples::{MAX_SAMPLES, SampleTable},
    },
};
use latemux_isobmff::Time;
use std::{ops::RangeInclusive, sync::Arc};

const DAMAGED: PersistError = PersistError::Damaged("a column that contradicts itself");

/// Upper bound of the sums of a column: it has at most [`MAX_SAMPLES`] values. The sums of all
/// columns of a layout can therefore be added.
const MAX_SUM: u64 = (MAX_SAMPLES as u64) << 32;

/// Presentation times and shifts of tracks that are served.
pub(super) const TIMES: RangeInclusive<i64> = -Time::MAX_TICKS..=Time::MAX_TICKS;

/// Decode times on the output timeline. Those of samples that an edit list hides may be negative.
pub(super) const DECODE_TIMES: RangeInclusive<i64> = -Time::MAX_TICKS..=2 * Time::MAX_TICKS;

pub(super) fn put_column(column: &Column, out: &mut ByteWriter) {
    match &column.0 {
        ColumnEncoding::Constant { len, value } => {
            out.u8(0);
            out.u32(*len);
            out.u32(*value);
        }
        ColumnEncoding::Runs(runs) => {
            out.u8(1);
            out.u32(runs.len);
            out.list(&runs.runs, |out, run| {
                out.u32(run.start);
                out.u32(run.value);
                out.u64(run.before);
            });
        }
        ColumnEncoding::Packed(packed) => {
            out.u8(2);
            out.u32(packed.len);
            out.u64(packed.total);
            out.list(&packed.directory, |out, entry| {
                out.u32(entry.before[0]);
                out.u32(entry.before[1]);
                out.u32(entry.byte);
            });
            out.blob(&packed.stream);
        }
    }
}

pub(super) fn take_column(bytes: &mut ByteReader<'_>) -> Result<Column, PersistError> {
    let form = bytes.u8()?;
    let len = Some(bytes.u32()?).filter(|len| *len <= MAX_SAMPLES).ok_or(DAMAGED)?;
    match form {
        0 => Ok(Column(ColumnEncoding::Constant { len, value: bytes.u32()? })),
        1 => {
            let runs = bytes.list(16, |bytes| {
                Ok(Run { start: bytes.u32()?, value: bytes.u32()?, before: bytes.u64()? })
            })?;
            // Each run starts at the end of the one before, with the sum of all values up to there.
            let mut end = (0, 0);
            for (number, run) in runs.iter().enumerate() {
                let next = runs.get(number + 1).map_or(len, |next| next.start);
                if (run.start, run.before) != end || next <= run.start {
                    return Err(DAMAGED);
                }
                let sum = u64::from(next - run.start) * u64::from(run.value);
                end = (next, run.before.checked_add(sum).filter(|&sum| sum < MAX_SUM).ok_or(DAMAGED)?);
            }
            if end.0 != len || runs.is_empty() {
                return Err(DAMAGED);
            }
            Ok(Column(ColumnEncoding::Runs(Box::new(Runs { len, runs: runs.into() }))))
        }
        2 => {
            let total = bytes.u64()?;
            let directory = bytes.list(12, |bytes| {
                Ok(DirectoryEntry { before: [bytes.u32()?, bytes.u32()?], byte: bytes.u32()? })
            })?;
            let stream = bytes.blob()?;
            let ascend = directory.is_sorted_by_key(|entry| entry.before())
                && directory.is_sorted_by_key(|entry| entry.byte);
            let within = directory
                .last()
                .is_none_or(|last| last.before() <= total && last.byte as usize <= stream.len());
            let starts = directory.first().is_none_or(|first| (first.before(), first.byte) == (0, 0));
            let entries = len.div_ceil(STRIDE) as usize == directory.len();
            if !(ascend && within && starts && entries && total < MAX_SUM) {
                return Err(DAMAGED);
            }
            let directory = directory.into();
            let stream = stream.into();
            let unpacked = UnpackedLink::default();
            Ok(Column(ColumnEncoding::Packed(Box::new(Packed { len, directory, stream, total, unpacked }))))
        }
        _ => Err(PersistError::Damaged("a column of an unknown form")),
    }
}

fn put_positions(positions: &Positions, out: &mut ByteWriter) {
    match &positions.0 {
        PositionsEncoding::Gaps(gaps) => {
            out.u8(0);
            put_column(gaps, out);
        }
        PositionsEncoding::Halves(halves) => {
            out.u8(1);
            halves.iter().for_each(|half| put_column(half, out));
        }
    }
}

fn take_positions(bytes: &mut ByteReader<'_>) -> Result<Positions, PersistError> {
    Ok(Positions(match bytes.u8()? {
        0 => PositionsEncoding::Gaps(take_column(bytes)?),
        1 => {
            let [high, low] = [take_column(bytes)?, take_column(bytes)?];
            // Sizes can then be added to the offsets.
            if high.iter_from(0).any(|high| i32::try_from(high).is_err()) {
                return Err(DAMAGED);
            }
            PositionsEncoding::Halves(Box::new([high, low]))
        }
        _ => return Err(PersistError::Damaged("positions of an unknown form")),
    }))
}

/// Smallest number of bytes of a column.
const COLUMN: usize = 9;

pub(super) fn put_layout(layout: &Layout, out: &mut ByteWriter) {
    out.list(&layout.tracks, |out, track| {
        put_column(&track.sizes, out);
        put_column(&track.chunk_samples, out);
        match &track.chunks {
            ChunkPositions::Separate(positions) => {
                out.u8(0);
                put_positions(positions, out);
            }
            ChunkPositions::Interleaved { gaps, others } => {
                out.u8(1);
                put_column(gaps, out);
                out.list(others, |out, (number, counts)| {
                    out.count(*number);
                    put_column(counts, out);
                });
            }
        }
    });
}

pub(super) fn take_layout(bytes: &mut ByteReader<'_>) -> Result<Layout, PersistError> {
    let tracks = bytes.list(2 * COLUMN, |bytes| {
        let sizes = take_column(bytes)?;
        let chunk_samples = take_column(bytes)?;
        let chunks = match bytes.u8()? {
            0 => ChunkPositions::Separate(take_positions(bytes)?),
            1 => {
                let gaps = take_column(bytes)?;
                let other = |bytes: &mut ByteReader<'_>| Ok((number(bytes)?, take_column(bytes)?));
                let others = Some(bytes.list(4 + COLUMN, other)?).filter(|others| others.len() < MAX_TRACKS);
                ChunkPositions::Interleaved { gaps, others: others.ok_or(DAMAGED)? }
            }
            _ => return Err(PersistError::Damaged("chunks of an unknown form")),
        };
        Ok(TrackLayout { sizes, chunk_samples, chunks })
    })?;
    Ok(Layout { tracks })
}

fn number(bytes: &mut ByteReader<'_>) -> Result<usize, PersistError> {
    Ok(bytes.u32()? as usize)
}

/// Writes a table. `layouts` holds those of all tables before, which tracks of one object share.
pub(super) fn put_table<'a>(
    table: &'a SampleTable,
    layouts: &mut Vec<&'a Arc<Layout>>,
    out: &mut ByteWriter,
) {
    let known = layouts.iter().position(|layout| Arc::ptr_eq(layout, &table.layout));
    out.count(known.unwrap_or(layouts.len()));
    if known.is_none() {
        put_layout(&table.layout, out);
        layouts.push(&table.layout);
    }
    out.count(table.track);
    out.u32(table.window.start);
    out.u32(table.window.end);
    out.i64(table.first_decode_time);
    put_column(&table.durations, out);
    out.option(table.compositions.as_ref(), |out, column| put_column(column, out));
    out.i32(table.composition_bounds.0);
    out.i32(table.composition_bounds.1);
    out.i32(table.composition_lift);
    out.option(table.sync.as_ref(), |out, column| put_column(column, out));
}

pub(super) fn take_table(
    layouts: &mut Vec<Arc<Layout>>,
    bytes: &mut ByteReader<'_>,
) -> Result<SampleTable, PersistError> {
    let known = number(bytes)?;
    if known == layouts.len() {
        layouts.push(Arc::new(take_layout(bytes)?));
    }
    let layout =
        Arc::clone(layouts.get(known).ok_or(PersistError::Damaged("a reference to a missing layout"))?);
    let table = SampleTable {
        track: number(bytes)?,
        window: bytes.u32()?..bytes.u32()?,
        first_decode_time: bytes.within(DECODE_TIMES)?,
        durations: take_column(bytes)?,
        compositions: bytes.option(take_column)?,
        composition_bounds: (bytes.i32()?, bytes.i32()?),
        composition_lift: bytes.i32()?,
        sync: bytes.option(take_column)?,
        layout,
    };
    let samples = table.layout.track(table.track).map(|track| track.sizes.len());
    let columns = [Some(&table.durations), table.compositions.as_ref()];
    let equal = columns.into_iter().flatten().all(|column| Some(column.len()) == samples);
    let window = table.window.start <= table.window.end && Some(table.window.end) <= samples;
    if equal && window { Ok(table) } else { Err(PersistError::Damaged("a table that contradicts itself")) }
}

pub(super) fn put_fragments(table: &FragmentTable, out: &mut ByteWriter) {
    out.i64(table.first_start);
    out.i64(table.end);
    out.u32(table.reorder);
    out.i32(table.first_offset);
    let SampleRates { samples, sync_samples, least_bytes, most_bytes } = table.rates;
    [samples, sync_samples, least_bytes, most_bytes].into_iter().for_each(|rate| out.u32(rate));
    put_column(&table.steps, out);
    out.option(table.leads.as_ref(), |out, leads| put_column(leads, out));
    put_column(&table.sizes, out);
    put_positions(&table.positions, out);
    put_column(&table.sync, out);
}

pub(super) fn take_fragments(bytes: &mut ByteReader<'_>) -> Result<FragmentTable, PersistError> {
    let table = FragmentTable {
        first_start: bytes.within(TIMES)?,
        end: bytes.within(TIMES)?,
        reorder: bytes.u32()?,
        first_offset: bytes.i32()?,
        rates: SampleRates {
            samples: bytes.u32()?,
            sync_samples: bytes.u32()?,
            least_bytes: bytes.u32()?,
            most_bytes: bytes.u32()?,
        },
        steps: take_column(bytes)?,
        leads: bytes.option(take_column)?,
        sizes: take_column(bytes)?,
        positions: take_positions(bytes)?,
        sync: take_column(bytes)?,
    };
    let len = table.sizes.len();
    if table.steps.len() == len
        && table.leads.as_ref().is_none_or(|leads| leads.len() == len)
        && table.sync.len() == len
    {
        Ok(table)
    } else {
        Err(PersistError::Damaged("a table that contradicts itself"))
    }
}
