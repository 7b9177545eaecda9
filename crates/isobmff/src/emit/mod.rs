//! Writing boxes with sizes known beforehand.
//!
//! Every box tells its size before a byte of it is written, so a plan can promise a Content-Length from numbers
//! alone and nothing is patched afterwards. [`init`] and [`mod@fragment`] put boxes together as CMAF
//! (ISO/IEC 23000-19 §7) has them.

pub mod fragment;
pub mod init;
mod muxed;

use crate::FourCc;
use bytes::BufMut;

pub use fragment::{
    EmitSample, FragmentShape, FragmentSpec, fragment, fragment_size, mdat_header, segment_type,
    smooth_fragment, smooth_fragment_size,
};
pub use init::{InitSegment, InitTrack, cmaf_brands};
pub use muxed::muxed_fragment;

/// A box that can be written.
pub trait WriteBox {
    /// The box's type.
    fn kind(&self) -> FourCc;

    /// Bytes of the payload: exactly what [`Self::write_payload`] appends.
    fn payload_size(&self) -> u64;

    /// Appends the payload to `out`.
    fn write_payload(&self, out: &mut Vec<u8>);

    /// Bytes of the whole box, header included.
    fn size(&self) -> u64 {
        let payload = self.payload_size();
        header_size(payload).saturating_add(payload)
    }

    /// Appends the whole box to `out`.
    fn write(&self, out: &mut Vec<u8>) {
        let payload = self.payload_size();
        put_header(out, self.kind(), payload);
        let start = out.len();
        self.write_payload(out);
        debug_assert_eq!((out.len() - start) as u64, payload, "{} said another size", self.kind());
    }
}

/// A box that holds nothing but boxes.
pub struct Container<'a>(pub &'static [u8; 4], pub &'a [&'a dyn WriteBox]);

impl WriteBox for Container<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*self.0)
    }

    fn payload_size(&self) -> u64 {
        self.1.iter().map(|child| child.size()).fold(0, u64::saturating_add)
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        for child in self.1 {
            child.write(out);
        }
    }
}

/// Bytes of the header before a payload of so many bytes: 8, or 16 where the size needs 64 bits.
#[must_use]
pub const fn header_size(payload: u64) -> u64 {
    if payload > u32::MAX as u64 - 8 { 16 } else { 8 }
}

/// Appends the header of a box with a payload of so many bytes (ISO/IEC 14496-12 §4.2.2).
pub fn put_header(out: &mut Vec<u8>, kind: FourCc, payload: u64) {
    match u32::try_from(payload.saturating_add(8)) {
        Ok(size) => {
            out.put_u32(size);
            out.put_slice(&kind.0);
        }
        Err(_) => {
            out.put_u32(1);
            out.put_slice(&kind.0);
            out.put_u64(payload.saturating_add(16));
        }
    }
}

/// Appends version and flags (24 bits) of a full box.
pub fn put_version_and_flags(out: &mut Vec<u8>, version: u8, flags: u32) {
    out.put_u32(u32::from(version) << 24 | flags & 0x00ff_ffff);
}

/// Appends a time in 32 bits for version 0 and 64 for version 1; the version comes from [`version_for`].
pub(crate) fn put_time(out: &mut Vec<u8>, version: u8, ticks: u64) {
    match u32::try_from(ticks) {
        Ok(ticks) if version == 0 => out.put_u32(ticks),
        _ => out.put_u64(ticks),
    }
}

/// The version of a full box whose times have 32 bits in version 0: 1 where one of them does not fit.
pub(crate) fn version_for(times: &[u64]) -> u8 {
    u8::from(times.iter().any(|&ticks| u32::try_from(ticks).is_err()))
}

/// The version of a header with a duration, where all ones mean "unknown" (ISO/IEC 14496-12 §8.2.2.3): 32 ones that
/// are meant as a number need 64 bits too.
pub(crate) fn version_for_duration(duration: u64) -> u8 {
    u8::from(duration >= u64::from(u32::MAX))
}

/// The unity matrix of `mvhd` and `tkhd` (ISO/IEC 14496-12 §6.2.2).
pub(crate) const UNITY_MATRIX: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];
