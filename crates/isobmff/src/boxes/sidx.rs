//! `sidx`: segment index (ISO/IEC 14496-12 §8.16.3).

use crate::{
    Error, FourCc, Timescale,
    cursor::Cursor,
    header,
    write::{WriteBox, put_time, put_version_and_flags, version_for},
};
use bytes::{BufMut, Bytes};

/// A segment index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidx {
    /// Track (or stream) of the times.
    pub reference_id: u32,
    /// Timescale of the times below.
    pub timescale: Timescale,
    /// Earliest presentation time of the first subsegment, in [`Self::timescale`] ticks, before the
    /// edit list.
    pub earliest_presentation_time: u64,
    /// Bytes from the end of this box to the first referenced byte.
    pub first_offset: u64,
    /// Subsegments in order; at most 65535 (16-bit count).
    pub references: Vec<Reference>,
}

/// One reference: a subsegment of media, or another index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// True if the reference leads to another `sidx`, not to media.
    pub is_index: bool,
    /// Number of bytes referenced (31 bits).
    pub size: u32,
    /// Duration in the index's ticks.
    pub duration: u32,
    /// True if the subsegment starts with a stream access point.
    pub starts_with_sap: bool,
    /// SAP type; 0 if unknown.
    pub sap_type: u8,
    /// Time from the earliest presentation time to the access point (28 bits), in the index's
    /// ticks.
    pub sap_delta: u32,
}

impl Sidx {
    /// Parses a whole `sidx` box, header included.
    ///
    /// # Errors
    /// [`Error::BadValue`] for timescale 0.
    pub fn parse(sidx: &Bytes, offset: u64) -> Result<Self, Error> {
        let mut payload = header::expect(sidx, offset, b"sidx")?.payload;
        let (version, _) = payload.version_up_to(1)?;
        let reference_id = payload.u32()?;
        let zero = payload.bad("timescale is 0");
        let timescale = Timescale::new(payload.u32()?).ok_or(zero)?;
        let earliest_presentation_time = payload.u32_or_u64(version)?;
        let first_offset = payload.u32_or_u64(version)?;
        payload.skip(2)?;
        let count = payload.u16()?;
        payload.check_count("reference_count", u64::from(count), 12)?;
        let references = (0..count).map(|_| Reference::parse(&mut payload)).collect::<Result<_, _>>()?;
        Ok(Self { reference_id, timescale, earliest_presentation_time, first_offset, references })
    }

    fn version(&self) -> u8 {
        version_for(&[self.earliest_presentation_time, self.first_offset])
    }
}

impl Reference {
    /// Maximum of [`Self::size`], which has 31 bits.
    pub const MAX_SIZE: u32 = u32::MAX >> 1;

    /// Maximum of [`Self::sap_delta`], which has 28 bits.
    pub const MAX_SAP_DELTA: u32 = u32::MAX >> 4;

    fn parse(payload: &mut Cursor<'_>) -> Result<Self, Error> {
        let target = payload.u32()?;
        let duration = payload.u32()?;
        let sap = payload.u32()?;
        Ok(Self {
            is_index: target >> 31 != 0,
            size: target & Self::MAX_SIZE,
            duration,
            starts_with_sap: sap >> 31 != 0,
            sap_type: u8::try_from(sap >> 28 & 7).unwrap_or(0),
            sap_delta: sap & Self::MAX_SAP_DELTA,
        })
    }
}

impl WriteBox for Sidx {
    fn kind(&self) -> FourCc {
        FourCc(*b"sidx")
    }

    fn payload_size(&self) -> u64 {
        let times = if self.version() == 0 { 8 } else { 16 };
        4 + 8 + times + 4 + 12 * self.references.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let version = self.version();
        put_version_and_flags(out, version, 0);
        out.put_u32(self.reference_id);
        out.put_u32(self.timescale.get());
        put_time(out, version, self.earliest_presentation_time);
        put_time(out, version, self.first_offset);
        out.put_u16(0);
        out.put_u16(u16::try_from(self.references.len()).unwrap_or(u16::MAX));
        for reference in &self.references {
            out.put_u32(u32::from(reference.is_index) << 31 | reference.size & Reference::MAX_SIZE);
            out.put_u32(reference.duration);
            let sap_type = u32::from(reference.sap_type & 7) << 28;
            let sap_delta = reference.sap_delta & Reference::MAX_SAP_DELTA;
            out.put_u32(u32::from(reference.starts_with_sap) << 31 | sap_type | sap_delta);
        }
    }
}
