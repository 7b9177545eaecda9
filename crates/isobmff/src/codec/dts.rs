//! The DTS family: `ddts` (ETSI TS 102 114 Annex E.2) and `udts` (ETSI TS 103 491 Annex B.2).

use super::audio_coding::AudioCoding;
use super::children::Children;
use super::description::{Config, DeclaredBitrate};
use super::sample_entry::AudioFields;
use crate::bits::BitReader;
use crate::{Error, FourCc};

/// Returns true for the names of DTS: core, High Resolution, lossless, low bit rate, and DTS:X
/// profiles 2 and 3.
pub(super) fn is_dts(format: FourCc) -> bool {
    matches!(&format.0, b"dtsc" | b"dtsh" | b"dtsl" | b"dtse" | b"dts-" | b"dts+" | b"dtsx" | b"dtsy")
}

/// Reads `udts` or, if there is none, `ddts`. The codec string is the coding name alone.
pub(super) fn coding(format: FourCc, boxes: &Children, stated: AudioFields) -> Result<AudioCoding, Error> {
    let name = format.to_string();
    if let Some(udts) = boxes.first(b"udts") {
        let coded = uhd(&mut udts.bits()).ok_or(udts.at.truncated())?;
        return Ok(AudioCoding::new(name, Config::Dts, coded, stated));
    }
    let ddts = boxes.require(b"ddts")?;
    let (coded, bitrate) = coherent_acoustics(&mut ddts.bits()).ok_or(ddts.at.truncated())?;
    Ok(AudioCoding { bitrate, ..AudioCoding::new(name, Config::Dts, coded, stated) })
}

/// Positions of ChannelLayout that stand for two channels: L/R, Ls/Rs, Lh/Rh, Lsr/Rsr, Lc/Rc,
/// Lw/Rw, Lss/Rss, Lhs/Rhs, Lhr/Rhr.
const PAIRS: u16 = 0b1010_1110_0110_0110;

fn coherent_acoustics(bits: &mut BitReader<'_>) -> Option<(AudioFields, DeclaredBitrate)> {
    let sample_rate = bits.bits(32)?;
    let bitrate = DeclaredBitrate::new(bits.bits(32)?, bits.bits(32)?);
    // pcmSampleDepth; FrameDuration, StreamConstruction, CoreLFEPresent, CoreLayout, CoreSize,
    // StereoDownmix, RepresentationType.
    bits.skip(8 + 2 + 5 + 1 + 6 + 14 + 1 + 3)?;
    let layout = bits.u16(16)?;
    let channels = u16::try_from(layout.count_ones() + (layout & PAIRS).count_ones()).unwrap_or(0);
    Some((AudioFields { channels, sample_rate }, bitrate))
}

fn uhd(bits: &mut BitReader<'_>) -> Option<AudioFields> {
    // DecoderProfileCode, FrameDurationCode, MaxPayloadCode, NumPresentationsCode.
    bits.skip(6 + 2 + 3 + 5)?;
    let channels = u16::try_from(bits.bits(32)?.count_ones()).unwrap_or(0);
    let base = if bits.flag()? { 48000 } else { 44100 };
    Some(AudioFields { channels, sample_rate: base << bits.u8(2)? })
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{audio, audio_entry, boxed, hex};
    use crate::codec::{Config, DeclaredBitrate, describe};
    use crate::{Error, FourCc};

    #[test]
    fn channels_and_rates_are_read_from_layouts() {
        // 48 kHz, 1509/768 kbit/s, 24 bit; C, L/R, Ls/Rs, LFE.
        let ddts = boxed(b"ddts", &hex("0000bb80 00170610 000bb800 18 00000000 000f 00"));
        let codec = describe(&audio_entry(b"dtsc", 2, 44100, &[ddts]), FourCc(*b"soun")).unwrap();
        assert_eq!((codec.rfc6381.as_str(), &codec.config), ("dtsc", &Config::Dts));
        assert_eq!((audio(&codec).channels, audio(&codec).sample_rate), (6, 48000));
        let expected = DeclaredBitrate { max: Some(1_508_880), average: Some(768_000) };
        assert_eq!(codec.declared_bitrate, expected);
        // 7.1 with rear surrounds.
        let ddts = boxed(b"ddts", &hex("00017700 00000000 00000000 18 00000000 004f 00"));
        let codec = describe(&audio_entry(b"dtsl", 2, 48000, &[ddts]), FourCc(*b"soun")).unwrap();
        assert_eq!((audio(&codec).channels, audio(&codec).sample_rate), (8, 96000));
        let udts = boxed(b"udts", &hex("0501 0000003f a0"));
        let codec = describe(&audio_entry(b"dtsx", 2, 44100, &[udts]), FourCc(*b"soun")).unwrap();
        assert_eq!(
            (codec.rfc6381.as_str(), audio(&codec).channels, audio(&codec).sample_rate),
            ("dtsx", 6, 96000)
        );
        let none = describe(&audio_entry(b"dtse", 2, 48000, &[]), FourCc(*b"soun"));
        assert!(matches!(none, Err(Error::Missing { .. })));
    }
}
