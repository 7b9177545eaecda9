//! The encryption of a segment's samples: the spans to encrypt, and the sample information that
//! `senc` states (ISO/IEC 23001-7 §7.2).

use crate::{
    ContentKey, CutError, PackedCuts, Scheme,
    cuts::subsamples,
    sample_cipher::{Pattern, SampleCipher, Span},
};
use std::collections::VecDeque;

/// The way in which the samples of a track are encrypted.
#[derive(Debug, Clone, Copy)]
pub struct SampleSeal<'a> {
    /// Key of the track.
    pub key: &'a ContentKey,
    /// `cenc`, `cbcs` or `piff`.
    pub scheme: Scheme,
    /// True for video, in which slice data is encrypted. In other tracks, whole samples are.
    pub is_video: bool,
    /// True for AV1, of which `cbcs` states every tile, see [`subsamples`].
    pub is_av1: bool,
    /// Digest of the object that holds the samples.
    pub fingerprint: u128,
}

/// Samples to encrypt.
#[derive(Debug, Clone)]
pub struct SealedSamples {
    /// Number of samples.
    pub samples: usize,
    /// Information of all samples, for `senc`.
    pub entries: Vec<u8>,
    /// Size of the information of each sample in bytes. Empty if samples have none.
    pub sizes: Vec<u8>,
    spans: VecDeque<Span>,
    pattern: Pattern,
}

impl SampleSeal<'_> {
    /// Returns the pattern of blocks.
    pub fn pattern(&self) -> Pattern {
        match (self.scheme, self.is_video) {
            (Scheme::Cenc | Scheme::Piff, _) => Pattern::Counter,
            (_, true) => Pattern::OneOfTen,
            (_, false) => Pattern::EveryBlock,
        }
    }

    /// Prepares the encryption of samples, each given by its offset in the object and its size. For
    /// video, `cuts` are the cuts of all these samples.
    ///
    /// # Errors
    /// [`CutError::OtherMedia`] if video has no cuts, or those of other samples;
    /// [`CutError::TooMany`] if a sample has too many slices.
    pub fn seal(
        &self,
        samples: impl ExactSizeIterator<Item = (u64, u32)>,
        cuts: Option<&PackedCuts>,
    ) -> Result<SealedSamples, CutError> {
        let count = samples.len();
        let iv_len = self.scheme.iv_len();
        let has_ivs = iv_len > 0;
        let mut sealed = SealedSamples {
            samples: count,
            entries: Vec::with_capacity(count * 26),
            sizes: Vec::with_capacity(count),
            spans: VecDeque::with_capacity(count + 1),
            pattern: self.pattern(),
        };
        let mut packed = match (self.is_video, cuts) {
            (true, Some(cuts)) => Some(cuts.samples()),
            (true, None) => return Err(CutError::OtherMedia),
            (false, _) => None,
        };
        let ivs = self.key.sample_ivs(self.fingerprint);
        let mut of_sample = Vec::new();
        let mut pieces = Vec::new();
        for (offset, size) in samples {
            let iv = match self.scheme {
                Scheme::Cenc => ivs.counter(offset),
                Scheme::Piff => ivs.short_counter(offset),
                _ => self.key.constant_iv(),
            };
            let start = sealed.entries.len();
            sealed.entries.extend_from_slice(iv.get(..iv_len).unwrap_or_default());
            let Some(packed) = &mut packed else {
                sealed.spans.push_back(Span { clear: 0, protected: size, iv: Some(iv) });
                sealed.push_size(start);
                continue;
            };
            packed.next_sample(size, &mut of_sample)?;
            pieces.clear();
            subsamples(self.scheme, self.is_av1, &of_sample, &mut pieces)?;
            let count = u16::try_from(pieces.len()).map_err(|_| CutError::TooMany)?;
            sealed.entries.extend_from_slice(&count.to_be_bytes());
            for (number, piece) in pieces.iter().enumerate() {
                sealed.entries.extend_from_slice(&piece.clear.to_be_bytes());
                sealed.entries.extend_from_slice(&piece.protected.to_be_bytes());
                // In `cenc` and PIFF, the counter continues within a sample. In `cbcs`, each
                // subsample begins a new chain.
                let begins = if has_ivs { number == 0 } else { piece.protected > 0 };
                let clear = piece.clear.into();
                let protected = piece.protected;
                sealed.spans.push_back(Span { clear, protected, iv: begins.then_some(iv) });
            }
            sealed.push_size(start);
        }
        Ok(sealed)
    }
}

impl SealedSamples {
    /// Appends the size of the information that begins at `start`, unless it is empty.
    fn push_size(&mut self, start: usize) {
        let size = self.entries.len() - start;
        if size > 0 {
            // No more than 255 bytes, see [`Scheme::max_subsamples`].
            self.sizes.push(u8::try_from(size).unwrap_or(u8::MAX));
        }
    }

    /// Returns the cipher of a segment that consists of `head` clear bytes and of the samples.
    pub fn cipher(mut self, key: &ContentKey, head: u32) -> SampleCipher {
        self.spans.push_front(Span { clear: head, protected: 0, iv: None });
        SampleCipher::new(key, self.pattern, self.spans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, KeyId, cuts::Cut};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn key() -> ContentKey {
        ContentKey::new(KeyId::of_digest([9; 16]), Key::new([7; 16]), None)
    }

    fn packed(samples: &[&[(u32, u32)]]) -> PackedCuts {
        let mut packed = PackedCuts::default();
        for sample in samples {
            let cuts: Vec<Cut> = sample.iter().map(|&(clear, data)| Cut { clear, data }).collect();
            packed.push(&cuts);
        }
        packed
    }

    #[test]
    fn sample_information_is_as_the_standard_says() {
        let key = key();
        let cuts = packed(&[&[(7, 33), (5, 20)], &[(40, 10)]]);
        let samples = [(100_u64, 65_u32), (165, 50)];
        let seal =
            |scheme, is_video| SampleSeal { key: &key, scheme, is_video, is_av1: false, fingerprint: 1 };
        let cbcs = seal(Scheme::Cbcs, true).seal(samples.into_iter(), Some(&cuts)).unwrap();
        assert_eq!(cbcs.entries, [0, 2, 0, 7, 0, 0, 0, 33, 0, 5, 0, 0, 0, 20, 0, 1, 0, 50, 0, 0, 0, 0]);
        assert_eq!(cbcs.sizes, [14, 8]);
        let cenc = seal(Scheme::Cenc, true).seal(samples.into_iter(), Some(&cuts)).unwrap();
        assert_eq!(cenc.sizes, [30, 24]);
        assert_eq!(cenc.entries[..16], key.sample_ivs(1).counter(100));
        assert_eq!(cenc.entries[16..30], [0, 2, 0, 8, 0, 0, 0, 32, 0, 9, 0, 0, 0, 16]);
        let audio = seal(Scheme::Cenc, false).seal(samples.into_iter(), None).unwrap();
        assert_eq!((audio.sizes.as_slice(), audio.entries.len()), (&[16, 16][..], 32));
        let audio = seal(Scheme::Cbcs, false).seal(samples.into_iter(), None).unwrap();
        assert!(audio.sizes.is_empty() && audio.entries.is_empty());
        for (samples, cuts) in [(&samples[..], None), (&[(0, 64)][..], Some(&cuts))] {
            let sealed = seal(Scheme::Cenc, true).seal(samples.iter().copied(), cuts);
            assert_eq!(sealed.unwrap_err(), CutError::OtherMedia);
        }
    }

    proptest! {
        /// Under one key, no two samples of one object or of several share a counter.
        #[test]
        fn no_counter_is_used_twice(
            objects in prop::collection::btree_set(any::<u128>(), 1..4),
            sizes in prop::collection::vec(1_u32..90, 1..40),
        ) {
            let key = key();
            let mut used = BTreeSet::new();
            for fingerprint in objects {
                let mut offset = 0_u64;
                for &size in &sizes {
                    let first = u128::from_be_bytes(key.sample_ivs(fingerprint).counter(offset));
                    for block in 0..u128::from(size.div_ceil(16)) {
                        prop_assert!(used.insert(first + block), "offset {}", offset);
                    }
                    offset += u64::from(size);
                }
            }
        }
    }
}
