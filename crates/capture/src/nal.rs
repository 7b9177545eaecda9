//! Video as a byte stream (ISO/IEC 14496-10 Annex B, ISO/IEC 23008-2 Annex B) made samples of an MP4 (ISO/IEC 14496-15): a length before each
//! NAL unit, parameter sets in the sample entry, no delimiters.

use crate::bits::Bits;

/// How pictures are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PictureCoding {
    Avc,
    Hevc,
}

impl PictureCoding {
    /// `nal_unit_type`.
    fn kind(self, unit: &[u8]) -> Option<u8> {
        let first = unit.first()?;
        Some(match self {
            Self::Avc => first & 0x1f,
            Self::Hevc => first >> 1 & 0x3f,
        })
    }

    /// Whether a NAL unit is a parameter set, which has its place in the sample entry.
    pub(super) fn is_parameter_set(self, unit: &[u8]) -> bool {
        match self {
            Self::Avc => matches!(self.kind(unit), Some(7 | 8 | 13)),
            Self::Hevc => matches!(self.kind(unit), Some(32..=34)),
        }
    }

    /// An access unit delimiter, which only a byte stream needs.
    pub(super) fn is_delimiter(self, unit: &[u8]) -> bool {
        self.kind(unit) == Some(if self == Self::Avc { 9 } else { 35 })
    }

    /// A slice of a picture that needs no other: IDR; in HEVC any of those for random access.
    pub(super) fn is_sync(self, unit: &[u8]) -> bool {
        match self {
            Self::Avc => self.kind(unit) == Some(5),
            Self::Hevc => matches!(self.kind(unit), Some(16..=23)),
        }
    }

    /// `avcC` or `hvcC` of parameter sets, with lengths of four bytes; `None` where those needed are missing or cannot be read.
    pub(super) fn record(self, sets: &[Vec<u8>]) -> Option<Vec<u8>> {
        let of = |kind: u8| sets.iter().filter(move |set| self.kind(set) == Some(kind));
        match self {
            Self::Avc => avc_record(
                &of(7).collect::<Vec<_>>(),
                &of(8).collect::<Vec<_>>(),
                &of(13).collect::<Vec<_>>(),
            ),
            Self::Hevc => hevc_record(&[32, 33, 34].map(|kind| (kind, of(kind).collect()))),
        }
    }
}

/// The NAL units of a byte stream, without start codes and zeros behind them.
pub(super) fn units(stream: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut starts = Vec::new();
    let mut zeros = 0_usize;
    for (at, byte) in stream.iter().enumerate() {
        match byte {
            0 => zeros = zeros.saturating_add(1),
            1 if zeros >= 2 => {
                starts.push((at.saturating_sub(zeros), at.saturating_add(1)));
                zeros = 0;
            }
            _ => zeros = 0,
        }
    }
    let ends = starts.iter().skip(1).map(|(before, _)| *before).chain([stream.len().saturating_sub(zeros)]);
    for ((_, from), to) in starts.iter().zip(ends) {
        if let Some(unit) = stream.get(*from..to).filter(|unit| !unit.is_empty()) {
            found.push(unit);
        }
    }
    found
}

/// The payload of a NAL unit without the bytes that keep start codes out of it (`emulation_prevention_three_byte`).
fn raw(unit: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(unit.len());
    let mut zeros = 0;
    for &byte in unit {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        raw.push(byte);
    }
    raw
}

fn put_sets(record: &mut Vec<u8>, sets: &[&Vec<u8>]) -> Option<()> {
    for set in sets {
        record.extend(u16::try_from(set.len()).ok()?.to_be_bytes());
        record.extend_from_slice(set);
    }
    Some(())
}

/// Profiles whose sequence parameter sets say how colours are sampled (ISO/IEC 14496-10 §7.3.2.1.1), and their records too (ISO/IEC 14496-15 §5.3.3.1.2).
const HIGH: [u8; 4] = [100, 110, 122, 144];

fn avc_record(sequence: &[&Vec<u8>], picture: &[&Vec<u8>], extensions: &[&Vec<u8>]) -> Option<Vec<u8>> {
    let first = sequence.first()?;
    let &[_, profile, compatibility, level] = first.first_chunk::<4>()?;
    let count = u8::try_from(sequence.len()).ok().filter(|count| *count < 32)?;
    let mut record = vec![1, profile, compatibility, level, 0xff, 0xe0 | count];
    put_sets(&mut record, sequence)?;
    record.push(u8::try_from(picture.len()).ok().filter(|count| *count > 0)?);
    put_sets(&mut record, picture)?;
    if HIGH.contains(&profile) {
        let payload = raw(first);
        let mut bits = Bits::new(&payload);
        bits.skip(32);
        bits.golomb()?;
        let chroma = bits.golomb()?;
        if chroma == 3 {
            bits.skip(1);
        }
        let (luma_depth, chroma_depth) = (bits.golomb()?, bits.golomb()?);
        record.extend([0xfc | low(chroma, 3)?, 0xf8 | low(luma_depth, 7)?, 0xf8 | low(chroma_depth, 7)?]);
        record.push(u8::try_from(extensions.len()).ok()?);
        put_sets(&mut record, extensions)?;
    }
    Some(record)
}

fn low(value: u32, most: u8) -> Option<u8> {
    u8::try_from(value).ok().filter(|value| *value <= most)
}

fn hevc_record(sets: &[(u8, Vec<&Vec<u8>>); 3]) -> Option<Vec<u8>> {
    if sets.iter().any(|(_, sets)| sets.is_empty()) {
        return None;
    }
    let payload = raw(sets.get(1)?.1.first()?);
    // Two bytes of header, then sps_video_parameter_set_id to sps_temporal_id_nesting_flag (ISO/IEC 23008-2 §7.3.2.2).
    let head = *payload.get(2)?;
    let (sub_layers, nesting) = (head >> 1 & 7, head & 1);
    let profile = payload.get(3..15)?;
    let mut bits = Bits::new(payload.get(15..)?);
    if sub_layers > 0 {
        let present: Vec<(u32, u32)> =
            (0..8).map(|_| Some((bits.take(1)?, bits.take(1)?))).collect::<Option<_>>()?;
        for (profile, level) in present.iter().take(sub_layers.into()) {
            bits.skip(if *profile == 1 { 88 } else { 0 } + if *level == 1 { 8 } else { 0 });
        }
    }
    bits.golomb()?;
    let chroma = bits.golomb()?;
    if chroma == 3 {
        bits.skip(1);
    }
    bits.golomb()?;
    bits.golomb()?;
    if bits.take(1)? == 1 {
        for _ in 0..4 {
            bits.golomb()?;
        }
    }
    let (luma_depth, chroma_depth) = (bits.golomb()?, bits.golomb()?);
    // ISO/IEC 14496-15 §8.3.3.1.2: nothing is claimed of spatial segmentation, parallelism and frame rate.
    let mut record = vec![1];
    record.extend_from_slice(profile);
    record.extend([
        0xf0,
        0,
        0xfc,
        0xfc | low(chroma, 3)?,
        0xf8 | low(luma_depth, 7)?,
        0xf8 | low(chroma_depth, 7)?,
    ]);
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
        assert_eq!(raw(&[0x65, 0, 0, 3, 1, 0, 0, 3]), [0x65, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn records_need_their_parameter_sets() {
        assert_eq!(PictureCoding::Avc.record(&[vec![0x67, 66, 0, 30]]), None, "no picture parameter set");
        assert_eq!(PictureCoding::Avc.record(&[vec![0x67, 100, 0, 30], vec![0x68, 1]]), None, "cut");
        assert_eq!(PictureCoding::Hevc.record(&[vec![0x40, 1], vec![0x42, 1], vec![0x44, 1]]), None, "cut");
        let record = PictureCoding::Avc.record(&[vec![0x67, 66, 0, 30], vec![0x68, 1]]).unwrap();
        assert_eq!(record, [1, 66, 0, 30, 0xff, 0xe1, 0, 4, 0x67, 66, 0, 30, 1, 0, 2, 0x68, 1]);
    }
}
