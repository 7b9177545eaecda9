//! Checks of packed audio: the ID3 tag, and the AAC frames after it. Frames of other codings are
//! not checked.

use super::body::{BodyCheck, Span, collect};
use crate::{
    failure::{Failure, Reason},
    packed_audio::{AAC_SAMPLES, ADTS_HEADER, AdtsHeader, ID3_HEADER, tag_length, time_of},
    ts::SCALE,
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
    /// The coding of the frames is not AAC.
    Unread,
}

impl BodyCheck for PackedAudioCheck {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.state {
                State::Tag => {
                    let length = self.head.first_chunk().map(tag_length).transpose()?;
                    let wanted = length.unwrap_or(ID3_HEADER);
                    if collect(&mut self.head, wanted, &mut rest) && length.is_some() {
                        self.start = time_of(&self.head).map(|ticks| ticks as f64 / f64::from(SCALE));
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

    fn finish(self: Box<Self>) -> Result<Vec<Span>, Failure> {
        match self.state {
            State::FrameHeader if self.head.is_empty() && self.frames > 0 => {}
            State::Unread => return Ok(Vec::new()),
            _ => return Err(bad("ends in the middle of a frame")),
        }
        let Some(start) = self.start else { return Ok(Vec::new()) };
        let frame = f64::from(AAC_SAMPLES) / f64::from(self.rate.max(1));
        let end = start + self.frames as f64 * frame;
        Ok(vec![Span { track: 1, begins: start, decode: start, end, slack: frame }])
    }
}

impl PackedAudioCheck {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A tag without frames, and an AAC frame of 9 bytes at 48 kHz.
    const TAG: &[u8] = b"ID3\x04\0\0\0\0\0\0";
    const FRAME: &[u8] = &[0xff, 0xf1, 0x4c, 0x80, 0x01, 0x3f, 0xfc, 1, 2];

    fn timed(ticks: u64) -> Vec<u8> {
        let private = [&b"com.apple.streaming.transportStreamTimestamp\0"[..], &ticks.to_be_bytes()].concat();
        let length = u8::try_from(private.len()).unwrap();
        [&b"ID3\x04\0\0\0\0\0"[..], &[length], &private].concat()
    }

    fn check(parts: &[&[u8]], size: usize) -> Result<Vec<Span>, Reason> {
        let mut check = PackedAudioCheck::default();
        let pushed = parts.concat().chunks(size).try_for_each(|piece| check.push(piece));
        pushed.and_then(|()| Box::new(check).finish()).map_err(|failure| failure.reason)
    }

    #[test]
    fn frames_are_counted_from_the_time_of_the_tag() {
        for size in [1, 10, 100] {
            let spans = check(&[&timed(45_000), FRAME, FRAME, FRAME], size).unwrap();
            let [span] = spans[..] else { panic!("{spans:?}") };
            assert_eq!((span.begins, span.decode, span.slack), (0.5, 0.5, 1024.0 / 48_000.0));
            assert!((span.end - (0.5 + 3.0 * 1024.0 / 48_000.0)).abs() < 1e-9, "{span:?}");
            assert_eq!(check(&[TAG, FRAME], size), Ok(Vec::new()), "a tag without a time");
        }
    }

    #[test]
    fn damaged_frames_are_refused() {
        let short = [0xff, 0xf1, 0x4c, 0x80, 0x00, 0xdf, 0xfc];
        for (what, parts) in [
            ("no tag", &[FRAME, FRAME][..]),
            ("no frames", &[TAG]),
            ("a frame cut", &[TAG, FRAME, &FRAME[..8]]),
            ("no sync word", &[TAG, FRAME, &FRAME[1..], FRAME]),
            ("a frame shorter than its header", &[TAG, &short]),
            ("a tag of more than 64 KiB", &[b"ID3\x04\0\0\x7f\0\0\0", FRAME]),
        ] {
            assert_eq!(check(parts, 3), Err(Reason::BadAudio), "{what}");
        }
    }

    #[test]
    fn other_codings_are_not_read() {
        // MPEG audio has a sync word of 11 bits.
        assert_eq!(check(&[&timed(0), &[0xff, 0xfb, 0x90, 0, 0, 0, 0], &[0; 50]], 4), Ok(Vec::new()));
    }
}
