//! Packed audio (RFC 8216 §3.4): an ID3 tag with the time of the first frame, and the audio frames.

use crate::failure::{Failure, Reason};
use latemux_isobmff::bits::BitReader;

/// The bytes of an ID3 tag before its frames.
pub const ID3_HEADER: usize = 10;

/// The bytes of an ADTS header without CRC.
pub const ADTS_HEADER: usize = 7;

/// The samples of an AAC frame.
pub const AAC_SAMPLES: u32 = 1024;

/// Samples per second by index (ISO/IEC 14496-3 table 1.18).
pub const AAC_RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000, 7350];

/// The owner of the private frame that holds the time.
const OWNER: &[u8] = b"com.apple.streaming.transportStreamTimestamp\0";

/// The maximum number of bytes of an ID3 tag.
const MAX_TAG: usize = 1 << 16;

/// Returns the bytes of an ID3 tag, its header included.
///
/// # Errors
/// [`Reason::BadAudio`] if the header is not that of an ID3 tag, or the tag is larger than 64 KiB.
pub fn tag_length(header: &[u8; ID3_HEADER]) -> Result<usize, Failure> {
    let &[b'I', b'D', b'3', _, _, _, s0, s1, s2, s3] = header else {
        return Err(Failure::new(Reason::BadAudio, "does not begin with an ID3 tag"));
    };
    let size = [s0, s1, s2, s3].iter().fold(0_usize, |size, &byte| size << 7 | usize::from(byte & 0x7f));
    if size > MAX_TAG {
        return Err(Failure::new(Reason::BadAudio, "an ID3 tag of more than 64 KiB"));
    }
    Ok(ID3_HEADER + size)
}

/// Returns the time in an ID3 tag, in ticks of 90 kHz and with 33 bits, or `None` if the tag has
/// none.
pub fn time_of(tag: &[u8]) -> Option<i64> {
    let at = tag.windows(OWNER.len()).position(|window| window == OWNER)?;
    let ticks = u64::from_be_bytes(*tag.get(at + OWNER.len()..)?.first_chunk()?);
    i64::try_from(ticks & 0x1_ffff_ffff).ok()
}

/// The header of an ADTS frame (ISO/IEC 14496-3 §1.A.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdtsHeader {
    /// Bytes of the header: 7, or 9 with a CRC.
    pub length: usize,
    /// Bytes of the frame with its header.
    pub frame_length: usize,
    /// The audio object type minus 1.
    pub profile: u32,
    /// An index into [`AAC_RATES`], or a reserved value.
    pub rate_index: u32,
    /// `channel_configuration`.
    pub channels: u32,
    /// Raw data blocks in the frame, minus 1.
    pub more_blocks: u32,
}

impl AdtsHeader {
    /// Reads a header; `None` if there is no sync word, or the bytes are too few.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut bits = BitReader::new(bytes);
        let sync = bits.bits(12)?;
        bits.skip(1)?;
        let layer = bits.bits(2)?;
        if sync != 0xfff || layer != 0 {
            return None;
        }
        let length = if bits.flag()? { ADTS_HEADER } else { ADTS_HEADER + 2 };
        let profile = bits.bits(2)?;
        let rate_index = bits.bits(4)?;
        bits.skip(1)?;
        let channels = bits.bits(3)?;
        bits.skip(4)?;
        let frame_length = bits.bits(13)? as usize;
        bits.skip(11)?;
        let more_blocks = bits.bits(2)?;
        Some(Self { length, frame_length, profile, rate_index, channels, more_blocks })
    }

    /// Returns the samples per second, or `None` if the index is reserved.
    pub fn rate(&self) -> Option<u32> {
        AAC_RATES.get(self.rate_index as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_tag_has_seven_bits_in_each_byte() {
        assert_eq!(tag_length(b"ID3\x04\0\0\0\0\x01\x02"), Ok(10 + 130));
        assert_eq!(tag_length(b"ID3\x04\0\0\0\x04\0\0"), Ok(10 + (1 << 16)));
        for wrong in [b"ID3\x04\0\0\0\x04\0\x01", b"TAG\x04\0\0\0\0\x01\x02"] {
            assert_eq!(tag_length(wrong).unwrap_err().reason, Reason::BadAudio);
        }
    }

    #[test]
    fn the_time_follows_the_name_of_its_owner() {
        let tag = |ticks: u64| [&b"ID3 PRIV"[..], OWNER, &ticks.to_be_bytes()].concat();
        assert_eq!(time_of(&tag(90_000)), Some(90_000));
        assert_eq!(time_of(&tag(u64::MAX)), Some((1 << 33) - 1), "33 bits count");
        let cut = tag(1);
        assert_eq!(time_of(&cut[..cut.len() - 1]), None);
        assert_eq!(time_of(b"ID3"), None);
    }

    #[test]
    fn headers_of_adts_are_read() {
        // 48 kHz, stereo, LC, 100 bytes, without and with CRC.
        let read = AdtsHeader::read(&[0xff, 0xf1, 0x4c, 0x80, 0x0c, 0x9f, 0xfc]).unwrap();
        let expected = AdtsHeader {
            length: 7,
            frame_length: 100,
            profile: 1,
            rate_index: 3,
            channels: 2,
            more_blocks: 0,
        };
        assert_eq!((read, read.rate()), (expected, Some(48_000)));
        assert_eq!(AdtsHeader::read(&[0xff, 0xf0, 0x4c, 0x80, 0x0c, 0x9f, 0xfc]).unwrap().length, 9);
        let reserved = AdtsHeader::read(&[0xff, 0xf1, 0x7c, 0x80, 0x0c, 0x9f, 0xfe]).unwrap();
        assert_eq!((reserved.rate(), reserved.more_blocks), (None, 2));
        for wrong in
            [&[0xff, 0xe1, 0x4c, 0x80, 0x0c, 0x9f, 0xfc][..], &[0xff, 0xf3, 0x4c, 0x80, 0x0c, 0x9f, 0xfc]]
        {
            assert_eq!(AdtsHeader::read(wrong), None);
        }
        assert_eq!(AdtsHeader::read(&[0xff, 0xf1, 0x4c, 0x80, 0x0c, 0x9f]), None, "cut");
    }
}
