//! Transport streams whose samples are encrypted (Apple, "MPEG-2 Stream Encryption Format for HTTP
//! Live Streaming"): the samples, and the descriptors by which a program map says so.

use super::stream::Coding;
use crate::PackError;
use bytes::{BufMut, Bytes, BytesMut};
use latemux_index::Track;
use latemux_isobmff::codec::{Config, configuration_record};
use latemux_protect::{CutError, SampleAes};

/// Most bytes of the setup data of audio, so that the program map fits into one packet.
const MAX_SETUP: usize = 64;
/// Bytes of an AC-3 frame that are its setup data.
const AC3_SETUP: usize = 10;

/// The description of an encrypted stream in the program map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    stream_type: u8,
    /// Content of the private data indicator descriptor.
    indicator: [u8; 4],
    /// Audio: its kind, and what a decoder needs before the first frame.
    setup: Option<([u8; 4], Bytes)>,
}

impl Description {
    /// Fails with [`PackError::CannotProtect`] for a coding without a form in the specification.
    pub(super) fn of(track: &Track, coding: &Coding) -> Result<Self, PackError> {
        let (stream_type, indicator, setup) = match (coding, &track.codec.config) {
            (Coding::Avc { .. }, _) => (0xDB, *b"zavc", None),
            // A program config element would stand before the clear bytes of each frame.
            (Coding::Aac(adts), Config::Aac(aac)) if adts.program_config().is_empty() => {
                let kind = match aac.object_type {
                    29 => *b"zacp",
                    5 => *b"zach",
                    _ => *b"zaac",
                };
                (0xCF, *b"aacd", Some((kind, aac.asc.clone())))
            }
            // The setup data is in the first frame.
            (Coding::Ac3, _) => (0xC1, *b"ac3d", Some((*b"zac3", Bytes::new()))),
            (Coding::Eac3, _) => {
                let record = configuration_record(&track.sample_entry, b"dec3");
                (0xC2, *b"ec3d", Some((*b"zec3", record.ok_or_else(cannot_protect)?)))
            }
            _ => return Err(cannot_protect()),
        };
        if setup.as_ref().is_some_and(|(_, data)| data.len() > MAX_SETUP) {
            return Err(cannot_protect());
        }
        Ok(Self { stream_type, indicator, setup })
    }

    /// Completes the setup data of audio from the first sample of a segment.
    pub(super) fn complete(&mut self, sample: &[u8]) {
        if let Some((kind, data)) = &mut self.setup
            && kind == b"zac3"
            && data.is_empty()
        {
            *data = Bytes::copy_from_slice(sample.get(..AC3_SETUP).unwrap_or(sample));
        }
    }

    /// Returns `stream_type`.
    pub(super) fn stream_type(&self) -> u8 {
        self.stream_type
    }

    /// Writes the descriptors.
    pub(super) fn write(&self, out: &mut BytesMut) {
        // private_data_indicator_descriptor (ISO/IEC 13818-1 §2.6.28)
        out.put_slice(&[0x0F, 4]);
        out.put_slice(&self.indicator);
        if let Some((kind, data)) = &self.setup {
            let data_len = u8::try_from(data.len()).unwrap_or(0);
            // registration_descriptor (§2.6.8): kind, priming, version, setup data
            out.put_slice(&[0x05, 4 + 4 + 2 + 1 + 1 + data_len]);
            out.put_slice(b"apad");
            out.put_slice(kind);
            out.put_u16(0);
            out.put_slice(&[1, data_len]);
            out.put_slice(data);
        }
    }
}

fn cannot_protect() -> PackError {
    PackError::CannotProtect("transport streams of other than AVC, AAC and AC-3")
}

/// Appends a sample encrypted. That of video gets NAL unit lengths of four bytes.
pub(super) fn write_sample(
    cipher: &mut SampleAes,
    coding: &Coding,
    sample: &[u8],
    out: &mut BytesMut,
) -> Result<(), CutError> {
    let start = out.len();
    match coding {
        Coding::Avc { length_size, .. } => return write_access_unit(cipher, *length_size, sample, out),
        Coding::Eac3 => {
            out.extend_from_slice(sample);
            let mut rest = out.get_mut(start..).unwrap_or_default();
            while !rest.is_empty() {
                let (frame, after) = rest.split_at_mut(eac3_frame_len(rest));
                cipher.encrypt_frame(frame);
                rest = after;
            }
        }
        Coding::Aac(_) | Coding::Mp3 | Coding::Ac3 => {
            out.extend_from_slice(sample);
            cipher.encrypt_frame(out.get_mut(start..).unwrap_or_default());
        }
    }
    Ok(())
}

/// Returns the bytes of the first frame of a sample of E-AC-3 (ETSI TS 102 366 §E.1.3.1.3), all of
/// them if it states more.
fn eac3_frame_len(sample: &[u8]) -> usize {
    let stated = match sample {
        [0x0B, 0x77, high, low, ..] => ((usize::from(*high) & 7) << 8 | usize::from(*low)) * 2 + 2,
        _ => sample.len(),
    };
    stated.min(sample.len())
}

/// Fails with [`CutError::BeyondSample`] if NAL units do not fill the sample, and with
/// [`CutError::Slice`] for slices that the scheme does not encrypt.
fn write_access_unit(
    cipher: &mut SampleAes,
    length_size: u8,
    sample: &[u8],
    out: &mut BytesMut,
) -> Result<(), CutError> {
    let mut rest = sample;
    while !rest.is_empty() {
        let prefix = rest.split_at_checked(length_size.max(1).into());
        let (length, after) = prefix.ok_or(CutError::BeyondSample)?;
        let length = length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
        let (nal_unit, after) = after.split_at_checked(length).ok_or(CutError::BeyondSample)?;
        rest = after;
        let Some(header) = nal_unit.first() else { continue };
        let start = out.len();
        out.put_u32(0);
        match header & 0x1F {
            1 | 5 => cipher.write_slice(nal_unit, out),
            // Data partitions, and slices of extensions.
            2..=4 | 20 | 21 => return Err(CutError::NoScheme),
            _ => out.extend_from_slice(nal_unit),
        }
        let written = u32::try_from(out.len() - start - 4).map_err(|_| CutError::BeyondSample)?;
        if let Some(length) = out.get_mut(start..start + 4) {
            length.copy_from_slice(&written.to_be_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_a_sample_are_told_apart() {
        // 4 words, then a frame that claims to be longer than the sample.
        let mut sample = vec![0x0B, 0x77, 0, 3, 1, 1, 1, 1, 0x0B, 0x77, 7, 0xFF];
        assert_eq!(eac3_frame_len(&sample), 8);
        assert_eq!(eac3_frame_len(&sample[8..]), 4);
        sample[0] = 0;
        assert_eq!(eac3_frame_len(&sample), 12);
    }

    #[test]
    fn descriptors_are_those_of_the_specification() {
        let asc = Bytes::from_static(&[0x11, 0x90]);
        let aac = Description { stream_type: 0xCF, indicator: *b"aacd", setup: Some((*b"zaac", asc)) };
        let mut out = BytesMut::new();
        aac.write(&mut out);
        assert_eq!(out[..], *b"\x0f\x04aacd\x05\x0eapadzaac\0\0\x01\x02\x11\x90");
    }
}
