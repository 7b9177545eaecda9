//! `dref`: where the media of a track is (ISO/IEC 14496-12 §8.7.2).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    emit::{WriteBox, put_header, put_version_and_flags},
};
use bytes::BufMut;

/// Flag of an entry: the media is in this very file.
const SELF_CONTAINED: u32 = 1;

/// Reads the payload of a `dref`: for each entry, whether the media is in this very file.
///
/// # Errors
/// Truncated, or more entries than bytes.
pub fn parse(mut payload: Cursor<'_>) -> Result<Vec<bool>, Error> {
    payload.version_and_flags()?;
    let count = payload.u32()?;
    payload.check_count("entry_count", u64::from(count), 12)?;
    let mut in_file = Vec::new();
    let mut entries = payload.boxes();
    for _ in 0..count {
        let mut entry = entries.next().transpose()?.ok_or_else(|| payload.truncated())?;
        let (_, flags) = entry.payload.version_and_flags()?;
        in_file.push(flags & SELF_CONTAINED != 0);
    }
    Ok(in_file)
}

/// A `dref` with one entry, index 1: this very file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelfContained;

impl WriteBox for SelfContained {
    fn kind(&self) -> FourCc {
        FourCc(*b"dref")
    }

    fn payload_size(&self) -> u64 {
        4 + 4 + 12
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        out.put_u32(1);
        put_header(out, FourCc(*b"url "), 4);
        put_version_and_flags(out, 0, SELF_CONTAINED);
    }
}
