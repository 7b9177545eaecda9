//! Transport stream packets (ISO/IEC 13818-1 §2.4.3.2): four bytes of header, an adaptation field
//! if there are flags or stuffing, and payload.

use bytes::BytesMut;

pub(super) const PACKET: usize = 188;
/// Bytes of payload of a packet without adaptation field.
pub(super) const PAYLOAD: usize = 184;
/// Bytes of an adaptation field that holds only a PCR: its length, flags, six bytes of clock.
pub(super) const PCR_FIELD: usize = 8;

/// A packet without its payload.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PacketHeader {
    pub(super) pid: u16,
    /// `payload_unit_start_indicator`.
    pub(super) unit_start: bool,
    /// `continuity_counter`. Only the low four bits count.
    pub(super) counter: u8,
    /// `random_access_indicator`. It needs two bytes of adaptation field.
    pub(super) random_access: bool,
    /// `program_clock_reference_base`. It needs [`PCR_FIELD`] bytes of adaptation field.
    pub(super) pcr: Option<u64>,
    /// Bytes of payload, at most [`PAYLOAD`]. The rest of the packet is adaptation field.
    pub(super) payload: usize,
}

impl PacketHeader {
    /// Appends `PACKET - payload` bytes.
    #[expect(clippy::cast_possible_truncation, reason = "masked bytes of a number, and lengths below 188")]
    pub(super) fn write(&self, out: &mut BytesMut) {
        let field = PAYLOAD - self.payload;
        let mut header = [0xFF; PACKET];
        header[0] = 0x47;
        header[1] = (u8::from(self.unit_start) << 6) | ((self.pid >> 8) as u8 & 0x1F);
        header[2] = self.pid as u8;
        let control = (u8::from(field > 0) << 1) | u8::from(self.payload > 0);
        header[3] = (control << 4) | (self.counter & 0x0F);
        if field > 0 {
            header[4] = (field - 1) as u8;
        }
        if field > 1 {
            let pcr = self.pcr.filter(|_| field >= PCR_FIELD);
            header[5] = (u8::from(self.random_access) << 6) | (u8::from(pcr.is_some()) << 4);
            if let Some(base) = pcr {
                // 33 bits of base, 6 reserved, 9 of extension, which is 0: times are in 1/90000 s.
                let clock = (base << 15) | 0x7E00;
                header[6..12].copy_from_slice(&clock.to_be_bytes()[2..8]);
            }
        }
        out.extend_from_slice(&header[..4 + field]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(payload: usize, pcr: Option<u64>) -> Vec<u8> {
        let mut out = BytesMut::new();
        let head = PacketHeader {
            pid: 0x100,
            unit_start: true,
            counter: 0x1B,
            random_access: pcr.is_some(),
            pcr,
            payload,
        };
        head.write(&mut out);
        out.to_vec()
    }

    #[test]
    fn a_full_payload_has_no_adaptation_field() {
        assert_eq!(head(184, None), [0x47, 0x41, 0x00, 0x1B]);
    }

    #[test]
    fn one_byte_of_stuffing_is_a_length_of_zero() {
        assert_eq!(head(183, None), [0x47, 0x41, 0x00, 0x3B, 0]);
        assert_eq!(head(181, None), [0x47, 0x41, 0x00, 0x3B, 2, 0, 0xFF]);
    }

    #[test]
    fn a_pcr_keeps_33_bits() {
        let bytes = head(176, Some((1 << 33) - 1));
        assert_eq!(bytes, [0x47, 0x41, 0x00, 0x3B, 7, 0x50, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0x00]);
        let alone = head(0, Some(1));
        assert_eq!(alone.len(), 188);
        assert_eq!(alone[3..12], [0x2B, 183, 0x50, 0, 0, 0, 0, 0xFE, 0x00]);
    }
}
