//! Packed audio (RFC 8216 §3.4): an ID3 tag with the time, then frames of sound.

use crate::{
    CaptureError,
    frames::Framing,
    stream::{Elementary, Frames},
    ts::SCALE,
};
use latemux_client::{
    check::{adts::ticks_of, ts::near},
    failure::{Failure, Reason},
};

/// The sound of a rendition, from segment to segment.
#[derive(Debug)]
pub(super) struct Packed {
    frames: Frames,
}

/// How frames are coded, by the end of a segment's name, which is all that says so.
pub(super) fn framing(name: &str) -> Framing {
    match name.rsplit('.').next().map(str::to_ascii_lowercase).as_deref() {
        Some("mp3") => Framing::Mpeg,
        Some("ac3") => Framing::Ac3,
        Some("ec3") => Framing::Eac3,
        _ => Framing::Adts,
    }
}

impl Packed {
    pub(super) const fn new(framing: Framing) -> Self {
        Self { frames: Frames::new(framing) }
    }

    /// Behind this the times are others.
    pub(super) fn discontinuity(&mut self) {
        self.frames.restart();
    }

    pub(super) fn segment(
        &mut self,
        body: &[u8],
        reference: &mut Option<i64>,
    ) -> Result<Vec<Elementary>, CaptureError> {
        let Some(&[b'I', b'D', b'3', _, _, _, s0, s1, s2, s3]) = body.first_chunk::<10>() else {
            return Err(Failure::new(Reason::BadAudio, "does not begin with an ID3 tag").into());
        };
        let size =
            10 + [s0, s1, s2, s3].iter().fold(0_usize, |size, &byte| size << 7 | usize::from(byte & 0x7f));
        let (tag, rest) = body.split_at(size.min(body.len()));
        let time = ticks_of(tag).map(|ticks| {
            let time = near(ticks, reference.unwrap_or(ticks));
            *reference = Some(time);
            (time, SCALE)
        });
        self.frames.push(rest, time)?;
        if self.frames.is_cut() {
            return Err(Failure::new(Reason::BadAudio, "ends in the middle of a frame").into());
        }
        let found = self.frames.take().map(|(timescale, entry, samples)| Elementary {
            source: 0,
            timescale,
            entry,
            language: String::new(),
            samples,
        });
        Ok(found.into_iter().collect())
    }
}
