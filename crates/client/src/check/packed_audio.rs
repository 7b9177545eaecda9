//! Checks of packed audio: the ID3 tag, and AAC frames behind it. Frames of other codings are not
//! read.

use super::{Span, collect};
use crate::{
    failure::{Failure, Reason},
    packed_audio::{AAC_SAMPLES, ADTS_HEADER, AdtsHeader, ID3_HEADER, tag_length, time_of},
};

/// The check of one segment of packed audio.
#[derive(Debug, Default)]
pub(super) struct PackedAudioCheck {
    /// The start of a tag or of a frame's header.
    head: Vec<u8>,
    state: State,
    /// The time in the tag, in seconds.
    start: Option<f64>,
    frames: u64,
    /// Samples per second of the last frame.
    rate: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Tag,
    FrameHeader,
    /// Within a frame, with the number of bytes that are left.
    Frame(usize),
    /// The frames have another coding than AAC.
    Unread,
}

impl PackedAudioCheck {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.state {
                State::Tag => {
                    let length = self.head.first_chunk().map(tag_length).transpose()?;
                    let wanted = length.unwrap_or(ID3_HEADER);
                    if collect(&mut self.head, wanted, &mut rest) && length.is_some() {
                        #[expect(clippy::cast_precision_loss, reason = "33 bits")]
                        let seconds = |ticks: i64| ticks as f64 / 90_000.0;
                        self.start = time_of(&self.head).map(seconds);
                        self.head.clear();
                        self.state = State::FrameHeader;
                    }
                }
                State::FrameHeader => {
                    if collect(&mut self.head, ADTS_HEADER, &mut rest) {
                        self.frame()?;
                    }
                }
                State::Frame(left) => {
                    let taken = left.min(rest.len());
                    rest = rest.get(taken..).unwrap_or_default();
                    self.state = Self::in_frame(left - taken);
                }
                State::Unread => return Ok(()),
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Vec<Span>, Failure> {
        match self.state {
            State::FrameHeader if self.head.is_empty() && self.frames > 0 => {}
            State::Unread => return Ok(Vec::new()),
            _ => return Err(bad("ends in the middle of a frame")),
        }
        let Some(start) = self.start else { return Ok(Vec::new()) };
        let frame = f64::from(AAC_SAMPLES) / f64::from(self.rate.max(1));
        #[expect(clippy::cast_precision_loss, reason = "frames of a segment")]
        let end = start + self.frames as f64 * frame;
        Ok(vec![Span { track: 1, begins: start, decode: start, end, slack: frame }])
    }

    const fn in_frame(left: usize) -> State {
        if left == 0 { State::FrameHeader } else { State::Frame(left) }
    }

    fn frame(&mut self) -> Result<(), Failure> {
        let Some(header) = AdtsHeader::read(&self.head) else {
            if self.frames == 0 {
                self.state = State::Unread;
                return Ok(());
            }
            return Err(bad("a frame without sync word"));
        };
        self.head.clear();
        self.rate = header.rate().unwrap_or(48_000);
        let left = header.frame_length.checked_sub(ADTS_HEADER);
        self.state = Self::in_frame(left.ok_or_else(|| bad("a frame shorter than its header"))?);
        self.frames += 1;
        Ok(())
    }
}

fn bad(why: &str) -> Failure {
    Failure::new(Reason::BadAudio, why)
}
