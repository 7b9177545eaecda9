//! `tkhd`: identity and display size of a track (ISO/IEC 14496-12 §8.3.2).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    matrix::Matrix,
    write::{WriteBox, put_time, put_version_and_flags, version_for_duration},
};
use bytes::BufMut;

/// A track header. Creation and modification time and layer are neither kept nor written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tkhd {
    /// `track_ID`, never 0.
    pub id: u32,
    /// The flag `track_enabled`.
    pub enabled: bool,
    /// Duration in movie ticks, edits included; 0 if unknown.
    pub duration: u64,
    /// Group of alternative tracks; 0 for none.
    pub alternate_group: i16,
    /// Volume as 8.8 fixed point: 0x100 for audio, 0 for other tracks.
    pub volume: u16,
    /// Transformation by which the picture is shown.
    pub matrix: Matrix,
    /// Width and height as shown before the transformation, 16.16 fixed point.
    pub display_size: (u32, u32),
}

impl Tkhd {
    /// Reads the payload of a `tkhd`.
    ///
    /// # Errors
    /// [`Error::BadValue`] for track ID 0.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (version, flags) = payload.version_up_to(1)?;
        payload.skip(if version == 0 { 8 } else { 16 })?;
        let zero = payload.bad("track_ID is 0");
        let id = payload.u32()?;
        if id == 0 {
            return Err(zero);
        }
        payload.skip(4)?;
        let duration = payload.duration(version)?;
        payload.skip(8 + 2)?; // reserved, layer
        let alternate_group = payload.array().map(i16::from_be_bytes)?;
        let volume = payload.u16()?;
        payload.skip(2)?; // reserved
        let matrix = Matrix::parse(&mut payload)?;
        let display_size = (payload.u32()?, payload.u32()?);
        let duration = if duration == u64::MAX { 0 } else { duration };
        Ok(Self { id, enabled: flags & 1 != 0, duration, alternate_group, volume, matrix, display_size })
    }
}

impl WriteBox for Tkhd {
    fn kind(&self) -> FourCc {
        FourCc(*b"tkhd")
    }

    fn payload_size(&self) -> u64 {
        if version_for_duration(self.duration) == 0 { 84 } else { 96 }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let version = version_for_duration(self.duration);
        // track_in_movie and track_in_preview, which ISO/IEC 23000-19 §7.5.4 requires of an enabled
        // track.
        put_version_and_flags(out, version, 6 | u32::from(self.enabled));
        put_time(out, version, 0);
        put_time(out, version, 0);
        out.put_u32(self.id);
        out.put_u32(0);
        put_time(out, version, self.duration);
        out.put_bytes(0, 8 + 2);
        out.put_i16(self.alternate_group);
        out.put_u16(self.volume);
        out.put_u16(0);
        self.matrix.put(out);
        out.put_u32(self.display_size.0);
        out.put_u32(self.display_size.1);
    }
}
