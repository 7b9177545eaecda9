//! AES-CBC over blocks that lie apart, in several chains side by side.

use aes::Aes128Enc;
use cbc::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, array::Array,
    consts::U16,
};

/// A block of AES.
pub(crate) type Block = Array<u8, U16>;

/// Size of a block in bytes.
const BLOCK: usize = 16;
/// Chains that are encrypted side by side.
const LANES: usize = 16;

/// Blocks of one chain that are to be encrypted where they lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Offset of the first block in bytes.
    pub(crate) at: usize,
    /// Number of blocks.
    pub(crate) count: usize,
    /// The encrypted block before these, or the IV.
    pub(crate) last: Block,
}

/// Encrypts runs whose blocks lie `step` bytes apart. Afterwards, `last` of each run is its last
/// encrypted block, and `count` is 0.
///
/// In one chain, each block waits for the one before it, about ten times as long as the processor
/// is busy with a block. Meanwhile it encrypts blocks of other chains.
pub(crate) fn encrypt_runs(cipher: &Aes128Enc, runs: &mut [Run], step: usize, bytes: &mut [u8]) {
    if !runs.is_empty() {
        cipher.encrypt_with_backend(Chains { runs, step, bytes });
    }
}

/// Encrypts runs inside the function of the crate `aes` that is compiled for this processor.
/// Calling that function for each block would take as long as the block.
struct Chains<'a> {
    runs: &'a mut [Run],
    step: usize,
    bytes: &'a mut [u8],
}

impl BlockSizeUser for Chains<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Chains<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Self { runs, step, bytes } = self;
        let mut blocks = [Block::default(); LANES];
        for runs in runs.chunks_mut(LANES) {
            loop {
                let mut active = 0;
                for (run, block) in runs.iter().filter(|run| run.count > 0).zip(&mut blocks) {
                    let clear = bytes.get(run.at..).and_then(<[u8]>::first_chunk::<BLOCK>);
                    let both = u128::from_ne_bytes(run.last.into())
                        ^ clear.map_or(0, |&clear| u128::from_ne_bytes(clear));
                    *block = both.to_ne_bytes().into();
                    active += 1;
                }
                if active == 0 {
                    break;
                }
                for block in blocks.iter_mut().take(active) {
                    backend.encrypt_block_inplace(block);
                }
                for (run, block) in runs.iter_mut().filter(|run| run.count > 0).zip(&blocks) {
                    if let Some(place) = bytes.get_mut(run.at..run.at + BLOCK) {
                        place.copy_from_slice(block);
                    }
                    run.last = *block;
                    run.at += step;
                    run.count -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::{Aes128, cipher::KeyInit};
    use cbc::cipher::{BlockModeEncrypt, KeyIvInit};
    use proptest::prelude::*;

    const KEY: [u8; 16] = [7; 16];

    proptest! {
        #[test]
        fn every_run_is_encrypted_like_the_crate_cbc_does(
            counts in prop::collection::vec((0_usize..30, any::<[u8; 16]>()), 0..40),
            step in prop_oneof![Just(16_usize), Just(160)],
        ) {
            let total: usize = counts.iter().map(|(count, _)| count * step).sum();
            let mut bytes: Vec<u8> = (0..total).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
            let mut expected = bytes.clone();
            let mut runs = Vec::new();
            let mut at = 0;
            for (count, iv) in counts {
                runs.push(Run { at, count, last: iv.into() });
                let mut chain = cbc::Encryptor::<Aes128>::new(&KEY.into(), &iv.into());
                for place in expected[at..at + count * step].chunks_mut(step) {
                    chain.encrypt_blocks(Array::slice_as_chunks_mut(&mut place[..16]).0);
                }
                at += count * step;
            }
            encrypt_runs(&Aes128Enc::new(&KEY.into()), &mut runs, step, &mut bytes);
            prop_assert_eq!(bytes, expected);
        }
    }
}
