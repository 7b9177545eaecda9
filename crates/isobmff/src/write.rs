//! Writing boxes whose sizes are known before their bytes.

use crate::FourCc;
use bytes::BufMut;

/// A box that can be written.
pub trait WriteBox {
    /// Returns the box's type.
    fn kind(&self) -> FourCc;

    /// Returns the size of the payload: exactly the bytes that [`Self::write_payload`] appends.
    fn payload_size(&self) -> u64;

    /// Appends the payload to `out`.
    fn write_payload(&self, out: &mut Vec<u8>);

    /// Returns the size of the whole box, header included.
    fn size(&self) -> u64 {
        let payload = self.payload_size();
        header_size(payload) + payload
    }

    /// Appends the whole box to `out`.
    fn write(&self, out: &mut Vec<u8>) {
        let payload = self.payload_size();
        put_header(out, self.kind(), payload);
        let start = out.len();
        self.write_payload(out);
        debug_assert_eq!((out.len() - start) as u64, payload, "payload size of {}", self.kind());
    }
}

/// A box of the given type that holds only other boxes.
pub struct Container<'a>(pub &'static [u8; 4], pub &'a [&'a dyn WriteBox]);

impl WriteBox for Container<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*self.0)
    }

    fn payload_size(&self) -> u64 {
        self.1.iter().map(|child| child.size()).sum()
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        for child in self.1 {
            child.write(out);
        }
    }
}

/// Returns the size of the header before a payload of this size: 8, or 16 if the box needs a
/// 64-bit size.
pub(crate) const fn header_size(payload: u64) -> u64 {
    if payload > u32::MAX as u64 - 8 { 16 } else { 8 }
}

/// Appends the header of a box with a payload of this size (ISO/IEC 14496-12 §4.2.2).
pub fn put_header(out: &mut Vec<u8>, kind: FourCc, payload: u64) {
    let size = payload + header_size(payload);
    // A size of 1 announces 64 bits of size after the type.
    out.put_u32(u32::try_from(size).unwrap_or(1));
    out.put_slice(&kind.0);
    if size > u32::MAX.into() {
        out.put_u64(size);
    }
}

/// Appends version and flags (24 bits) of a full box.
pub(crate) fn put_version_and_flags(out: &mut Vec<u8>, version: u8, flags: u32) {
    out.put_u32(u32::from(version) << 24 | flags & 0x00ff_ffff);
}

/// Appends a number of entries in 32 bits, which no list in memory exceeds.
pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.put_u32(u32::try_from(count).unwrap_or(u32::MAX));
}

/// Appends the payload of a table box: version, no flags, the number of entries, and the entries.
pub(crate) fn put_table(out: &mut Vec<u8>, version: u8, entry_len: usize, entries: &[u8]) {
    put_version_and_flags(out, version, 0);
    put_count(out, entries.len() / entry_len);
    out.put_slice(entries);
}

/// Appends a time: 32 bits in version 0, 64 in version 1. The version comes from [`version_for`].
pub(crate) fn put_time(out: &mut Vec<u8>, version: u8, ticks: u64) {
    match u32::try_from(ticks) {
        Ok(ticks) if version == 0 => out.put_u32(ticks),
        _ => out.put_u64(ticks),
    }
}

/// Returns the version of a full box whose times have 32 bits in version 0: 1 if one of them does
/// not fit, else 0.
pub(crate) fn version_for(times: &[u64]) -> u8 {
    u8::from(times.iter().any(|&ticks| u32::try_from(ticks).is_err()))
}

/// Returns the version of a header with a duration. In such a field, all ones mean "unknown"
/// (ISO/IEC 14496-12 §8.2.2.3), so the value of 32 one bits needs version 1 too.
pub(crate) fn version_for_duration(duration: u64) -> u8 {
    u8::from(duration >= u64::from(u32::MAX))
}
