//! Program specific information (ISO/IEC 13818-1 §2.4.4): a PAT and a PMT packet per segment.

use super::{
    mux::PidState,
    packet::{PACKET, PAYLOAD, PacketHeader},
    stream::{Coding, Stream},
};
use bytes::{BufMut, BytesMut};

const PAT_PID: u16 = 0;
/// Number of the only program.
const PROGRAM: u16 = 1;
pub(super) const PMT_PID: u16 = 0x1000;

#[derive(Debug)]
pub(super) struct Program<'a> {
    pub(super) streams: &'a [PidState],
    pub(super) pcr_pid: u16,
    /// `continuity_counter` of both packets: the segment's number, as it has one of each.
    pub(super) counter: u8,
}

impl Program<'_> {
    /// Returns PAT and PMT, one packet each.
    pub(super) fn packets(&self) -> BytesMut {
        let mut out = BytesMut::with_capacity(2 * PACKET);
        self.put_packet(PAT_PID, &mut out, |out| {
            put_section(0, 1, 0, out, |out| {
                out.put_u16(PROGRAM);
                out.put_u16(0xE000 | PMT_PID);
            });
        });
        // With the PCR on another PID the map has another version: receivers skip known ones.
        let is_usual = self.streams.first().is_none_or(|state| state.pid == self.pcr_pid);
        self.put_packet(PMT_PID, &mut out, |out| {
            put_section(2, PROGRAM, u8::from(!is_usual), out, |out| self.put_map(out));
        });
        out
    }

    /// Writes the body of the PMT.
    fn put_map(&self, out: &mut BytesMut) {
        out.put_u16(0xE000 | self.pcr_pid);
        out.put_u16(0xF000); // no program descriptors
        for PidState { stream, pid, .. } in self.streams {
            out.put_u8(stream_type(stream));
            out.put_u16(0xE000 | pid);
            let length_at = out.len();
            out.put_u16(0);
            put_descriptors(stream, out);
            set_length(0xF000, length_at, out);
        }
    }

    /// Writes a packet with one section.
    fn put_packet(&self, pid: u16, out: &mut BytesMut, put_section: impl FnOnce(&mut BytesMut)) {
        let end = out.len() + PACKET;
        let header = PacketHeader {
            pid,
            unit_start: true,
            counter: self.counter,
            payload: PAYLOAD,
            ..PacketHeader::default()
        };
        header.write(out);
        out.put_u8(0); // pointer_field: the section follows
        put_section(out);
        out.resize(end, 0xFF); // stuffing behind the section (§2.4.4.1)
    }
}

/// Bytes of a CRC.
const CRC: usize = 4;

/// Writes a table of a single section (§2.4.4.3, §2.4.4.8) with its CRC.
fn put_section(
    table_id: u8,
    extension: u16,
    version: u8,
    out: &mut BytesMut,
    put_body: impl FnOnce(&mut BytesMut),
) {
    let start = out.len();
    out.put_u8(table_id);
    let length_at = out.len();
    out.put_u16(0);
    out.put_u16(extension);
    out.put_u8(0xC1 | (version << 1)); // current
    out.put_slice(&[0, 0]); // section 0 of 0
    put_body(out);
    out.put_bytes(0, CRC);
    set_length(0xB000, length_at, out);
    let end = out.len() - CRC;
    let crc = crc32(out.get(start..end).unwrap_or_default());
    out.truncate(end);
    out.put_u32(crc);
}

/// Writes the number of bytes behind a length field of 16 bits into it, below the bits `flags`.
fn set_length(flags: u16, at: usize, out: &mut BytesMut) {
    let length = u16::try_from(out.len() - at - size_of::<u16>()).unwrap_or(0);
    if let Some(field) = out.get_mut(at..at + size_of::<u16>()) {
        field.copy_from_slice(&(flags | length).to_be_bytes());
    }
}

/// Returns `stream_type` (§2.4.4.9; ATSC A/53 Part 3 for those of Dolby).
fn stream_type(stream: &Stream) -> u8 {
    if let Some(encryption) = &stream.encryption {
        return encryption.stream_type();
    }
    match stream.coding {
        Coding::Avc { .. } => 0x1B,
        Coding::Aac(_) => 0x0F,
        Coding::Mp3 if stream.sample_rate >= 32_000 => 0x03,
        Coding::Mp3 => 0x04,
        Coding::Ac3 => 0x81,
        Coding::Eac3 => 0x87,
    }
}

fn put_descriptors(stream: &Stream, out: &mut BytesMut) {
    let registration: &[u8] = match stream.coding {
        _ if stream.encryption.is_some() => b"",
        Coding::Ac3 => b"AC-3",
        Coding::Eac3 => b"EAC3",
        _ => b"",
    };
    if !registration.is_empty() {
        out.put_slice(&[0x05, 4]);
        out.put_slice(registration);
    }
    if let Some(encryption) = &stream.encryption {
        encryption.write(out);
    }
    if let Some(language) = stream.language {
        out.put_slice(&[0x0A, 4]); // ISO_639_language_descriptor, audio_type 0: undefined
        out.put_slice(&language);
        out.put_u8(0);
    }
}

/// Returns the CRC of Annex A: polynomial 0x04C11DB7, initially all ones, not reflected.
fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ (u32::from(byte) << 24), |crc, _| {
            if crc & 0x8000_0000 == 0 { crc << 1 } else { (crc << 1) ^ 0x04C1_1DB7 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_of_the_usual_check_string_is_right() {
        assert_eq!(crc32(b"123456789"), 0x0376_E6E7);
    }

    #[test]
    fn the_crc_over_a_section_and_its_crc_is_zero() {
        let mut out = BytesMut::new();
        put_section(0, 1, 0, &mut out, |out| out.put_slice(&[0, 1, 0xF0, 0]));
        assert_eq!(crc32(&out), 0);
    }
}
