//! Sample entries built by hand for the tests of this module.

use crate::codec::{Audio, Codec, Media};
use crate::{FourCc, boxes::stsd::SampleEntry};

/// Returns the bytes of hexadecimal digits, ignoring spaces.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte");
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

/// Packs binary digits into bytes, ignoring spaces and filling up with zeros.
pub(crate) fn packed(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).map(|b| b - b'0').collect();
    digits
        .chunks(8)
        .map(|chunk| chunk.iter().fold(0, |byte, bit| byte << 1 | bit) << (8 - chunk.len()))
        .collect()
}

/// Returns a box with this body.
pub(crate) fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).unwrap();
    [&size.to_be_bytes()[..], kind, body].concat()
}

/// Returns a sample entry with this body.
pub(crate) fn entry(format: &[u8; 4], body: &[u8]) -> SampleEntry {
    SampleEntry { format: FourCc(*format), data_reference_index: 1, raw: boxed(format, body).into() }
}

/// Returns a VisualSampleEntry.
pub(crate) fn video_entry(format: &[u8; 4], width: u16, height: u16, boxes: &[Vec<u8>]) -> SampleEntry {
    let mut body = vec![0, 0, 0, 0, 0, 0, 0, 1];
    body.extend([0; 16]);
    body.extend(width.to_be_bytes());
    body.extend(height.to_be_bytes());
    body.extend(hex("00480000 00480000 00000000 0001"));
    body.extend([0; 32]);
    body.extend(hex("0018 ffff"));
    body.extend(boxes.concat());
    entry(format, &body)
}

/// Returns an AudioSampleEntry, version 0.
pub(crate) fn audio_entry(
    format: &[u8; 4],
    channels: u16,
    sample_rate: u16,
    boxes: &[Vec<u8>],
) -> SampleEntry {
    let mut body = vec![0, 0, 0, 0, 0, 0, 0, 1];
    body.extend([0; 8]);
    body.extend(channels.to_be_bytes());
    body.extend(hex("0010 0000 0000"));
    body.extend(sample_rate.to_be_bytes());
    body.extend([0, 0]);
    body.extend(boxes.concat());
    entry(format, &body)
}

pub(crate) fn audio(codec: &Codec) -> &Audio {
    let Media::Audio(audio) = &codec.media else { panic!("{codec:?}") };
    audio
}
