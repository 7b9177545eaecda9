//! `trun`: the samples of a fragment (ISO/IEC 14496-12 §8.8.8).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    emit::{EmitSample, WriteBox, put_version_and_flags},
};
use bytes::{BufMut, Bytes};

const DATA_OFFSET: u32 = 0x1;
const FIRST_SAMPLE_FLAGS: u32 = 0x4;
const SAMPLE_DURATION: u32 = 0x100;
const SAMPLE_SIZE: u32 = 0x200;
const SAMPLE_FLAGS: u32 = 0x400;
const SAMPLE_COMPOSITION_OFFSET: u32 = 0x800;
const PER_SAMPLE: u32 = SAMPLE_DURATION | SAMPLE_SIZE | SAMPLE_FLAGS | SAMPLE_COMPOSITION_OFFSET;

/// A run of samples that lie one behind the other; a view of the box's entries.
#[derive(Debug, Clone)]
pub struct TrackRun {
    /// Bytes from the track fragment's base to the first sample; `None`: right behind the previous run.
    pub data_offset: Option<i32>,
    /// Flags of the first sample, in place of the default.
    pub first_sample_flags: Option<u32>,
    /// Number of samples; bounded by the entries' bytes, or by [`TrackRun::MAX_BARE`] where entries are empty.
    pub count: u32,
    flags: u32,
    entries: Bytes,
}

/// One sample of a run: what the run says, the rest is default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrunSample {
    /// Duration in track ticks.
    pub duration: Option<u32>,
    /// Size in bytes.
    pub size: Option<u32>,
    /// Flags (§8.8.3.1); for the first sample of a run without flags per sample, its
    /// [`TrackRun::first_sample_flags`].
    pub flags: Option<u32>,
    /// Composition offset in track ticks, signed in both versions as players read it; 0 where absent.
    pub composition_offset: i32,
}

impl TrackRun {
    /// The most samples a run without per-sample fields may claim: there are no bytes to check it against.
    pub const MAX_BARE: u32 = 1 << 16;

    /// Reads the payload of a `trun`.
    ///
    /// # Errors
    /// Truncated, or more samples than bytes (or than [`Self::MAX_BARE`] where samples have none).
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (_, flags) = payload.version_and_flags()?;
        let count = payload.u32()?;
        let data_offset = if flags & DATA_OFFSET != 0 { Some(payload.i32()?) } else { None };
        let first_sample_flags = if flags & FIRST_SAMPLE_FLAGS != 0 { Some(payload.u32()?) } else { None };
        let entry_len = entry_len(flags);
        if entry_len == 0 && count > Self::MAX_BARE {
            return Err(payload.too_large("sample_count", u64::from(count), u64::from(Self::MAX_BARE)));
        }
        let entries = payload.table("sample_count", count, entry_len)?;
        Ok(Self { data_offset, first_sample_flags, count, flags: flags & PER_SAMPLE, entries })
    }

    /// Whether samples have no fields of their own, so that no bytes stand for the count.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        self.flags & PER_SAMPLE == 0
    }

    /// Samples in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TrunSample> + '_ {
        let len = entry_len(self.flags);
        (0..self.count as usize).map(move |index| {
            let entry = self.entries.get(index.saturating_mul(len)..).unwrap_or_default();
            let sample = self.sample(entry);
            let flags = sample.flags.or(if index == 0 { self.first_sample_flags } else { None });
            TrunSample { flags, ..sample }
        })
    }

    /// The sample whose fields `entry` begins with.
    fn sample(&self, entry: &[u8]) -> TrunSample {
        let mut at = 0;
        let mut field = |flag| {
            let present = self.flags & flag != 0;
            let value = present.then(|| u32_at(entry, at));
            at += if present { 4 } else { 0 };
            value
        };
        TrunSample {
            duration: field(SAMPLE_DURATION),
            size: field(SAMPLE_SIZE),
            flags: field(SAMPLE_FLAGS),
            composition_offset: field(SAMPLE_COMPOSITION_OFFSET).map_or(0, u32::cast_signed),
        }
    }
}

/// Bytes of a sample's own fields.
const fn entry_len(flags: u32) -> usize {
    (flags & PER_SAMPLE).count_ones() as usize * 4
}

/// A `trun` to write, always with its data offset (ISO/IEC 23000-19 §7.5.17).
#[derive(Debug, Clone, Copy)]
pub struct Trun<'a> {
    /// Bytes from the start of the `moof` to the first sample.
    pub data_offset: i32,
    /// Flags of the first sample, in place of the default.
    pub first_sample_flags: Option<u32>,
    /// Which fields each sample has; the others are the defaults of `tfhd`.
    pub fields: Fields,
    /// The samples.
    pub samples: &'a [EmitSample],
}

/// Which fields each sample of a `trun` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields {
    /// Duration.
    pub duration: bool,
    /// Size.
    pub size: bool,
    /// Flags.
    pub flags: bool,
    /// Composition offset.
    pub composition_offset: bool,
}

impl Fields {
    /// Bytes of a sample's own fields.
    pub(crate) const fn sample_bytes(self) -> u64 {
        self.bits().count_ones() as u64 * 4
    }

    const fn bits(self) -> u32 {
        (if self.duration { SAMPLE_DURATION } else { 0 })
            | (if self.size { SAMPLE_SIZE } else { 0 })
            | (if self.flags { SAMPLE_FLAGS } else { 0 })
            | (if self.composition_offset { SAMPLE_COMPOSITION_OFFSET } else { 0 })
    }
}

impl WriteBox for Trun<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"trun")
    }

    fn payload_size(&self) -> u64 {
        let first = if self.first_sample_flags.is_some() { 4 } else { 0 };
        12 + first + (self.samples.len() * entry_len(self.fields.bits())) as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        // Version 1 has signed offsets; where none is negative both say the same.
        let negative =
            self.fields.composition_offset && self.samples.iter().any(|s| s.composition_offset < 0);
        let first = if self.first_sample_flags.is_some() { FIRST_SAMPLE_FLAGS } else { 0 };
        put_version_and_flags(out, u8::from(negative), DATA_OFFSET | first | self.fields.bits());
        out.put_u32(u32::try_from(self.samples.len()).unwrap_or(u32::MAX));
        out.put_i32(self.data_offset);
        if let Some(flags) = self.first_sample_flags {
            out.put_u32(flags);
        }
        for sample in self.samples {
            if self.fields.duration {
                out.put_u32(sample.duration);
            }
            if self.fields.size {
                out.put_u32(sample.size);
            }
            if self.fields.flags {
                out.put_u32(sample.flags);
            }
            if self.fields.composition_offset {
                out.put_i32(sample.composition_offset);
            }
        }
    }
}
