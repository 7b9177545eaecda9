//! `elst`: the edit list (ISO/IEC 14496-12 §8.6.6).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_count, put_time, put_version_and_flags},
};
use bytes::BufMut;

/// One edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit {
    /// Duration of the edit in movie ticks. In a fragmented file, 0 means up to the end.
    pub duration: u64,
    /// Composition time at which the edit starts, in track ticks; `None` for an empty edit (-1).
    pub media_time: Option<u64>,
    /// Playback rate as 16.16 fixed point; 0x10000 is normal speed, 0 a dwell.
    pub rate: u32,
}

impl Edit {
    /// The rate of normal speed.
    pub const NORMAL_RATE: u32 = 0x1_0000;

    /// Maximum number of edits of a track. Longer lists occur in video editing projects, not in
    /// titles to serve.
    pub const MAX: u32 = 4096;

    /// Reads the payload of an `elst`.
    ///
    /// # Errors
    /// [`Error::OverLimit`] for more than [`Self::MAX`] entries; [`Error::BadValue`] for a negative
    /// media time other than -1.
    pub fn parse_list(mut payload: Cursor<'_>) -> Result<Vec<Self>, Error> {
        let (version, _) = payload.version_up_to(1)?;
        let count = payload.u32()?;
        payload.check_count("entry_count", u64::from(count), if version == 0 { 12 } else { 20 })?;
        payload.check_limit("entry_count", count.into(), Self::MAX.into())?;
        (0..count).map(|_| Self::parse(&mut payload, version)).collect()
    }

    fn parse(payload: &mut Cursor<'_>, version: u8) -> Result<Self, Error> {
        let duration = payload.u32_or_u64(version)?;
        let negative = payload.bad("media_time is negative and not -1");
        let media_time =
            if version == 0 { i64::from(payload.i32()?) } else { payload.array().map(i64::from_be_bytes)? };
        let media_time = match media_time {
            -1 => None,
            time => Some(u64::try_from(time).map_err(|_| negative)?),
        };
        Ok(Self { duration, media_time, rate: payload.u32()? })
    }
}

/// An `elst` to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditList<'a>(pub &'a [Edit]);

impl EditList<'_> {
    fn version(&self) -> u8 {
        let fits = |edit: &Edit| {
            u32::try_from(edit.duration).is_ok()
                && edit.media_time.is_none_or(|time| i32::try_from(time).is_ok())
        };
        u8::from(!self.0.iter().all(fits))
    }
}

impl WriteBox for EditList<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"elst")
    }

    fn payload_size(&self) -> u64 {
        8 + self.0.len() as u64 * if self.version() == 0 { 12 } else { 20 }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let version = self.version();
        put_version_and_flags(out, version, 0);
        put_count(out, self.0.len());
        for edit in self.0 {
            put_time(out, version, edit.duration);
            let empty = if version == 0 { u64::from(u32::MAX) } else { u64::MAX };
            put_time(out, version, edit.media_time.unwrap_or(empty));
            out.put_u32(edit.rate);
        }
    }
}
