//! AVC access units as a byte stream (ITU-T H.264 Annex B): each four-byte NAL unit length becomes
//! a four-byte start code, so a sample keeps its size whatever it contains.

use bytes::{BufMut, Bytes, BytesMut};
use latemux_isobmff::codec::Avc;

/// The bytes before each NAL unit (Annex B with `zero_byte`).
pub(super) const START_CODE: [u8; 4] = [0, 0, 0, 1];
/// An access unit delimiter that allows every slice type (H.264 §7.3.2.4), with its start code.
pub(super) const DELIMITER: [u8; 6] = [0, 0, 0, 1, 0x09, 0xF0];
/// Length of [`DELIMITER`], and the number of bytes that tell if a sample brings its own.
pub(super) const DELIMITER_LEN: usize = DELIMITER.len();

/// True if a sample with this start brings its own delimiter, which has one valid length.
pub(super) fn is_delimiter(start: &[u8]) -> bool {
    matches!(start, [0, 0, 0, 2, header, _] if header & 0x1F == 9)
}

/// Returns the configuration's SPS, SPS extensions and PPS as a byte stream.
pub(super) fn parameter_sets(avc: &Avc) -> Bytes {
    let nal_units = || avc.sps.iter().chain(&avc.sps_ext).chain(&avc.pps);
    let mut out = BytesMut::with_capacity(nal_units().map(|nal| START_CODE.len() + nal.len()).sum());
    for nal in nal_units() {
        out.put_slice(&START_CODE);
        out.put_slice(nal);
    }
    out.freeze()
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum NalPiece<'a> {
    Bytes(&'a [u8]),
    StartCode,
    /// This number of `trailing_zero_8bits`.
    Zeros(usize),
}

/// Turns one sample with four-byte lengths into a byte stream of the same size. The input comes in
/// pieces of any size.
///
/// Errors in a sample change no size. A NAL unit that claims to be longer than the sample ends with
/// it. A length of zero, and one to three bytes left at the end, become zeros, which a byte stream
/// may have between NAL units.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rewriter {
    sample_left: u32,
    nal_left: u32,
    prefix: u32,
    prefix_len: u8,
}

impl Rewriter {
    pub(super) fn new(size: u32) -> Self {
        Self { sample_left: size, ..Self::default() }
    }

    /// True if the whole sample has been read.
    pub(super) fn is_done(&self) -> bool {
        self.sample_left == 0
    }

    /// Reads from the front of `input`. Returns `None` at the end of the sample or the input.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<NalPiece<'a>> {
        while self.sample_left > 0 && !input.is_empty() {
            if self.nal_left > 0 {
                let bytes = take(input, self.nal_left);
                let len = u32::try_from(bytes.len()).unwrap_or(self.nal_left);
                self.nal_left -= len;
                self.sample_left -= len;
                return Some(NalPiece::Bytes(bytes));
            }
            if self.prefix_len == 0 && self.sample_left < 4 {
                let rest = take(input, self.sample_left).len();
                self.sample_left -= u32::try_from(rest).unwrap_or(self.sample_left);
                // The prefix stays empty, so the rest of the sample takes this path again.
                return Some(NalPiece::Zeros(rest));
            }
            let (&byte, rest) = input.split_first()?;
            *input = rest;
            self.sample_left -= 1;
            self.prefix = (self.prefix << 8) | u32::from(byte);
            self.prefix_len += 1;
            if self.prefix_len == 4 {
                self.nal_left = self.prefix.min(self.sample_left);
                self.prefix = 0;
                self.prefix_len = 0;
                return Some(if self.nal_left == 0 { NalPiece::Zeros(4) } else { NalPiece::StartCode });
            }
        }
        None
    }
}

fn take<'a>(input: &mut &'a [u8], most: u32) -> &'a [u8] {
    let n = input.len().min(most as usize);
    let (taken, rest) = input.split_at(n);
    *input = rest;
    taken
}

/// Converts a sample whose NAL lengths take `length_size` bytes (1, 2 or 3) to lengths of four
/// bytes and appends it. A NAL unit that claims to be longer than the sample ends with it. Empty
/// NAL units and bytes left over at the end are dropped.
pub(super) fn widen(sample: &[u8], length_size: u8, out: &mut BytesMut) {
    let mut rest = sample;
    while let Some((prefix, body)) = rest.split_at_checked(usize::from(length_size.max(1))) {
        let length = prefix.iter().fold(0_usize, |n, &byte| (n << 8) | usize::from(byte));
        let (nal, after) = body.split_at(length.min(body.len()));
        if let (false, Ok(len)) = (nal.is_empty(), u32::try_from(nal.len())) {
            out.put_u32(len);
            out.put_slice(nal);
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(sample: &[u8], piece: usize) -> Vec<u8> {
        let mut rewriter = Rewriter::new(u32::try_from(sample.len()).unwrap());
        let mut out = Vec::new();
        for mut input in sample.chunks(piece) {
            while let Some(piece) = rewriter.next(&mut input) {
                match piece {
                    NalPiece::Bytes(bytes) => out.extend_from_slice(bytes),
                    NalPiece::StartCode => out.extend_from_slice(&START_CODE),
                    NalPiece::Zeros(n) => out.resize(out.len() + n, 0),
                }
            }
        }
        assert!(rewriter.is_done());
        out
    }

    #[test]
    fn lengths_become_start_codes() {
        let sample = [0, 0, 0, 2, 0x67, 1, 0, 0, 0, 1, 0x65];
        for piece in 1..=sample.len() {
            assert_eq!(rewrite(&sample, piece), [0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x65], "pieces of {piece}");
        }
    }

    #[test]
    fn wrong_lengths_keep_the_size() {
        let cases: [(&[u8], &[u8]); 5] = [
            (&[0, 0, 0, 9, 0x65, 7], &[0, 0, 0, 1, 0x65, 7]),
            (&[0, 0, 0, 0, 0, 0, 0, 1, 0x65], &[0, 0, 0, 0, 0, 0, 0, 1, 0x65]),
            (&[0, 0, 0, 1, 0x65, 9, 9, 9], &[0, 0, 0, 1, 0x65, 0, 0, 0]),
            (&[0, 0, 0, 1, 0x65, 0xFF, 0xFF, 0xFF, 0xFF], &[0, 0, 0, 1, 0x65, 0, 0, 0, 0]),
            (&[7], &[0]),
        ];
        for (sample, expected) in cases {
            for piece in 1..=sample.len() {
                assert_eq!(rewrite(sample, piece), expected, "{sample:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn short_lengths_become_four_bytes() {
        let mut out = BytesMut::new();
        widen(&[0, 2, 0x67, 1, 0, 0, 0, 9, 0x65], 2, &mut out);
        assert_eq!(out[..], [0, 0, 0, 2, 0x67, 1, 0, 0, 0, 1, 0x65]);
        out.clear();
        widen(&[2, 0x67, 1, 1, 0x65], 1, &mut out);
        assert_eq!(out[..], [0, 0, 0, 2, 0x67, 1, 0, 0, 0, 1, 0x65]);
    }

    #[test]
    fn delimiters_are_recognised() {
        assert!(is_delimiter(&[0, 0, 0, 2, 0x09, 0x10]));
        assert!(is_delimiter(&[0, 0, 0, 2, 0x29, 0x10]));
        assert!(!is_delimiter(&[0, 0, 0, 3, 0x09, 0x10]));
        assert!(!is_delimiter(&[0, 0, 0, 2, 0x65, 0x10]));
        assert!(!is_delimiter(&[0, 0, 0, 2, 0x09]));
    }
}
