//! The number of packets that a stretch of samples takes, computed column by column. The result
//! equals that of [`super::layout::packets`], but for usual media it takes a fraction of the time.
//! Manifests state bit rates that are sums over every sample of a title.

use super::{
    annexb::DELIMITER_LEN,
    layout::{self, MAX_AUDIO, MAX_FRAMES, MOST_PADDING, PCR_INTERVAL, Tally, packets_for},
    pes,
    stream::{Coding, Stream},
};
use latemux_index::{Sample, table::batches::SampleBatch};
use latemux_isobmff::Timescale;

/// Times beyond this number of ticks, some centuries, take the slow path.
const MAX_FAST_TIME: u64 = 1 << 44;

/// Returns the packets that a stretch of samples takes, each `more` bytes larger than stated.
pub(super) fn packets(stream: &Stream, stretch: &SampleBatch<'_>, more: u32) -> u64 {
    let tally = match &stream.coding {
        Coding::Avc { parameter_sets, .. } => video_tally(stream, parameter_sets.len() as u64, stretch, more),
        _ => audio_tally(stream, stretch, more),
    };
    match tally {
        Some(tally) => tally.packets(),
        None => layout::packets(stream, samples(stretch, more)),
    }
}

/// Iterates over the samples of a stretch. Their offsets do not matter and are 0.
fn samples<'s>(stretch: &'s SampleBatch<'_>, more: u32) -> impl Iterator<Item = Sample> + 's {
    let columns = stretch.sizes.iter().zip(stretch.durations).zip(stretch.composition_offsets);
    columns.zip(stretch.sync).scan(
        stretch.decode_time,
        move |decode_time, (((&size, &duration), &composition_offset), &sync)| {
            let size = size.saturating_add(more);
            let decode_time = std::mem::replace(decode_time, *decode_time + i64::from(duration));
            Some(Sample { offset: 0, size, decode_time, duration, composition_offset, sync })
        },
    )
}

impl Tally {
    fn add(&mut self, dts: bool, bytes: u64) {
        let header = pes::header_len(dts) as u64;
        let payload = header + bytes;
        let packets = packets_for(payload);
        self.counted += packets;
        if self.spare < MOST_PADDING {
            let room = header + DELIMITER_LEN as u64;
            self.spare += payload.saturating_sub(room).saturating_sub(packets - 1);
        }
    }
}

/// True if units with this duration are so close that no PCR-only packet is needed between them.
fn needs_no_fills(stream: &Stream, duration: u32) -> bool {
    let ticks = u64::from(duration) * u64::from(Timescale::MPEG.get());
    i64::try_from(ticks.div_ceil(stream.timescale.get().into())).is_ok_and(|ticks| ticks <= PCR_INTERVAL)
}

/// Counts the packets of video, where each sample is a unit. `None` if only the slow path is exact.
fn video_tally(stream: &Stream, parameter_sets: u64, stretch: &SampleBatch<'_>, more: u32) -> Option<Tally> {
    let longest = stretch.durations.iter().copied().max().unwrap_or(0);
    let earliest = stretch.composition_offsets.iter().copied().min().unwrap_or(0);
    let is_usual = needs_no_fills(stream, longest)
        && i64::from(earliest) >= -stream.decode_lead
        && stretch.decode_time.unsigned_abs() < MAX_FAST_TIME;
    if !is_usual {
        return None;
    }
    let mut tally = Tally::default();
    let samples = stretch.sizes.iter().zip(stretch.composition_offsets).zip(stretch.sync);
    for ((&size, &offset), &sync) in samples {
        let parameters = if sync { parameter_sets } else { 0 };
        let bytes = u64::from(size.saturating_add(more)) + DELIMITER_LEN as u64 + parameters;
        tally.add(i64::from(offset) > -stream.decode_lead, bytes);
    }
    Some(tally)
}

/// Counts the packets of audio, where equal frames share units. `None` if this is not exact.
fn audio_tally(stream: &Stream, stretch: &SampleBatch<'_>, more: u32) -> Option<Tally> {
    let &duration = stretch.durations.first()?;
    let largest = stretch.sizes.iter().copied().max().unwrap_or(0).saturating_add(more);
    let frame = |number: u32| Sample {
        offset: 0,
        size: largest,
        decode_time: i64::from(number) * i64::from(duration),
        duration,
        composition_offset: 0,
        sync: true,
    };
    let first = frame(0);
    let together =
        (1..MAX_FRAMES).take_while(|&n| layout::can_share_pes(stream, first, n, frame(n))).count() + 1;
    // Without a branch for each sample, these loops are vectorised.
    let is_usual = stretch.durations.iter().fold(0, |bits, other| bits | (other ^ duration)) == 0
        && stretch.composition_offsets.iter().fold(0, |bits, offset| bits | offset) == 0
        && stream.decode_lead == 0
        && (together > 1 || needs_no_fills(stream, duration))
        && stretch.decode_time.unsigned_abs() < MAX_FAST_TIME
        && !layout::is_left_out(stream, first)
        && layout::audio_bytes(stream, first) * together as u64 <= MAX_AUDIO;
    if !is_usual {
        return None;
    }
    let framing = layout::audio_bytes(stream, Sample { size: more, ..first });
    let mut tally = Tally::default();
    for group in stretch.sizes.chunks(together) {
        let media: u64 = group.iter().map(|&size| u64::from(size)).sum();
        tally.add(false, media + framing * group.len() as u64);
    }
    Some(tally)
}

#[cfg(test)]
#[path = "stretch_tests.rs"]
mod tests;
