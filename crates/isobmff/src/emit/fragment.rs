//! Media segments: `styp`, `moof` and the header of the `mdat`, as in a CMAF fragment (ISO/IEC
//! 23000-19 §7.3.2.3): one track, one run, offsets from the `moof`, and the decode time.

use crate::{
    Error, FourCc,
    boxes::{
        ftyp::FileType,
        mfhd::Mfhd,
        saio::Saio,
        saiz::SaizTable,
        senc::{PiffEncryption, SampleEncryption},
        tfdt::Tfdt,
        tfhd::Tfhd,
        tfxd::Tfxd,
        trun::{EmitSample, Fields, Trun},
    },
    error::BoxPath,
    write::{Container, WriteBox, header_size, put_header},
};

/// A fragment to write.
#[derive(Debug, Clone, Copy)]
pub struct FragmentSpec<'a> {
    /// Sequence number of `mfhd`.
    pub sequence: u32,
    /// Track of the samples.
    pub track_id: u32,
    /// 1-based index into `stsd`; `None` for the default of `trex`.
    pub sample_description_index: Option<u32>,
    /// Decode time of the first sample, in track ticks, before the edit list.
    pub decode_time: u64,
    /// The samples, in decode order as they lie in the `mdat`.
    pub samples: &'a [EmitSample],
}

/// Maximum number of samples in a fragment. With this limit, the size of a `moof` fits the 31 bits
/// of a data offset, and no sum of sample sizes overflows 64 bits.
pub const MAX_SAMPLES: usize = 1 << 24;

/// The exact sizes of a fragment's pieces, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentSize {
    /// Size of the `moof`.
    pub moof: u64,
    /// Size of the `mdat`'s header: 8, or 16 if the `mdat` needs a 64-bit size.
    pub mdat_header: u64,
    /// Size of the media: the sum of all sample sizes.
    pub media: u64,
}

impl FragmentSize {
    /// Returns the size of the bytes before the media, which [`fragment`] writes.
    pub const fn head(&self) -> u64 {
        self.moof + self.mdat_header
    }

    /// Returns the size of the whole fragment, media included.
    pub const fn total(&self) -> u64 {
        self.head() + self.media
    }
}

/// Returns the exact size of the bytes that [`fragment`] writes and of the media after them. It
/// depends neither on the decode time nor on the sequence number.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`MAX_SAMPLES`] samples.
pub fn fragment_size(spec: &FragmentSpec<'_>) -> Result<FragmentSize, Error> {
    size(spec, TrafForm::Clear)
}

fn size(spec: &FragmentSpec<'_>, form: TrafForm<'_>) -> Result<FragmentSize, Error> {
    let layout = Layout::new(spec)?;
    let media = layout.media;
    let moof = layout.with_moof(spec, form, |moof| moof.size());
    Ok(FragmentSize { moof, mdat_header: header_size(media), media })
}

/// Appends `moof` and the header of the `mdat` to `out`. The caller appends the samples' bytes.
///
/// Values that all samples share are written once in `tfhd`. If only the first sample has other
/// flags, they are written as first-sample-flags. All other values are written for each sample in
/// `trun`; composition offsets are written if one of them is not 0. Of the defaults in `trex`, only
/// the sample description index is used, and only if the spec has none.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`MAX_SAMPLES`] samples. Nothing is written then.
pub fn fragment(spec: &FragmentSpec<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    write(spec, TrafForm::Clear, out)
}

/// Appends a fragment like [`fragment`], whose samples the caller encrypts. Behind the run it has
/// `saiz`, `saio` and `senc` (ISO/IEC 23001-7 §7.1), which say how to decrypt them.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`MAX_SAMPLES`] samples. Nothing is written then.
pub fn encrypted_fragment(
    spec: &FragmentSpec<'_>,
    encryption: &SampleEncryption<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    write(spec, TrafForm::Encrypted(encryption), out)
}

/// Appends a fragment like [`fragment`], with the size of each sample in `trun` even if all are
/// equal. Players find several cues in one sample of WebVTT (ISO/IEC 14496-30 §7.4) by that size.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`MAX_SAMPLES`] samples. Nothing is written then.
pub fn text_fragment(spec: &FragmentSpec<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    write(spec, TrafForm::Text, out)
}

fn write(spec: &FragmentSpec<'_>, form: TrafForm<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut layout = Layout::new(spec)?;
    if matches!(form, TrafForm::Text) {
        layout.fields.size = true;
        layout.tfhd.default_size = None;
    }
    let head = layout.with_moof(spec, form, |moof| moof.size()) + header_size(layout.media);
    out.reserve(usize::try_from(head).unwrap_or(0));
    layout.with_moof(spec, form, |moof| moof.write(out));
    mdat_header(layout.media, out);
    Ok(())
}

/// Appends a fragment like [`fragment`], but for Smooth Streaming ([MS-SSTR] 2.2.4). It has no
/// `tfdt`, which the standard added later. After the run it has a `uuid` box with the fragment's
/// absolute time, which is [`FragmentSpec::decode_time`], and its `duration`, both in track ticks.
/// With an `encryption`, the caller encrypts the samples, and another `uuid` box (PIFF 1.1) says
/// how to decrypt them.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`MAX_SAMPLES`] samples. Nothing is written then.
pub fn smooth_fragment(
    spec: &FragmentSpec<'_>,
    duration: u64,
    encryption: Option<&SampleEncryption<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    write(spec, TrafForm::Smooth { duration, encryption }, out)
}

/// Returns the exact size of the bytes that [`smooth_fragment`] writes without an encryption, and
/// of the media after them.
///
/// # Errors
/// [`Error::TooLarge`] for more than [`MAX_SAMPLES`] samples.
pub fn smooth_fragment_size(spec: &FragmentSpec<'_>) -> Result<FragmentSize, Error> {
    size(spec, TrafForm::Smooth { duration: 0, encryption: None })
}

/// All properties that the size of a fragment depends on. They give the size without a pass over
/// the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FragmentShape {
    /// Number of samples.
    pub samples: u32,
    /// Sum of their sizes in bytes.
    pub media: u64,
    /// True if their durations differ.
    pub durations: bool,
    /// True if their sizes differ.
    pub sizes: bool,
    /// True if the flags of the samples after the first one differ among themselves.
    pub flags: bool,
    /// True if the flags of the first sample differ from those of all samples after it.
    pub first_flags: bool,
    /// True if a composition offset is not 0.
    pub composition_offsets: bool,
}

impl FragmentShape {
    /// Returns the result of [`fragment_size`] for such samples.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than [`MAX_SAMPLES`] samples.
    pub fn size(&self) -> Result<FragmentSize, Error> {
        let fields = Fields {
            duration: self.durations,
            size: self.sizes,
            flags: self.flags,
            composition_offset: self.composition_offsets,
        };
        check_sample_count(self.samples.into())?;
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
        // Each further sample adds its fields. No box becomes so large that its header grows.
        let more = u64::from(self.samples.saturating_sub(1)) * fields.sample_bytes();
        Ok(FragmentSize {
            moof: layout.with_moof(&spec, TrafForm::Clear, |moof| moof.size()) + more,
            mdat_header: header_size(self.media),
            media: self.media,
        })
    }
}

/// The boxes of a track fragment besides its header and its run.
#[derive(Debug, Clone, Copy)]
enum TrafForm<'a> {
    /// `tfdt` before the run.
    Clear,
    /// Like [`Self::Clear`], with the sizes of all samples in the run.
    Text,
    /// `tfdt` before the run, `saiz`, `saio` and `senc` after it.
    Encrypted(&'a SampleEncryption<'a>),
    /// `tfxd` after the run, and before it PIFF's `senc` if the samples are encrypted.
    Smooth { duration: u64, encryption: Option<&'a SampleEncryption<'a>> },
}

/// Appends the header of an `mdat` with `media` bytes of payload: 8 bytes, or 16 if the `mdat`
/// needs a 64-bit size.
pub fn mdat_header(media: u64, out: &mut Vec<u8>) {
    put_header(out, FourCc(*b"mdat"), media);
}

/// Returns the `styp` of a segment (ISO/IEC 14496-12 §8.16.2) with the given brands, the first of
/// which is the major one: `msdh` for a DASH media segment, `cmfs`, `cmff` and `cmfl` for a CMAF
/// segment, fragment and chunk.
pub fn segment_type(brands: &[FourCc]) -> FileType {
    let major = brands.first().copied().unwrap_or(FourCc(*b"msdh"));
    FileType { major, minor_version: 0, compatible: brands.to_vec(), is_segment: true }
}

pub(super) fn check_sample_count(samples: u64) -> Result<(), Error> {
    let limit = MAX_SAMPLES as u64;
    if samples <= limit {
        return Ok(());
    }
    let path = BoxPath::default().join(FourCc(*b"moof")).join(FourCc(*b"trun"));
    Err(Error::TooLarge { path, offset: 0, what: "sample_count", value: samples, limit })
}

/// The box that each field of the samples is written to.
pub(super) struct Layout {
    pub(super) tfhd: Tfhd,
    pub(super) first_sample_flags: Option<u32>,
    pub(super) fields: Fields,
    /// Bytes of all samples.
    pub(super) media: u64,
}

impl Layout {
    pub(super) fn new(spec: &FragmentSpec<'_>) -> Result<Self, Error> {
        let samples = spec.samples;
        check_sample_count(samples.len() as u64)?;
        let first = samples.first().copied().unwrap_or_default();
        // The flags of all samples except the first, or those of a single sample.
        let rest = samples.get(1).map_or(first.flags, |second| second.flags);
        let mut fields = Fields::default();
        let mut media = 0u64;
        for (index, sample) in samples.iter().enumerate() {
            media += u64::from(sample.size);
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

    /// Builds the `moof` and passes it to `use_moof`, which measures or writes it.
    fn with_moof<T>(
        &self,
        spec: &FragmentSpec<'_>,
        form: TrafForm<'_>,
        use_moof: impl FnOnce(&Container<'_>) -> T,
    ) -> T {
        let Self { tfhd, first_sample_flags, fields, media } = *self;
        let mut trun = Trun { data_offset: 0, first_sample_flags, fields, samples: spec.samples };
        // The offset always takes 32 bits, so the size can be measured before the offset is known.
        let size = build_moof(spec, form, (tfhd, trun), 0, |moof| moof.size());
        trun.data_offset = i32::try_from(size + header_size(media)).unwrap_or(i32::MAX);
        build_moof(spec, form, (tfhd, trun), size, use_moof)
    }
}

/// Builds a `moof`. `moof_size` is its size, on which `saio` depends. Any number will do to measure
/// it.
fn build_moof<T>(
    spec: &FragmentSpec<'_>,
    form: TrafForm<'_>,
    (tfhd, trun): (Tfhd, Trun<'_>),
    moof_size: u64,
    use_moof: impl FnOnce(&Container<'_>) -> T,
) -> T {
    let mfhd = Mfhd(spec.sequence);
    let time = spec.decode_time;
    match form {
        TrafForm::Clear | TrafForm::Text => {
            use_moof(&Container(b"moof", &[&mfhd, &Container(b"traf", &[&tfhd, &Tfdt(time), &trun])]))
        }
        TrafForm::Encrypted(senc) if senc.sizes.is_empty() => {
            let traf = Container(b"traf", &[&tfhd, &Tfdt(time), &trun, senc]);
            use_moof(&Container(b"moof", &[&mfhd, &traf]))
        }
        TrafForm::Encrypted(senc) => {
            let saiz = SaizTable { info_type: None, sizes: senc.sizes };
            // `senc` is the last box, and ends with the information of all samples.
            let offset = moof_size.saturating_sub(senc.entries.len() as u64);
            let offsets = [u32::try_from(offset).unwrap_or(u32::MAX)];
            let saio = Saio { info_type: None, offsets: &offsets };
            let traf = Container(b"traf", &[&tfhd, &Tfdt(time), &trun, &saiz, &saio, senc]);
            use_moof(&Container(b"moof", &[&mfhd, &traf]))
        }
        TrafForm::Smooth { duration, encryption } => {
            let tfxd = Tfxd { time, duration };
            let piff = encryption.map(PiffEncryption);
            let traf: &[&dyn WriteBox] = match &piff {
                Some(piff) => &[&tfhd, &trun, piff, &tfxd],
                None => &[&tfhd, &trun, &tfxd],
            };
            use_moof(&Container(b"moof", &[&mfhd, &Container(b"traf", traf)]))
        }
    }
}
