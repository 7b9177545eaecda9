//! The muxer: takes samples in the order of the plan and writes packets. It works in one pass and
//! buffers only the first bytes of a video sample.

use super::{
    annexb::{self, DELIMITER, DELIMITER_LEN, NalPiece, Rewriter, START_CODE},
    layout::PesUnit,
    packet::{PACKET, PAYLOAD, PCR_FIELD, PacketHeader},
    pes,
    stream::{Coding, Stream},
};
use crate::part::{Transform, Trimmed};
use bytes::{BufMut, BytesMut};
use std::ops::Range;

#[derive(Debug)]
pub(super) struct PidState {
    pub(super) stream: Stream,
    pub(super) pid: u16,
    /// `continuity_counter` of the next packet with payload.
    pub(super) counter: u8,
}

/// A unit in the order of sending.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScheduledUnit {
    pub(super) track: usize,
    pub(super) unit: PesUnit,
    /// PCR of the first packet, if it has one: 33 bits of 90 kHz.
    pub(super) pcr: Option<u64>,
}

/// The value at which 33-bit clocks wrap.
const WRAP: i64 = 1 << 33;
/// Ten seconds in 90 kHz, added to all times, so that those before 0 need not wrap.
pub(super) const TIME_OFFSET: i64 = 900_000;

/// Converts a presentation time (90 kHz) to its value in a stream.
pub(super) fn stream_time(time: i64) -> u64 {
    time.wrapping_add(TIME_OFFSET).rem_euclid(WRAP).unsigned_abs()
}

/// The state between two pieces of input.
#[derive(Debug)]
enum Step {
    /// The next byte starts a sample.
    Next,
    /// The first bytes of a video sample are gathered. They tell if it brings a delimiter.
    Start {
        bytes: [u8; DELIMITER_LEN],
        have: usize,
        need: usize,
        size: u32,
    },
    Video(Rewriter),
    /// The next byte is within an audio frame, of which this number of bytes remain.
    Audio(u32),
}

#[derive(Debug)]
struct OpenPes {
    due: ScheduledUnit,
    samples_left: u32,
    /// Packets not yet begun, and the payload for them.
    packets_left: u64,
    payload_left: u64,
    /// Bytes that the begun packet still takes.
    room: usize,
}

#[derive(Debug)]
pub(super) struct Muxer {
    psi: BytesMut,
    pids: Vec<PidState>,
    units: std::vec::IntoIter<ScheduledUnit>,
    /// Sizes of all samples in the order of the input.
    sizes: std::vec::IntoIter<u32>,
    input_left: u64,
    open: Option<OpenPes>,
    step: Step,
}

impl Muxer {
    /// Creates a muxer. `psi` is written first. `sizes` are those of the units' samples.
    pub(super) fn new(
        psi: BytesMut,
        pids: Vec<PidState>,
        units: Vec<ScheduledUnit>,
        sizes: Vec<u32>,
    ) -> Self {
        let input_left = sizes.iter().map(|&size| u64::from(size)).sum();
        Self {
            psi,
            pids,
            units: units.into_iter(),
            sizes: sizes.into_iter(),
            input_left,
            open: None,
            step: Step::Next,
        }
    }

    /// Returns the usual number of bytes that are written for this number of bytes of input.
    fn expected_len(&self, input: usize) -> usize {
        self.psi.len() + input + input / 16 + 2 * PACKET
    }

    /// Returns the memory that a whole segment takes, so that none is allocated while it is
    /// written: its length, or what [`Transform::write`] expects if that is more.
    pub(super) fn room(&self, content_length: u64, input: usize) -> usize {
        let whole = usize::try_from(content_length).unwrap_or(usize::MAX);
        whole.saturating_add(2 * PACKET).max(self.expected_len(input))
    }

    /// Begins the next sample. Returns false at the end of the segment.
    fn next_sample(&mut self, out: &mut BytesMut) -> bool {
        while self.open.as_ref().is_none_or(|open| open.samples_left == 0) {
            let Some(due) = self.units.next() else { return false };
            if due.unit.count == 0 {
                self.write_clock(due, out);
                continue;
            }
            self.open = Some(OpenPes {
                due,
                samples_left: due.unit.count,
                packets_left: due.unit.packets,
                payload_left: due.unit.payload,
                room: 0,
            });
            if !self.pids[due.track].stream.is_video() {
                self.put_pes_header(0, out);
            }
        }
        let (Some(open), Some(size)) = (self.open.as_mut(), self.sizes.next()) else { return false };
        open.samples_left -= 1;
        let track = open.due.track;
        self.step = match &self.pids[track].stream.coding {
            Coding::Avc { .. } => {
                let need = DELIMITER_LEN.min(size as usize);
                Step::Start { bytes: [0; DELIMITER_LEN], have: 0, need, size }
            }
            Coding::Aac(adts) => {
                let header = adts.header(size);
                let program_config = adts.program_config();
                self.put(&header, out);
                self.put(&program_config, out);
                Step::Audio(size)
            }
            Coding::Mp3 | Coding::Ac3 | Coding::Eac3 => Step::Audio(size),
        };
        true
    }

    /// Writes everything before a video sample's bytes, and the bytes of it that are in `start`.
    fn start_video(&mut self, start: &[u8], size: u32, out: &mut BytesMut) {
        let Some(due) = self.open.as_ref().map(|open| open.due) else { return };
        let has_delimiter = annexb::is_delimiter(start);
        // Room was left for a delimiter. If the sample has its own, the header is longer.
        self.put_pes_header(if has_delimiter { DELIMITER_LEN } else { 0 }, out);
        if has_delimiter {
            self.put(&START_CODE, out);
            self.put(start.get(START_CODE.len()..).unwrap_or_default(), out);
        } else {
            self.put(&DELIMITER, out);
        }
        if due.unit.sync {
            self.put_parameter_sets(due.track, out);
        }
        let taken = if has_delimiter { start.len() } else { 0 };
        self.step = Step::Video(Rewriter::new(size - u32::try_from(taken).unwrap_or(size)));
        self.put_video(&mut start.get(taken..).unwrap_or_default(), out);
    }

    fn put_parameter_sets(&mut self, track: usize, out: &mut BytesMut) {
        let Coding::Avc { parameter_sets, .. } = &mut self.pids[track].stream.coding else { return };
        // Taken out while they are written, since writing changes the state of their PID.
        let taken = std::mem::take(parameter_sets);
        self.put(&taken, out);
        if let Coding::Avc { parameter_sets, .. } = &mut self.pids[track].stream.coding {
            *parameter_sets = taken;
        }
    }

    /// Writes the part of the sample that `input` holds.
    fn put_video(&mut self, input: &mut &[u8], out: &mut BytesMut) {
        let Step::Video(mut rewriter) = self.step else { return };
        while let Some(piece) = rewriter.next(input) {
            match piece {
                NalPiece::Bytes(bytes) => self.put(bytes, out),
                NalPiece::StartCode => self.put(&START_CODE, out),
                NalPiece::Zeros(n) => self.put([0; 4].get(..n).unwrap_or_default(), out),
            }
        }
        self.step = if rewriter.is_done() { Step::Next } else { Step::Video(rewriter) };
    }

    fn put_pes_header(&mut self, stuffing: usize, out: &mut BytesMut) {
        let Some(due) = self.open.as_ref().map(|open| open.due) else { return };
        let mut header = [0; pes::MOST_HEADER];
        let mut unused = header.as_mut_slice();
        pes::Header {
            stream_id: self.pids[due.track].stream.stream_id(),
            pts: stream_time(due.unit.pts),
            dts: due.unit.dts.map(stream_time),
            size: due.unit.payload,
            stuffing: u8::try_from(stuffing).unwrap_or(0),
        }
        .write(&mut unused);
        let unused = unused.len();
        self.put(header.get(..header.len() - unused).unwrap_or_default(), out);
    }

    /// Writes payload of the open PES packet, over as many packets as it takes.
    fn put(&mut self, mut bytes: &[u8], out: &mut BytesMut) {
        let Some(open) = self.open.as_mut() else { return };
        while !bytes.is_empty() {
            if open.room == 0 {
                let Some(pid_state) = self.pids.get_mut(open.due.track) else { return };
                let whole = open.whole_packets().min(bytes.len() / PAYLOAD);
                if whole > 0 {
                    let (now, later) = bytes.split_at(whole * PAYLOAD);
                    put_packets(open, pid_state, now, out);
                    bytes = later;
                    continue;
                }
                if !begin_packet(open, pid_state, out) {
                    return;
                }
            }
            let (now, later) = bytes.split_at(open.room.min(bytes.len()));
            out.extend_from_slice(now);
            open.room -= now.len();
            bytes = later;
        }
    }

    /// Writes a packet without payload. It has the counter of the packet before it (§2.4.3.3).
    fn write_clock(&self, due: ScheduledUnit, out: &mut BytesMut) {
        let pid_state = &self.pids[due.track];
        let counter = pid_state.counter.wrapping_sub(1);
        PacketHeader { pid: pid_state.pid, counter, pcr: due.pcr, ..PacketHeader::default() }.write(out);
    }
}

impl OpenPes {
    /// Returns the number of packets to come next with only a header and full payload.
    fn whole_packets(&self) -> usize {
        if self.packets_left == self.due.unit.packets {
            return 0;
        }
        // Each such packet leaves at least one byte for each packet after it.
        let spare = (self.payload_left + 1).saturating_sub(self.packets_left);
        let whole = spare.checked_sub(PAYLOAD as u64).map_or(0, |more| more / (PAYLOAD as u64 - 1) + 1);
        usize::try_from(whole.min(self.packets_left)).unwrap_or(usize::MAX)
    }
}

/// Writes whole packets without adaptation field, the most common ones, with their payload.
fn put_packets(open: &mut OpenPes, pid_state: &mut PidState, payload: &[u8], out: &mut BytesMut) {
    let (payloads, _) = payload.as_chunks::<PAYLOAD>();
    let start = out.len();
    out.resize(start + payloads.len() * PACKET, 0);
    let (packets, _) = out.get_mut(start..).unwrap_or_default().as_chunks_mut::<PACKET>();
    for (packet, payload) in packets.iter_mut().zip(payloads) {
        let [sync, high, low, control, rest @ ..] = packet;
        [*high, *low] = pid_state.pid.to_be_bytes();
        (*sync, *control) = (0x47, 0x10 | (pid_state.counter & 0x0F));
        *rest = *payload;
        pid_state.counter = pid_state.counter.wrapping_add(1);
    }
    open.packets_left -= payloads.len() as u64;
    open.payload_left -= payload.len() as u64;
}

/// Writes the next packet's header. It takes as much payload as leaves a byte for each after it.
fn begin_packet(open: &mut OpenPes, pid_state: &mut PidState, out: &mut BytesMut) -> bool {
    let Some(after) = open.packets_left.checked_sub(1) else { return false };
    let first = open.packets_left == open.due.unit.packets;
    let most = if first { PAYLOAD - PCR_FIELD } else { PAYLOAD };
    let take = open.payload_left.saturating_sub(after);
    let payload = usize::try_from(take).unwrap_or(most).min(most);
    let header = PacketHeader {
        pid: pid_state.pid,
        unit_start: first,
        counter: pid_state.counter,
        random_access: first && open.due.unit.sync,
        pcr: open.due.pcr.filter(|_| first),
        payload,
    };
    header.write(out);
    pid_state.counter = pid_state.counter.wrapping_add(1);
    open.packets_left = after;
    open.payload_left -= payload as u64;
    open.room = payload;
    payload > 0
}

impl Transform for Muxer {
    fn write(&mut self, mut input: &[u8], out: &mut BytesMut) {
        out.reserve(self.expected_len(input.len()));
        out.put_slice(&self.psi);
        self.psi.clear();
        self.input_left = self.input_left.saturating_sub(input.len() as u64);
        loop {
            match &mut self.step {
                Step::Next => {
                    if !self.next_sample(out) {
                        return;
                    }
                }
                Step::Start { bytes, have, need, size } => {
                    let (now, later) = input.split_at(input.len().min(*need - *have));
                    if let Some(to) = bytes.get_mut(*have..*have + now.len()) {
                        to.copy_from_slice(now);
                    }
                    *have += now.len();
                    input = later;
                    if have < need {
                        return;
                    }
                    let start = *bytes;
                    let len = *have;
                    let size = *size;
                    self.start_video(start.get(..len).unwrap_or_default(), size, out);
                }
                Step::Video(_) => {
                    self.put_video(&mut input, out);
                    if matches!(self.step, Step::Video(_)) {
                        return;
                    }
                }
                Step::Audio(left) => {
                    let (now, later) = input.split_at(input.len().min(*left as usize));
                    *left -= u32::try_from(now.len()).unwrap_or(*left);
                    let done = *left == 0;
                    self.put(now, out);
                    input = later;
                    if !done {
                        return;
                    }
                    self.step = Step::Next;
                }
            }
        }
    }

    /// Leaves out units: each takes a known number of packets.
    fn trim(&mut self, window: Range<u64>) -> Trimmed {
        let mut at = self.psi.len() as u64;
        let mut before = window.start;
        if window.start >= at {
            before -= at;
            self.psi.clear();
        }
        let mut input = 0..0;
        let mut units = Vec::new();
        let mut sizes = Vec::new();
        for due in std::mem::take(&mut self.units) {
            let end = at + due.unit.packets * PACKET as u64;
            let samples = self.sizes.by_ref().take(due.unit.count as usize);
            if end <= window.start {
                input.start += samples.map(u64::from).sum::<u64>();
                before -= end - at;
                if due.unit.count > 0
                    && let Some(state) = self.pids.get_mut(due.track)
                {
                    // Only the lowest 4 bits are written.
                    state.counter = state.counter.wrapping_add(due.unit.packets.to_le_bytes()[0]);
                }
            } else if at < window.end {
                sizes.extend(samples);
                units.push(due);
            } else {
                break;
            }
            at = end;
        }
        self.input_left = sizes.iter().map(|&size| u64::from(size)).sum();
        input.end = input.start + self.input_left;
        self.units = units.into_iter();
        self.sizes = sizes.into_iter();
        Trimmed { input, before }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        self.write(&[], out);
        // If a source ended early, zeros replace the bytes: the length was promised.
        while self.input_left > 0 {
            let zeros = [0; 4096];
            let n = usize::try_from(self.input_left).unwrap_or(zeros.len()).min(zeros.len());
            self.write(zeros.get(..n).unwrap_or_default(), out);
        }
    }

    fn heap_bytes(&self) -> usize {
        self.psi.capacity()
            + self.pids.capacity() * size_of::<PidState>()
            + self.units.len() * size_of::<ScheduledUnit>()
            + self.sizes.len() * size_of::<u32>()
    }
}
