//! The fixed fields of sample entries (ISO/IEC 14496-12 §8.5.2, §12.1.3, §12.2.3; QuickTime sound
//! descriptions).

use super::children::{Children, Position};
use crate::bits::BitReader;
use crate::error::BoxPath;
use crate::{Error, FourCc, boxes::stsd};
use bytes::Bytes;

/// A sample entry without its header.
#[derive(Debug, Clone)]
pub(super) struct EntryBody {
    pub(super) format: FourCc,
    /// The bytes after the header, starting with the reserved ones before `data_reference_index`.
    pub(super) body: Bytes,
    /// Position of `body`.
    pub(super) at: Position,
}

/// Fields of a VisualSampleEntry.
#[derive(Debug, Clone, Copy)]
pub(super) struct VideoFields {
    pub(super) width: u16,
    pub(super) height: u16,
}

/// Fields of an AudioSampleEntry, or of a QuickTime sound description.
#[derive(Debug, Clone, Copy)]
pub(super) struct AudioFields {
    pub(super) channels: u16,
    /// Samples per second; 0 if the rate does not fit the field.
    pub(super) sample_rate: u32,
}

/// Bytes of `reserved` and `data_reference_index`.
pub(super) const ENTRY_FIELDS: usize = 8;
/// Bytes before the boxes of a VisualSampleEntry.
const VIDEO_FIELDS: usize = ENTRY_FIELDS + 70;
/// Bytes before the boxes of an AudioSampleEntry, version 0.
const AUDIO_FIELDS: usize = ENTRY_FIELDS + 20;
/// Bytes before the boxes in QuickTime's version 1, and in its version 2.
const AUDIO_V1_FIELDS: usize = AUDIO_FIELDS + 16;
const AUDIO_V2_FIELDS: usize = AUDIO_FIELDS + 36;

impl EntryBody {
    pub(super) fn new(entry: &stsd::SampleEntry) -> Result<Self, Error> {
        let at = Position { path: BoxPath::default().join(FourCc(*b"stsd")).join(entry.format), offset: 0 };
        let mut head = BitReader::new(&entry.raw);
        let size = head.bits(32).ok_or(at.truncated())?;
        let header = if size == 1 { 16 } else { 8 };
        if entry.raw.len() < header + ENTRY_FIELDS {
            return Err(at.truncated());
        }
        let at = Position { offset: header as u64, ..at };
        Ok(Self { format: entry.format, body: entry.raw.slice(header..), at })
    }

    /// Returns `len` bytes from `at` on, or none if the entry is too short for them.
    pub(super) fn field(&self, at: usize, len: usize) -> &[u8] {
        self.body.get(at..at + len).unwrap_or_default()
    }

    /// Walks the boxes from `start` bytes into the body on.
    pub(super) fn children(&self, start: usize) -> Children {
        Children::new(&self.body, start, self.at)
    }

    pub(super) fn video(&self) -> Result<(VideoFields, Children), Error> {
        let mut bits = BitReader::new(&self.body);
        let fields = (|| {
            bits.skip((ENTRY_FIELDS + 16) * 8)?;
            let fields = VideoFields { width: bits.u16(16)?, height: bits.u16(16)? };
            bits.skip((VIDEO_FIELDS - ENTRY_FIELDS - 20) * 8)?;
            Some(fields)
        })();
        Ok((fields.ok_or(self.at.truncated())?, self.children(VIDEO_FIELDS)))
    }

    pub(super) fn audio(&self) -> Result<(AudioFields, Children), Error> {
        let mut bits = BitReader::new(&self.body);
        let fields = (|| {
            bits.skip(ENTRY_FIELDS * 8)?;
            let version = bits.u16(16)?;
            bits.skip(48)?;
            let channels = bits.u16(16)?;
            bits.skip(48)?;
            // 16.16 fixed point, except in Dolby TrueHD (Dolby TrueHD in ISOBMFF §3.2), where the
            // rate is a whole number.
            let rate = bits.bits(32)?;
            let sample_rate = if self.format == b"mlpa" { rate } else { rate >> 16 };
            Some((version, AudioFields { channels, sample_rate }))
        })();
        let (version, fields) = fields.ok_or(self.at.truncated())?;
        match version {
            0 => Ok((fields, self.children(AUDIO_FIELDS))),
            1 => Ok(self.audio_v1(fields)),
            2 => self.audio_v2(bits).ok_or(self.at.truncated()),
            _ => Err(self.at.unsupported("version of the sound description")),
        }
    }

    /// Reads version 1, which has two meanings. ISO's AudioSampleEntryV1 adds no field and may
    /// state the rate in `srat` (ISO/IEC 14496-12 §12.2.3). QuickTime's version adds 16 bytes,
    /// packet sizes that do not read as boxes. Only the version of `stsd` could tell the two apart
    /// for certain.
    fn audio_v1(&self, mut fields: AudioFields) -> (AudioFields, Children) {
        let iso = self.children(AUDIO_FIELDS);
        let is_iso = iso.is_well_formed() && iso.clone().next().is_some();
        let boxes = if is_iso { iso } else { self.children(AUDIO_V1_FIELDS) };
        let srat = boxes.first(b"srat").and_then(|srat| srat.full_box().ok()?.1.bits(32));
        if let Some(rate) = srat.filter(|&rate| rate != 0) {
            fields.sample_rate = rate;
        }
        (fields, boxes)
    }

    /// Reads QuickTime's version 2: the fields of version 0 hold fixed values, and the rate is a
    /// 64-bit float.
    fn audio_v2(&self, mut bits: BitReader<'_>) -> Option<(AudioFields, Children)> {
        bits.skip(32)?;
        let rate = f64::from_bits(u64::from(bits.bits(32)?) << 32 | u64::from(bits.bits(32)?));
        let channels = u16::try_from(bits.bits(32)?).ok()?;
        bits.skip((AUDIO_V2_FIELDS - AUDIO_FIELDS - 16) * 8)?;
        let sample_rate = hertz(rate);
        Some((AudioFields { channels, sample_rate }, self.children(AUDIO_V2_FIELDS)))
    }
}

/// Returns a rate as a whole number, or 0 if it does not fit.
fn hertz(rate: f64) -> u32 {
    let rate = rate.round();
    if (1.0..=f64::from(u32::MAX)).contains(&rate) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked on the line above"
        )]
        return rate as u32;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::EntryBody;
    use crate::codec::tests::sample_entries::{boxed, entry};

    fn audio_entry(version: u16, extra: &[u8], boxes: &[u8]) -> (u16, u32, usize) {
        let mut body = vec![0; 8];
        body.extend(version.to_be_bytes());
        body.extend([0; 6]);
        body.extend([0, 2, 0, 16, 0, 0, 0, 0, 0xac, 0x44, 0, 0]);
        body.extend_from_slice(extra);
        body.extend_from_slice(boxes);
        let (fields, boxes) = EntryBody::new(&entry(b"mp4a", &body)).unwrap().audio().unwrap();
        (fields.channels, fields.sample_rate, boxes.count())
    }

    #[test]
    fn audio_entries_of_every_version_are_read() {
        let btrt = boxed(b"btrt", &[0; 12]);
        assert_eq!(audio_entry(0, &[], &btrt), (2, 44100, 1));
        let wave = boxed(b"wave", &btrt);
        assert_eq!(audio_entry(1, &[0, 0, 4, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2], &wave), (2, 44100, 1));
        assert_eq!(audio_entry(1, &[0; 16], &wave), (2, 44100, 1));
        let srat = boxed(b"srat", &[0, 0, 0, 0, 0, 1, 0x77, 0]);
        assert_eq!(audio_entry(1, &[], &[srat, btrt.clone()].concat()), (2, 96000, 2));
        let mut v2 = vec![0, 0, 0, 72];
        v2.extend(96000f64.to_be_bytes());
        v2.extend([0, 0, 0, 6]);
        v2.extend([0x7f, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(audio_entry(2, &v2, &btrt), (6, 96000, 1));
        assert!(EntryBody::new(&entry(b"mp4a", &[0; 7])).is_err());
        assert!(EntryBody::new(&entry(b"mp4a", &[0; 27])).unwrap().audio().is_err());
        assert!(EntryBody::new(&entry(b"avc1", &[0; 77])).unwrap().video().is_err());
    }
}
