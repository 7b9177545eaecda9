//! CMAF segments (ISO/IEC 23000-19): `moof` from the index, `mdat` from untouched slices of the
//! source.
//!
//! A segment is one fragment: `styp`, `moof`, `mdat`. Decode times are those of the output timeline
//! ([`latemux_index::table::presentation`]). The offset edit list in the init segment turns them
//! into the presentation times of the source with its edits applied. A segment does not depend on
//! the segments before it.

use super::{MAX_SAMPLES, TrackShare, priority::Priority, text};
use crate::{PackError, part::Part};
use bytes::Bytes;
use latemux_index::{Sample, Track, media::TrackKind, table::batches::SampleBatch};
use latemux_isobmff::{
    FourCc, Timescale,
    boxes::{ftyp::FileType, senc::SampleEncryption, sinf::TrackEncryption, trex::Trex},
    emit::{
        EmitSample, FragmentShape, FragmentSpec, InitSegment, InitTrack, ReorderedSpec, WriteBox as _,
        encrypted_fragment, fragment, fragment_size, muxed_fragment, reordered_fragment, segment_type,
        text_fragment,
    },
    sample_flags,
};

/// `track_ID` of every track: each is alone in its segments, whatever its number in the source.
pub(crate) const TRACK_ID: u32 = 1;

/// Size in bytes of the smallest start of a media segment: `styp`, `moof`, the header of an `mdat`.
pub(crate) const MIN_SEGMENT_HEADER: u64 = 24 + 8 + 16 + 8 + 28 + 20 + 20 + 8;

/// Returns the init segment of a track: `ftyp` and `moov`.
pub(crate) fn init(track: &Track) -> Bytes {
    InitSegment::cmaf(init_track(TRACK_ID, track), u64::try_from(track.end).ok()).to_bytes()
}

/// Returns the init segment of text that is sent as TTML which is made of it.
pub(crate) fn ttml_init(track: &Track) -> Bytes {
    let described = InitTrack {
        handler: FourCc(*b"subt"),
        sample_entries: vec![text::ttml_entry()],
        ..init_track(TRACK_ID, track)
    };
    InitSegment::cmaf(described, u64::try_from(track.end).ok()).to_bytes()
}

/// Returns the init segment of a track whose samples are encrypted, with `pssh` boxes. With
/// `has_lead`, a second sample entry describes clear samples, see [`SampleForm::Lead`].
pub(crate) fn encrypted_init(
    track: &Track,
    encryption: &TrackEncryption,
    pssh: Vec<Bytes>,
    has_lead: bool,
) -> Bytes {
    let entry = track.sample_entry.encrypted(track.kind == TrackKind::Video, encryption);
    let mut described = init_track(TRACK_ID, track);
    if !has_lead {
        described.sample_entries.clear();
    }
    // Players decide by the first entry if they need a licence.
    described.sample_entries.insert(0, entry);
    let mut init = InitSegment::cmaf(described, u64::try_from(track.end).ok());
    init.pssh = pssh;
    init.to_bytes()
}

/// Returns the init segment of tracks that share segments. The `track_ID`s count from 1.
pub(crate) fn muxed_init(tracks: &[&Track]) -> Bytes {
    let tracks: Vec<InitTrack> = (TRACK_ID..).zip(tracks).map(|(id, track)| init_track(id, track)).collect();
    let brands = FileType {
        major: FourCc(*b"iso6"),
        minor_version: 0,
        compatible: vec![FourCc(*b"iso6"), FourCc(*b"mp41")],
        is_segment: false,
    };
    let timescale = tracks.first().map_or(Timescale::MILLIS, |track| track.timescale);
    InitSegment { brands, timescale, duration: None, tracks, pssh: Vec::new() }.to_bytes()
}

/// Returns the description of a track in a `moov`.
pub(crate) fn init_track(track_id: u32, track: &Track) -> InitTrack {
    InitTrack {
        track_id,
        handler: text::served_handler(track),
        timescale: track.timescale,
        language: track.language.clone(),
        enabled: true,
        alternate_group: 0,
        matrix: track.matrix,
        display_size: track.display_size,
        sample_entries: vec![text::served_entry(track)],
        edit_media_time: u64::try_from(track.presentation.media_time).unwrap_or(0),
        trex: Trex::plain(track_id),
    }
}

/// The form of the samples of a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SampleForm<'a> {
    /// Clear, in a track without encrypted segments.
    Clear,
    /// Clear before encrypted segments: the second sample entry of the track describes them.
    Lead,
    /// They are yet to be encrypted. The segment states how to decrypt them.
    Encrypted(&'a SampleEncryption<'a>),
}

impl<'a> SampleForm<'a> {
    /// Returns the encryption of the samples, if they are to be encrypted.
    pub(crate) fn encryption(self) -> Option<&'a SampleEncryption<'a>> {
        match self {
            Self::Encrypted(encryption) => Some(encryption),
            Self::Clear | Self::Lead => None,
        }
    }
}

/// The text of [`SampleForm::Lead`] in digests.
pub(crate) const LEAD_TEXT: &str = " of a lead";

/// Number of the sample entry of clear segments in a track with encrypted ones.
const LEAD_ENTRY: u32 = 2;

/// Returns the parts of a media segment with samples of an object. `number` is the 1-based number
/// of the segment and its fragment. If the samples are yet to be encrypted, the first part is the
/// clear head. Fails with [`PackError::TooLarge`] for too many samples.
pub(crate) fn media(
    object: usize,
    number: u32,
    samples: &[Sample],
    form: SampleForm<'_>,
) -> Result<Vec<Part>, PackError> {
    written(object, number, samples, |spec, head| match form {
        SampleForm::Encrypted(encryption) => encrypted_fragment(spec, encryption, head),
        SampleForm::Clear => fragment(spec, head),
        SampleForm::Lead => {
            let spec = FragmentSpec { sample_description_index: Some(LEAD_ENTRY), ..*spec };
            fragment(&spec, head)
        }
    })
}

/// Returns the parts of a segment of text, like [`media`], with all sizes of samples in the run.
pub(crate) fn text_media(object: usize, number: u32, samples: &[Sample]) -> Result<Vec<Part>, PackError> {
    written(object, number, samples, text_fragment)
}

fn written(
    object: usize,
    number: u32,
    samples: &[Sample],
    write: impl FnOnce(&FragmentSpec<'_>, &mut Vec<u8>) -> Result<(), latemux_isobmff::Error>,
) -> Result<Vec<Part>, PackError> {
    let emitted: Vec<EmitSample> = samples.iter().map(emit_sample).collect();
    // Room for `styp`. `fragment` reserves its own.
    let mut head = Vec::with_capacity(64);
    segment_type(&BRANDS).write(&mut head);
    // The output timeline starts at 0 or later. Wrong times of a source are no error here.
    let decode_time = samples.first().map_or(0, |s| u64::try_from(s.decode_time).unwrap_or(0));
    let spec = spec(number, decode_time, &emitted);
    write(&spec, &mut head).map_err(|_| PackError::TooLarge("more samples than one fragment takes"))?;
    let ends = samples.iter().map(|s| s.offset + u64::from(s.size));
    let slices = ends.zip(samples.iter().skip(1)).filter(|(end, next)| *end != next.offset).count();
    let mut parts = Vec::with_capacity(slices + 2);
    parts.push(Part::Inline(head.into()));
    Part::push_samples(&mut parts, object, samples);
    Ok(parts)
}

/// Returns the parts of [`media`] with the samples in order of importance. Returns `None` if that
/// is the decode order. Fails with [`PackError::TooLarge`] for too many samples, or for 2 GiB and
/// more.
pub(crate) fn prioritised_media(
    object: usize,
    number: u32,
    samples: &[Sample],
) -> Result<Option<Vec<Part>>, PackError> {
    let Some(priority) = Priority::of(samples) else { return Ok(None) };
    let head = prioritised_head(number, samples, &priority.order, &priority.importance, &[])?;
    let mut parts = vec![Part::Inline(head.into())];
    Part::push_samples(&mut parts, object, &priority.apply(samples));
    Ok(Some(parts))
}

/// Returns the bytes before the samples of a segment in order of importance. See [`ReorderedSpec`]
/// for the order, the importance and the layers. Fails as [`prioritised_media`] does.
pub(super) fn prioritised_head(
    number: u32,
    samples: &[Sample],
    order: &[u32],
    importance: &[u8],
    layers: &[u32],
) -> Result<Vec<u8>, PackError> {
    let emitted: Vec<EmitSample> = samples.iter().map(emit_sample).collect();
    let decode_time = samples.first().map_or(0, |s| u64::try_from(s.decode_time).unwrap_or(0));
    let fragment = spec(number, decode_time, &emitted);
    let mut head = Vec::new();
    // The brand of CMAF segments is left out, because it requires samples in decode order.
    segment_type(&BRANDS[..1]).write(&mut head);
    reordered_fragment(&ReorderedSpec { fragment, order, importance, layers }, &mut head)
        .map_err(|_| PackError::TooLarge("more than a segment in order of importance takes"))?;
    Ok(head)
}

/// Returns the parts of media segment `number` (1-based) of several tracks, in the order of
/// [`muxed_init`]. Fails with [`PackError::TooLarge`] for too many samples, or for 2 GiB and more.
pub(crate) fn muxed_media(number: u32, shares: &[TrackShare<'_>]) -> Result<Vec<Part>, PackError> {
    let emitted: Vec<Vec<EmitSample>> =
        shares.iter().map(|share| share.samples.iter().map(emit_sample).collect()).collect();
    let specs = (TRACK_ID..).zip(shares).zip(&emitted).filter_map(|((track_id, share), emitted)| {
        let decode_time = u64::try_from(share.samples.first()?.decode_time).unwrap_or(0);
        Some(FragmentSpec { track_id, ..spec(number, decode_time, emitted) })
    });
    let specs: Vec<FragmentSpec<'_>> = specs.collect();
    let mut head = Vec::new();
    segment_type(&BRANDS[..1]).write(&mut head);
    muxed_fragment(&specs, &mut head).map_err(|_| PackError::TooLarge("more than one fragment takes"))?;
    let mut parts = vec![Part::Inline(head.into())];
    for share in shares {
        Part::push_samples(&mut parts, share.object, &share.samples);
    }
    Ok(parts)
}

/// Returns the size of the media segment of at most [`MAX_SAMPLES`] samples, see [`media`].
pub(crate) fn segment_bytes(samples: impl Iterator<Item = Sample>) -> u64 {
    let emitted: Vec<EmitSample> = samples.take(MAX_SAMPLES).map(|s| emit_sample(&s)).collect();
    let fragment = fragment_size(&spec(1, 0, &emitted)).map_or(0, |size| size.total());
    segment_type(&BRANDS).size() + fragment
}

/// Returns [`segment_bytes`] of a stretch. `is_composed`: a sample is known to have an offset.
pub(crate) fn stretch_bytes(stretch: &SampleBatch<'_>, is_composed: bool) -> u64 {
    let len = stretch.sizes.len().min(MAX_SAMPLES);
    let sizes = stretch.sizes.get(..len).unwrap_or_default();
    let durations = stretch.durations.get(..len).unwrap_or_default();
    let offsets = stretch.composition_offsets.get(..len).unwrap_or(stretch.composition_offsets);
    let sync = stretch.sync.get(..len).unwrap_or_default();
    let (first, rest) = sync.split_first().map_or((true, sync), |(first, rest)| (*first, rest));
    // Without a branch for each sample, these loops are vectorised.
    let any_sync = rest.iter().fold(false, |any, &sync| any | sync);
    let all_sync = rest.iter().fold(true, |all, &sync| all & sync);
    let is_uniform = if first { all_sync } else { !any_sync };
    let shape = FragmentShape {
        samples: u32::try_from(len).unwrap_or(u32::MAX),
        media: sizes.iter().map(|&size| u64::from(size)).sum(),
        durations: differ(durations),
        sizes: differ(sizes),
        flags: any_sync && !all_sync,
        first_flags: !is_uniform,
        composition_offsets: is_composed || offsets.iter().any(|&offset| offset != 0),
    };
    segment_type(&BRANDS).size() + shape.size().map_or(0, |size| size.total())
}

fn differ(values: &[u32]) -> bool {
    let Some((first, rest)) = values.split_first() else { return false };
    // Sizes differ from the start, and durations usually not at all.
    rest.first().is_some_and(|second| second != first)
        || rest.iter().fold(0, |bits, value| bits | (value ^ first)) != 0
}

/// Brands of a DASH media segment, and of a CMAF segment with one fragment.
const BRANDS: [FourCc; 2] = [FourCc(*b"msdh"), FourCc(*b"cmfs")];

pub(super) fn spec(sequence: u32, decode_time: u64, samples: &[EmitSample]) -> FragmentSpec<'_> {
    FragmentSpec { sequence, track_id: TRACK_ID, sample_description_index: None, decode_time, samples }
}

pub(super) fn emit_sample(sample: &Sample) -> EmitSample {
    EmitSample {
        size: sample.size,
        duration: sample.duration,
        flags: if sample.sync { sample_flags::SYNC } else { sample_flags::NON_SYNC },
        composition_offset: sample.composition_offset,
    }
}

#[cfg(test)]
#[path = "cmaf_tests.rs"]
mod tests;
