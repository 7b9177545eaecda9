//! Video frames that an edit list hides, but from which shown frames are decoded: an edit that
//! starts inside a GOP hides those from the sync sample up to its start.
//!
//! Media Source Extensions drop each frame that is presented before 0, and with it all frames up to
//! the next sync sample. Hidden frames are therefore presented from 0 on, as briefly as protocols
//! can state. Frames that are shown keep their times, except those that would be presented or
//! decoded meanwhile: they follow. The first frame is decoded as long before its presentation as in
//! the source, because players expect that of the first frames of all segments.

use crate::table::{
    column::ColumnBuilder,
    presentation::Presentation,
    rice::zigzag,
    samples::{SampleTable, composition},
};
use latemux_isobmff::Timescale;

/// All hidden frames together take at most this part of a second, if the clock of TS permits it.
const PARTS: u32 = 100;

/// Returns the table and its mapping with hidden frames presented from 0 on. The timescale becomes
/// a multiple of `timescale` if that is too coarse. `None` if no frame is hidden, or if times
/// overflow. Composition offsets must not be negative. O(samples) if a frame is hidden.
pub(crate) fn presented_from_zero(
    table: &SampleTable,
    presentation: Presentation,
    timescale: Timescale,
) -> Option<(SampleTable, Presentation, Timescale)> {
    // No sample is presented before it is decoded.
    let early = table.timing(0).take_while(|&(decode, ..)| decode < presentation.media_time);
    let is_hidden = early.map(|(decode, _, offset)| presentation.time(decode, offset) < 0);
    let mut hidden = 0_u32;
    let mut end = 0_u32;
    for (passed, _) in (1..).zip(is_hidden).filter(|(_, is_hidden)| *is_hidden) {
        (hidden, end) = (hidden + 1, passed);
    }
    if hidden == 0 {
        return None;
    }
    let scale = timescale.get();
    let enough = hidden.saturating_mul(PARTS).div_ceil(scale);
    let factor = enough.min(Timescale::MPEG.get().div_ceil(scale)).max(1);
    let timescale = Timescale::new(scale.checked_mul(factor)?)?;
    let scaled = |ticks: i64| ticks.checked_mul(factor.into());
    let presentation =
        Presentation { media_time: scaled(presentation.media_time)?, shift: scaled(presentation.shift)? };
    // At least one tick of every clock that is finer than milliseconds.
    let step = timescale.get().div_ceil(Timescale::MPEG.get()).into();
    let times = NewTimes::new(table, presentation.media_time, (hidden, end), factor, step)?;
    Some((times.apply(table)?, presentation, timescale))
}

/// New times of a table, in ticks of the new timescale.
struct NewTimes {
    /// New ticks in one of the old.
    factor: u32,
    /// Decode time of the first sample.
    start: i64,
    /// Duration and composition offset of the first samples; only their times change otherwise than
    /// by the factor.
    first: Vec<(u32, i32)>,
}

impl NewTimes {
    /// `origin` is the media time of presentation time 0. `hidden` frames are hidden, the last of
    /// them just before index `end`. `step` is the least time between two frames.
    fn new(
        table: &SampleTable,
        origin: i64,
        (hidden, end): (u32, u32),
        factor: u32,
        step: i64,
    ) -> Option<Self> {
        let scaled = |ticks: i64| ticks.checked_mul(factor.into());
        // Frames decoded later are also presented after the hidden ones.
        let until = origin.checked_add(step.checked_mul(i64::from(hidden).checked_mul(2)?)?)?;
        let start = origin.checked_sub(scaled(table.timing(0).next()?.2.into())?)?;
        let (lowest, highest) = table.composition_bounds();
        let caught = if lowest == highest { end } else { end.saturating_add(1) };
        let mut frames = Vec::new();
        let mut least = start;
        let mut most = start;
        for (index, (decode, duration, offset)) in (0_u32..).zip(table.timing(0)) {
            let source = scaled(decode)?;
            let duration = scaled(duration.into())?;
            // Players take a frame that is decoded more than two durations after the one before for
            // the start of new media. A player of TS infers durations from the times of
            // presentation. So the frame after reordered hidden ones follows at once, and the next
            // ones catch up.
            let decode = if index < caught { least } else { source.clamp(least, most) };
            if index >= caught && decode > until && decode == source {
                break;
            }
            frames.push((decode, source.checked_add(scaled(offset.into())?)?));
            least = decode.checked_add(step)?;
            most = decode.checked_add(duration.checked_mul(3)? / 2)?.max(least);
        }
        let mut order: Vec<usize> = (0..frames.len()).collect();
        order.sort_by_key(|&index| frames.get(index).map(|(_, presented)| *presented));
        let mut free = origin;
        for index in order {
            let (_, presented) = frames.get_mut(index)?;
            *presented = (*presented).max(free);
            free = presented.checked_add(step)?;
        }
        // No frame may be presented before it is decoded.
        let late = frames.iter().map(|(decode, presented)| decode.saturating_sub(*presented)).max()?.max(0);
        let count = u32::try_from(frames.len()).ok()?;
        let after = scaled(table.decode_time(count))?;
        let ends = frames.iter().skip(1).map(|(decode, _)| decode.checked_sub(late)).chain([Some(after)]);
        let first = frames.iter().zip(ends).map(|(&(decode, presented), end)| {
            let decode = decode.checked_sub(late)?;
            let duration = u32::try_from(end?.checked_sub(decode)?).ok()?;
            Some((duration, i32::try_from(presented.checked_sub(decode)?).ok()?))
        });
        let start = frames.first()?.0.checked_sub(late)?;
        Some(Self { factor, start, first: first.collect::<Option<_>>()? })
    }

    fn apply(&self, table: &SampleTable) -> Option<SampleTable> {
        let factor = i32::try_from(self.factor).ok()?;
        let lift = table.composition_lift.checked_mul(factor)?;
        let (least, largest) = table.composition_bounds();
        let mut least = least.checked_mul(factor)?;
        let mut largest = largest.checked_mul(factor)?;
        let mut durations = ColumnBuilder::default();
        let mut compositions = ColumnBuilder::default();
        let mut old = table.compositions.as_ref().map(|column| column.iter_from(0));
        for (number, duration) in (0_u32..).zip(table.durations.iter_from(0)) {
            let offset = old.as_mut().and_then(Iterator::next).map_or(0, |packed| composition(packed, 0));
            let new = number.checked_sub(table.window.start).and_then(|index| self.first.get(index as usize));
            let (duration, offset) = match new {
                Some(&(duration, offset)) => {
                    (least, largest) = (least.min(offset), largest.max(offset));
                    (duration, offset.checked_sub(lift)?)
                }
                None => (duration.checked_mul(self.factor)?, offset.checked_mul(factor)?),
            };
            durations.push(duration);
            compositions.push(u32::try_from(zigzag(offset.into())).ok()?);
        }
        let mut retimed = table.clone();
        retimed.durations = durations.finish();
        retimed.compositions = ((least, largest) != (0, 0)).then(|| compositions.finish());
        retimed.composition_bounds = (least, largest);
        retimed.composition_lift = lift;
        retimed.first_decode_time = 0;
        retimed.first_decode_time = self.start.checked_sub(retimed.decode_time(0))?;
        Some(retimed)
    }
}

#[cfg(test)]
#[path = "hidden_frames_tests.rs"]
mod tests;
