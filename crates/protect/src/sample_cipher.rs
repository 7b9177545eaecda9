//! Ciphers of samples (ISO/IEC 23001-7 §9 and §10): `cenc` by AES-CTR, `cbcs` by AES-CBC with a
//! pattern.

use crate::ContentKey;
use aes::Aes128Enc;
use bytes::BytesMut;
use cbc::cipher::{BlockModeEncrypt, InnerIvInit, StreamCipher, array::Array};
use ctr::{Ctr64BE, CtrCore};
use std::{collections::VecDeque, fmt};

/// Size of a block in bytes.
const BLOCK: usize = 16;
/// `cbcs` of video encrypts one block of ten.
const PATTERN: usize = 10;

/// A way to encrypt the protected bytes of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Every byte, by a counter that runs on over the protected bytes of a sample: `cenc`.
    Counter,
    /// The first of ten blocks, chained anew in each subsample: `cbcs` of video.
    OneOfTen,
    /// Every whole block: `cbcs` of audio.
    EveryBlock,
}

/// Clear bytes, and protected bytes after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Clear bytes.
    pub clear: u32,
    /// Protected bytes.
    pub protected: u32,
    /// IV with which the encryption of the protected bytes begins. With `None`, the counter of the
    /// previous span continues.
    pub iv: Option<[u8; 16]>,
}

/// Encrypts the bytes of a segment in order. The output is as long as the input.
pub struct SampleCipher {
    cipher: Aes128Enc,
    pattern: Pattern,
    spans: VecDeque<Span>,
    state: State,
    /// Blocks of the current protected bytes so far.
    blocks: usize,
    /// Bytes of a block that is not complete yet, and is encrypted when it is.
    held: [u8; BLOCK],
    held_len: usize,
}

/// The cipher of the current protected bytes.
enum State {
    None,
    Counter(Box<Ctr64BE<Aes128Enc>>),
    Chain(Box<cbc::Encryptor<Aes128Enc>>),
}

impl SampleCipher {
    /// Creates a cipher of bytes that consist of these spans.
    pub fn new(key: &ContentKey, pattern: Pattern, spans: VecDeque<Span>) -> Self {
        let cipher = key.cipher().clone();
        Self { cipher, pattern, spans, state: State::None, blocks: 0, held: [0; BLOCK], held_len: 0 }
    }

    /// Returns the bytes of memory that the spans take.
    pub fn heap_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>()
    }

    /// Returns true if the bytes of a block are held back until all of it is known.
    pub fn holds_back(&self) -> bool {
        self.pattern != Pattern::Counter
    }

    /// Leaves out bytes before a position, as far as that is possible without reading them: up to
    /// the last point before it where a chain or a counter begins. Returns their number. Must be
    /// called before any input is written.
    pub fn skip(&mut self, position: u64) -> u64 {
        let mut at = 0_u64;
        let mut restart = (0, 0);
        for (index, span) in self.spans.iter().enumerate() {
            if at > position {
                break;
            }
            if span.iv.is_some() {
                restart = (index, at);
            }
            at += u64::from(span.clear) + u64::from(span.protected);
        }
        let (index, mut start) = restart;
        self.spans.drain(..index);
        if let Some(first) = self.spans.front_mut() {
            let clear = position.saturating_sub(start).min(first.clear.into());
            first.clear -= u32::try_from(clear).unwrap_or(0);
            start += clear;
        }
        start
    }

    /// Takes the next bytes, and appends their encrypted form as far as blocks are complete. Bytes
    /// behind the last span are left out, so no byte is sent clear unless a span says so.
    pub fn write(&mut self, mut input: &[u8], out: &mut BytesMut) {
        while let Some(span) = self.spans.front_mut() {
            if span.clear > 0 {
                let count = input.len().min(to_usize(span.clear));
                let (clear, rest) = input.split_at(count);
                out.extend_from_slice(clear);
                span.clear -= to_u32(count);
                input = rest;
            }
            if span.clear > 0 {
                return;
            }
            // A span without protected bytes also begins anew, so that no counter continues in
            // another sample.
            if let Some(iv) = span.iv.take() {
                self.blocks = 0;
                self.state = match self.pattern {
                    Pattern::Counter => State::Counter(Box::new(Ctr64BE::from_core(CtrCore::inner_iv_init(
                        self.cipher.clone(),
                        &iv.into(),
                    )))),
                    _ => {
                        State::Chain(Box::new(cbc::Encryptor::inner_iv_init(self.cipher.clone(), &iv.into())))
                    }
                };
            }
            if span.protected == 0 {
                self.spans.pop_front();
                continue;
            }
            let protected = to_usize(span.protected);
            let taken = input.len().min(protected);
            if taken == 0 {
                return;
            }
            let (now, rest) = input.split_at(taken);
            input = rest;
            span.protected -= to_u32(taken);
            self.protect(now, protected, out);
        }
    }

    /// Encrypts bytes of a span that has `left` protected bytes left, including these.
    fn protect(&mut self, mut input: &[u8], left: usize, out: &mut BytesMut) {
        if matches!(self.state, State::None) {
            // Without an IV nothing is sent: the body is shorter than planned, and is aborted.
            return;
        }
        if let State::Counter(counter) = &mut self.state {
            let start = out.len();
            out.extend_from_slice(input);
            counter.apply_keystream(out.get_mut(start..).unwrap_or_default());
            return;
        }
        // Protected bytes of the span that have not been sent yet.
        let mut left = left + self.held_len;
        while !input.is_empty() {
            if left < BLOCK {
                // A part of a block stays clear.
                out.extend_from_slice(input);
                return;
            }
            let in_pattern = if self.pattern == Pattern::OneOfTen { self.blocks % PATTERN } else { 0 };
            if in_pattern > 0 {
                let skipped = ((PATTERN - in_pattern) * BLOCK).min(left / BLOCK * BLOCK);
                // The pattern continues within a block if the input ended there.
                let count = (skipped - self.held_len).min(input.len());
                let (clear, rest) = input.split_at(count);
                out.extend_from_slice(clear);
                input = rest;
                let passed = self.held_len + count;
                self.blocks += passed / BLOCK;
                self.held_len = passed % BLOCK;
                left -= passed - self.held_len;
                continue;
            }
            let count = (BLOCK - self.held_len).min(input.len());
            if self.held_len == 0 && self.pattern == Pattern::EveryBlock && count == BLOCK {
                let whole = input.len().min(left) / BLOCK * BLOCK;
                let (now, rest) = input.split_at(whole);
                let start = out.len();
                out.extend_from_slice(now);
                self.encrypt(out.get_mut(start..).unwrap_or_default());
                input = rest;
                left -= whole;
                continue;
            }
            let (now, rest) = input.split_at(count);
            input = rest;
            if let Some(held) = self.held.get_mut(self.held_len..self.held_len + count) {
                held.copy_from_slice(now);
            }
            self.held_len += count;
            if self.held_len == BLOCK {
                let start = out.len();
                out.extend_from_slice(&self.held);
                self.encrypt(out.get_mut(start..).unwrap_or_default());
                self.held_len = 0;
                self.blocks += 1;
                left -= BLOCK;
            }
        }
    }

    /// Encrypts whole blocks in place.
    fn encrypt(&mut self, blocks: &mut [u8]) {
        if let State::Chain(chain) = &mut self.state {
            chain.encrypt_blocks(Array::slice_as_chunks_mut(blocks).0);
        }
    }
}

fn to_usize(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Counts that come from a `u32` fit one.
fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl fmt::Debug for SampleCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SampleCipher").field("pattern", &self.pattern).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, KeyId};
    use aes::Aes128;
    use cbc::cipher::{BlockModeDecrypt, KeyIvInit, array::Array};
    use proptest::prelude::*;

    const KEY: [u8; 16] =
        [0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c];
    const IV: [u8; 16] = [7; 16];

    fn key() -> ContentKey {
        ContentKey::new(KeyId::of_digest([1; 16]), Key::new(KEY), None)
    }

    fn encrypted(pattern: Pattern, spans: &[(u32, u32, bool)], input: &[u8], pieces: &[usize]) -> Vec<u8> {
        let span = |&(clear, protected, is_new): &(u32, u32, bool)| Span {
            clear,
            protected,
            iv: is_new.then_some(IV),
        };
        let mut cipher = SampleCipher::new(&key(), pattern, spans.iter().map(span).collect());
        let mut out = BytesMut::new();
        let mut rest = input;
        for &piece in pieces {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            cipher.write(now, &mut out);
            rest = later;
        }
        cipher.write(rest, &mut out);
        out.to_vec()
    }

    /// Decrypts protected bytes block by block, by the words of the standard.
    fn clear_again(pattern: Pattern, bytes: &mut [u8], counter: &mut Ctr64BE<Aes128>) {
        if pattern == Pattern::Counter {
            counter.apply_keystream(bytes);
            return;
        }
        let mut chain = cbc::Decryptor::<Aes128>::new(&KEY.into(), &IV.into());
        let (blocks, _) = Array::slice_as_chunks_mut(bytes);
        for (number, block) in blocks.iter_mut().enumerate() {
            if pattern == Pattern::EveryBlock || number % 10 == 0 {
                chain.decrypt_blocks(std::slice::from_mut(block));
            }
        }
    }

    proptest! {
        #[test]
        fn every_pattern_is_decrypted_by_its_definition(
            spans in prop::collection::vec((0_u32..40, 0_u32..700, any::<bool>()), 0..8),
            pieces in prop::collection::vec(0_usize..300, 0..12),
        ) {
            for pattern in [Pattern::Counter, Pattern::OneOfTen, Pattern::EveryBlock] {
                let mut spans = spans.clone();
                let mut is_first = true;
                for span in &mut spans {
                    // CBC begins anew in each subsample, and a counter in the first.
                    span.2 |= pattern != Pattern::Counter || is_first;
                    is_first &= span.1 == 0;
                }
                let total: u32 = spans.iter().map(|&(clear, protected, _)| clear + protected).sum();
                let input: Vec<u8> = (0..total).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
                let whole = encrypted(pattern, &spans, &input, &[]);
                prop_assert_eq!(&encrypted(pattern, &spans, &input, &pieces), &whole);
                prop_assert_eq!(whole.len(), input.len());
                let mut decrypted = whole.clone();
                let mut rest = decrypted.as_mut_slice();
                let mut counter = <Ctr64BE<Aes128> as KeyIvInit>::new(&KEY.into(), &IV.into());
                for &(clear, protected, is_new) in &spans {
                    if is_new {
                        counter = <Ctr64BE<Aes128> as KeyIvInit>::new(&KEY.into(), &IV.into());
                    }
                    let (_, after) = std::mem::take(&mut rest).split_at_mut(clear as usize);
                    let (now, after) = after.split_at_mut(protected as usize);
                    clear_again(pattern, now, &mut counter);
                    rest = after;
                }
                prop_assert_eq!(decrypted, input);
            }
        }
    }

    proptest! {
        #[test]
        fn what_follows_skipped_bytes_is_the_same(
            spans in prop::collection::vec((0_u32..40, 0_u32..300, any::<bool>()), 0..8),
            position in 0_u64..1500,
        ) {
            for pattern in [Pattern::Counter, Pattern::OneOfTen, Pattern::EveryBlock] {
                let mut spans = spans.clone();
                let mut is_first = true;
                for span in &mut spans {
                    span.2 |= (pattern != Pattern::Counter && span.1 > 0) || is_first;
                    is_first = false;
                }
                let total: u32 = spans.iter().map(|&(clear, protected, _)| clear + protected).sum();
                let input: Vec<u8> = (0..total).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
                let whole = encrypted(pattern, &spans, &input, &[]);
                let span = |&(clear, protected, is_new): &(u32, u32, bool)| {
                    Span { clear, protected, iv: is_new.then_some(IV) }
                };
                let position = position.min(total.into());
                let mut cipher = SampleCipher::new(&key(), pattern, spans.iter().map(span).collect());
                let start = cipher.skip(position);
                prop_assert!(start <= position);
                let from = usize::try_from(start).unwrap();
                let mut out = BytesMut::new();
                cipher.write(&input[from..], &mut out);
                prop_assert_eq!(&out[..], &whole[from..]);
            }
        }
    }

    #[test]
    fn bytes_without_a_span_or_an_iv_are_not_sent() {
        assert_eq!(encrypted(Pattern::Counter, &[(2, 0, true)], b"clear", &[]), b"cl");
        assert_eq!(encrypted(Pattern::Counter, &[(2, 3, false)], b"clear", &[]), b"cl");
        assert_eq!(encrypted(Pattern::EveryBlock, &[(2, 3, false)], b"clear", &[]), b"cl");
    }
}
