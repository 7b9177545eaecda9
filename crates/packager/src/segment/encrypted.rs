//! Encrypted segments: encrypted as a whole, or sample by sample.

use crate::part::{Transform, Trimmed};
use bytes::{Bytes, BytesMut};
use latemux_protect::{SampleCipher, SegmentCipher};
use std::ops::Range;

/// Size of a block in bytes.
const BLOCK: u64 = 16;

/// Encrypts a segment as a whole. `inner` is the transform that makes it, if it needs one.
#[derive(Debug)]
pub(crate) struct EncryptedSegment {
    cipher: SegmentCipher,
    inner: Option<Box<dyn Transform>>,
    /// Length of the clear segment in bytes.
    clear: u64,
}

impl EncryptedSegment {
    pub(crate) fn new(cipher: SegmentCipher, inner: Option<Box<dyn Transform>>, clear: u64) -> Self {
        Self { cipher, inner, clear }
    }
}

impl Transform for EncryptedSegment {
    fn write(&mut self, input: &[u8], out: &mut BytesMut) {
        let Self { cipher, inner, .. } = self;
        cipher.write(out, |out| match inner {
            Some(inner) => inner.write(input, out),
            None => out.extend_from_slice(input),
        });
    }

    fn finish(&mut self, out: &mut BytesMut) {
        let Self { cipher, inner, .. } = self;
        cipher.finish(out, |out| {
            if let Some(inner) = inner {
                inner.finish(out);
            }
        });
    }

    fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.inner.as_ref().map_or(0, |inner| inner.heap_bytes())
    }

    /// Each block depends on all blocks before it, so only what follows the window is left out.
    fn trim(&mut self, window: Range<u64>) -> Trimmed {
        let end = window.end.next_multiple_of(BLOCK).min(self.clear);
        let input = match &mut self.inner {
            Some(inner) => inner.trim(0..end).input,
            None => 0..end,
        };
        Trimmed { input, before: window.start }
    }
}

/// Encrypts the samples of a segment. The segment keeps its length.
#[derive(Debug)]
pub(crate) struct EncryptedSamples(pub(crate) SampleCipher);

impl Transform for EncryptedSamples {
    fn write(&mut self, input: &[u8], out: &mut BytesMut) {
        self.0.write(&[input], out);
    }

    fn write_all(&mut self, input: &[Bytes], out: &mut BytesMut) {
        self.0.write(input, out);
    }

    fn finish(&mut self, _: &mut BytesMut) {}

    fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.0.heap_bytes()
    }

    fn trim(&mut self, window: Range<u64>) -> Trimmed {
        let start = self.0.skip(window.start);
        let more = if self.0.holds_back() { BLOCK - 1 } else { 0 };
        Trimmed { input: start..window.end.saturating_add(more), before: window.start - start }
    }
}
