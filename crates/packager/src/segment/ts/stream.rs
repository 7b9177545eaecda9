//! The properties of a track that the muxer needs.

use super::{adts::Adts, annexb, sample_aes::Description};
use crate::PackError;
use bytes::Bytes;
use latemux_index::{Sample, Track, media::Samples};
use latemux_isobmff::{
    Timescale,
    codec::{Config, Media},
};

/// The conversion of a track's samples to an elementary stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Coding {
    /// A delimiter before each sample, `parameter_sets` before sync samples, start codes.
    Avc {
        parameter_sets: Bytes,
        length_size: u8,
    },
    /// A header before each frame.
    Aac(Adts),
    /// Frames are sent as they are.
    Mp3,
    Ac3,
    Eac3,
}

/// A track as a transport stream needs it.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    pub(super) coding: Coding,
    /// Timescale of all sample times.
    pub(super) timescale: Timescale,
    /// Output media time of presentation time 0, in track ticks.
    pub(super) media_time: i64,
    /// Time by which samples are decoded earlier than the source states, in track ticks, ≥ 0. With
    /// negative composition offsets (`ctts` and `trun` version 1), samples would otherwise be
    /// presented before decoding, which PES packets do not permit.
    pub(super) decode_lead: i64,
    /// Audio samples per second, 0 for video.
    pub(super) sample_rate: u32,
    /// Audio samples in a frame if the coding fixes them, else 0.
    pub(super) frame_length: u32,
    /// ISO 639-2 code, if known.
    pub(super) language: Option<[u8; 3]>,
    /// The description of its encryption, if its samples are encrypted.
    pub(super) encryption: Option<Description>,
}

impl Stream {
    /// Fails with [`PackError::CannotCarry`] if a transport stream does not carry the track.
    pub(super) fn of(track: &Track) -> Result<Self, PackError> {
        let format = track.codec.format;
        let cannot = || PackError::CannotCarry { protocol: "HLS TS", format };
        let mut sample_rate = match &track.codec.media {
            Media::Audio(audio) => audio.sample_rate,
            _ => 0,
        };
        let (coding, frame_length) = match &track.codec.config {
            Config::Avc(avc) => {
                let coding = Coding::Avc {
                    parameter_sets: annexb::parameter_sets(avc),
                    length_size: avc.nal_length_size,
                };
                (coding, 0)
            }
            Config::Aac(aac) => {
                sample_rate = aac.core_sample_rate;
                (Coding::Aac(Adts::of(aac).ok_or_else(cannot)?), u32::from(aac.frame_length))
            }
            // Frames have 1152 samples in ISO/IEC 11172-3, and 576 at the low rates of 13818-3.
            Config::Mp3 => (Coding::Mp3, if sample_rate >= 32_000 { 1152 } else { 576 }),
            Config::Ac3 => (Coding::Ac3, 1536),
            Config::Eac3 => (Coding::Eac3, 0),
            _ => return Err(cannot()),
        };
        let is_video = matches!(coding, Coding::Avc { .. });
        Ok(Self {
            coding,
            timescale: track.timescale,
            media_time: track.presentation.media_time,
            decode_lead: match &track.samples {
                Samples::Table(table) => lead_of(table.composition_bounds().0),
                Samples::Fragments(_) => 0,
            },
            sample_rate,
            frame_length,
            language: if is_video { None } else { three_letters(track.language.as_str()) },
            encryption: None,
        })
    }

    /// Raises `decode_lead` to what a segment's samples need, for tracks indexed by fragments. It
    /// is the same in all segments with the same pattern of frames.
    pub(super) fn raise_decode_lead(&mut self, samples: &[Sample]) {
        let least = samples.iter().map(|sample| sample.composition_offset).min().unwrap_or(0);
        self.decode_lead = self.decode_lead.max(lead_of(least));
    }

    pub(super) fn is_video(&self) -> bool {
        matches!(self.coding, Coding::Avc { .. })
    }

    /// Returns the bytes added to a sample by lengths of four bytes, if it has eight NAL units.
    pub(super) fn added_bytes(&self) -> u32 {
        match self.coding {
            Coding::Avc { length_size, .. } => 8 * u32::from(4 - length_size),
            _ => 0,
        }
    }

    /// True if the size depends on a sample's bytes: NAL lengths of other than four bytes.
    pub(super) fn needs_media(&self) -> bool {
        matches!(self.coding, Coding::Avc { length_size, .. } if length_size != 4)
    }

    /// Returns the PES packets' `stream_id` (ISO/IEC 13818-1 Table 2-22; Dolby: private data).
    pub(super) fn stream_id(&self) -> u8 {
        match self.coding {
            Coding::Avc { .. } => 0xE0,
            Coding::Aac(_) | Coding::Mp3 => 0xC0,
            Coding::Ac3 | Coding::Eac3 => 0xBD,
        }
    }
}

fn lead_of(least_offset: i32) -> i64 {
    -i64::from(least_offset.min(0))
}

/// Returns the code of the language descriptor. `None` for tags of other than three letters.
fn three_letters(tag: &str) -> Option<[u8; 3]> {
    let primary = tag.split('-').next()?;
    let code: [u8; 3] = primary.as_bytes().try_into().ok()?;
    (code.iter().all(u8::is_ascii_alphabetic) && &code != b"und")
        .then(|| code.map(|c| c.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::three_letters;

    #[test]
    fn only_three_letter_languages_are_kept() {
        assert_eq!(three_letters("eng"), Some(*b"eng"));
        assert_eq!(three_letters("Por-BR"), Some(*b"por"));
        assert_eq!(three_letters("und"), None);
        assert_eq!(three_letters("en"), None);
        assert_eq!(three_letters(""), None);
    }
}
