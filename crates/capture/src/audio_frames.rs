//! Frames of audio in elementary streams, found by their headers: AAC in ADTS (ISO/IEC 14496-3
//! §1.A.2.2), MPEG audio (ISO/IEC 11172-3 §2.4.2.3), AC-3 and E-AC-3 (ETSI TS 102 366 §4.3,
//! §E.1.2).

use latemux_client::{
    failure::{Failure, Reason},
    packed_audio::{AAC_SAMPLES, AdtsHeader},
};
use latemux_isobmff::bits::{BitReader, BitWriter};
use std::ops::Range;

/// The syntax of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Adts,
    Mpeg,
    Ac3,
    Eac3,
}

/// The coding of audio, with its decoder configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AudioCoding {
    /// With an AudioSpecificConfig.
    Aac(Vec<u8>),
    Mpeg,
    /// With the payload of `dac3`.
    Ac3(Vec<u8>),
    /// With the payload of `dec3`.
    Eac3(Vec<u8>),
}

/// The format of a stream of audio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AudioFormat {
    pub(super) coding: AudioCoding,
    /// Samples per second.
    pub(super) rate: u32,
    pub(super) channels: u16,
}

/// The bytes that become one sample of an MP4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AudioUnit {
    /// The first byte, with headers.
    pub(super) start: usize,
    /// The bytes of the sample.
    pub(super) data: Range<usize>,
    /// The duration in audio samples.
    pub(super) samples: u32,
    pub(super) format: AudioFormat,
}

/// The content of a frame's header.
#[derive(Debug, Clone)]
struct Frame {
    /// Bytes of the header that are not part of the sample.
    header: usize,
    /// Bytes of the frame.
    size: usize,
    samples: u32,
    format: AudioFormat,
    /// For E-AC-3.
    substream: Option<Substream>,
}

#[derive(Debug, Clone, Copy)]
struct Substream {
    dependent: bool,
    id: u8,
}

/// The number of bytes with which every header can be read.
const NEEDED: usize = 10;

/// Returns the whole units at the start of a buffer, and the number of their bytes. The rest of the
/// buffer is the start of a unit.
pub(super) fn units(framing: Framing, buffer: &[u8]) -> Result<(Vec<AudioUnit>, usize), Failure> {
    let mut units: Vec<AudioUnit> = Vec::new();
    let mut at = 0_usize;
    while let Some(rest) = buffer.get(at..).filter(|rest| rest.len() >= NEEDED) {
        let frame = match framing {
            Framing::Adts => adts(rest),
            Framing::Mpeg => mpeg(rest),
            Framing::Ac3 => ac3(rest),
            Framing::Eac3 => eac3(rest),
        };
        let frame = frame
            .filter(|frame| frame.size > frame.header)
            .ok_or_else(|| Failure::new(Reason::BadAudio, format!("no frame of {framing:?} at byte {at}")))?;
        let end = at + frame.size;
        if end > buffer.len() {
            break;
        }
        match (frame.substream, units.last_mut()) {
            // A unit of E-AC-3 has six blocks, and all substreams of the same time (ETSI TS 102 366
            // Annex F.4).
            (Some(substream), Some(unit))
                if substream.dependent || substream.id > 0 || unit.samples < 1536 =>
            {
                unit.data.end = end;
                if !substream.dependent && substream.id == 0 {
                    unit.samples += frame.samples;
                }
                if let AudioCoding::Eac3(record) = &mut unit.format.coding {
                    extend(record, substream, unit.data.len(), unit.samples, unit.format.rate);
                }
            }
            _ => units.push(AudioUnit {
                start: at,
                data: at + frame.header..end,
                samples: frame.samples,
                format: frame.format,
            }),
        }
        at = end;
    }
    // The next bytes may continue a unit of fewer than six blocks.
    let open =
        units.last().filter(|unit| framing == Framing::Eac3 && unit.samples < 1536).map(|unit| unit.start);
    if let Some(start) = open {
        units.pop();
        at = start;
    }
    Ok((units, at))
}

fn adts(bytes: &[u8]) -> Option<Frame> {
    let header = AdtsHeader::read(bytes)?;
    // A frame of several blocks would have to be split.
    if header.more_blocks != 0 {
        return None;
    }
    let rate = header.rate()?;
    let config = aac_config(header.profile + 1, header.rate_index, header.channels);
    let channels = if header.channels == 7 { 8 } else { u16::try_from(header.channels).ok()? };
    let format = AudioFormat { coding: AudioCoding::Aac(config), rate, channels };
    let size = header.frame_length;
    Some(Frame { header: header.length, size, samples: AAC_SAMPLES, format, substream: None })
}

/// Returns an AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1) of frames of 1024 samples.
pub(super) fn aac_config(object_type: u32, rate_index: u32, channels: u32) -> Vec<u8> {
    BitWriter::default().put(5, object_type).put(4, rate_index).put(4, channels).put(3, 0).to_bytes()
}

/// Kilobits per second by index, for MPEG-1 layer II, MPEG-1 layer III, and MPEG-2 layers II and
/// III.
const MPEG_RATES: [[u32; 14]; 3] = [
    [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

fn mpeg(bytes: &[u8]) -> Option<Frame> {
    let mut bits = BitReader::new(bytes);
    if bits.bits(11)? != 0x7ff {
        return None;
    }
    // Versions: 3 is MPEG-1, 2 is MPEG-2, 0 is MPEG-2.5. Layers: 1 is III, 2 is II.
    let version = bits.bits(2)?;
    let layer = bits.bits(2)?;
    bits.skip(1)?;
    let rate_index = bits.bits(4)?;
    let frequency = bits.bits(2)?;
    let padding = bits.bits(1)?;
    bits.skip(1)?;
    let mode = bits.bits(2)?;
    let first = match (version, layer) {
        (3, 2) => MPEG_RATES.first()?,
        (3, 1) => MPEG_RATES.get(1)?,
        (0 | 2, 1 | 2) => MPEG_RATES.get(2)?,
        _ => return None,
    };
    let kilobits = first.get(usize::try_from(rate_index.checked_sub(1)?).ok()?)?;
    let rate = [44_100, 48_000, 32_000].get(usize::try_from(frequency).ok()?)?;
    let rate = match version {
        3 => *rate,
        2 => rate / 2,
        _ => rate / 4,
    };
    let samples: u32 = if version != 3 && layer == 1 { 576 } else { 1152 };
    let size = samples / 8 * kilobits * 1000 / rate + padding;
    let format = AudioFormat { coding: AudioCoding::Mpeg, rate, channels: if mode == 3 { 1 } else { 2 } };
    Some(Frame { header: 0, size: usize::try_from(size).ok()?, samples, format, substream: None })
}

/// Samples per second by fscod.
const DOLBY_RATES: [u32; 3] = [48_000, 44_100, 32_000];
/// Kilobits per second by frmsizecod / 2.
const AC3_RATES: [u32; 19] =
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640];
/// Channels by acmod, without the low-frequency channel.
const BY_ACMOD: [u16; 8] = [2, 1, 2, 3, 3, 4, 4, 5];

fn ac3(bytes: &[u8]) -> Option<Frame> {
    let mut bits = BitReader::new(bytes);
    if bits.bits(16)? != 0x0b77 {
        return None;
    }
    bits.skip(16)?;
    let fscod = bits.bits(2)?;
    let size_code = bits.bits(6)?;
    let bsid = bits.bits(5)?;
    let bsmod = bits.bits(3)?;
    let acmod = bits.bits(3)?;
    if bsid > 8 {
        return None;
    }
    // cmixlev, surmixlev and dsurmod have two bits each, and are present only in some modes.
    for is_present in [acmod & 1 != 0 && acmod != 1, acmod & 4 != 0, acmod == 2] {
        bits.skip(if is_present { 2 } else { 0 })?;
    }
    let low = bits.bits(1)?;
    let rate = *DOLBY_RATES.get(usize::try_from(fscod).ok()?)?;
    let kilobits = *AC3_RATES.get(usize::try_from(size_code / 2).ok()?)?;
    // Words of 16 bits for 1536 samples. At 44.1 kHz every other size has one more (table 4.13).
    let words = kilobits * 96_000 / rate + if rate == 44_100 { size_code & 1 } else { 0 };
    let record = BitWriter::default()
        .put(2, fscod)
        .put(5, bsid)
        .put(3, bsmod)
        .put(3, acmod)
        .put(1, low)
        .put(5, size_code / 2)
        .put(5, 0)
        .to_bytes();
    let channels = BY_ACMOD.get(usize::try_from(acmod).ok()?)? + u16::try_from(low).ok()?;
    let format = AudioFormat { coding: AudioCoding::Ac3(record), rate, channels };
    Some(Frame { header: 0, size: usize::try_from(words * 2).ok()?, samples: 1536, format, substream: None })
}

fn eac3(bytes: &[u8]) -> Option<Frame> {
    let mut bits = BitReader::new(bytes);
    if bits.bits(16)? != 0x0b77 {
        return None;
    }
    let kind = bits.u8(2)?;
    let id = bits.u8(3)?;
    let words = bits.bits(11)?;
    let fscod = bits.u8(2)?;
    let second = bits.u8(2)?;
    let (rate, blocks) = if fscod == 3 {
        // Such frames have half the rate, and always six blocks.
        (DOLBY_RATES.get(usize::from(second))? / 2, 6)
    } else {
        (*DOLBY_RATES.get(usize::from(fscod))?, *[1, 2, 3, 6].get(usize::from(second))?)
    };
    let acmod = bits.u8(3)?;
    let low = bits.u8(1)?;
    let bsid = bits.u8(5)?;
    if !(11..=16).contains(&bsid) {
        return None;
    }
    let size = usize::try_from((words + 1) * 2).ok()?;
    let samples = 256 * blocks;
    let modes = [fscod, bsid, acmod, low];
    let channels = BY_ACMOD.get(usize::from(acmod))? + u16::from(low);
    let record = eac3_record(modes, 0, size, samples, rate);
    let format = AudioFormat { coding: AudioCoding::Eac3(record), rate, channels };
    let substream = Some(Substream { dependent: kind == 1, id });
    Some(Frame { header: 0, size, samples, format, substream })
}

/// Returns the payload of `dec3` (ETSI TS 102 366 §F.6) for one independent substream and its
/// dependent ones. Their channel locations (chan_loc) are not stated.
fn eac3_record(modes: [u8; 4], dependent: u32, bytes: usize, samples: u32, rate: u32) -> Vec<u8> {
    let [fscod, bsid, acmod, low] = modes.map(u32::from);
    let bits = bytes as u64 * 8;
    let kilobits = bits * u64::from(rate) / u64::from(samples.max(1)) / 1000;
    let mut record = BitWriter::default();
    record
        .put(13, u32::try_from(kilobits.min(0x1fff)).unwrap_or(0))
        .put(3, 0)
        .put(2, fscod)
        .put(5, bsid)
        .put(2, 0)
        .put(3, 0)
        .put(3, acmod)
        .put(1, low)
        .put(3, 0)
        .put(4, dependent);
    record.put(if dependent > 0 { 9 } else { 1 }, 0).to_bytes()
}

/// Updates the payload of `dec3` for another frame of the same unit.
fn extend(record: &mut Vec<u8>, substream: Substream, bytes: usize, samples: u32, rate: u32) {
    let &[_, _, third, fourth, fifth, ..] = record.as_slice() else { return };
    let fscod = third >> 6;
    let bsid = third >> 1 & 0x1f;
    let acmod = fourth >> 1 & 7;
    let low = fourth & 1;
    let dependent = u32::from(fifth >> 1 & 0xf) + u32::from(substream.dependent && substream.id == 0);
    *record = eac3_record([fscod, bsid, acmod, low], dependent, bytes, samples, rate);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_each_coding_are_read() {
        let of = |framing, header: &[u8], size: usize| {
            let mut bytes = header.to_vec();
            bytes.resize(size, 0xaa);
            let (units, whole) = units(framing, &bytes).unwrap();
            assert_eq!(whole, size, "{framing:?}");
            units.into_iter().map(|unit| (unit.data, unit.samples, unit.format)).collect::<Vec<_>>()
        };
        let format = |coding, rate, channels| AudioFormat { coding, rate, channels };
        // 48 kHz, stereo, LC, 100 bytes, with and without CRC.
        let lc = || format(AudioCoding::Aac(vec![0x11, 0x90]), 48_000, 2);
        assert_eq!(
            of(Framing::Adts, &[0xff, 0xf1, 0x4c, 0x80, 0x0c, 0x9f, 0xfc], 100),
            [(7..100, 1024, lc())]
        );
        assert_eq!(
            of(Framing::Adts, &[0xff, 0xf0, 0x4c, 0x80, 0x0c, 0x9f, 0xfc], 100),
            [(9..100, 1024, lc())]
        );
        // MPEG-1 layer III, 128 kbit/s, 44.1 kHz, padded; MPEG-2 layer III, 64 kbit/s, 22.05 kHz,
        // mono.
        assert_eq!(
            of(Framing::Mpeg, &[0xff, 0xfb, 0x92, 0x00], 418),
            [(0..418, 1152, format(AudioCoding::Mpeg, 44_100, 2))]
        );
        assert_eq!(
            of(Framing::Mpeg, &[0xff, 0xf3, 0x80, 0xc0], 208),
            [(0..208, 576, format(AudioCoding::Mpeg, 22_050, 1))]
        );
        // AC-3, 48 kHz, 192 kbit/s, 2/0; at 44.1 kHz the odd size has a word more.
        let ac3 = |coding: [u8; 3], rate| format(AudioCoding::Ac3(coding.to_vec()), rate, 2);
        let stereo = [0x0b, 0x77, 0, 0, 0x14, 0x40, 0x40];
        assert_eq!(of(Framing::Ac3, &stereo, 768), [(0..768, 1536, ac3([0x10, 0x11, 0x40], 48_000))]);
        let odd = [0x0b, 0x77, 0, 0, 0x55, 0x40, 0x40];
        assert_eq!(of(Framing::Ac3, &odd, 836), [(0..836, 1536, ac3([0x50, 0x11, 0x40], 44_100))]);
    }

    #[test]
    fn a_unit_of_e_ac_3_has_six_blocks_and_their_dependent_substreams() {
        // 48 kHz, 3/2 with low frequencies, 100 bytes each: three independent frames of two blocks,
        // with a dependent one after the first.
        let frame = |kind: u8, blocks: u8| {
            let mut bytes = vec![0x0b, 0x77, kind << 6, 49, blocks << 4 | 7 << 1 | 1, 16 << 3];
            bytes.resize(100, 0);
            bytes
        };
        let unit = [frame(0, 1), frame(1, 1), frame(0, 1), frame(0, 1)].concat();
        let (found, whole) =
            units(Framing::Eac3, &[unit.clone(), unit.clone(), frame(0, 1)].concat()).unwrap();
        assert_eq!((whole, found.len()), (800, 2), "the last unit is not complete");
        let first = found.first().unwrap();
        assert_eq!((first.data.clone(), first.samples), (0..400, 1536));
        assert_eq!((first.format.rate, first.format.channels), (48_000, 6));
        // 100 kbit/s; one dependent substream.
        assert_eq!(first.format.coding, AudioCoding::Eac3(vec![0x03, 0x20, 0x20, 0x0f, 0x02, 0x00]));
    }

    proptest::proptest! {
        #[test]
        fn no_buffer_makes_it_panic(mut bytes in proptest::collection::vec(0_u8.., 0..400), kind in 0_usize..4) {
            let framing = [Framing::Adts, Framing::Mpeg, Framing::Ac3, Framing::Eac3][kind];
            let sync = [[0xff, 0xf1], [0xff, 0xfb], [0x0b, 0x77], [0x0b, 0x77]][kind];
            let at = bytes.len().min(2);
            bytes[..at].copy_from_slice(&sync[..at]);
            if let Ok((units, whole)) = units(framing, &bytes) {
                assert!(whole <= bytes.len() && units.iter().all(|unit| unit.data.end <= whole));
            }
        }
    }
}
