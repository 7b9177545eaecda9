//! ADTS framing of AAC (ISO/IEC 14496-3 §1.A.2.2): the bytes before each frame in a transport
//! stream. These are seven bytes, and a program config element if the channels need one.

use super::program_config;
use crate::carry::ADTS_RATES;
use bytes::Bytes;
use latemux_isobmff::codec::Aac;

/// Bytes of a header without CRC.
const HEADER: usize = 7;
/// Longest frame that 13 bits state, header included. Valid ones have 768 bytes per channel at
/// most.
const MAX_FRAME: u32 = 0x1FFF;

/// The bytes before every frame of a track. Only the length differs from frame to frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Adts {
    header: [u8; HEADER],
    program_config: Bytes,
}

impl Adts {
    /// Returns the framing of a configuration. `None` if ADTS cannot state it: object types beyond
    /// the first four, other rates, frames of other than 1024 samples, channel configurations above
    /// 7.
    ///
    /// SBR and PS are signalled implicitly, as usual: the header states core and core rate.
    pub(super) fn of(aac: &Aac) -> Option<Self> {
        let profile = aac.core_object_type.checked_sub(1).filter(|&p| p < 4)?;
        let rate = ADTS_RATES.iter().position(|&rate| rate == aac.core_sample_rate)?;
        let rate = u8::try_from(rate).ok()?;
        let channels = aac.channel_config;
        if aac.frame_length != 1024 || channels > 7 {
            return None;
        }
        let program_config = if channels == 0 { program_config::in_band(&aac.asc)? } else { Bytes::new() };
        // MPEG-4, layer 0, no CRC; buffer fullness 0x7FF means variable rate; one raw data block.
        let header =
            [0xFF, 0xF1, (profile << 6) | (rate << 2) | (channels >> 2), channels << 6, 0, 0x1F, 0xFC];
        Some(Self { header, program_config })
    }

    /// Returns the number of bytes before each frame.
    pub(super) fn len(&self) -> usize {
        HEADER + self.program_config.len()
    }

    /// True if ADTS cannot state the length of a frame of `size` bytes.
    pub(super) fn is_too_long(&self, size: u32) -> bool {
        self.frame_length(size) > u64::from(MAX_FRAME)
    }

    /// Length of a frame of `size` bytes with everything before it.
    fn frame_length(&self, size: u32) -> u64 {
        u64::from(size) + self.len() as u64
    }

    /// Returns the header of a frame, without [`Self::program_config`].
    #[expect(clippy::cast_possible_truncation, reason = "thirteen bits, taken apart")]
    pub(super) fn header(&self, size: u32) -> [u8; HEADER] {
        let length = self.frame_length(size).min(u64::from(MAX_FRAME));
        let mut header = self.header;
        header[3] |= (length >> 11) as u8 & 0x3;
        header[4] = (length >> 3) as u8;
        header[5] |= (length << 5) as u8;
        header
    }

    /// Returns the bytes that follow the header in each frame.
    pub(super) fn program_config(&self) -> Bytes {
        self.program_config.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_header_of_a_common_stream_is_right() {
        let adts = Adts::of(&aac()).unwrap();
        assert_eq!(adts.header(371 - 7), [0xFF, 0xF1, 0x50, 0x80, 0x2E, 0x7F, 0xFC]);
        assert_eq!(adts.header(8184), [0xFF, 0xF1, 0x50, 0x83, 0xFF, 0xFF, 0xFC]);
        assert!(adts.is_too_long(8185) && !adts.is_too_long(8184));
    }

    /// The configuration that ffmpeg writes for six channels in a hexagon, and the first frame of
    /// its own ADTS writer (which keeps the comment).
    #[test]
    fn channels_without_a_configuration_number_are_stated_in_band() {
        let asc = b"\x11\x80\x04\xc8\x08\x00\x20\x08\x84\x0dLavc59.37.100\x56\xe5\x00";
        let hexagon =
            Aac { asc: Bytes::from_static(asc), channel_config: 0, core_sample_rate: 48_000, ..aac() };
        let adts = Adts::of(&hexagon).unwrap();
        let theirs = *b"\xff\xf1\x4c\x00\x38\xbf\xfc\xa0\x99\x01\x00\x04\x01\x10\x80\x0dLavc59.37.100";
        assert_eq!(adts.program_config()[..], [&theirs[7..15], &[0]].concat());
        assert_eq!(adts.header(100)[..3], theirs[..3]);
        // 116 bytes: the program config element counts as part of the frame.
        assert_eq!(adts.header(100)[4..6], [0x0E, 0x9F]);
    }

    #[test]
    fn configurations_that_adts_cannot_state_are_refused() {
        assert!(Adts::of(&Aac { core_object_type: 42, ..aac() }).is_none());
        assert!(Adts::of(&Aac { core_object_type: 0, ..aac() }).is_none());
        assert!(Adts::of(&Aac { core_sample_rate: 44_000, ..aac() }).is_none());
        assert!(Adts::of(&Aac { channel_config: 0, ..aac() }).is_none());
        assert!(Adts::of(&Aac { channel_config: 11, ..aac() }).is_none());
        assert!(Adts::of(&Aac { frame_length: 960, ..aac() }).is_none());
    }
}
