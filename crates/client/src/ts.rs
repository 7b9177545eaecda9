//! Transport streams (ISO/IEC 13818-1 §2.4): packets, program tables and the headers of PES
//! packets.

use std::collections::BTreeMap;

/// Bytes of a packet.
pub const PACKET: usize = 188;

/// Ticks per second of time stamps.
pub const SCALE: u32 = 90_000;

/// The PID of packets without content.
pub const NULL_PID: u16 = 0x1fff;

/// The maximum number of bytes of a section (§2.4.4.11).
const MAX_SECTION: usize = 4096;

/// A packet (§2.4.3.2).
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The packet identifier.
    pub pid: u16,
    /// True if a PES packet or a section starts in the payload.
    pub is_start: bool,
    /// The continuity counter, 0 to 15.
    pub counter: u8,
    /// True if the adaptation field states that the counter may jump here.
    pub is_discontinuous: bool,
    /// True if the adaptation field states that decoding can start here.
    pub is_random_access: bool,
    /// The payload; `None` if the packet has only an adaptation field.
    pub payload: Option<&'a [u8]>,
}

impl<'a> Packet<'a> {
    /// Reads a packet of [`PACKET`] bytes.
    ///
    /// # Errors
    /// A message if the bytes are too few, do not begin with a sync byte, or have the transport
    /// error flag.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let Some(&[sync, high, low, control, field_length, field_flags]) = bytes.first_chunk::<6>() else {
            return Err("shorter than a packet");
        };
        if sync != 0x47 {
            return Err("does not begin with a sync byte");
        }
        if high & 0x80 != 0 {
            return Err("marked as damaged");
        }
        let has_field = control & 0x20 != 0;
        let flags = if has_field && field_length > 0 { field_flags } else { 0 };
        let payload_at = if has_field { 5 + usize::from(field_length) } else { 4 };
        let payload = (control & 0x10 != 0).then(|| bytes.get(payload_at..).unwrap_or_default());
        Ok(Self {
            pid: u16::from(high & 0x1f) << 8 | u16::from(low),
            is_start: high & 0x40 != 0,
            counter: control & 0x0f,
            is_discontinuous: flags & 0x80 != 0,
            is_random_access: flags & 0x40 != 0,
            payload,
        })
    }
}

/// An elementary stream of a program (§2.4.4.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramStream {
    /// `stream_type`.
    pub stream_type: u8,
    /// The PID of its packets.
    pub pid: u16,
    /// Its descriptors, one after the other.
    pub descriptors: Vec<u8>,
}

impl ProgramStream {
    /// Returns the payload of the first descriptor with a tag (§2.6).
    pub fn descriptor(&self, tag: u8) -> Option<&[u8]> {
        let mut rest = self.descriptors.as_slice();
        while let Some(&[found, length]) = rest.first_chunk::<2>() {
            let payload = rest.get(2..)?.get(..length.into())?;
            if found == tag {
                return Some(payload);
            }
            rest = rest.get(2 + usize::from(length)..)?;
        }
        None
    }
}

/// The program tables of a stream, assembled from its packets. All programs but the first are
/// ignored.
#[derive(Debug, Clone, Default)]
pub struct ProgramTables {
    /// The PID of the program map.
    map_pid: Option<u16>,
    has_map: bool,
    /// The incomplete section of each PID.
    sections: BTreeMap<u16, Vec<u8>>,
}

impl ProgramTables {
    /// Returns true if packets of this PID hold program tables.
    pub fn has(&self, pid: u16) -> bool {
        pid == 0 || Some(pid) == self.map_pid
    }

    /// Returns true if both tables of the first program have been read.
    pub const fn is_complete(&self) -> bool {
        self.map_pid.is_some() && self.has_map
    }

    /// Takes the next packet of a PID for which [`has`](Self::has) is true. Returns the streams of
    /// the program if the packet completes a program map.
    ///
    /// # Errors
    /// A message if the table is empty or its CRC is wrong.
    pub fn push(&mut self, packet: &Packet<'_>) -> Result<Option<Vec<ProgramStream>>, &'static str> {
        let payload = packet.payload.unwrap_or_default();
        let section = self.sections.entry(packet.pid).or_default();
        if packet.is_start {
            section.clear();
            let pointer = payload.first().copied().map_or(0, usize::from);
            section.extend_from_slice(payload.get(pointer + 1..).unwrap_or_default());
            if section.is_empty() {
                return Err("an empty table");
            }
        } else if !section.is_empty() {
            section.extend_from_slice(payload);
        }
        section.truncate(MAX_SECTION);
        let Some(&[table, high, low]) = section.first_chunk::<3>() else { return Ok(None) };
        let end = 3 + (usize::from(high & 0x0f) << 8 | usize::from(low));
        let Some(whole) = section.get(..end) else { return Ok(None) };
        if crc(whole) != 0 {
            return Err("a table whose CRC is wrong");
        }
        let body = whole.get(8..end.saturating_sub(4)).unwrap_or_default();
        let streams = match table {
            0 => {
                self.map_pid = first_program(body).or(self.map_pid);
                None
            }
            2 => {
                self.has_map = true;
                Some(program_map(body))
            }
            _ => None,
        };
        section.clear();
        Ok(streams)
    }
}

/// Returns the PID of the first program map. The entry of program 0 is that of the network
/// (§2.4.4.3).
fn first_program(body: &[u8]) -> Option<u16> {
    body.chunks_exact(4).find_map(|entry| match *entry {
        [0, 0, ..] => None,
        [_, _, high, low] => Some(u16::from(high & 0x1f) << 8 | u16::from(low)),
        _ => None,
    })
}

/// Returns the streams of a program map (§2.4.4.8).
fn program_map(body: &[u8]) -> Vec<ProgramStream> {
    let length = |at: Option<&[u8]>| {
        at.and_then(<[u8]>::first_chunk).map_or(0, |&[a, b]| usize::from(a & 0x0f) << 8 | usize::from(b))
    };
    let mut streams = Vec::new();
    let mut rest = body.get(4 + length(body.get(2..))..).unwrap_or_default();
    while let Some(&[stream_type, high, low, _, _]) = rest.first_chunk::<5>() {
        let end = 5 + length(rest.get(3..));
        streams.push(ProgramStream {
            stream_type,
            pid: u16::from(high & 0x1f) << 8 | u16::from(low),
            descriptors: rest.get(5..end).unwrap_or_default().to_vec(),
        });
        rest = rest.get(end..).unwrap_or_default();
    }
    streams
}

/// The time stamps of a PES packet, in ticks of [`SCALE`], 33 bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeStamps {
    /// The decode time; the presentation time if the packet states no decode time.
    pub decode: i64,
    /// The presentation time.
    pub presentation: i64,
}

/// Reads the time stamps at the start of a PES packet (§2.4.3.6); `None` if it has none.
pub fn time_stamps(packet: &[u8]) -> Option<TimeStamps> {
    let &[0, 0, 1, _, _, _, _, flags, _] = packet.first_chunk::<9>()? else { return None };
    let presentation = (flags & 0x80 != 0).then(|| time_stamp(packet.get(9..)?)).flatten()?;
    let decode = (flags & 0x40 != 0).then(|| time_stamp(packet.get(14..)?)).flatten();
    Some(TimeStamps { decode: decode.unwrap_or(presentation), presentation })
}

/// Reads 33 bits between marker bits.
fn time_stamp(bytes: &[u8]) -> Option<i64> {
    let [a, b, c, d, e] = bytes.first_chunk::<5>()?.map(i64::from);
    Some((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1)
}

/// Returns the time nearest to `reference` that equals `stamp` modulo 2^33. Time stamps wrap around
/// after 26.5 hours.
pub const fn unwrap_time(stamp: i64, reference: i64) -> i64 {
    let ahead = (stamp - reference).rem_euclid(1 << 33);
    reference + if ahead >= 1 << 32 { ahead - (1 << 33) } else { ahead }
}

/// Computes the CRC-32/MPEG-2 of Annex A. The result for a section together with its CRC is 0.
pub fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 0 { 0 } else { 0x04c1_1db7 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet whose payload is filled up with 0xff.
    fn packet(pid: u16, is_start: bool, payload: &[u8]) -> Vec<u8> {
        let [high, low] = pid.to_be_bytes();
        let mut bytes = vec![0x47, high | if is_start { 0x40 } else { 0 }, low, 0x10];
        bytes.extend_from_slice(payload);
        bytes.resize(PACKET, 0xff);
        bytes
    }

    /// A section with its header and CRC.
    fn section(table: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len() + 9).unwrap();
        let mut bytes = vec![table, 0xb0 | u8::try_from(length >> 8).unwrap(), length.to_be_bytes()[1]];
        bytes.extend([0, 1, 0xc1, 0, 0]);
        bytes.extend_from_slice(body);
        let sum = crc(&bytes);
        bytes.extend(sum.to_be_bytes());
        bytes
    }

    fn push(
        tables: &mut ProgramTables,
        pid: u16,
        is_start: bool,
        payload: &[u8],
    ) -> Result<Option<Vec<ProgramStream>>, &'static str> {
        tables.push(&Packet::parse(&packet(pid, is_start, payload)).unwrap())
    }

    #[test]
    fn fields_of_a_packet_are_read() {
        let mut bytes = packet(0x1abc, true, &[]);
        bytes[3] = 0x3a;
        bytes[4..6].copy_from_slice(&[2, 0xc0]);
        let read = Packet::parse(&bytes).unwrap();
        assert_eq!((read.pid, read.is_start, read.counter), (0x1abc, true, 10));
        assert!(read.is_discontinuous && read.is_random_access);
        assert_eq!(read.payload.unwrap().len(), PACKET - 7);
        bytes[3] = 0x2a;
        assert_eq!(Packet::parse(&bytes).unwrap().payload, None);
        // An empty adaptation field has no flags.
        bytes[4] = 0;
        let read = Packet::parse(&bytes).unwrap();
        assert!(!read.is_discontinuous && !read.is_random_access);
        // A field that is longer than the packet leaves no payload.
        bytes[3] = 0x30;
        bytes[4] = 255;
        assert_eq!(Packet::parse(&bytes).unwrap().payload, Some(&[][..]));
        bytes[1] |= 0x80;
        assert_eq!(Packet::parse(&bytes).unwrap_err(), "marked as damaged");
        bytes[0] = 0x46;
        assert_eq!(Packet::parse(&bytes).unwrap_err(), "does not begin with a sync byte");
        assert!(Packet::parse(&bytes[..5]).is_err());
    }

    #[test]
    fn tables_are_assembled_from_several_packets() {
        let mut tables = ProgramTables::default();
        assert!(tables.has(0) && !tables.has(0x100) && !tables.is_complete());
        // The network's entry is not a program.
        let association = section(0, &[0, 0, 0xe0, 0x10, 0, 1, 0xe1, 0]);
        assert_eq!(push(&mut tables, 0, true, &[&[0], &association[..]].concat()), Ok(None));
        assert!(tables.has(0x100) && !tables.has(0x10) && !tables.is_complete());

        // Descriptors of 200 bytes do not fit one packet.
        let mut body = vec![0xe1, 1, 0xf0, 0, 0x06, 0xe1, 2, 0xf0, 206];
        body.extend([0x52, 198]);
        body.extend([7; 198]);
        body.extend([0x0a, 4, b'd', b'e', b'u', 0]);
        body.extend([0x1b, 0xe1, 1, 0xf0, 0]);
        let map = section(2, &body);
        let (first, second) = map.split_at(PACKET - 4 - 3);
        // The pointer skips the end of a section before.
        assert_eq!(push(&mut tables, 0x100, true, &[&[2, 9, 9], first].concat()), Ok(None));
        let streams = push(&mut tables, 0x100, false, second).unwrap().unwrap();
        assert!(tables.is_complete());
        let found: Vec<(u8, u16)> = streams.iter().map(|stream| (stream.stream_type, stream.pid)).collect();
        assert_eq!(found, [(0x06, 0x102), (0x1b, 0x101)]);
        assert_eq!(streams[0].descriptor(0x0a), Some(&b"deu\0"[..]));
        assert_eq!((streams[0].descriptor(0x6a), streams[1].descriptor(0x0a)), (None, None));
    }

    #[test]
    fn broken_tables_are_refused() {
        let mut tables = ProgramTables::default();
        let mut association = section(0, &[0, 1, 0xe1, 0]);
        association[8] ^= 1;
        let wrong = push(&mut tables, 0, true, &[&[0], &association[..]].concat());
        assert_eq!(wrong, Err("a table whose CRC is wrong"));
        assert_eq!(push(&mut tables, 0, true, &[255]), Err("an empty table"));
        assert!(!tables.is_complete());
        // The rest of a section whose start was not seen is ignored.
        assert_eq!(push(&mut ProgramTables::default(), 0, false, &association), Ok(None));
    }

    #[test]
    fn time_stamps_have_33_bits_and_wrap_around() {
        let stamp = |marker: u8, ticks: i64| -> [u8; 5] {
            let byte = |shift: i64| u8::try_from(ticks >> shift & 0xff).unwrap();
            [marker << 4 | byte(29) & 0x0e | 1, byte(22), byte(14) | 1, byte(7), byte(0) << 1 | 1]
        };
        let header = |flags: u8, stamps: &[u8]| [&[0, 0, 1, 0xe0, 0, 0, 0x80, flags, 10], stamps].concat();
        let all = (1 << 33) - 1;
        let both = header(0xc0, &[stamp(3, all), stamp(1, 3)].concat());
        assert_eq!(time_stamps(&both), Some(TimeStamps { decode: 3, presentation: all }));
        let one = header(0x80, &stamp(2, 0x1_2345_6789));
        let same = TimeStamps { decode: 0x1_2345_6789, presentation: 0x1_2345_6789 };
        assert_eq!(time_stamps(&one), Some(same));
        assert_eq!(time_stamps(&header(0, &[0; 10])), None, "no time stamps");
        assert_eq!(time_stamps(&header(0x80, &[0; 2])), None, "cut");
        assert_eq!(time_stamps(&[0, 0, 2, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1]), None);

        assert_eq!(unwrap_time(5, all), 1 << 33 | 5, "after the wrap");
        assert_eq!(unwrap_time(all, (1 << 33) + 5), all, "before the wrap");
        assert_eq!(unwrap_time(all, 0), -1);
        assert_eq!(unwrap_time(7, 7), 7);
    }

    #[test]
    fn the_crc_is_that_of_mpeg_2() {
        // The check value of CRC-32/MPEG-2 for these nine digits.
        assert_eq!(crc(b"123456789"), 0x0376_e6e7);
    }
}
