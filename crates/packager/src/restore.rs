//! Restores a playable file from media segments that were cut off.
//!
//! Whole samples are kept, and written in decode order. Each keeps its decode and its presentation
//! time, and lasts until the next sample that was kept. Samples of segments in order of importance
//! ([`crate::selection::SampleOrder::Priority`]) play although others are missing.
//!
//! Samples of scalable video keep their lower layers if higher ones are missing. In order of
//! importance, detached layers return to their samples. In decode order, the last sample may be cut
//! off within a higher layer.

use crate::segment::layers::{lowest_layer, nal_length_size};
use bytes::{BufMut, Bytes};
use latemux_isobmff::{
    Error as BoxError,
    boxes::{trex::Trex, trun::TrackRun},
    codec,
    cursor::Cursor,
    emit::{EmitSample, FragmentSpec, muxed_fragment},
    fragment::{LayerInfo, Moof, TrackFragment},
    header::BoxHeader,
    movie::{Movie, Track},
};

/// A restored file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The file: the boxes `ftyp` and `moov` of the init segment, then the fragments.
    pub file: Bytes,
    /// Number of samples in the file.
    pub kept: u64,
    /// Number of samples that the segments announce and that are missing or cut off.
    pub lost: u64,
    /// Number of samples in the file that lack some of their layers.
    pub reduced: u64,
}

/// The reason why nothing can be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The init segment cannot be read.
    #[error("the init segment cannot be read: {0}")]
    Init(BoxError),
    /// The init segment belongs to a file without fragments.
    #[error("not an init segment: its file has no fragments (no 'mvex' box)")]
    NotFragmented,
    /// A box of a segment cannot be read.
    #[error("the segment cannot be read: {0}")]
    Segment(BoxError),
    /// The segment belongs to a track that the init segment does not have.
    #[error("the init segment has no track {0}, which the segment belongs to")]
    NoSuchTrack(u32),
    /// The segment ends before its first sample does.
    #[error("the segment was cut off before the end of its first sample")]
    NoSample,
    /// The samples have more bytes than there are, because they overlap, or there are more samples
    /// than bytes.
    #[error("the samples overlap, or there are more samples than bytes")]
    Overlapping,
    /// Times or sizes are larger than the file can state.
    #[error("the init segment or a fragment has times, sizes or offsets that are too large")]
    TooLarge,
}

/// Restores a file from an init segment and from media segments of the same tracks, one behind the
/// other. The last of them may be cut off at any byte.
///
/// Time and memory are at most proportional to the bytes of both inputs.
///
/// # Errors
/// [`RestoreError`], one variant for each cause.
pub fn restore(init: &Bytes, segments: &Bytes) -> Result<Restored, RestoreError> {
    let file = Cursor::new(init, 0);
    let moov = file.find(b"moov").map_err(RestoreError::Init)?;
    let movie = Movie::parse(&moov.raw(), moov.offset).map_err(RestoreError::Init)?;
    let defaults = movie.fragments.ok_or(RestoreError::NotFragmented)?;
    let layered: Vec<LayeredTrack> = movie.tracks.iter().flatten().filter_map(LayeredTrack::of).collect();
    let mut out = Vec::with_capacity(init.len() + segments.len());
    if let Ok(ftyp) = file.find(b"ftyp") {
        put_sized(&ftyp.raw(), &mut out)?;
    }
    put_sized(&moov.raw(), &mut out)?;
    let mut restored = Restored { file: Bytes::new(), kept: 0, lost: 0, reduced: 0 };
    let mut budget = Budget::of(segments.len());
    let mut at = 0;
    while let Some(found) = box_at(segments, at)? {
        let (header, end) = found;
        if header.kind == b"moof" {
            let Some(bytes) = end.filter(|&end| end <= segments.len()).map(|end| segments.slice(at..end))
            else {
                break;
            };
            let moof = Moof::parse(&bytes, at as u64).map_err(RestoreError::Segment)?;
            let (defaults, layered) = (&defaults, &layered);
            let fragment = Fragment { moof: &moof, offset: at, bytes: segments, defaults, layered };
            fragment.restore(&mut out, &mut restored, &mut budget)?;
        }
        let Some(end) = end else { break };
        at = end;
    }
    if restored.kept == 0 {
        return Err(RestoreError::NoSample);
    }
    restored.file = out.into();
    Ok(restored)
}

/// Appends a box. One that reaches to the end of its file gets a size (ISO/IEC 14496-12 §4.2.2),
/// because fragments follow it here.
fn put_sized(raw: &[u8], out: &mut Vec<u8>) -> Result<(), RestoreError> {
    let size = u32::try_from(raw.len()).map_err(|_| RestoreError::TooLarge)?;
    match raw.strip_prefix(&[0; 4]) {
        Some(rest) => {
            out.put_u32(size);
            out.extend_from_slice(rest);
        }
        None => out.extend_from_slice(raw),
    }
    Ok(())
}

/// Returns the header of the box at an offset, and its end if it has one. Returns `None` behind the
/// last whole header.
fn box_at(bytes: &Bytes, at: usize) -> Result<Option<(BoxHeader, Option<usize>)>, RestoreError> {
    let Some(rest) = bytes.get(at..) else { return Ok(None) };
    let header = BoxHeader::read(rest, at as u64).map_err(RestoreError::Segment)?;
    let end = |size: u64| usize::try_from(size).ok().and_then(|size| at.checked_add(size));
    Ok(header.map(|header| (header, header.size.and_then(end))))
}

/// The samples that fragments may still announce. Without this limit, a few bytes could announce
/// any number of samples.
struct Budget {
    /// Bytes of samples that are left. A sample without bytes counts as one.
    bytes: usize,
    /// Number of samples, left or lost.
    samples: usize,
}

impl Budget {
    fn of(bytes: usize) -> Self {
        // A fragment whose media is cut off may state many samples of one size by their count.
        Self { bytes, samples: bytes.saturating_add(TrackRun::MAX_BARE as usize) }
    }

    fn spend(&mut self, media: Option<&[u8]>) -> Result<(), RestoreError> {
        self.spend_bytes(media.map_or(0, |media| media.len().max(1)))?;
        self.samples = self.samples.checked_sub(1).ok_or(RestoreError::Overlapping)?;
        Ok(())
    }

    fn spend_bytes(&mut self, bytes: usize) -> Result<(), RestoreError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(RestoreError::Overlapping)?;
        Ok(())
    }
}

/// A fragment whose media may be cut off.
struct Fragment<'a> {
    moof: &'a Moof,
    /// Offset of the `moof`.
    offset: usize,
    /// The bytes that hold the `moof` and the media.
    bytes: &'a Bytes,
    defaults: &'a [Trex],
    layered: &'a [LayeredTrack],
}

/// A track whose samples may have layers.
struct LayeredTrack {
    id: u32,
    nal_length_size: usize,
}

impl LayeredTrack {
    fn of(track: &Track) -> Option<Self> {
        let codec = codec::describe(track.sample_entries.first()?, track.handler).ok()?;
        Some(Self { id: track.id, nal_length_size: nal_length_size(&codec.config)?.into() })
    }
}

/// The samples of a track in a fragment that are left, in decode order.
struct TrackSamples<'a> {
    track_id: u32,
    sample_description_index: Option<u32>,
    decode_time: u64,
    samples: Vec<EmitSample>,
    /// The bytes of the samples, in order.
    media: Vec<&'a [u8]>,
}

/// The bytes of a sample that are left.
struct Left<'a> {
    /// The sample without its detached layers. `None` if it is missing.
    sample: Option<&'a [u8]>,
    /// True if the sample is cut off behind its lowest layer.
    is_cut: bool,
}

impl<'a> Fragment<'a> {
    /// Appends the samples that are left. Appends nothing if there are none.
    fn restore(
        &self,
        out: &mut Vec<u8>,
        restored: &mut Restored,
        budget: &mut Budget,
    ) -> Result<(), RestoreError> {
        let mut tracks = Vec::new();
        let mut end_of_data = self.offset as u64;
        for traf in &self.moof.tracks {
            let samples = self.samples(traf, &mut end_of_data, budget, restored)?;
            restored.kept += samples.samples.len() as u64;
            if !samples.samples.is_empty() {
                tracks.push(samples);
            }
        }
        if tracks.is_empty() {
            return Ok(());
        }
        let specs = tracks.iter().map(|track| FragmentSpec {
            sequence: self.moof.sequence,
            track_id: track.track_id,
            sample_description_index: track.sample_description_index,
            decode_time: track.decode_time,
            samples: &track.samples,
        });
        let specs: Vec<FragmentSpec<'_>> = specs.collect();
        muxed_fragment(&specs, out).map_err(|_| RestoreError::TooLarge)?;
        tracks.iter().flat_map(|track| &track.media).for_each(|media| out.put_slice(media));
        Ok(())
    }

    /// Returns the samples of a track fragment that are left. `end_of_data` is where the previous
    /// one ends (ISO/IEC 14496-12 §8.8.7.1).
    fn samples(
        &self,
        traf: &TrackFragment,
        end_of_data: &mut u64,
        budget: &mut Budget,
        restored: &mut Restored,
    ) -> Result<TrackSamples<'a>, RestoreError> {
        let is_own = |trex: &&Trex| trex.track_id == traf.track_id;
        let defaults = self.defaults.iter().find(is_own).ok_or(RestoreError::NoSuchTrack(traf.track_id))?;
        let base = match traf.base_data_offset {
            Some(base) => base,
            None if traf.default_base_is_moof => self.offset as u64,
            None => *end_of_data,
        };
        let mut found = TrackSamples {
            track_id: traf.track_id,
            sample_description_index: traf.sample_description_index,
            decode_time: 0,
            samples: Vec::new(),
            media: Vec::new(),
        };
        let layered = self.layered.iter().find(|track| track.id == traf.track_id);
        let mut layers = LayerReader::new(traf, base);
        let mut time = traf.decode_time.unwrap_or(0);
        let mut at = base;
        for run in &traf.runs {
            if let Some(offset) = run.data_offset {
                at = base.checked_add_signed(offset.into()).ok_or(RestoreError::TooLarge)?;
            }
            for entry in run.iter() {
                let size = entry.size.or(traf.default_size).unwrap_or(defaults.size);
                let end = at.checked_add(size.into()).ok_or(RestoreError::TooLarge)?;
                let Left { sample: media, is_cut } = self.left(at, end, layered);
                let sample = EmitSample {
                    size: media.map_or(0, |media| u32::try_from(media.len()).unwrap_or(u32::MAX)),
                    duration: entry.duration.or(traf.default_duration).unwrap_or(defaults.duration),
                    flags: entry.flags.or(traf.default_flags).unwrap_or(defaults.flags),
                    composition_offset: entry.composition_offset,
                };
                budget.spend(media)?;
                let places = layers.as_mut().map(|layers| layers.next(self.bytes)).unwrap_or_default();
                match media {
                    Some(media) => {
                        found.push(sample, media, time);
                        let is_whole = !is_cut && self.push_layers(&places, base, &mut found, budget)?;
                        restored.reduced += u64::from(!is_whole);
                    }
                    None => {
                        found.lengthen(sample.duration)?;
                        restored.lost += 1;
                    }
                }
                time = time.checked_add(sample.duration.into()).ok_or(RestoreError::TooLarge)?;
                at = end;
            }
        }
        *end_of_data = at;
        Ok(found)
    }

    /// Returns the bytes of a sample that are left.
    fn left(&self, from: u64, to: u64, layered: Option<&LayeredTrack>) -> Left<'a> {
        if let Some(sample) = self.media(from, to) {
            return Left { sample: Some(sample), is_cut: false };
        }
        let start = || {
            let rest = self.bytes.get(usize::try_from(from).ok()?..)?;
            let end = lowest_layer(rest, layered?.nal_length_size)?;
            rest.get(..end)
        };
        Left { sample: start(), is_cut: true }
    }

    /// Appends the layers of the last sample that are left. Returns true if none is missing.
    fn push_layers(
        &self,
        places: &[(u32, u32)],
        base: u64,
        found: &mut TrackSamples<'a>,
        budget: &mut Budget,
    ) -> Result<bool, RestoreError> {
        for &(offset, size) in places {
            let from = base.checked_add(offset.into()).ok_or(RestoreError::TooLarge)?;
            // A layer needs those below it.
            let Some(layer) = self.media(from, from.saturating_add(size.into())) else { return Ok(false) };
            budget.spend_bytes(layer.len())?;
            found.lengthen_media(layer)?;
        }
        Ok(true)
    }

    /// Returns bytes of the segment, if all of them are there.
    fn media(&self, from: u64, to: u64) -> Option<&'a [u8]> {
        self.bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
    }
}

impl<'a> TrackSamples<'a> {
    fn push(&mut self, sample: EmitSample, media: &'a [u8], time: u64) {
        if self.samples.is_empty() {
            self.decode_time = time;
        }
        self.samples.push(sample);
        self.media.push(media);
    }

    /// Adds a layer to the last sample.
    fn lengthen_media(&mut self, layer: &'a [u8]) -> Result<(), RestoreError> {
        let Some(last) = self.samples.last_mut() else { return Ok(()) };
        let size = u32::try_from(layer.len()).ok().and_then(|size| last.size.checked_add(size));
        last.size = size.ok_or(RestoreError::TooLarge)?;
        self.media.push(layer);
        Ok(())
    }

    /// Adds the duration of a lost sample to the sample before it.
    fn lengthen(&mut self, duration: u32) -> Result<(), RestoreError> {
        if let Some(last) = self.samples.last_mut() {
            last.duration = last.duration.checked_add(duration).ok_or(RestoreError::TooLarge)?;
        }
        Ok(())
    }
}

/// Reads the auxiliary information of samples, one after the other.
struct LayerReader<'a> {
    info: &'a LayerInfo,
    /// Offset of the information of the next sample, and its number from 0 on.
    at: usize,
    sample: usize,
}

impl<'a> LayerReader<'a> {
    fn new(traf: &'a TrackFragment, base: u64) -> Option<Self> {
        let info = traf.layers.as_ref()?;
        let at = usize::try_from(base.checked_add(info.offset.into())?).ok()?;
        Some(Self { info, at, sample: 0 })
    }

    /// Returns the offset and the size of each detached layer of the next sample.
    fn next(&mut self, bytes: &[u8]) -> Vec<(u32, u32)> {
        let end = self.at.saturating_add(self.info.size(self.sample));
        let info = bytes.get(self.at..end).unwrap_or_default();
        self.sample += 1;
        self.at = end;
        LayerInfo::layers(info).collect()
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
