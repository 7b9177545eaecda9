//! Video samples whose slices must be found before a segment with them can be encrypted.

use super::SourceRange;
use crate::PackError;
use latemux_index::Sample;
use latemux_protect::{CutReader, FoundCuts, PackedCuts, cuts::Cut};
use xxhash_rust::xxh3::Xxh3;

/// The video samples of one segment. Cuts are kept under this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CutSamples {
    /// Index into [`latemux_index::Title::objects`].
    pub object: usize,
    /// Digest of the track and of the places of the samples in the object.
    pub digest: u128,
    /// Place of the first sample in the object.
    pub offset: u64,
}

impl CutSamples {
    pub(super) fn of(object: usize, track_id: u32, samples: &[Sample]) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&track_id.to_le_bytes());
        for sample in samples {
            hash.update(&sample.offset.to_le_bytes());
            hash.update(&sample.size.to_le_bytes());
        }
        let offset = samples.first().map_or(0, |sample| sample.offset);
        Self { object, digest: hash.digest128(), offset }
    }
}

/// Cuts that were found before.
pub trait KnownCuts {
    /// Returns the cuts of the samples of a segment, if they are known.
    fn get(&self, samples: &CutSamples) -> Option<FoundCuts>;
}

/// No cuts are known: for manifests, which need none.
#[derive(Debug, Clone, Copy)]
pub struct NoCuts;

impl KnownCuts for NoCuts {
    fn get(&self, _: &CutSamples) -> Option<FoundCuts> {
        None
    }
}

/// Video samples whose cuts are unknown. Read [`Self::samples`] in order, give each to
/// [`Self::cut`], and plan again with the result of [`Self::finish`].
#[derive(Debug)]
pub struct NeedsCuts {
    pub(super) of: CutSamples,
    pub(super) track: String,
    pub(super) samples: Vec<(u64, u32)>,
    pub(super) reader: CutReader,
    pub(super) digest: u128,
    pub(super) content_type: &'static str,
    pub(super) reach: Vec<SourceRange>,
    pub(super) found: PackedCuts,
    /// Cuts of one sample.
    pub(super) buffer: Vec<Cut>,
}

impl NeedsCuts {
    /// Returns the name of the samples.
    pub fn name(&self) -> CutSamples {
        self.of
    }

    /// Returns the ranges of the samples, in decode order.
    pub fn samples(&self) -> impl Iterator<Item = SourceRange> + use<> {
        let object = self.of.object;
        let samples: Vec<(u64, u32)> = self.samples.clone();
        samples
            .into_iter()
            .map(move |(offset, size)| SourceRange { object, range: offset..offset + u64::from(size) })
    }

    /// Returns the offset and the size of each sample, in decode order.
    pub fn places(&self) -> &[(u64, u32)] {
        &self.samples
    }

    /// Returns the ranges around the samples that a cache may fetch along, see
    /// [`super::Plan::reach`].
    pub fn reach(&self) -> &[SourceRange] {
        &self.reach
    }

    /// Returns the later [`super::Plan::digest`], so that a conditional request needs no media.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Returns the later [`super::Plan::content_type`].
    pub fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// Finds the cuts of the next sample.
    ///
    /// # Errors
    /// [`PackError::CannotCut`] for a sample whose slices cannot be found.
    pub fn cut(&mut self, sample: &[u8]) -> Result<(), PackError> {
        self.buffer.clear();
        let cut = self.reader.cut(sample, &mut self.buffer);
        cut.map_err(|problem| PackError::CannotCut { track: self.track.clone(), problem })?;
        self.found.push(&self.buffer);
        Ok(())
    }

    /// Returns the name of the samples, and the cuts of all of them.
    pub fn finish(self) -> (CutSamples, PackedCuts) {
        (self.of, self.found)
    }
}
