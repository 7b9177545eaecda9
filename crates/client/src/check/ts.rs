//! Checks of transport streams: sync bytes, continuity counters, program tables with their CRCs,
//! and the time stamps of PES packets.

use super::body::{BodyCheck, DecodeTimes, Span, collect};
use crate::{
    failure::{Failure, Reason},
    ts::{NULL_PID, PACKET, Packet, ProgramTables, SCALE, time_stamps, unwrap_time},
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
    /// The decode times of the PES packets, and the earliest presentation time.
    times: Option<(DecodeTimes, i64)>,
}

impl BodyCheck for TsCheck {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
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

    fn finish(self: Box<Self>) -> Result<Vec<Span>, Failure> {
        if !self.partial.is_empty() {
            return Err(self.bad("ends in the middle of a packet"));
        }
        if !self.tables.is_complete() {
            return Err(self.bad("no program tables"));
        }
        let span = |(&pid, state): (&u16, &Pid)| {
            let (times, earliest) = state.times?;
            Some(times.span(pid.into(), earliest, SCALE, 0.001))
        };
        let spans: Vec<Span> = self.pids.iter().filter_map(span).collect();
        if spans.is_empty() {
            return Err(self.bad("no PES packets with time stamps"));
        }
        Ok(spans)
    }
}

impl TsCheck {
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
            if let Some((times, earliest)) = &mut state.times {
                *earliest = (*earliest).min(unwrap_time(stamps.presentation, times.last));
                times.add(unwrap_time(stamps.decode, times.last));
            } else {
                state.times = Some((DecodeTimes::starting_at(stamps.decode), stamps.presentation));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ts::crc;

    /// A packet with a counter, whose payload is filled up with 0xff.
    fn packet(pid: u16, is_start: bool, counter: u8, payload: &[u8]) -> Vec<u8> {
        let [high, low] = pid.to_be_bytes();
        let mut bytes = vec![0x47, high | if is_start { 0x40 } else { 0 }, low, 0x10 | counter];
        bytes.extend_from_slice(payload);
        bytes.resize(PACKET, 0xff);
        bytes
    }

    fn section(table: u8, body: &[u8]) -> Vec<u8> {
        let length = u8::try_from(body.len() + 9).unwrap();
        let section = [&[table, 0xb0, length, 0, 1, 0xc1, 0, 0], body].concat();
        [&[0], &section[..], &crc(&section).to_be_bytes()].concat()
    }

    fn tables() -> Vec<u8> {
        let map = section(2, &[0xe1, 1, 0xf0, 0, 0x1b, 0xe1, 1, 0xf0, 0]);
        [packet(0, true, 0, &section(0, &[0, 1, 0xe1, 0])), packet(0x100, true, 0, &map)].concat()
    }

    /// The start of a PES packet at a time in ticks below 2^15.
    fn pes(counter: u8, ticks: u16) -> Vec<u8> {
        let [high, low] = (ticks << 1).to_be_bytes();
        packet(0x101, true, counter, &[0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, high, low | 1])
    }

    fn check(packets: &[Vec<u8>]) -> Result<Vec<Span>, Reason> {
        let mut check = TsCheck::default();
        check
            .push(&packets.concat())
            .and_then(|()| Box::new(check).finish())
            .map_err(|failure| failure.reason)
    }

    #[test]
    fn spans_have_the_times_of_pes_packets() {
        let packets = [tables(), pes(0, 900), packet(0x101, false, 1, &[]), pes(2, 4500), pes(3, 6300)];
        let spans = check(&packets).unwrap();
        let expected = Span { track: 0x101, begins: 0.01, decode: 0.01, end: 0.09, slack: 0.061 };
        assert_eq!(spans.len(), 1);
        assert!((spans[0].end - expected.end).abs() < 1e-9 && (spans[0].slack - expected.slack).abs() < 1e-9);
        assert_eq!((spans[0].track, spans[0].decode), (expected.track, expected.decode));
    }

    #[test]
    fn counters_may_repeat_once_and_jump_only_at_discontinuities() {
        let of = |counters: &[u8]| {
            let packets = counters.iter().map(|counter| pes(*counter, 900));
            check(&[vec![tables()], packets.collect()].concat()).err()
        };
        assert_eq!(of(&[14, 15, 0, 1]), None);
        assert_eq!(of(&[3, 3, 4]), None, "sent twice");
        assert_eq!(of(&[3, 3, 3]), Some(Reason::TsContinuity), "sent three times");
        assert_eq!(of(&[3, 5]), Some(Reason::TsContinuity));
        let mut jump = pes(9, 900);
        jump.splice(3..8, [0x39, 1, 0x80, 0, 0]);
        assert_eq!(check(&[tables(), pes(3, 900), jump]).err(), None, "the discontinuity indicator");
        // Packets without payload do not count.
        let mut empty = packet(0x101, false, 9, &[183, 0]);
        empty[3] = 0x29;
        assert_eq!(check(&[tables(), pes(3, 900), empty, pes(4, 900)]).err(), None);
    }

    #[test]
    fn streams_need_tables_and_times_and_have_few_pids() {
        assert_eq!(check(&[pes(0, 900)]), Err(Reason::BadTs), "no tables");
        assert_eq!(check(&[tables()]), Err(Reason::BadTs), "no times");
        let mut broken = tables();
        broken[PACKET + 10] ^= 1;
        assert_eq!(check(&[broken, pes(0, 900)]), Err(Reason::BadTs), "a wrong CRC");
        let many = |count: u16| -> Vec<Vec<u8>> {
            let others = (0..count).map(|pid| packet(0x200 + pid, true, 0, &[]));
            [vec![tables(), pes(0, 900)], others.collect()].concat()
        };
        assert!(check(&many(61)).is_ok());
        assert_eq!(check(&many(62)), Err(Reason::BadTs), "65 PIDs");
        let padding: Vec<Vec<u8>> = (0..20).map(|_| packet(NULL_PID, false, 7, &[])).collect();
        assert!(check(&[vec![tables(), pes(0, 900)], padding].concat()).is_ok());
    }
}
