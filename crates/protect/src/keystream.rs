//! The key stream of AES-CTR, made for many blocks at a time.
//!
//! The ciphers of the crate `aes` encrypt up to 64 blocks at once, and what is left one block after
//! another, which takes as long as the 64. Samples are short: most of a frame of audio, and several
//! hundred bytes of each picture, would be encrypted in that slow way. So this stream makes a whole
//! batch for four blocks or more.

use aes::Aes128Enc;
use bytes::BytesMut;
use cbc::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, ParBlocks, array::Array,
    consts::U16, typenum::Unsigned,
};

/// Size of a block in bytes.
const BLOCK: usize = 16;
/// Fewest blocks for which a whole batch is made.
const WORTH_A_BATCH: usize = 4;

/// The key stream of one sample. The last 64 bits of its blocks are a counter (ISO/IEC 23001-7
/// §9.2).
pub(crate) struct Keystream {
    prefix: [u8; 8],
    /// Counter of the next block.
    next: u64,
    /// The last block that was made.
    block: [u8; BLOCK],
    /// Bytes of `block` that were used.
    used: usize,
}

impl Keystream {
    /// Begins a stream at an IV.
    pub(crate) fn new(iv: [u8; BLOCK]) -> Self {
        let iv = u128::from_be_bytes(iv).to_be_bytes();
        let (prefix, count) = iv.split_at(8);
        let half = |bytes: &[u8]| std::array::from_fn(|i| bytes.get(i).copied().unwrap_or_default());
        let next = u64::from_be_bytes(half(count));
        Self { prefix: half(prefix), next, block: [0; BLOCK], used: BLOCK }
    }

    /// Appends the encrypted form of the next bytes.
    pub(crate) fn write(&mut self, cipher: &Aes128Enc, input: &[u8], out: &mut BytesMut) {
        let rest = self.block.get(self.used..).unwrap_or_default();
        let (now, input) = input.split_at(input.len().min(rest.len()));
        self.used += now.len();
        out.extend(now.iter().zip(rest).map(|(byte, key)| byte ^ key));
        // Memory is read faster by a copy than by a loop that also encrypts.
        let start = out.len();
        out.extend_from_slice(input);
        if let Some(bytes) = out.get_mut(start..).filter(|bytes| !bytes.is_empty()) {
            cipher.encrypt_with_backend(Batches { stream: self, bytes });
        }
    }

    /// Writes the next counters into blocks, of which `used` will be used.
    ///
    /// This and what calls it is inlined into the function of the crate `aes` that is compiled for
    /// the instructions of this processor, and so uses its wide registers.
    #[inline(always)]
    fn count(&mut self, blocks: &mut [Array<u8, U16>], used: usize) {
        // Up to the overflow of the last byte, only that byte differs: nothing is carried.
        let before_overflow = 256 - usize::from(self.next.to_le_bytes()[0]);
        let (now, later) = blocks.split_at_mut(before_overflow.min(blocks.len()));
        self.fill(self.next, now);
        self.fill(self.next.wrapping_add(now.len() as u64), later);
        self.next = self.next.wrapping_add(used as u64);
    }

    /// Writes counters that differ from the first only in the last byte.
    #[inline(always)]
    fn fill(&self, first: u64, blocks: &mut [Array<u8, U16>]) {
        /// The number 1 in big-endian order, to be added to the last byte.
        const ONE: u64 = u64::from_ne_bytes(1_u64.to_be_bytes());
        let first = u64::from_ne_bytes(first.to_be_bytes());
        for (index, block) in (0_u64..).zip(blocks) {
            let (prefix, number) = block.split_at_mut(8);
            prefix.copy_from_slice(&self.prefix);
            number.copy_from_slice(&first.wrapping_add(index.wrapping_mul(ONE)).to_ne_bytes());
        }
    }
}

/// Bytes to be encrypted in place with blocks that the stream has not made yet.
struct Batches<'a> {
    stream: &'a mut Keystream,
    bytes: &'a mut [u8],
}

impl BlockSizeUser for Batches<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Batches<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Self { stream, bytes } = self;
        let mut blocks = ParBlocks::<B>::default();
        for piece in bytes.chunks_mut(B::ParBlocksSize::USIZE * BLOCK) {
            let count = piece.len().div_ceil(BLOCK);
            stream.count(&mut blocks, count);
            if count < WORTH_A_BATCH {
                blocks.iter_mut().take(count).for_each(|block| backend.encrypt_block_inplace(block));
            } else {
                backend.encrypt_par_blocks_inplace(&mut blocks);
            }
            if let Some(last) = blocks.get(count - 1) {
                stream.block = (*last).into();
                stream.used = piece.len() - (count - 1) * BLOCK;
            }
            for (byte, key) in piece.iter_mut().zip(Array::slice_as_flattened(&blocks)) {
                *byte ^= key;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::KeyInit;
    use ctr::{
        Ctr64BE,
        cipher::{KeyIvInit, StreamCipher},
    };
    use proptest::prelude::*;

    const KEY: [u8; 16] = *b"a key of 16 byte";

    proptest! {
        /// The counter passes its end in half of the cases.
        #[test]
        fn pieces_are_encrypted_like_the_crate_ctr_does(
            clear in prop::collection::vec(any::<u8>(), 0..5000),
            pieces in prop::collection::vec(0_usize..1500, 0..12),
            prefix in any::<u64>(),
            back in 0_u64..200,
            wraps in any::<bool>(),
        ) {
            let low = if wraps { u64::MAX - back } else { prefix };
            let iv = (u128::from(prefix) << 64 | u128::from(low)).to_be_bytes();
            let cipher = Aes128Enc::new(&KEY.into());
            let mut stream = Keystream::new(iv);
            let mut out = BytesMut::new();
            let mut rest = clear.as_slice();
            for piece in pieces {
                let (now, later) = rest.split_at(piece.min(rest.len()));
                stream.write(&cipher, now, &mut out);
                rest = later;
            }
            stream.write(&cipher, rest, &mut out);
            let mut expected = clear;
            Ctr64BE::<aes::Aes128>::new(&KEY.into(), &iv.into()).apply_keystream(&mut expected);
            prop_assert_eq!(&out[..], &expected[..]);
        }
    }
}
