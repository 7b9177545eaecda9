//! Ciphers of samples (ISO/IEC 23001-7 §9 and §10): `cenc` by AES-CTR, `cbcs` by AES-CBC with a
//! pattern.

use crate::{
    ContentKey,
    chain::{Block, Run, encrypt_runs},
    keystream::Keystream,
};
use aes::Aes128Enc;
use bytes::BytesMut;
use std::{collections::VecDeque, fmt};

/// Size of a block in bytes.
const BLOCK: usize = 16;
/// Most chains that are listed before they are encrypted.
const MOST_RUNS: usize = 32;
/// `cbcs` of video encrypts one block of ten.
const PERIOD: usize = 10;

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
    /// Blocks that `write` has appended clear and encrypts before it returns.
    runs: Vec<Run>,
    /// True if the last run belongs to the current protected bytes.
    is_listed: bool,
    /// Blocks of the current protected bytes so far, counted for the pattern.
    blocks: usize,
    /// Bytes of a block that is not complete yet.
    held: [u8; BLOCK],
    held_len: usize,
}

/// The cipher of the current protected bytes.
enum State {
    None,
    Counter(Keystream),
    /// The last encrypted block, or the IV.
    Chain(Block),
}

impl SampleCipher {
    /// Creates a cipher of bytes that consist of these spans.
    pub fn new(key: &ContentKey, pattern: Pattern, spans: VecDeque<Span>) -> Self {
        Self {
            cipher: key.cipher().clone(),
            pattern,
            spans,
            state: State::None,
            runs: Vec::new(),
            is_listed: false,
            blocks: 0,
            held: [0; BLOCK],
            held_len: 0,
        }
    }

    /// Returns the bytes of memory that the spans take.
    pub fn heap_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.runs.capacity() * size_of::<Run>()
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

    /// Takes the next bytes, in pieces, and appends their encrypted form as far as blocks are
    /// complete. The chains of all pieces are encrypted side by side. Bytes behind the last span
    /// are left out, so no byte is sent clear unless a span says so.
    pub fn write(&mut self, input: &[impl AsRef<[u8]>], out: &mut BytesMut) {
        for piece in input {
            self.write_spans(piece.as_ref(), out);
        }
        self.encrypt(out);
    }

    /// Does the same, but leaves blocks of chains clear, and lists them in `runs`.
    fn write_spans(&mut self, mut input: &[u8], out: &mut BytesMut) {
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
                self.is_listed = false;
                self.state = match self.pattern {
                    Pattern::Counter => State::Counter(Keystream::new(iv)),
                    _ => State::Chain(iv.into()),
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
    fn protect(&mut self, input: &[u8], left: usize, out: &mut BytesMut) {
        match &mut self.state {
            // Without an IV nothing is sent: the body is shorter than planned, and is aborted.
            State::None => {}
            State::Counter(keystream) => keystream.write(&self.cipher, input, out),
            State::Chain(_) => self.chain(input, left, out),
        }
    }

    /// Encrypts bytes of a span whose blocks are chained. What does not fill a block is held back.
    fn chain(&mut self, mut input: &[u8], left: usize, out: &mut BytesMut) {
        // Protected bytes of the span that have not been sent yet.
        let mut left = left + self.held_len;
        if self.held_len > 0 {
            let (now, rest) = input.split_at(input.len().min(BLOCK - self.held_len));
            self.hold(now);
            if self.held_len < BLOCK {
                return;
            }
            let block = self.held;
            self.write_blocks(&block, out);
            self.held_len = 0;
            left -= BLOCK;
            input = rest;
        }
        let (blocks, rest) = input.split_at(input.len().min(left) / BLOCK * BLOCK);
        self.write_blocks(blocks, out);
        if left - blocks.len() < BLOCK {
            // A part of a block stays clear.
            out.extend_from_slice(rest);
        } else {
            self.hold(rest);
        }
    }

    /// Keeps bytes of a block until it is complete.
    fn hold(&mut self, bytes: &[u8]) {
        if let Some(held) = self.held.get_mut(self.held_len..self.held_len + bytes.len()) {
            held.copy_from_slice(bytes);
            self.held_len += bytes.len();
        }
    }

    /// Appends whole blocks, and lists those that are to be encrypted.
    fn write_blocks(&mut self, clear: &[u8], out: &mut BytesMut) {
        let blocks = clear.len() / BLOCK;
        let (first, period) = match self.pattern {
            Pattern::OneOfTen => (self.blocks.next_multiple_of(PERIOD) - self.blocks, PERIOD),
            _ => (0, 1),
        };
        let count = blocks.saturating_sub(first).div_ceil(period);
        // A chain continues with its last block, which is still clear if it is listed.
        if self.blocks > 0 || self.runs.len() == MOST_RUNS {
            self.encrypt(out);
        }
        self.runs.reserve_exact(MOST_RUNS - self.runs.len());
        if let State::Chain(last) = self.state {
            self.runs.push(Run { at: out.len() + first * BLOCK, count, last });
            self.is_listed = true;
            self.blocks += blocks;
            out.extend_from_slice(clear);
        }
    }

    /// Encrypts the blocks that are listed.
    fn encrypt(&mut self, out: &mut BytesMut) {
        let step = if self.pattern == Pattern::OneOfTen { PERIOD * BLOCK } else { BLOCK };
        encrypt_runs(&self.cipher, &mut self.runs, step, out);
        if let (State::Chain(last), Some(run), true) = (&mut self.state, self.runs.last(), self.is_listed) {
            *last = run.last;
        }
        self.runs.clear();
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
    use cbc::cipher::{BlockModeDecrypt, KeyIvInit, StreamCipher, array::Array};
    use ctr::Ctr64BE;
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
            cipher.write(&[now], &mut out);
            rest = later;
        }
        // The rest at one time: whole, with more chains than are encrypted together, or in pieces.
        let most = if pieces.is_empty() { rest.len().max(1) } else { 99 };
        cipher.write(&rest.chunks(most).collect::<Vec<_>>(), &mut out);
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
            spans in prop::collection::vec((0_u32..40, 0_u32..700, any::<bool>()), 0..48),
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
                cipher.write(&[&input[from..]], &mut out);
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
