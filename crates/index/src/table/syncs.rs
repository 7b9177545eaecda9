//! Reading the sync samples of a table with their times, in order.

use crate::table::{
    column::Values,
    rice::BLOCK,
    samples::{SampleTable, composition},
};
use std::ops::Range;

impl SampleTable {
    /// Iterates over the sync samples of a range, with their composition times on the output
    /// timeline in track ticks.
    pub(crate) fn composed_syncs(&self, range: Range<u32>) -> ComposedSyncs<'_> {
        let Range { start, end } = self.in_columns(&range);
        let (since, durations) = self.durations.seek(start);
        ComposedSyncs {
            window_start: self.window.start,
            number: start,
            end,
            decode_time: self.time_after(since),
            durations,
            compositions: self.compositions.as_ref().map(|column| column.iter_from(start)),
            composition_lift: self.composition_lift,
            sync: self.sync_from_in_columns(start),
        }
    }

    /// Calls `each` for each sync sample in order, with its index, its decode time, its composition
    /// time, and the earliest composition time of the samples up to the next sync sample. Times are
    /// on the output timeline, in track ticks.
    pub(crate) fn each_gop(&self, mut each: impl FnMut(u32, i64, i64, i64)) {
        let Range { start, end } = self.in_columns(&(0..u32::MAX));
        let mut decode_time = self.decode_time_in_columns(start);
        let mut durations = self.durations.iter_from(start);
        let mut compositions = self.compositions.as_ref().map(|column| column.bulk_from(start));
        let mut sync = self.sync_from_in_columns(start);
        let in_table = |next: Option<u64>| next.and_then(|next| u32::try_from(next).ok()).unwrap_or(u32::MAX);
        let mut next_sync = sync.as_ref().map_or(start, |(next, _)| in_table(*next));
        let mut duration_block = [0; BLOCK];
        let mut composition_block = [0; BLOCK];
        let mut gop: Option<(u32, i64, i64, i64)> = None;
        let mut number = start;
        while number < end {
            let duration_count = durations.fill(&mut duration_block);
            let durations = duration_block.get(..duration_count.min((end - number) as usize));
            let mut durations = durations.unwrap_or_default();
            compositions.iter_mut().for_each(|values| _ = values.fill(&mut composition_block));
            let mut packed = composition_block.as_slice();
            if durations.is_empty() {
                break;
            }
            while !durations.is_empty() {
                if number == next_sync {
                    if let Some((index, decoded, composed, earliest)) = gop {
                        each(index, decoded, composed, earliest);
                    }
                    let composed =
                        packed.first().map_or(0, |&packed| composition(packed, self.composition_lift));
                    let composed = decode_time + i64::from(composed);
                    gop = Some((number - start, decode_time, composed, composed));
                    next_sync = match &mut sync {
                        None => number + 1,
                        Some((next, gaps)) => {
                            // The numbers of a damaged column may not ascend.
                            while next.is_some_and(|next| next <= u64::from(number)) {
                                *next = next.and_then(|last| Some(last + u64::from(gaps.next()?)));
                            }
                            in_table(*next)
                        }
                    };
                }
                let some = durations.len().min((next_sync - number) as usize);
                let (now, later) = durations.split_at(some);
                let (now_packed, later_packed) = packed.split_at(some);
                let mut earliest = i64::MAX;
                for (&duration, &packed) in now.iter().zip(now_packed) {
                    let offset = composition(packed, self.composition_lift);
                    earliest = earliest.min(decode_time + i64::from(offset));
                    decode_time += i64::from(duration);
                }
                if let Some(gop) = &mut gop {
                    gop.3 = gop.3.min(earliest);
                }
                number += u32::try_from(some).unwrap_or(u32::MAX);
                (durations, packed) = (later, later_packed);
            }
        }
        if let Some((index, decoded, composed, earliest)) = gop {
            each(index, decoded, composed, earliest);
        }
    }
}

/// Reads the sync samples of a table in order, see [`SampleTable::composed_syncs`].
#[derive(Debug)]
pub(crate) struct ComposedSyncs<'a> {
    window_start: u32,
    /// Number in the columns of the first sample that has not been read.
    number: u32,
    end: u32,
    /// Decode time of sample `number`.
    decode_time: i64,
    durations: Values<'a>,
    compositions: Option<Values<'a>>,
    composition_lift: i32,
    /// Number of the next sync sample, and the distances from each to the next one. `None` if every
    /// sample is a sync sample.
    sync: Option<(Option<u64>, Values<'a>)>,
}

impl Iterator for ComposedSyncs<'_> {
    type Item = (u32, i64);

    fn next(&mut self) -> Option<(u32, i64)> {
        let number = match &mut self.sync {
            None => self.number,
            Some((next, gaps)) => {
                let number = (*next)?;
                *next = gaps.next().map(|gap| number + u64::from(gap));
                u32::try_from(number).ok()?
            }
        };
        if number >= self.end {
            return None;
        }
        // The numbers of a damaged column may not ascend.
        let skipped = number.checked_sub(self.number)?;
        let mut packed = 0;
        if let Some(compositions) = &mut self.compositions {
            compositions.skip_next(skipped);
            packed = compositions.next().unwrap_or(0);
        }
        let time = self.decode_time + self.durations.sum_next(skipped).cast_signed();
        self.decode_time = time + i64::from(self.durations.next().unwrap_or(0));
        self.number = number + 1;
        let composed = time + i64::from(composition(packed, self.composition_lift));
        Some((number - self.window_start, composed))
    }
}
