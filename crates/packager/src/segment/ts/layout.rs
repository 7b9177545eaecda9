//! The layout of a track: the number of packets of its samples and the time each is due, all from
//! the index. Each track is laid out by itself, so it takes the same bytes alone and muxed.

use super::{
    annexb::DELIMITER_LEN,
    packet::{PAYLOAD, PCR_FIELD},
    pes,
    stream::{Coding, Stream},
};
use latemux_index::Sample;
use latemux_isobmff::{Time, Timescale, time::Round};
use std::iter::Peekable;

/// Longest time between two PCRs (ISO/IEC 13818-1 §2.7.2), in 90 kHz. It also limits the audio in
/// one PES packet, because each PES packet brings one PCR.
pub(super) const PCR_INTERVAL: i64 = 9_000;
/// Delay of audio against its decode time, in 90 kHz, so that a segment starts with video.
pub(super) const AUDIO_LAG: i64 = 9_000;
/// Most PCR-only packets of a track in a segment: enough for one picture of ten minutes.
pub(super) const MAX_FILLS: u32 = 6_000;
/// Most audio frames in one PES packet. Frames without duration would make it endless.
pub(super) const MAX_FRAMES: u32 = 64;
/// Most audio bytes in one PES packet, whose length has 16 bits. Longer frames are left out.
pub(super) const MAX_AUDIO: u64 = 65_000;

/// Payload of a unit's first packet, which always leaves room for a PCR.
const FIRST: u64 = (PAYLOAD - PCR_FIELD) as u64;
/// Number that rounds a payload up to whole packets.
const ROUND_UP: u64 = 2 * PAYLOAD as u64 - 1 - FIRST;

/// One PES packet, or one packet that holds only a PCR.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PesUnit {
    pub(super) first: u32,
    /// Number of samples; 0 for a packet that holds only a PCR.
    pub(super) count: u32,
    /// Time of sending on the clock of the PCR, in 90 kHz of presentation time.
    pub(super) send_time: i64,
    /// 90 kHz of presentation time.
    pub(super) pts: i64,
    /// 90 kHz of presentation time; `None` if it equals the PTS.
    pub(super) dts: Option<i64>,
    /// True if it starts with a sync sample.
    pub(super) sync: bool,
    /// Bytes of the PES packet.
    pub(super) payload: u64,
    pub(super) packets: u64,
}

impl PesUnit {
    /// Returns the number of additional packets that the unit could be spread over.
    fn spare(&self) -> u64 {
        // The first packet should hold the header, with room for its stuffing.
        let header_room = (pes::header_len(self.dts.is_some()) + DELIMITER_LEN) as u64;
        self.payload.saturating_sub(header_room).saturating_sub(self.packets - 1)
    }
}

pub(super) fn packets_for(payload: u64) -> u64 {
    // One, and one for each further `PAYLOAD` bytes or part of them behind the first `FIRST`.
    (payload + ROUND_UP) / PAYLOAD as u64
}

/// Most additional packets of a track in a segment.
pub(super) const MOST_PADDING: u64 = 15;

/// Returns the number of additional packets that make `packets` a multiple of 16. The continuity
/// counter of every segment then runs from 0 to 15, so the next segment continues it without
/// knowing this one. If the samples have too few bytes to be spread so far (`spare`), the counter
/// jumps.
fn padding(packets: u64, spare: u64) -> u64 {
    let missing = packets.wrapping_neg() % (MOST_PADDING + 1);
    if missing <= spare { missing } else { 0 }
}

pub(super) fn units(stream: &Stream, samples: &[Sample]) -> Vec<PesUnit> {
    // Video has a unit for each sample, audio one for several frames.
    let usual = if stream.is_video() { samples.len() } else { samples.len().div_ceil(4) };
    let mut units = Vec::with_capacity(usual);
    units.extend(PesUnits::new(stream, samples.iter().copied()));
    let tally = units.iter().fold(Tally::default(), Tally::with);
    let mut extra = padding(tally.counted, tally.spare);
    for unit in units.iter_mut().rev().filter(|unit| unit.count > 0) {
        let more = extra.min(unit.spare());
        unit.packets += more;
        extra -= more;
    }
    units
}

/// Returns the total number of packets of [`units`].
pub(super) fn packets(stream: &Stream, samples: impl Iterator<Item = Sample>) -> u64 {
    let mut units = PesUnits::new(stream, samples);
    let mut tally = Tally::default();
    loop {
        tally.fills += units.take_fills();
        match units.next() {
            Some(unit) => tally = tally.with(&unit),
            None => return tally.packets(),
        }
    }
}

/// The packets of a track.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Packets with payload, which the continuity counter counts.
    pub(super) counted: u64,
    fills: u64,
    /// Number of additional packets that the payload could be spread over, or any number from
    /// [`MOST_PADDING`] on.
    pub(super) spare: u64,
}

impl Tally {
    pub(super) fn packets(self) -> u64 {
        self.counted + self.fills + padding(self.counted, self.spare)
    }

    fn with(mut self, unit: &PesUnit) -> Self {
        if unit.count == 0 {
            self.fills += 1;
        } else {
            self.counted += unit.packets;
            self.spare += unit.spare();
        }
        self
    }
}

/// Groups samples into units.
struct PesUnits<'s, I: Iterator<Item = Sample>> {
    stream: &'s Stream,
    samples: Peekable<I>,
    index: u32,
    /// Time of the next PCR-only packet, and of the next unit.
    fill: (i64, i64),
    fills_left: u32,
}

impl<'s, I: Iterator<Item = Sample>> PesUnits<'s, I> {
    fn new(stream: &'s Stream, samples: I) -> Self {
        Self { stream, samples: samples.peekable(), index: 0, fill: (0, 0), fills_left: MAX_FILLS }
    }

    /// Skips the PCR-only packets before the next unit and returns their number. A sample of
    /// minutes has thousands.
    fn take_fills(&mut self) -> u64 {
        let (from, until) = self.fill;
        let due = if from < until { until.abs_diff(from).div_ceil(PCR_INTERVAL.unsigned_abs()) } else { 0 };
        let count = due.min(self.fills_left.into());
        self.fill.0 = until;
        self.fills_left -= u32::try_from(count).unwrap_or(self.fills_left);
        count
    }

    fn take(&mut self) -> Option<Sample> {
        let sample = self.samples.next()?;
        self.index += 1;
        Some(sample)
    }

    /// Returns the unit that starts with `first`, and the decode time at its end.
    fn unit(&mut self, first: Sample) -> (PesUnit, i64) {
        let index = self.index - 1;
        let mut end = first.decode_time + i64::from(first.duration);
        let mut count = 1;
        let bytes = match &self.stream.coding {
            Coding::Avc { parameter_sets, .. } => {
                let parameters = if first.sync { parameter_sets.len() } else { 0 };
                u64::from(first.size) + (DELIMITER_LEN + parameters) as u64
            }
            _ => {
                let mut bytes = audio_bytes(self.stream, first);
                while let Some(&next) = self.samples.peek() {
                    let size = audio_bytes(self.stream, next);
                    let fits = count < MAX_FRAMES && bytes + size <= MAX_AUDIO;
                    if !fits
                        || is_left_out(self.stream, next)
                        || !can_share_pes(self.stream, first, count, next)
                    {
                        break;
                    }
                    let _ = self.take();
                    bytes += size;
                    count += 1;
                    end = next.decode_time + i64::from(next.duration);
                }
                bytes
            }
        };
        let (pts, dts) = timestamps(self.stream, first);
        let payload = pes::header_len(dts.is_some()) as u64 + bytes;
        let unit = PesUnit {
            first: index,
            count,
            send_time: send_time(self.stream, dts.unwrap_or(pts)),
            pts,
            dts,
            sync: first.sync,
            payload,
            packets: packets_for(payload),
        };
        (unit, end)
    }
}

impl<I: Iterator<Item = Sample>> Iterator for PesUnits<'_, I> {
    type Item = PesUnit;

    fn next(&mut self) -> Option<PesUnit> {
        if self.fill.0 < self.fill.1 && self.fills_left > 0 {
            let send_time = self.fill.0;
            self.fill.0 = send_time + PCR_INTERVAL;
            self.fills_left -= 1;
            return Some(PesUnit { first: self.index, send_time, packets: 1, ..PesUnit::default() });
        }
        let first = loop {
            let sample = self.take()?;
            if !is_left_out(self.stream, sample) {
                break sample;
            }
        };
        let (unit, end) = self.unit(first);
        let until = match self.samples.peek() {
            Some(&next) => {
                let (pts, dts) = timestamps(self.stream, next);
                dts.unwrap_or(pts)
            }
            None => decode_clock(self.stream, end),
        };
        self.fill = (unit.send_time + PCR_INTERVAL, send_time(self.stream, until));
        Some(unit)
    }
}

/// Returns the bytes that an audio sample takes in its PES packet.
pub(super) fn audio_bytes(stream: &Stream, sample: Sample) -> u64 {
    let header = if let Coding::Aac(adts) = &stream.coding { adts.len() } else { 0 };
    u64::from(sample.size) + header as u64
}

/// Returns true for frames whose length the framing cannot state. No valid stream has such frames.
pub(super) fn is_left_out(stream: &Stream, sample: Sample) -> bool {
    match &stream.coding {
        Coding::Avc { .. } => false,
        Coding::Aac(adts) => adts.is_too_long(sample.size),
        _ => u64::from(sample.size) > MAX_AUDIO,
    }
}

/// True if `next` may be in one PES packet with the `count` frames from `first` on: they last no
/// longer than the PCR interval, and receivers, which count frames from the PTS, are within 1 ms.
pub(super) fn can_share_pes(stream: &Stream, first: Sample, count: u32, next: Sample) -> bool {
    let scale = i128::from(stream.timescale.get());
    let passed = i128::from(next.decode_time) - i128::from(first.decode_time);
    let length = passed + i128::from(next.duration);
    if length * i128::from(Timescale::MPEG.get()) > i128::from(PCR_INTERVAL) * scale {
        return false;
    }
    let (frame, rate) = if stream.frame_length > 0 && stream.sample_rate > 0 {
        (i128::from(stream.frame_length), i128::from(stream.sample_rate))
    } else {
        (i128::from(first.duration), scale)
    };
    let counted = i128::from(count) * frame * scale;
    (passed * rate - counted).abs() * 1000 <= rate * scale
}

/// Returns PTS and DTS in 90 kHz of presentation time, rounded down from the exact time, so nothing
/// drifts. `None` means that no DTS is written because it equals the PTS.
fn timestamps(stream: &Stream, sample: Sample) -> (i64, Option<i64>) {
    let pts = clock(stream, sample.decode_time + i64::from(sample.composition_offset));
    let has_dts = i64::from(sample.composition_offset) > -stream.decode_lead;
    (pts, has_dts.then(|| decode_clock(stream, sample.decode_time)))
}

/// Returns a sample's decode time, or the end of one, like [`clock`].
pub(super) fn decode_clock(stream: &Stream, media: i64) -> i64 {
    clock(stream, media - stream.decode_lead)
}

/// Converts a time on the track's output media timeline to 90 kHz of presentation time.
fn clock(stream: &Stream, media: i64) -> i64 {
    let time = media - stream.media_time;
    let scale = i64::from(stream.timescale.get());
    match time.checked_mul(i64::from(Timescale::MPEG.get())) {
        Some(product) => product.div_euclid(scale),
        None => Time::new(time, stream.timescale).in_scale(Timescale::MPEG, Round::Down),
    }
}

fn send_time(stream: &Stream, dts: i64) -> i64 {
    if stream.is_video() { dts } else { dts + AUDIO_LAG }
}
