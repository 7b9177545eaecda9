//! Packed audio (RFC 8216 §3.4): an ID3 tag with the time, then audio frames.

use crate::{
    CaptureError,
    audio_frames::Framing,
    samples::{AudioSamples, TrackSamples},
};
use latemux_client::{
    failure::{Failure, Reason},
    packed_audio::{tag_length, time_of},
    ts::{SCALE, unwrap_time},
};

/// The audio of a rendition. Kept from one segment to the next.
#[derive(Debug)]
pub(super) struct PackedAudioDemuxer {
    audio: AudioSamples,
}

/// Returns the framing for the extension of a segment's path, which is all that states it.
pub(super) fn framing(path: &str) -> Framing {
    match path.rsplit('.').next().map(str::to_ascii_lowercase).as_deref() {
        Some("mp3") => Framing::Mpeg,
        Some("ac3") => Framing::Ac3,
        Some("ec3") => Framing::Eac3,
        _ => Framing::Adts,
    }
}

impl PackedAudioDemuxer {
    pub(super) const fn new(framing: Framing) -> Self {
        Self { audio: AudioSamples::new(framing) }
    }

    /// Prepares for a discontinuity: times may change.
    pub(super) fn discontinuity(&mut self) {
        self.audio.restart();
    }

    /// Returns the samples of a segment. `reference` is a time near which its own is, and is updated.
    pub(super) fn segment(
        &mut self,
        body: &[u8],
        reference: &mut Option<i64>,
    ) -> Result<Vec<TrackSamples>, CaptureError> {
        let bad = |why: &str| Failure::new(Reason::BadAudio, why);
        let header = body.first_chunk().ok_or_else(|| bad("shorter than an ID3 tag"))?;
        let (tag, frames) = body.split_at(tag_length(header)?.min(body.len()));
        let time = time_of(tag).map(|ticks| {
            let time = unwrap_time(ticks, reference.unwrap_or(ticks));
            *reference = Some(time);
            (time, SCALE)
        });
        self.audio.push(frames, time)?;
        if self.audio.has_partial_frame() {
            return Err(bad("ends in the middle of a frame").into());
        }
        let found = self.audio.take().map(|(timescale, entry, samples)| TrackSamples {
            source: 0,
            timescale,
            entry,
            language: String::new(),
            samples,
        });
        Ok(found.into_iter().collect())
    }
}
