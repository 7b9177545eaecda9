//! NAL units of the byte stream format (ISO/IEC 14496-10 Annex B, ISO/IEC 23008-2 Annex B), and the
//! configuration records of an MP4 (ISO/IEC 14496-15).

use latemux_isobmff::bits::{BitReader, without_emulation_prevention};

/// The coding of video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VideoCoding {
    Avc,
    Hevc,
}

impl VideoCoding {
    /// Returns the `nal_unit_type`.
    fn kind(self, unit: &[u8]) -> Option<u8> {
        let first = unit.first()?;
        Some(match self {
            Self::Avc => first & 0x1f,
            Self::Hevc => first >> 1 & 0x3f,
        })
    }

    /// Returns true for a parameter set, which belongs in the sample entry.
    pub(super) fn is_parameter_set(self, unit: &[u8]) -> bool {
        match self {
            Self::Avc => matches!(self.kind(unit), Some(7 | 8 | 13)),
            Self::Hevc => matches!(self.kind(unit), Some(32..=34)),
        }
    }

    /// Returns true for an access unit delimiter, which only the byte stream format needs.
    pub(super) fn is_delimiter(self, unit: &[u8]) -> bool {
        self.kind(unit) == Some(if self == Self::Avc { 9 } else { 35 })
    }

    /// Returns true for a slice at which decoding can start: IDR in AVC, any IRAP picture in HEVC.
    pub(super) fn is_sync(self, unit: &[u8]) -> bool {
        match self {
            Self::Avc => self.kind(unit) == Some(5),
            Self::Hevc => matches!(self.kind(unit), Some(16..=23)),
        }
    }

    /// Returns the payload of `avcC` or `hvcC` for parameter sets, with lengths of four bytes;
    /// `None` if a parameter set is missing or cannot be read.
    pub(super) fn record(self, sets: &[Vec<u8>]) -> Option<Vec<u8>> {
        let of = |kind: u8| sets.iter().filter(move |set| self.kind(set) == Some(kind));
        match self {
            Self::Avc => avc_record([7, 8, 13].map(|kind| of(kind).collect())),
            Self::Hevc => hevc_record(&[32, 33, 34].map(|kind| (kind, of(kind).collect()))),
        }
    }
}

/// Returns the NAL units of a byte stream, without start codes and trailing zeros.
pub(super) fn units(stream: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut starts = Vec::new();
    let mut zeros = 0_usize;
    for (at, byte) in stream.iter().enumerate() {
        match byte {
            0 => zeros += 1,
            1 if zeros >= 2 => {
                starts.push((at - zeros, at + 1));
                zeros = 0;
            }
            _ => zeros = 0,
        }
    }
    let ends = starts.iter().skip(1).map(|(before, _)| *before).chain([stream.len() - zeros]);
    for ((_, from), to) in starts.iter().zip(ends) {
        if let Some(unit) = stream.get(*from..to).filter(|unit| !unit.is_empty()) {
            found.push(unit);
        }
    }
    found
}

fn put_sets(record: &mut Vec<u8>, sets: &[&Vec<u8>]) -> Option<()> {
    for set in sets {
        record.extend(u16::try_from(set.len()).ok()?.to_be_bytes());
        record.extend_from_slice(set);
    }
    Some(())
}

/// The profiles whose sequence parameter sets and records state the chroma format (ISO/IEC 14496-10
/// §7.3.2.1.1, ISO/IEC 14496-15 §5.3.3.1.2).
const HIGH: [u8; 4] = [100, 110, 122, 144];

fn avc_record([sequence, picture, extensions]: [Vec<&Vec<u8>>; 3]) -> Option<Vec<u8>> {
    let first = sequence.first()?;
    let &[_, profile, compatibility, level] = first.first_chunk::<4>()?;
    let count = u8::try_from(sequence.len()).ok().filter(|count| *count < 32)?;
    let mut record = vec![1, profile, compatibility, level, 0xff, 0xe0 | count];
    put_sets(&mut record, &sequence)?;
    record.push(u8::try_from(picture.len()).ok().filter(|count| *count > 0)?);
    put_sets(&mut record, &picture)?;
    if HIGH.contains(&profile) {
        let payload = without_emulation_prevention(first);
        let mut bits = BitReader::new(&payload);
        bits.skip(32)?;
        bits.ue()?;
        let chroma = bits.ue()?;
        if chroma == 3 {
            bits.skip(1)?;
        }
        let luma_depth = bits.ue()?;
        let chroma_depth = bits.ue()?;
        record.extend(formats(chroma, luma_depth, chroma_depth)?);
        record.push(u8::try_from(extensions.len()).ok()?);
        put_sets(&mut record, &extensions)?;
    }
    Some(record)
}

/// Returns the bytes of a record for the chroma format and the bit depths minus 8.
fn formats(chroma: u32, luma_depth: u32, chroma_depth: u32) -> Option<[u8; 3]> {
    let at_most = |value: u32, most: u8| u8::try_from(value).ok().filter(|value| *value <= most);
    Some([0xfc | at_most(chroma, 3)?, 0xf8 | at_most(luma_depth, 7)?, 0xf8 | at_most(chroma_depth, 7)?])
}

fn hevc_record(sets: &[(u8, Vec<&Vec<u8>>); 3]) -> Option<Vec<u8>> {
    if sets.iter().any(|(_, sets)| sets.is_empty()) {
        return None;
    }
    let payload = without_emulation_prevention(sets.get(1)?.1.first()?);
    // After the NAL unit header of two bytes: sps_video_parameter_set_id to
    // sps_temporal_id_nesting_flag (ISO/IEC 23008-2 §7.3.2.2).
    let head = *payload.get(2)?;
    let sub_layers = head >> 1 & 7;
    let nesting = head & 1;
    let profile = payload.get(3..15)?;
    let mut bits = BitReader::new(payload.get(15..)?);
    if sub_layers > 0 {
        let present: Vec<(u32, u32)> =
            (0..8).map(|_| Some((bits.bits(1)?, bits.bits(1)?))).collect::<Option<_>>()?;
        for (profile, level) in present.iter().take(sub_layers.into()) {
            bits.skip(if *profile == 1 { 88 } else { 0 } + if *level == 1 { 8 } else { 0 })?;
        }
    }
    bits.ue()?;
    let chroma = bits.ue()?;
    if chroma == 3 {
        bits.skip(1)?;
    }
    bits.ue()?;
    bits.ue()?;
    if bits.bits(1)? == 1 {
        for _ in 0..4 {
            bits.ue()?;
        }
    }
    let luma_depth = bits.ue()?;
    let chroma_depth = bits.ue()?;
    // ISO/IEC 14496-15 §8.3.3.1.2. Spatial segmentation, parallelism and frame rate are not stated.
    let mut record = vec![1];
    record.extend_from_slice(profile);
    record.extend([0xf0, 0, 0xfc]);
    record.extend(formats(chroma, luma_depth, chroma_depth)?);
    record.extend([0, 0, (sub_layers + 1) << 3 | nesting << 2 | 3, 3]);
    for (kind, sets) in sets {
        record.push(0x80 | kind);
        record.extend(u16::try_from(sets.len()).ok()?.to_be_bytes());
        put_sets(&mut record, sets)?;
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_lie_between_start_codes() {
        let stream = [0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65, 0, 0, 3, 1, 0, 0, 0, 0, 1, 6, 5, 0, 0];
        assert_eq!(units(&stream), [&[9, 0xf0][..], &[0x65, 0, 0, 3, 1], &[6, 5]]);
        assert!(units(&[1, 2, 0, 0]).is_empty() && units(&[]).is_empty() && units(&[0, 0, 1]).is_empty());
    }

    #[test]
    fn records_need_their_parameter_sets() {
        assert_eq!(VideoCoding::Avc.record(&[vec![0x67, 66, 0, 30]]), None, "no picture parameter set");
        assert_eq!(VideoCoding::Avc.record(&[vec![0x67, 100, 0, 30], vec![0x68, 1]]), None, "cut");
        assert_eq!(VideoCoding::Hevc.record(&[vec![0x40, 1], vec![0x42, 1], vec![0x44, 1]]), None, "cut");
        let record = VideoCoding::Avc.record(&[vec![0x67, 66, 0, 30], vec![0x68, 1]]).unwrap();
        assert_eq!(record, [1, 66, 0, 30, 0xff, 0xe1, 0, 4, 0x67, 66, 0, 30, 1, 0, 2, 0x68, 1]);
    }

    #[test]
    fn types_of_nal_units_depend_on_the_coding() {
        let avc = |unit: u8| {
            let coding = VideoCoding::Avc;
            let unit = [unit, 0];
            (coding.is_parameter_set(&unit), coding.is_delimiter(&unit), coding.is_sync(&unit))
        };
        assert_eq!([0x67, 0x68, 0x6d].map(avc), [(true, false, false); 3], "SPS, PPS, SPS extension");
        assert_eq!(
            (avc(0x09), avc(0x65), avc(0x41)),
            ((false, true, false), (false, false, true), (false, false, false))
        );
        let hevc = |kind: u8| {
            let coding = VideoCoding::Hevc;
            let unit = [kind << 1, 1];
            (coding.is_parameter_set(&unit), coding.is_delimiter(&unit), coding.is_sync(&unit))
        };
        assert_eq!([32, 33, 34].map(hevc), [(true, false, false); 3], "VPS, SPS, PPS");
        assert_eq!((hevc(35), hevc(1)), ((false, true, false), (false, false, false)));
        assert_eq!([15, 16, 21, 23, 24].map(|kind| hevc(kind).2), [false, true, true, true, false]);
        assert!(!VideoCoding::Avc.is_sync(&[]), "an empty unit");
    }

    #[test]
    fn records_of_high_profiles_state_the_chroma_format() {
        // High, 4:2:0, 8 bits: profile, constraints, level, then ue(0), ue(1), ue(0), ue(0).
        let sequence = vec![0x67, 100, 0, 31, 0b1010_1110];
        let record = VideoCoding::Avc.record(&[sequence, vec![0x68, 1]]).unwrap();
        assert_eq!(record[record.len() - 4..], [0xfd, 0xf8, 0xf8, 0]);
    }
}
