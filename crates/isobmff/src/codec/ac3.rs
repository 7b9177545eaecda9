//! AC-3 and E-AC-3: `dac3`, `dec3` (ETSI TS 102 366 Annex F).

use super::audio_coding::AudioCoding;
use super::children::Child;
use super::description::Config;
use super::sample_entry::AudioFields;
use crate::Error;
use crate::bits::BitReader;

/// Full-bandwidth channels by acmod (ETSI TS 102 366 Table 4.3).
const CHANNELS: [u16; 8] = [2, 1, 2, 3, 3, 4, 4, 5];

/// Returns the rate of a fscod, or 0 for the reserved value. E-AC-3 uses the reserved value for
/// half rates, which `dec3` does not state.
fn sample_rate(fscod: u8) -> u32 {
    match fscod {
        0 => 48000,
        1 => 44100,
        2 => 32000,
        _ => 0,
    }
}

/// Reads acmod and lfeon, and returns the number of channels.
fn channels(bits: &mut BitReader<'_>) -> Option<u16> {
    let acmod = usize::from(bits.u8(3)?);
    let low_frequency = u16::from(bits.flag()?);
    Some(CHANNELS.get(acmod)? + low_frequency)
}

/// Reads `dac3`.
pub(super) fn ac3(name: String, dac3: &Child, stated: AudioFields) -> Result<AudioCoding, Error> {
    let mut bits = dac3.bits();
    let coded = (|| {
        let fscod = bits.u8(2)?;
        // bsid, bsmod.
        bits.skip(5 + 3)?;
        Some(AudioFields { channels: channels(&mut bits)?, sample_rate: sample_rate(fscod) })
    })();
    Ok(AudioCoding::new(name, Config::Ac3, coded.ok_or(dac3.at.truncated())?, stated))
}

/// Reads the first independent substream of `dec3`, and the extension for Joint Object Coding.
pub(super) fn eac3(name: String, dec3: &Child, stated: AudioFields) -> Result<AudioCoding, Error> {
    let mut bits = dec3.bits();
    let coded = substreams(&mut bits).ok_or(dec3.at.truncated())?;
    let mut coding = AudioCoding::new(name, Config::Eac3, coded, stated);
    coding.audio.joc = joint_object_coding(&mut bits);
    Ok(coding)
}

fn substreams(bits: &mut BitReader<'_>) -> Option<AudioFields> {
    // data_rate.
    bits.skip(13)?;
    let mut first = None;
    for _ in 0..=bits.u8(3)? {
        let fscod = bits.u8(2)?;
        // bsid, reserved, asvc, bsmod.
        bits.skip(5 + 1 + 1 + 3)?;
        let independent = channels(bits)?;
        bits.skip(3)?;
        let dependent = bits.u8(4)?;
        let added = if dependent > 0 {
            added_channels(bits.u16(9)?)
        } else {
            bits.skip(1)?;
            0
        };
        first.get_or_insert(AudioFields { channels: independent + added, sample_rate: sample_rate(fscod) });
    }
    first
}

/// Returns the number of channels that dependent substreams add, from chan_loc (ETSI TS 102 366
/// Table F.6.1): bit 0 Lc/Rc, 1 Lrs/Rrs, 2 Cs, 3 Ts, 4 Lsd/Rsd, 5 Lw/Rw, 6 Lvh/Rvh, 7 Cvh, 8 LFE2.
fn added_channels(chan_loc: u16) -> u16 {
    const PAIRS: u16 = 0b0_0111_0011;
    let count = chan_loc.count_ones() + (chan_loc & PAIRS).count_ones();
    u16::try_from(count).unwrap_or(0)
}

/// Reads complexity_index_type_a of the extension after the substreams (ETSI TS 103 420 §8.3.2).
fn joint_object_coding(bits: &mut BitReader<'_>) -> Option<u8> {
    bits.align();
    bits.skip(7)?;
    if bits.flag()? { bits.u8(8) } else { None }
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{audio, audio_entry, boxed, hex};
    use crate::codec::{Config, describe};
    use crate::{Error, FourCc};

    fn read(format: &[u8; 4], kind: &[u8; 4], record: &str) -> (String, u16, u32, Option<u8>) {
        let codec =
            describe(&audio_entry(format, 2, 16000, &[boxed(kind, &hex(record))]), FourCc(*b"soun")).unwrap();
        let audio = audio(&codec);
        (codec.rfc6381.clone(), audio.channels, audio.sample_rate, audio.joc)
    }

    #[test]
    fn ac3_counts_the_low_frequency_channel() {
        assert_eq!(read(b"ac-3", b"dac3", "0c3dc0"), ("ac-3".into(), 6, 48000, None));
        assert_eq!(read(b"ac-3", b"dac3", "5008c0"), ("ac-3".into(), 1, 44100, None));
        assert_eq!(read(b"ac-3", b"dac3", "5010c0"), ("ac-3".into(), 2, 44100, None));
        assert_eq!(read(b"ac-3", b"dac3", "d010c0"), ("ac-3".into(), 2, 16000, None), "the entry's rate");
    }

    #[test]
    fn eac3_with_joint_object_coding() {
        assert_eq!(read(b"ec-3", b"dec3", "1f40 200f00"), ("ec-3".into(), 6, 48000, None));
        assert_eq!(read(b"ec-3", b"dec3", "1400 200f00 01 10"), ("ec-3".into(), 6, 48000, Some(16)));
        assert_eq!(read(b"ec-3", b"dec3", "1400 200f00 00 10").3, None, "the flag is not set");
        // One dependent substream with Lrs/Rrs: 7.1.
        assert_eq!(read(b"ec-3", b"dec3", "1400 200f02 02").1, 8);
        // Two independent substreams: the first counts.
        assert_eq!(read(b"ec-3", b"dec3", "1401 200f00 2002 00").1, 6);
    }

    #[test]
    fn cut_records_are_refused() {
        let codec =
            describe(&audio_entry(b"ec-3", 2, 48000, &[boxed(b"dec3", &hex("1f4020"))]), FourCc(*b"soun"));
        assert!(matches!(codec, Err(Error::Truncated { .. })));
        let codec =
            describe(&audio_entry(b"ac-3", 2, 48000, &[boxed(b"dac3", &hex("0c"))]), FourCc(*b"soun"));
        assert!(matches!(codec, Err(Error::Truncated { .. })));
        let codec =
            describe(&audio_entry(b"ac-3", 2, 48000, &[boxed(b"dac3", &hex("0c3dc0"))]), FourCc(*b"soun"));
        assert!(matches!(codec.unwrap().config, Config::Ac3));
    }
}
