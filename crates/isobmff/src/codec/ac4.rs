//! AC-4: `dac4` (ETSI TS 103 190-2 Annex E.4 to E.10) and its codec string (Annex E.13).

use super::audio_coding::AudioCoding;
use super::children::Child;
use super::description::Config;
use super::sample_entry::AudioFields;
use crate::Error;
use crate::bits::BitReader;

/// Stream and first presentation of ac4_dsi_v1(). In an immersive stereo stream the first
/// presentation is the immersive one; the next repeats it for older decoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ac4 {
    bitstream_version: u8,
    presentation_version: u8,
    compatibility: u8,
    /// 0 if the presentation is made of objects.
    channels: u16,
    sample_rate: u32,
}

/// Speaker groups of a presentation channel mask that stand for two channels (ETSI TS 103 190-2
/// Annex A.27).
const PAIRS: u32 = 0b111_0010_0001_1011_1101;

/// Reads `dac4`.
pub(super) fn coding(dac4: &Child, stated: AudioFields) -> Result<AudioCoding, Error> {
    let ac4 = match stream_info(&mut dac4.bits()) {
        None => return Err(dac4.at.truncated()),
        Some(None) => return Err(dac4.at.unsupported("version of dac4")),
        Some(Some(ac4)) => ac4,
    };
    let name = format!(
        "ac-4.{:02x}.{:02x}.{:02x}",
        ac4.bitstream_version, ac4.presentation_version, ac4.compatibility
    );
    let coded = AudioFields { channels: ac4.channels, sample_rate: ac4.sample_rate };
    Ok(AudioCoding::new(name, Config::Ac4, coded, stated))
}

/// Reads ac4_dsi_v1() up to the first presentation; `Some(None)` for the older ac4_dsi().
fn stream_info(bits: &mut BitReader<'_>) -> Option<Option<Ac4>> {
    if bits.u8(3)? != 1 {
        return Some(None);
    }
    let bitstream_version = bits.u8(7)?;
    let sample_rate = if bits.flag()? { 48000 } else { 44100 };
    // frame_rate_index.
    bits.skip(4)?;
    let presentations = bits.u16(9)?;
    if bitstream_version > 1 && bits.flag()? {
        // short_program_id, and a UUID.
        bits.skip(16)?;
        if bits.flag()? {
            bits.skip(128)?;
        }
    }
    // ac4_bitrate_dsi().
    bits.skip(2 + 32 + 32)?;
    bits.align();
    let mut ac4 =
        Ac4 { bitstream_version, presentation_version: 0, compatibility: 0, channels: 0, sample_rate };
    if presentations > 0 {
        ac4.presentation_version = bits.u8(8)?;
        if bits.u8(8)? == 255 {
            bits.skip(16)?;
        }
        presentation(bits, &mut ac4)?;
    }
    Some(Some(ac4))
}

/// Reads the head of ac4_presentation_v0_dsi() or ac4_presentation_v1_dsi().
fn presentation(bits: &mut BitReader<'_>, ac4: &mut Ac4) -> Option<()> {
    // presentation_config 6 has no presentation, only EMDF substreams.
    if bits.u8(5)? == 6 {
        return Some(());
    }
    ac4.compatibility = bits.u8(3)?;
    if ac4.presentation_version == 0 {
        return Some(());
    }
    if bits.flag()? {
        bits.skip(5)?;
    }
    // dsi_frame_rate_multiply_info, dsi_frame_rate_fraction_info, presentation_emdf_version,
    // presentation_key_id.
    bits.skip(2 + 2 + 5 + 10)?;
    if bits.flag()? {
        let mode = bits.u8(5)?;
        if matches!(mode, 11..=14) {
            // Back and top channels.
            bits.skip(1 + 2)?;
        }
        let mask = bits.bits(24)?;
        ac4.channels = u16::try_from(mask.count_ones() + (mask & PAIRS).count_ones()).unwrap_or(0);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{audio, audio_entry, boxed, hex, packed};
    use crate::codec::{Codec, Config, describe};
    use crate::{Error, FourCc};

    fn read(dac4: &str) -> Result<Codec, Error> {
        describe(&audio_entry(b"ac-4", 2, 48000, &[boxed(b"dac4", &hex(dac4))]), FourCc(*b"soun"))
    }

    #[test]
    fn immersive_stereo_is_described_by_its_first_presentation() {
        // Presentation version 2, then the same as version 1.
        let dac4 = "20a402400000001fffffffe0 0212f88000042000002501000000310995ba0800 \
                    112f8800000420000025010000003109 95b8080";
        let codec = read(&format!("{dac4}0")).unwrap();
        assert_eq!((codec.rfc6381.as_str(), &codec.config), ("ac-4.02.02.00", &Config::Ac4));
        assert_eq!((audio(&codec).channels, audio(&codec).sample_rate), (2, 48000));
    }

    #[test]
    fn a_program_id_is_skipped_before_a_5_1_presentation() {
        // dac4 version 1, bitstream 2, 48 kHz, rate index 1, one presentation; program id 1 without
        // UUID; no rates.
        let mut record = hex("20a201 800080 0000000000000000");
        // Version 1, 12 bytes; config 31, compatibility 3.
        record.extend(hex("01 0c fb"));
        // No id, 19 bits of rates and keys, channel coded, mode 4, L/R C Ls/Rs LFE.
        record.extend(packed("0 0000000000000000000 1 00100 000000000000000001000111"));
        let codec =
            describe(&audio_entry(b"ac-4", 2, 44100, &[boxed(b"dac4", &record)]), FourCc(*b"soun")).unwrap();
        assert_eq!(codec.rfc6381, "ac-4.02.01.03");
        assert_eq!((audio(&codec).channels, audio(&codec).sample_rate), (6, 48000));
    }

    #[test]
    fn malformed_records_are_refused() {
        assert!(matches!(read("00"), Err(Error::Unsupported { .. })));
        assert!(matches!(read("20a402400000001fffffffe0 02"), Err(Error::Truncated { .. })));
        assert!(matches!(read(""), Err(Error::Truncated { .. })));
    }
}
