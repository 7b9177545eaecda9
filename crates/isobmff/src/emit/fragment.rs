//! A media segment: `styp`, `moof` and the header of its `mdat`, as a CMAF fragment has them
//! (ISO/IEC 23000-19 §7.3.2.3): one track, one run, offsets from the `moof`, decode time stated.

use super::{Container, WriteBox, header_size, put_header};
use crate::{
    Error, FourCc,
    boxes::{
        ftyp::FileType,
        mfhd::Mfhd,
        tfdt::Tfdt,
        tfhd::Tfhd,
        tfxd::Tfxd,
        trun::{Fields, Trun},
    },
    error::BoxPath,
};

/// A sample of a fragment to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmitSample {
    /// Bytes.
    pub size: u32,
    /// Duration in track ticks.
    pub duration: u32,
    /// Flags, see [`crate::sample_flags`].
    pub flags: u32,
    /// Composition time minus decode time, in track ticks.
    pub composition_offset: i32,
}

/// A fragment to write.
#[derive(Debug, Clone, Copy)]
pub struct FragmentSpec<'a> {
    /// `mfhd` sequence number.
    pub sequence: u32,
    /// Track the samples are of.
    pub track_id: u32,
    /// 1-based index into `stsd`; `None` for what `trex` says.
    pub sample_description_index: Option<u32>,
    /// Decode time of the first sample, in track ticks, before the edit list.
    pub decode_time: u64,
    /// The samples, in decode order as they lie in the `mdat`.
    pub samples: &'a [EmitSample],
}

/// The most samples of a fragment: with it every data offset fits its 31 bits.
pub const MAX_SAMPLES: usize = 1 << 24;

/// The exact size of a fragment, part by part, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentSize {
    /// The `moof`.
    pub moof: u64,
    /// The header of the `mdat`: 8, or 16 where the media has 4 GiB or more.
    pub mdat_header: u64,
    /// The media: the sum of all samples' sizes.
    pub media: u64,
}

impl FragmentSize {
    /// What [`fragment`] writes: everything before the media.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.moof.saturating_add(self.mdat_header)
    }

    /// The whole fragment, media included.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.head().saturating_add(self.media)
    }
}

/// The exact size of what [`fragment`] writes and of the media behind it. The decode time and the sequence number
/// make no difference.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`MAX_SAMPLES`].
pub fn fragment_size(spec: &FragmentSpec<'_>) -> Result<FragmentSize, Error> {
    size(spec, Clock::Tfdt)
}

fn size(spec: &FragmentSpec<'_>, clock: Clock) -> Result<FragmentSize, Error> {
    let layout = Layout::of(spec)?;
    let media = layout.media;
    Ok(FragmentSize {
        moof: layout.moof(spec, clock, |moof| moof.size()),
        mdat_header: header_size(media),
        media,
    })
}

/// Appends `moof` and the header of the `mdat` to `out`; the samples' bytes belong right behind.
///
/// What all samples share is said once in `tfhd`, what only the first has otherwise in its first-sample-flags, and
/// the rest sample by sample in `trun`; composition offsets are there if one of them is not 0. Nothing relies on
/// `trex` but the sample description index where the spec has none.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`MAX_SAMPLES`]; nothing is written then.
pub fn fragment(spec: &FragmentSpec<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    write(spec, Clock::Tfdt, out)
}

fn write(spec: &FragmentSpec<'_>, clock: Clock, out: &mut Vec<u8>) -> Result<(), Error> {
    let layout = Layout::of(spec)?;
    layout.moof(spec, clock, |moof| moof.write(out));
    mdat_header(layout.media, out);
    Ok(())
}

/// As [`fragment`], for Smooth Streaming ([MS-SSTR] 2.2.4): no `tfdt`, which came into the standard later, and behind the run a
/// `uuid` box with the fragment's absolute time, that is [`FragmentSpec::decode_time`], and its `duration`, in track ticks.
///
/// # Errors
/// As [`fragment`].
pub fn smooth_fragment(spec: &FragmentSpec<'_>, duration: u64, out: &mut Vec<u8>) -> Result<(), Error> {
    write(spec, Clock::Tfxd { duration }, out)
}

/// The exact size of what [`smooth_fragment`] writes and of the media behind it, as [`fragment_size`].
///
/// # Errors
/// As [`fragment_size`].
pub fn smooth_fragment_size(spec: &FragmentSpec<'_>) -> Result<FragmentSize, Error> {
    size(spec, Clock::Tfxd { duration: 0 })
}

/// All that the size of a fragment depends on, for who knows it of many samples without looking at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FragmentShape {
    /// Number of samples.
    pub samples: u32,
    /// Sum of their sizes in bytes.
    pub media: u64,
    /// Their durations differ.
    pub durations: bool,
    /// Their sizes differ.
    pub sizes: bool,
    /// The flags of those behind the first differ among themselves.
    pub flags: bool,
    /// All of those behind the first have other flags than the first.
    pub first_flags: bool,
    /// A composition offset is not 0.
    pub composition_offsets: bool,
}

impl FragmentShape {
    /// What [`fragment_size`] says of such samples.
    ///
    /// # Errors
    /// As [`fragment_size`].
    pub fn size(&self) -> Result<FragmentSize, Error> {
        let fields = Fields {
            duration: self.durations,
            size: self.sizes,
            flags: self.flags,
            composition_offset: self.composition_offsets,
        };
        too_many(self.samples.into())?;
        let sample = [EmitSample::default()];
        let samples = sample.get(..self.samples.min(1) as usize).unwrap_or_default();
        let first_sample_flags = (self.first_flags && !self.flags && self.samples > 1).then_some(0);
        let default = |per_sample: bool| (!per_sample && !samples.is_empty()).then_some(0);
        let tfhd = Tfhd {
            default_duration: default(fields.duration),
            default_size: default(fields.size),
            default_flags: default(fields.flags),
            default_base_is_moof: true,
            ..Tfhd::default()
        };
        let spec = FragmentSpec {
            sequence: 1,
            track_id: 1,
            sample_description_index: None,
            decode_time: 0,
            samples,
        };
        let layout = Layout { tfhd, first_sample_flags, fields, media: self.media };
        // Each further sample adds its fields, and no box becomes so large that its header would.
        let more = u64::from(self.samples.saturating_sub(1)).saturating_mul(fields.sample_bytes());
        Ok(FragmentSize {
            moof: layout.moof(&spec, Clock::Tfdt, |moof| moof.size()).saturating_add(more),
            mdat_header: header_size(self.media),
            media: self.media,
        })
    }
}

/// How a fragment says when it is.
#[derive(Debug, Clone, Copy)]
enum Clock {
    /// `tfdt` before the run.
    Tfdt,
    /// `tfxd` behind it.
    Tfxd { duration: u64 },
}

/// Appends the header of an `mdat` with so many bytes of media: 8 bytes, or 16 from 4 GiB on.
pub fn mdat_header(media: u64, out: &mut Vec<u8>) {
    put_header(out, FourCc(*b"mdat"), media);
}

/// The `styp` of a segment (ISO/IEC 14496-12 §8.16.2) with the given brands, the first of them major:
/// `msdh` for a DASH media segment, `cmfs`, `cmff` and `cmfl` for a CMAF segment, fragment and chunk.
#[must_use]
pub fn segment_type(brands: &[FourCc]) -> FileType {
    let major = brands.first().copied().unwrap_or(FourCc(*b"msdh"));
    FileType { major, minor_version: 0, compatible: brands.to_vec(), of_segment: true }
}

pub(super) fn too_many(samples: u64) -> Result<(), Error> {
    let limit = MAX_SAMPLES as u64;
    if samples <= limit {
        return Ok(());
    }
    let path = BoxPath::default().join(FourCc(*b"moof")).join(FourCc(*b"trun"));
    Err(Error::TooLarge { path, offset: 0, what: "sample_count", value: samples, limit })
}

/// Which field of the samples stands where.
pub(super) struct Layout {
    pub(super) tfhd: Tfhd,
    pub(super) first_sample_flags: Option<u32>,
    pub(super) fields: Fields,
    /// Bytes of all samples.
    pub(super) media: u64,
}

impl Layout {
    pub(super) fn of(spec: &FragmentSpec<'_>) -> Result<Self, Error> {
        let samples = spec.samples;
        too_many(samples.len() as u64)?;
        let first = samples.first().copied().unwrap_or_default();
        // The flags of all samples but the first; a single sample's own.
        let rest = samples.get(1).map_or(first.flags, |second| second.flags);
        let mut fields = Fields::default();
        let mut media = 0u64;
        for (index, sample) in samples.iter().enumerate() {
            media = media.saturating_add(u64::from(sample.size));
            fields.duration |= sample.duration != first.duration;
            fields.size |= sample.size != first.size;
            fields.flags |= index > 0 && sample.flags != rest;
            fields.composition_offset |= sample.composition_offset != 0;
        }
        let default = |per_sample: bool, value| (!per_sample && !samples.is_empty()).then_some(value);
        let tfhd = Tfhd {
            track_id: spec.track_id,
            sample_description_index: spec.sample_description_index,
            default_duration: default(fields.duration, first.duration),
            default_size: default(fields.size, first.size),
            default_flags: default(fields.flags, rest),
            default_base_is_moof: true,
            ..Tfhd::default()
        };
        let first_sample_flags = (!fields.flags && first.flags != rest).then_some(first.flags);
        Ok(Self { tfhd, first_sample_flags, fields, media })
    }

    /// Hands `use_it` the `moof` to measure or to write.
    fn moof<T>(&self, spec: &FragmentSpec<'_>, clock: Clock, use_it: impl FnOnce(&Container<'_>) -> T) -> T {
        let Self { tfhd, first_sample_flags, fields, media } = *self;
        let mut trun = Trun { data_offset: 0, first_sample_flags, fields, samples: spec.samples };
        // The offset takes 32 bits whatever it is, so the size is known before it.
        let size = with_moof(spec, clock, tfhd, trun, |moof| moof.size());
        trun.data_offset = i32::try_from(size.saturating_add(header_size(media))).unwrap_or(i32::MAX);
        with_moof(spec, clock, tfhd, trun, use_it)
    }
}

fn with_moof<T>(
    spec: &FragmentSpec<'_>,
    clock: Clock,
    tfhd: Tfhd,
    trun: Trun<'_>,
    use_it: impl FnOnce(&Container<'_>) -> T,
) -> T {
    let (mfhd, time) = (Mfhd(spec.sequence), spec.decode_time);
    match clock {
        Clock::Tfdt => {
            use_it(&Container(b"moof", &[&mfhd, &Container(b"traf", &[&tfhd, &Tfdt(time), &trun])]))
        }
        Clock::Tfxd { duration } => {
            let tfxd = Tfxd { time, duration };
            use_it(&Container(b"moof", &[&mfhd, &Container(b"traf", &[&tfhd, &trun, &tfxd])]))
        }
    }
}
