//! ADTS framing of AAC (ISO/IEC 14496-3 §1.A.2.2): the seven bytes that stand before each frame in a transport stream.

use latemux_isobmff::codec::Aac;

/// Bytes of a header without CRC.
pub(super) const HEADER: usize = 7;
/// The longest frame whose length 13 bits can say, without header. A sound frame has at most 768 bytes per channel.
pub(super) const MAX_FRAME: u32 = 0x1FFF - 7;

/// `samplingFrequencyIndex` in order (ISO/IEC 14496-3 Table 1.18); ADTS has no escape for other rates.
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// The header of every frame of a track; only the length differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Adts([u8; HEADER]);

impl Adts {
    /// `None` where ADTS has no words for the configuration: object types beyond the first four, rates outside the table, frames
    /// other than 1024 samples, and channels that only a program config element says (it would have to be repeated in band).
    ///
    /// SBR and PS are signalled implicitly, as every transport stream does: the header names core and core rate.
    pub(super) fn of(aac: &Aac) -> Option<Self> {
        let profile = aac.core_object_type.checked_sub(1).filter(|&p| p < 4)?;
        let rate = RATES.iter().position(|&rate| rate == aac.core_sample_rate)?;
        let rate = u8::try_from(rate).ok()?;
        if aac.frame_length != 1024 || !(1..=7).contains(&aac.channel_config) {
            return None;
        }
        let channels = aac.channel_config;
        // MPEG-4, layer 0, no CRC; buffer fullness 0x7FF says variable rate; one raw data block.
        Some(Self([0xFF, 0xF1, (profile << 6) | (rate << 2) | (channels >> 2), channels << 6, 0, 0x1F, 0xFC]))
    }

    /// The header of a frame of at most [`MAX_FRAME`] bytes.
    #[expect(clippy::cast_possible_truncation, reason = "thirteen bits, taken apart")]
    pub(super) fn header(&self, frame: u32) -> [u8; HEADER] {
        let length = frame.min(MAX_FRAME) + 7;
        let mut header = self.0;
        header[3] |= (length >> 11) as u8 & 0x3;
        header[4] = (length >> 3) as u8;
        header[5] |= (length << 5) as u8;
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn aac() -> Aac {
        Aac {
            asc: Bytes::new(),
            core_object_type: 2,
            object_type: 5,
            core_sample_rate: 44_100,
            channel_config: 2,
            program_config: false,
            frame_length: 1024,
        }
    }

    #[test]
    fn header_of_a_common_stream() {
        let adts = Adts::of(&aac()).unwrap();
        assert_eq!(adts.header(371 - 7), [0xFF, 0xF1, 0x50, 0x80, 0x2E, 0x7F, 0xFC]);
        assert_eq!(adts.header(MAX_FRAME), [0xFF, 0xF1, 0x50, 0x83, 0xFF, 0xFF, 0xFC]);
    }

    #[test]
    fn what_adts_cannot_say() {
        assert!(Adts::of(&Aac { core_object_type: 42, ..aac() }).is_none());
        assert!(Adts::of(&Aac { core_object_type: 0, ..aac() }).is_none());
        assert!(Adts::of(&Aac { core_sample_rate: 44_000, ..aac() }).is_none());
        assert!(Adts::of(&Aac { channel_config: 0, ..aac() }).is_none());
        assert!(Adts::of(&Aac { channel_config: 11, ..aac() }).is_none());
        assert!(Adts::of(&Aac { frame_length: 960, ..aac() }).is_none());
    }
}
