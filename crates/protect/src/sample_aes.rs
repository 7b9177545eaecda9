//! SAMPLE-AES in transport streams (Apple, "MPEG-2 Stream Encryption Format for HTTP Live
//! Streaming"): slices of AVC and frames of audio, each encrypted by AES-CBC from the same IV on.

use crate::{
    ContentKey,
    chain::{Block, Run, encrypt_runs},
};
use aes::Aes128Enc;
use bytes::BytesMut;
use cbc::cipher::{BlockModeEncrypt, InnerIvInit};
use memchr::memmem;
use std::fmt;

/// Bytes of a block.
const BLOCK: usize = 16;
/// Distance from one encrypted block of a NAL unit to the next, in blocks.
const PERIOD: usize = 10;
/// Bytes at the start of a NAL unit that stay clear.
const CLEAR_START: usize = 32;
/// Longest NAL unit that stays clear as a whole.
const CLEAR_NAL_UNIT: usize = 48;
/// Bytes at the start of an audio frame that stay clear.
const CLEAR_FRAME_START: usize = 16;

/// Encrypts the samples of one track.
#[derive(Clone)]
pub struct SampleAes {
    cipher: Aes128Enc,
    iv: [u8; BLOCK],
    /// Memory for the bytes of a slice that emulation prevention moves, which each slice uses.
    moved: Vec<u8>,
}

impl SampleAes {
    /// Creates a cipher with a key and its constant IV.
    pub fn new(key: &ContentKey) -> Self {
        Self { cipher: key.cipher().clone(), iv: key.constant_iv(), moved: Vec::new() }
    }

    /// Appends a slice of AVC, encrypted, and with emulation prevention (ITU-T H.264 §7.4.1). The
    /// slice has its own emulation prevention already, which is encrypted with it.
    pub fn write_slice(&mut self, nal_unit: &[u8], out: &mut BytesMut) {
        let start = out.len();
        out.extend_from_slice(nal_unit);
        if nal_unit.len() <= CLEAR_NAL_UNIT {
            return;
        }
        // A last block that is not followed by another byte stays clear.
        let count = (nal_unit.len() - 1 - CLEAR_START) / BLOCK;
        let run = Run { at: start + CLEAR_START, count: count.div_ceil(PERIOD), last: self.iv.into() };
        encrypt_runs(&self.cipher, &mut [run], PERIOD * BLOCK, out);
        escape(out, start, &mut self.moved);
    }

    /// Encrypts all whole blocks of an audio frame but the first.
    pub fn encrypt_frame(&self, frame: &mut [u8]) {
        let blocks = frame.get_mut(CLEAR_FRAME_START..).unwrap_or_default();
        let mut chain = cbc::Encryptor::inner_iv_init(self.cipher.clone(), &self.iv.into());
        chain.encrypt_blocks(Block::slice_as_chunks_mut(blocks).0);
    }
}

impl fmt::Debug for SampleAes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleAes").finish_non_exhaustive()
    }
}

/// Inserts a 3 between two zeros and a byte of at most 3, in the bytes from a position on. `moved`
/// is memory for the bytes behind the first insertion.
fn escape(out: &mut BytesMut, start: usize, moved: &mut Vec<u8>) {
    let zeros = memmem::Finder::new(&[0, 0]);
    let Some(first) = out.get(start..).and_then(|bytes| end_of_zeros(&zeros, bytes)) else { return };
    // Most slices have no such bytes.
    moved.clear();
    moved.extend_from_slice(out.get(start + first..).unwrap_or_default());
    out.truncate(start + first);
    let mut bytes = moved.as_slice();
    loop {
        out.extend_from_slice(&[3]);
        let Some(next) = end_of_zeros(&zeros, bytes) else { break };
        let (before, after) = bytes.split_at(next);
        out.extend_from_slice(before);
        bytes = after;
    }
    out.extend_from_slice(bytes);
}

/// Returns the position behind the first two zeros that a byte of at most 3 follows.
fn end_of_zeros(zeros: &memmem::Finder<'_>, bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + zeros.find(bytes.get(from..)?)? + 2;
        if *bytes.get(end)? <= 3 {
            return Some(end);
        }
        from = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, KeyId};
    use aes::Aes128;
    use cbc::cipher::{BlockModeDecrypt, KeyIvInit, array::Array};
    use proptest::prelude::*;

    const KEY: [u8; 16] = [9; 16];

    fn cipher() -> SampleAes {
        SampleAes::new(&ContentKey::new(KeyId::of_digest([1; 16]), Key::new(KEY), Some([7; 16])))
    }

    /// Removes emulation prevention byte by byte, by the words of the standard.
    fn unescaped(bytes: &[u8]) -> Vec<u8> {
        let mut zeros = 0;
        let mut out = Vec::new();
        for &byte in bytes {
            if zeros >= 2 && byte == 3 {
                zeros = 0;
                continue;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            out.push(byte);
        }
        out
    }

    fn decrypt(bytes: &mut [u8], at: impl Iterator<Item = usize>) {
        let mut chain = cbc::Decryptor::<Aes128>::new(&KEY.into(), &[7; 16].into());
        for at in at {
            chain.decrypt_blocks(Array::slice_as_chunks_mut(&mut bytes[at..at + BLOCK]).0);
        }
    }

    proptest! {
        #[test]
        fn slices_are_decrypted_by_the_definition(
            // Few values, so that zeros follow one another.
            nal_unit in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(3), any::<u8>()], 1..700),
        ) {
            let mut out = BytesMut::new();
            cipher().write_slice(&nal_unit, &mut out);
            if nal_unit.len() <= 48 {
                prop_assert_eq!(&out[..], &nal_unit[..]);
                return Ok(());
            }
            let start_code = out.windows(3).position(|three| matches!(three, [0, 0, 0..=2]));
            prop_assert_eq!(start_code, None);
            let mut clear = unescaped(&out);
            let len = clear.len();
            prop_assert_ne!(&clear, &nal_unit);
            decrypt(&mut clear, (32..len).step_by(160).filter(|at| len - at > 16));
            prop_assert_eq!(clear, nal_unit);
        }

        #[test]
        fn frames_are_decrypted_by_the_definition(frame in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut encrypted = frame.clone();
            cipher().encrypt_frame(&mut encrypted);
            prop_assert_eq!(encrypted == frame, frame.len() < 32);
            let len = frame.len();
            decrypt(&mut encrypted, (16..len).step_by(16).filter(|at| at + 16 <= len));
            prop_assert_eq!(encrypted, frame);
        }
    }
}
