//! PES packet headers (ISO/IEC 13818-1 §2.4.3.6).

use bytes::BufMut;

/// Bytes up to and including `PES_header_data_length`.
const FIXED: usize = 9;
const TIMESTAMP: usize = 5;
/// `PES_packet_length` counts the bytes behind itself.
const BEFORE_LENGTH_ENDS: u64 = 6;

/// Most bytes of a header, with two timestamps and stuffing.
pub(super) const MOST_HEADER: usize = header_len(true) + MOST_STUFFING;
const MOST_STUFFING: usize = 32;

/// Returns the bytes of a header without stuffing, with a PTS, and with a DTS if `dts`.
pub(super) const fn header_len(dts: bool) -> usize {
    FIXED + if dts { 2 * TIMESTAMP } else { TIMESTAMP }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) stream_id: u8,
    /// 90 kHz, 33 bits.
    pub(super) pts: u64,
    /// 90 kHz, 33 bits; `None` if it equals the PTS.
    pub(super) dts: Option<u64>,
    /// Bytes of the PES packet, this header included. If 16 bits cannot state the length, it is
    /// written as 0 (unbounded), which only video may have.
    pub(super) size: u64,
    /// Stuffing bytes at the end of the header, at most [`MOST_STUFFING`].
    pub(super) stuffing: u8,
}

impl Header {
    pub(super) fn write(&self, out: &mut impl BufMut) {
        let header = header_len(self.dts.is_some());
        let length = u16::try_from(self.size - BEFORE_LENGTH_ENDS).unwrap_or(0);
        out.put_slice(&[0, 0, 1, self.stream_id]);
        out.put_u16(length);
        // '10', no scrambling, no priority, data_alignment_indicator: an access unit follows.
        out.put_u8(0x84);
        out.put_u8(if self.dts.is_some() { 0xC0 } else { 0x80 });
        out.put_u8(u8::try_from(header - FIXED).unwrap_or(0) + self.stuffing);
        match self.dts {
            Some(dts) => {
                put_timestamp(0b0011, self.pts, out);
                put_timestamp(0b0001, dts, out);
            }
            None => put_timestamp(0b0010, self.pts, out),
        }
        out.put_bytes(0xFF, usize::from(self.stuffing));
    }
}

/// Writes four bits of marker, then 33 bits of time in three groups, each followed by a 1.
fn put_timestamp(marker: u64, time: u64, out: &mut impl BufMut) {
    let bits = (marker << 36)
        | ((time >> 30 & 0x7) << 33)
        | (1 << 32)
        | ((time >> 15 & 0x7FFF) << 17)
        | (1 << 16)
        | ((time & 0x7FFF) << 1)
        | 1;
    out.put_uint(bits, TIMESTAMP);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    #[test]
    fn a_header_has_the_announced_length() {
        for (dts, stuffing) in [(None, 0), (Some(0), 0), (Some(7), 6)] {
            let mut out = BytesMut::new();
            Header { stream_id: 0xE0, pts: 1, dts, size: 100, stuffing }.write(&mut out);
            assert_eq!(out.len(), header_len(dts.is_some()) + usize::from(stuffing));
            assert_eq!(usize::from(out[8]), out.len() - 9);
            assert_eq!(out[4..6], [0, 94]);
        }
    }

    #[test]
    fn timestamps_keep_all_33_bits() {
        let mut out = BytesMut::new();
        put_timestamp(0b0011, (1 << 33) - 1, &mut out);
        assert_eq!(out[..], [0x3F, 0xFF, 0xFF, 0xFF, 0xFF]);
        out.clear();
        put_timestamp(0b0010, 900_000, &mut out);
        assert_eq!(out[..], [0x21, 0x00, 0x37, 0x77, 0x41]);
    }

    #[test]
    fn a_length_beyond_16_bits_is_written_as_0() {
        const MAX_STATED: u64 = 0xFFFF + 6;
        let mut out = BytesMut::new();
        Header { stream_id: 0xE0, pts: 0, dts: None, size: MAX_STATED, stuffing: 0 }.write(&mut out);
        assert_eq!(out[4..6], [0xFF, 0xFF]);
        out.clear();
        Header { stream_id: 0xE0, pts: 0, dts: None, size: MAX_STATED + 1, stuffing: 0 }.write(&mut out);
        assert_eq!(out[4..6], [0, 0]);
    }
}
