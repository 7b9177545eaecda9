//! `mvhd`: timescale and duration of the movie (ISO/IEC 14496-12 §8.2.2).

use crate::{
    Error, FourCc, Timescale,
    cursor::Cursor,
    matrix::Matrix,
    write::{WriteBox, put_time, put_version_and_flags, version_for_duration},
};
use bytes::BufMut;

/// A movie header; creation and modification time are neither kept nor written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mvhd {
    /// Timescale of movie times: of the duration and of edit durations.
    pub timescale: Timescale,
    /// Duration of the longest track in [`Self::timescale`] ticks; 0 if unknown.
    pub duration: u64,
    /// Transformation of all tracks, applied after their own.
    pub matrix: Matrix,
    /// A `track_ID` not yet in use.
    pub next_track_id: u32,
}

impl Mvhd {
    /// Reads the payload of a `mvhd`.
    ///
    /// # Errors
    /// [`Error::BadValue`] for timescale 0.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (timescale, duration) = payload.scale_and_duration()?;
        payload.skip(4 + 2 + 10)?; // rate, volume, reserved
        let matrix = Matrix::parse(&mut payload)?;
        payload.skip(24)?; // pre_defined, where QuickTime has other fields
        let next_track_id = payload.u32()?;
        let duration = if duration == u64::MAX { 0 } else { duration };
        Ok(Self { timescale, duration, matrix, next_track_id })
    }
}

impl WriteBox for Mvhd {
    fn kind(&self) -> FourCc {
        FourCc(*b"mvhd")
    }

    fn payload_size(&self) -> u64 {
        if version_for_duration(self.duration) == 0 { 100 } else { 112 }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let version = version_for_duration(self.duration);
        put_version_and_flags(out, version, 0);
        put_time(out, version, 0);
        put_time(out, version, 0);
        out.put_u32(self.timescale.get());
        put_time(out, version, self.duration);
        out.put_u32(0x1_0000); // rate 1.0
        out.put_u16(0x100); // volume 1.0
        out.put_bytes(0, 10);
        self.matrix.put(out);
        out.put_bytes(0, 24);
        out.put_u32(self.next_track_id);
    }
}
