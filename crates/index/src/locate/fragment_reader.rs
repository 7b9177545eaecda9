//! Reading the samples of a fragment. `sidx` and `mfra` list only fragments: their samples are
//! known once the fragment's `moof` has been read, in the same request as its media.

use crate::{
    error::{IndexError, TrackProblemKind},
    locate::moof_samples::{
        self, FragmentDefaults, FragmentError, FragmentedTrack, FragmentedTracks, Wanted,
        every_sample_is_sync,
    },
    media::{MediaIndex, Samples, Track, fragment_samples::FragmentSamples},
    table::samples::Sample,
};
use bytes::Bytes;
use latemux_isobmff::{fragment::Moof, header::BoxHeader};
use std::{ops::Range, sync::Arc};

/// Reads a fragment's `moof`s as its bytes arrive.
#[derive(Debug)]
pub struct FragmentReader {
    index: Arc<MediaIndex>,
    /// The rest of the fragment, from the next box on.
    rest: Range<u64>,
    tracks: FragmentedTracks,
    defaults: FragmentDefaults,
    samples: Vec<Vec<Sample>>,
}

/// The next step of a [`FragmentReader`].
#[derive(Debug)]
pub enum FragmentStep {
    /// All `moof`s have been read. These are the fragment's samples.
    Done(FragmentSamples),
    /// The reader needs the bytes `from` this offset of the object on, at least `len` of them.
    /// Bytes before that offset are not needed again.
    Need {
        /// Offset in bytes from the start of the object.
        from: u64,
        /// Smallest number of bytes.
        len: u64,
    },
}

impl FragmentReader {
    /// Returns a reader for the fragment that lies at `range` of the object.
    pub fn new(index: Arc<MediaIndex>, range: Range<u64>) -> Self {
        let track = |track: &Track| {
            let start = match &track.samples {
                Samples::Fragments(table) => table.at(range.start).and_then(|index| table.start(index)),
                Samples::Table(_) => None,
            };
            FragmentedTrack {
                id: track.id,
                timescale: track.timescale,
                sample_description: track.sample_description,
                all_sync: every_sample_is_sync(track.kind, &track.codec),
                shift: track.presentation.shift,
                next: None,
                expected_composition: start.map(|s| s + track.presentation.media_time),
                listed: None,
            }
        };
        let tracks = FragmentedTracks::new(index.tracks.iter().map(track).collect());
        let samples = vec![Vec::new(); index.tracks.len()];
        let defaults = FragmentDefaults::new(&index.fragment_defaults);
        Self { index, rest: range, tracks, defaults, samples }
    }

    /// Takes contiguous bytes that start at `offset` of the object and returns the next step. The
    /// first call may pass no bytes. Media bytes need not be given: a `Need` skips over `mdat`.
    ///
    /// # Errors
    ///
    /// - [`IndexError::Box`] if a box header or a `moof` cannot be parsed
    /// - [`IndexError::Malformed`] if a box ends beyond the fragment, or samples contradict each
    ///   other
    /// - [`IndexError::Truncated`] if samples end beyond the object
    pub fn feed(&mut self, offset: u64, bytes: &Bytes) -> Result<FragmentStep, IndexError> {
        while !self.rest.is_empty() {
            let at = self.rest.start;
            let left = self.rest.end - at;
            let read = at.checked_sub(offset).and_then(|read| usize::try_from(read).ok());
            let unread = bytes.slice(read.unwrap_or(usize::MAX).min(bytes.len())..);
            let Some(header) = BoxHeader::read(&unread, at)? else {
                if unread.len() as u64 >= left {
                    let what = format!("a fragment ends within the header of the box at byte {at}");
                    return Err(IndexError::Malformed(what));
                }
                let len = left.min(BoxHeader::MAX_LEN as u64);
                return Ok(FragmentStep::Need { from: at, len });
            };
            let size = header.size.unwrap_or(left);
            if header.kind == b"moof" {
                if size > left {
                    return Err(IndexError::Malformed(format!(
                        "the moof at byte {at} ends beyond its fragment"
                    )));
                }
                let whole = usize::try_from(size).ok().filter(|&size| size <= unread.len());
                let Some(size) = whole else { return Ok(FragmentStep::Need { from: at, len: size }) };
                self.read(&unread.slice(..size), at)?;
            }
            self.rest.start = at + size.min(left);
        }
        let samples = std::mem::take(&mut self.samples);
        Ok(FragmentStep::Done(FragmentSamples {
            tracks: samples.into_iter().map(Vec::into_boxed_slice).collect(),
        }))
    }

    fn read(&mut self, moof: &Bytes, offset: u64) -> Result<(), IndexError> {
        let moof = Moof::parse(moof, offset)?;
        let samples = &mut self.samples;
        let size = self.index.object_size;
        moof_samples::resolve(&moof, offset, size, &self.defaults, &mut self.tracks, |number, sample| {
            let sample = sample.map_err(FragmentError::Track)?;
            let Some(track) = samples.get_mut(number) else { return Ok(Wanted::Yes) };
            if let Some(last) = track.last_mut() {
                // A sample lasts until the next one is decoded.
                let step = sample.decode_time.checked_sub(last.decode_time);
                last.duration = step.and_then(|step| u32::try_from(step).ok()).ok_or_else(|| {
                    let id = self.index.tracks.get(number).map_or(0, |track| track.id);
                    let what =
                        format!("the decode time jumps from {} to {}", last.decode_time, sample.decode_time);
                    FragmentError::Track(TrackProblemKind::Malformed(what).of(id))
                })?;
            }
            track.push(sample);
            Ok(Wanted::Yes)
        })?;
        Ok(())
    }
}
