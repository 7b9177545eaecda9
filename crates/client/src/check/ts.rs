//! Checks of transport streams: sync bytes, continuity counters, program tables with their CRCs, and
//! the time stamps of PES packets.

use super::{Span, collect};
use crate::{
    failure::{Failure, Reason},
    ts::{NULL_PID, PACKET, Packet, ProgramTables, SCALE, TimeStamps, time_stamps, unwrap_time},
};
use std::collections::BTreeMap;

/// The maximum number of PIDs in a segment.
const MAX_PIDS: usize = 64;

/// The check of one transport stream.
#[derive(Debug, Default)]
pub(super) struct TsCheck {
    /// The start of a packet whose end has not arrived.
    partial: Vec<u8>,
    packets: u64,
    pids: BTreeMap<u16, Pid>,
    tables: ProgramTables,
}

#[derive(Debug, Default)]
struct Pid {
    /// The counter of the last packet with payload.
    counter: Option<u8>,
    /// True if that packet was a repetition of the one before it.
    is_repeated: bool,
    times: Option<Times>,
}

/// Times of the PES packets of one PID, in ticks.
#[derive(Debug, Clone, Copy)]
struct Times {
    first_decode: i64,
    last_decode: i64,
    /// The longest and the last interval between decode times.
    longest_step: i64,
    last_step: i64,
    earliest_presentation: i64,
}

impl TsCheck {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        if !self.partial.is_empty() && collect(&mut self.partial, PACKET, &mut rest) {
            let packet = std::mem::take(&mut self.partial);
            self.packet(&packet)?;
        }
        let mut packets = rest.chunks_exact(PACKET);
        for packet in &mut packets {
            self.packet(packet)?;
        }
        if !packets.remainder().is_empty() {
            self.partial = packets.remainder().to_vec();
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Vec<Span>, Failure> {
        if !self.partial.is_empty() {
            return Err(self.bad("ends in the middle of a packet"));
        }
        if !self.tables.is_complete() {
            return Err(self.bad("no program tables"));
        }
        let spans: Vec<Span> =
            self.pids.iter().filter_map(|(&pid, state)| Some(state.times?.span(pid))).collect();
        if spans.is_empty() {
            return Err(self.bad("no PES packets with time stamps"));
        }
        Ok(spans)
    }

    fn bad(&self, why: &str) -> Failure {
        Failure::new(Reason::BadTs, format!("packet {}: {why}", self.packets))
    }

    fn packet(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let packet = Packet::parse(bytes).map_err(|why| self.bad(why))?;
        self.packets += 1;
        let pid = packet.pid;
        if pid == NULL_PID {
            return Ok(());
        }
        if self.pids.len() >= MAX_PIDS && !self.pids.contains_key(&pid) {
            return Err(self.bad("more than 64 PIDs"));
        }
        let Some(payload) = packet.payload else { return Ok(()) };
        let state = self.pids.entry(pid).or_default();
        let expected = state.counter.map(|counter| (counter + 1) & 0x0f);
        // A packet may be sent twice, but not three times (§2.4.3.3).
        let is_repeated = state.counter == Some(packet.counter) && !state.is_repeated;
        state.is_repeated = is_repeated;
        state.counter = Some(packet.counter);
        if is_repeated {
            return Ok(());
        }
        let jumps = |expected: &u8| *expected != packet.counter && !packet.is_discontinuous;
        if let Some(expected) = expected.filter(jumps) {
            let why = format!(
                "packet {} of PID {pid}: counter {} instead of {expected}",
                self.packets, packet.counter
            );
            return Err(Failure::new(Reason::TsContinuity, why));
        }
        if self.tables.has(pid) {
            self.tables.push(&packet).map_err(|why| self.bad(why))?;
        } else if let Some(stamps) = packet.is_start.then(|| time_stamps(payload)).flatten() {
            state.times = Some(match state.times {
                Some(times) => times.followed_by(stamps),
                None => Times::starting_at(stamps),
            });
        }
        Ok(())
    }
}

impl Times {
    const fn starting_at(stamps: TimeStamps) -> Self {
        Self {
            first_decode: stamps.decode,
            last_decode: stamps.decode,
            longest_step: 0,
            last_step: 0,
            earliest_presentation: stamps.presentation,
        }
    }

    fn followed_by(self, stamps: TimeStamps) -> Self {
        let decode = unwrap_time(stamps.decode, self.last_decode);
        let presentation = unwrap_time(stamps.presentation, self.last_decode);
        let step = decode.saturating_sub(self.last_decode);
        Self {
            last_decode: decode,
            longest_step: self.longest_step.max(step),
            last_step: step,
            earliest_presentation: self.earliest_presentation.min(presentation),
            ..self
        }
    }

    fn span(self, pid: u16) -> Span {
        #[expect(clippy::cast_precision_loss, reason = "33 bits")]
        let seconds = |ticks: i64| ticks as f64 / f64::from(SCALE);
        Span {
            track: pid.into(),
            begins: seconds(self.earliest_presentation),
            decode: seconds(self.first_decode),
            end: seconds(self.last_decode.saturating_add(self.last_step)),
            // The duration of the last access unit is not known.
            slack: seconds(self.longest_step) * 1.5 + 0.001,
        }
    }
}
