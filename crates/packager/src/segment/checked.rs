//! Encrypted segments whose cuts were stated by an index MP4: each sample is compared with them
//! before any byte of it is sent.

use crate::{
    PackError,
    part::{Transform, Trimmed},
};
use bytes::{Bytes, BytesMut};
use latemux_protect::{CutCheck, CutError, CutReader, PackedCuts, SampleCipher, cuts::Cut};
use std::{collections::VecDeque, ops::Range, sync::Arc};

/// Encrypts the samples of a segment by cuts that may be wrong.
///
/// It finds the cuts of each sample in the media and compares them. If they differ, it makes no
/// more output, and [`Transform::failure`] tells the reason: the body is aborted. A sample is held
/// back until all of it has arrived.
pub(crate) struct CheckedSamples {
    cipher: SampleCipher,
    /// Bytes of the head that have not arrived yet.
    head: u64,
    /// Sizes of the samples that have not been checked.
    sizes: VecDeque<u32>,
    check: SampleCheck,
    /// The first bytes of a sample that has not arrived completely.
    held: BytesMut,
    has_failed: bool,
}

/// Compares samples with the stated cuts.
struct SampleCheck {
    reader: CutReader,
    stated: Arc<PackedCuts>,
    /// Number of bytes of the stated cuts that were compared.
    compared: usize,
    result: Arc<CutCheck>,
    /// Name of the track in errors.
    track: String,
    /// Cuts of one sample, and their packed form.
    cuts: Vec<Cut>,
    packed: PackedCuts,
}

impl SampleCheck {
    /// Returns true if the next sample has the stated cuts.
    fn matches(&mut self, sample: &[u8]) -> bool {
        self.cuts.clear();
        if self.reader.cut(sample, &mut self.cuts).is_err() {
            return false;
        }
        self.packed.clear();
        self.packed.push(&self.cuts);
        let found = self.packed.as_bytes();
        let stated = self.stated.as_bytes().get(self.compared..).unwrap_or_default();
        self.compared += found.len();
        stated.starts_with(found)
    }
}

impl std::fmt::Debug for CheckedSamples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckedSamples")
            .field("samples", &self.sizes.len())
            .field("has_failed", &self.has_failed)
            .finish_non_exhaustive()
    }
}

impl CheckedSamples {
    /// Creates the transform of a segment that consists of `head` clear bytes and of samples of
    /// these sizes.
    pub(crate) fn new(
        cipher: SampleCipher,
        head: u32,
        sizes: impl Iterator<Item = u32>,
        (reader, stated): (CutReader, Arc<PackedCuts>),
        result: Arc<CutCheck>,
        track: String,
    ) -> Self {
        let cuts = Vec::new();
        let packed = PackedCuts::default();
        Self {
            cipher,
            head: head.into(),
            sizes: sizes.collect(),
            check: SampleCheck { reader, stated, compared: 0, result, track, cuts, packed },
            held: BytesMut::new(),
            has_failed: false,
        }
    }

    /// Appends to `ready` the head and those samples of a piece that are complete and have the
    /// stated cuts.
    fn take(&mut self, mut piece: Bytes, ready: &mut Vec<Bytes>) {
        let head = piece.len().min(usize::try_from(self.head).unwrap_or(usize::MAX));
        if head > 0 {
            ready.push(piece.split_to(head));
            self.head -= head as u64;
        }
        let mut checked = 0;
        while self.head == 0 && !self.has_failed {
            let Some(&size) = self.sizes.front() else { break };
            let missing = (size as usize).saturating_sub(self.held.len());
            let Some(rest) = piece.get(checked..).filter(|rest| rest.len() >= missing) else { break };
            let own = rest.get(..missing).unwrap_or_default();
            self.has_failed = if self.held.is_empty() {
                checked += missing;
                !self.check.matches(own)
            } else {
                self.held.extend_from_slice(own);
                piece = piece.slice(missing..);
                let sample = self.held.split().freeze();
                let matches = self.check.matches(&sample);
                if matches {
                    ready.push(sample);
                }
                !matches
            };
            if self.has_failed {
                self.check.result.set_differs();
                // The sample that differs is the last of the checked bytes.
                checked = checked.saturating_sub(size as usize);
                break;
            }
            self.sizes.pop_front();
            if self.sizes.is_empty() {
                self.check.result.set_matches();
            }
        }
        if checked > 0 {
            ready.push(piece.split_to(checked));
        }
        if !self.has_failed && !self.sizes.is_empty() {
            self.held.extend_from_slice(&piece);
        }
    }
}

impl Transform for CheckedSamples {
    fn write(&mut self, input: &[u8], out: &mut BytesMut) {
        self.write_all(&[Bytes::copy_from_slice(input)], out);
    }

    fn write_all(&mut self, input: &[Bytes], out: &mut BytesMut) {
        let mut ready = Vec::with_capacity(input.len() + 1);
        for piece in input {
            if !self.has_failed {
                self.take(piece.clone(), &mut ready);
            }
        }
        self.cipher.write(&ready, out);
    }

    fn finish(&mut self, _: &mut BytesMut) {}

    /// A sample is held whole, and once more in the output.
    fn heap_bytes(&self) -> usize {
        let largest = self.sizes.iter().max().map_or(0, |size| 2 * *size as usize);
        size_of::<Self>() + self.cipher.heap_bytes() + self.sizes.capacity() * size_of::<u32>() + largest
    }

    /// The cuts of a sample may depend on all samples before it, so only those behind the window
    /// are left out.
    fn trim(&mut self, window: Range<u64>) -> Trimmed {
        let mut end = self.head;
        for size in &self.sizes {
            if end >= window.end {
                break;
            }
            end += u64::from(*size);
        }
        Trimmed { input: 0..end, before: window.start }
    }

    fn failure(&self) -> Option<PackError> {
        let problem = CutError::OtherMedia;
        self.has_failed.then(|| PackError::CannotCut { track: self.check.track.clone(), problem })
    }
}

#[cfg(test)]
#[path = "checked_tests.rs"]
mod tests;
