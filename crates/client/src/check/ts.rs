//! Transport streams (ISO/IEC 13818-1 §2.4.3): sync bytes, continuity counters, program tables with their CRCs, time stamps of PES packets.

use super::Span;
use crate::failure::{Failure, Reason};
use std::collections::BTreeMap;

/// Bytes of a packet.
const PACKET: usize = 188;

/// Ticks per second of time stamps.
const SCALE: f64 = 90_000.0;

/// The most PIDs that are followed.
const MAX_PIDS: usize = 64;

/// A transport stream being checked.
#[derive(Debug, Default)]
pub(super) struct Ts {
    /// The start of a packet whose end has not come.
    partial: Vec<u8>,
    packets: u64,
    pids: BTreeMap<u16, Pid>,
    program: Option<u16>,
    has_map: bool,
}

#[derive(Debug, Default)]
struct Pid {
    counter: Option<u8>,
    repeated: bool,
    stamps: Option<Stamps>,
}

/// Decode and presentation times, in ticks.
#[derive(Debug, Clone, Copy)]
struct Stamps {
    first: i64,
    last: i64,
    /// The longest time from one to the next.
    longest: i64,
    step: i64,
    earliest: i64,
}

impl Ts {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        if !self.partial.is_empty() {
            let take = PACKET.saturating_sub(self.partial.len()).min(rest.len());
            let (now, later) = rest.split_at(take);
            self.partial.extend_from_slice(now);
            rest = later;
            if self.partial.len() == PACKET {
                let packet = std::mem::take(&mut self.partial);
                self.packet(&packet)?;
            }
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
        if self.program.is_none() || !self.has_map {
            return Err(self.bad("no program tables"));
        }
        let spans: Vec<Span> =
            self.pids.iter().filter_map(|(&pid, state)| Some(span(pid, state.stamps?))).collect();
        if spans.is_empty() {
            return Err(self.bad("no PES packets with time stamps"));
        }
        Ok(spans)
    }

    fn bad(&self, why: &str) -> Failure {
        Failure::new(Reason::BadTs, format!("packet {}: {why}", self.packets))
    }

    /// §2.4.3.2. The packet has 188 bytes.
    fn packet(&mut self, packet: &[u8]) -> Result<(), Failure> {
        let &[sync, high, low, control, ..] = packet else { return Ok(()) };
        if sync != 0x47 {
            return Err(self.bad(&format!("begins with {sync:#04x}, not with a sync byte")));
        }
        if high & 0x80 != 0 {
            return Err(self.bad("marked as damaged"));
        }
        self.packets = self.packets.saturating_add(1);
        let (starts, pid) = (high & 0x40 != 0, u16::from(high & 0x1f) << 8 | u16::from(low));
        let has_payload = control & 0x10 != 0;
        let adaptation =
            if control & 0x20 != 0 { 1 + usize::from(packet.get(4).copied().unwrap_or(0)) } else { 0 };
        let discontinuity = adaptation > 1 && packet.get(5).is_some_and(|flags| flags & 0x80 != 0);
        if pid == 0x1fff {
            return Ok(());
        }
        if self.pids.len() >= MAX_PIDS && !self.pids.contains_key(&pid) {
            return Err(self.bad("more PIDs than are followed"));
        }
        if !has_payload {
            return Ok(());
        }
        let payload = packet.get(4_usize.saturating_add(adaptation)..).unwrap_or_default();
        let counter = control & 0x0f;
        let state = self.pids.entry(pid).or_default();
        let expected = state.counter.map(|counter| counter.wrapping_add(1) & 0x0f);
        // A packet may come twice (§2.4.3.3).
        let twice = state.counter == Some(counter) && !state.repeated;
        state.repeated = twice;
        state.counter = Some(counter);
        if twice {
            return Ok(());
        }
        if let Some(expected) = expected.filter(|&expected| expected != counter && !discontinuity) {
            let why =
                format!("packet {} of PID {pid}: counter {counter} where {expected} should be", self.packets);
            return Err(Failure::new(Reason::TsContinuity, why));
        }
        if !starts {
            return Ok(());
        }
        if pid == 0 || Some(pid) == self.program {
            return self.table(pid, payload);
        }
        if let Some((dts, pts)) = stamps_of(payload) {
            state.stamps = Some(follow(state.stamps, dts, pts));
        }
        Ok(())
    }

    /// A program association or map table that fits a packet (§2.4.4).
    fn table(&mut self, pid: u16, payload: &[u8]) -> Result<(), Failure> {
        let section = payload.split_first().and_then(|(&pointer, rest)| rest.get(usize::from(pointer)..));
        let section = section.unwrap_or_default();
        let Some(&[table, high, low]) = section.first_chunk::<3>() else {
            return Err(self.bad("an empty table"));
        };
        let length = 3 + (usize::from(high & 0x0f) << 8 | usize::from(low));
        let Some(section) = section.get(..length) else {
            // One over several packets is not put together.
            self.has_map |= Some(pid) == self.program;
            return Ok(());
        };
        if crc(section) != 0 {
            return Err(self.bad("a table whose CRC is wrong"));
        }
        match table {
            0 => {
                // The first program that is not the network's.
                let body = section.get(8..length.saturating_sub(4)).unwrap_or_default();
                let program = body.chunks_exact(4).find_map(|entry| match *entry {
                    [0, 0, ..] => None,
                    [_, _, high, low] => Some(u16::from(high & 0x1f) << 8 | u16::from(low)),
                    _ => None,
                });
                self.program = program.or(self.program);
            }
            2 => self.has_map = true,
            _ => {}
        }
        Ok(())
    }
}

fn span(pid: u16, stamps: Stamps) -> Span {
    #[expect(clippy::cast_precision_loss, reason = "33 bits")]
    let seconds = |ticks: i64| ticks as f64 / SCALE;
    Span {
        track: pid.into(),
        begins: seconds(stamps.earliest),
        decode: seconds(stamps.first),
        end: seconds(stamps.last.saturating_add(stamps.step)),
        // How long the last one lasts, nobody says.
        slack: seconds(stamps.longest) * 1.5 + 0.001,
    }
}

/// Time stamps of the PES packet that begins here (§2.4.3.6).
#[must_use]
pub fn stamps_of(payload: &[u8]) -> Option<(i64, i64)> {
    let &[0, 0, 1, _, _, _, _, flags, _] = payload.first_chunk::<9>()? else { return None };
    let pts = (flags & 0x80 != 0).then(|| stamp(payload.get(9..)?)).flatten()?;
    let dts = (flags & 0x40 != 0).then(|| stamp(payload.get(14..)?)).flatten();
    Some((dts.unwrap_or(pts), pts))
}

/// 33 bits between marker bits.
fn stamp(bytes: &[u8]) -> Option<i64> {
    let &[a, b, c, d, e] = bytes.first_chunk::<5>()?;
    let [a, b, c, d, e] = [a, b, c, d, e].map(i64::from);
    Some((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1)
}

fn follow(before: Option<Stamps>, dts: i64, pts: i64) -> Stamps {
    let Some(before) = before else {
        return Stamps { first: dts, last: dts, longest: 0, step: 0, earliest: pts };
    };
    let (dts, pts) = (near(dts, before.last), near(pts, before.last));
    let step = dts.saturating_sub(before.last);
    Stamps {
        first: before.first,
        last: dts,
        longest: before.longest.max(step),
        step,
        earliest: before.earliest.min(pts),
    }
}

/// A time stamp as the one that is nearest to another of the same 33 bits: across their end.
#[must_use]
pub const fn near(value: i64, to: i64) -> i64 {
    let wrapped = value.wrapping_sub(to).rem_euclid(1 << 33);
    to.saturating_add(if wrapped >= 1 << 32 { wrapped - (1 << 33) } else { wrapped })
}

/// CRC-32/MPEG-2 (Annex A); 0 over a section with its CRC.
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 0 { 0 } else { 0x04c1_1db7 }
        })
    })
}
