//! `trun`: the samples of a fragment (ISO/IEC 14496-12 §8.8.8).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    write::{WriteBox, put_count, put_version_and_flags},
};
use bytes::{BufMut, Bytes};

const DATA_OFFSET: u32 = 0x1;
const FIRST_SAMPLE_FLAGS: u32 = 0x4;
const SAMPLE_DURATION: u32 = 0x100;
const SAMPLE_SIZE: u32 = 0x200;
const SAMPLE_FLAGS: u32 = 0x400;
const SAMPLE_COMPOSITION_OFFSET: u32 = 0x800;
const PER_SAMPLE: u32 = SAMPLE_DURATION | SAMPLE_SIZE | SAMPLE_FLAGS | SAMPLE_COMPOSITION_OFFSET;

/// A run of samples whose bytes are contiguous; a view of the box's entries.
#[derive(Debug, Clone)]
pub struct TrackRun {
    /// Offset of the first sample from the track fragment's base, in bytes; `None` if it follows
    /// the previous run.
    pub data_offset: Option<i32>,
    /// Flags of the first sample, in place of the default.
    pub first_sample_flags: Option<u32>,
    /// Number of samples; bounded by the entries' bytes, or by [`TrackRun::MAX_BARE`] if entries
    /// are empty.
    pub count: u32,
    flags: u32,
    entries: Bytes,
}

/// One sample of a run. A field that is `None` has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrunSample {
    /// Duration in track ticks.
    pub duration: Option<u32>,
    /// Size in bytes.
    pub size: Option<u32>,
    /// Flags (§8.8.3.1). The first sample of a run without flags for each sample has
    /// [`TrackRun::first_sample_flags`].
    pub flags: Option<u32>,
    /// Composition offset in track ticks, read as signed in both versions as players do; 0 if
    /// absent.
    pub composition_offset: i32,
}

impl TrackRun {
    /// Maximum number of samples in a run whose samples have no fields. No bytes confirm its count.
    pub const MAX_BARE: u32 = 1 << 16;

    /// Reads the payload of a `trun`.
    ///
    /// # Errors
    /// [`Error::OverLimit`] for more than [`Self::MAX_BARE`] samples without fields.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (_, flags) = payload.version_and_flags()?;
        let count = payload.u32()?;
        let data_offset = if flags & DATA_OFFSET != 0 { Some(payload.i32()?) } else { None };
        let first_sample_flags = if flags & FIRST_SAMPLE_FLAGS != 0 { Some(payload.u32()?) } else { None };
        let entry_len = entry_len(flags);
        if entry_len == 0 {
            payload.check_limit("sample_count", count.into(), Self::MAX_BARE.into())?;
        }
        let entries = payload.table("sample_count", count, entry_len)?;
        Ok(Self { data_offset, first_sample_flags, count, flags: flags & PER_SAMPLE, entries })
    }

    /// Returns true if samples have no fields of their own, so that no bytes confirm the count.
    pub const fn is_bare(&self) -> bool {
        self.flags & PER_SAMPLE == 0
    }

    /// Returns the sum of the sizes of all samples in bytes. O(1) if samples state no sizes.
    pub fn bytes(&self, default_size: u32) -> u64 {
        if self.flags & SAMPLE_SIZE == 0 {
            return u64::from(default_size) * u64::from(self.count);
        }
        self.iter().map(|sample| u64::from(sample.size.unwrap_or(default_size))).sum()
    }

    /// Iterates over the samples in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TrunSample> + '_ {
        let len = entry_len(self.flags);
        (0..self.count as usize).map(move |index| {
            let entry = self.entries.get(index * len..).unwrap_or_default();
            let sample = self.sample(entry);
            let flags = sample.flags.or(if index == 0 { self.first_sample_flags } else { None });
            TrunSample { flags, ..sample }
        })
    }

    /// Reads the sample at the start of `entry`.
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

/// Returns the size of a sample's own fields in bytes.
const fn entry_len(flags: u32) -> usize {
    (flags & PER_SAMPLE).count_ones() as usize * 4
}

/// A sample of a fragment to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmitSample {
    /// Size in bytes.
    pub size: u32,
    /// Duration in track ticks.
    pub duration: u32,
    /// Flags; see [`crate::sample_flags`].
    pub flags: u32,
    /// Composition time minus decode time, in track ticks.
    pub composition_offset: i32,
}

/// A `trun` to write, always with a data offset (ISO/IEC 23000-19 §7.5.17).
#[derive(Debug, Clone, Copy)]
pub struct Trun<'a> {
    /// Offset of the first sample from the start of the `moof`, in bytes.
    pub data_offset: i32,
    /// Flags of the first sample, in place of the default.
    pub first_sample_flags: Option<u32>,
    /// Fields that each sample states. For all other fields, the defaults of `tfhd` apply.
    pub fields: Fields,
    /// The samples.
    pub samples: &'a [EmitSample],
}

/// The fields that each sample of a `trun` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields {
    /// True if samples state their duration.
    pub duration: bool,
    /// True if samples state their size.
    pub size: bool,
    /// True if samples state their flags.
    pub flags: bool,
    /// True if samples state their composition offset.
    pub composition_offset: bool,
}

impl Fields {
    /// Returns the size of a sample's own fields in bytes.
    pub(crate) const fn sample_bytes(self) -> u64 {
        entry_len(self.bits()) as u64
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
        // Version 1 has signed offsets. Without negative offsets, both versions mean the same.
        let negative =
            self.fields.composition_offset && self.samples.iter().any(|s| s.composition_offset < 0);
        let first = if self.first_sample_flags.is_some() { FIRST_SAMPLE_FLAGS } else { 0 };
        put_version_and_flags(out, u8::from(negative), DATA_OFFSET | first | self.fields.bits());
        put_count(out, self.samples.len());
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
