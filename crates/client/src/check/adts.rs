//! Packed audio (RFC 8216 §3.4): an ID3 tag with the time, then ADTS frames (ISO/IEC 14496-3 §1.A.2.2). Frames of other codings are not read.

use super::Span;
use crate::failure::{Failure, Reason};

/// The owner of the private frame that has the time.
const OWNER: &[u8] = b"com.apple.streaming.transportStreamTimestamp\0";

/// The most bytes of an ID3 tag.
const MAX_TAG: usize = 1 << 16;

/// Samples of a frame.
const SAMPLES: u32 = 1024;

/// By index (ISO/IEC 14496-3 table 1.18).
const RATES: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8000, 7350];

/// Packed audio being checked.
#[derive(Debug, Default)]
pub(super) struct Adts {
    head: Vec<u8>,
    state: State,
    start: Option<f64>,
    frames: u64,
    rate: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Tag,
    Header,
    Skip(usize),
    /// Another coding.
    Unread,
}

impl Adts {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.state {
                State::Tag => {
                    let wanted = self.tag_bytes()?;
                    if self.collect(wanted, &mut rest) && self.tag_bytes()? == wanted {
                        self.start = time_of(&self.head);
                        self.head.clear();
                        self.state = State::Header;
                    }
                }
                State::Header => {
                    if self.collect(7, &mut rest) {
                        self.frame()?;
                    }
                }
                State::Skip(left) => {
                    let take = left.min(rest.len());
                    rest = rest.get(take..).unwrap_or_default();
                    self.state =
                        if take == left { State::Header } else { State::Skip(left.saturating_sub(take)) };
                }
                State::Unread => return Ok(()),
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Vec<Span>, Failure> {
        match self.state {
            State::Header if self.head.is_empty() && self.frames > 0 => {}
            State::Unread => return Ok(Vec::new()),
            _ => return Err(bad("ends in the middle of a frame")),
        }
        let Some(start) = self.start else { return Ok(Vec::new()) };
        let frame = f64::from(SAMPLES) / f64::from(self.rate.max(1));
        #[expect(clippy::cast_precision_loss, reason = "frames of a segment")]
        let end = start + self.frames as f64 * frame;
        Ok(vec![Span { track: 1, begins: start, decode: start, end, slack: frame }])
    }

    fn collect(&mut self, count: usize, rest: &mut &[u8]) -> bool {
        let (now, later) = rest.split_at(count.saturating_sub(self.head.len()).min(rest.len()));
        self.head.extend_from_slice(now);
        *rest = later;
        self.head.len() >= count
    }

    /// How many bytes the tag has, as far as that can be told.
    fn tag_bytes(&self) -> Result<usize, Failure> {
        let Some(&[a, b, c, _, _, _, s0, s1, s2, s3]) = self.head.first_chunk::<10>() else { return Ok(10) };
        if &[a, b, c] != b"ID3" {
            return Err(bad("does not begin with an ID3 tag"));
        }
        let size = [s0, s1, s2, s3].iter().fold(0_usize, |size, &byte| size << 7 | usize::from(byte & 0x7f));
        if size > MAX_TAG {
            return Err(bad("an ID3 tag that is larger than is read"));
        }
        Ok(size.saturating_add(10))
    }

    fn frame(&mut self) -> Result<(), Failure> {
        let Some(&[a, b, c, d, e, f, _]) = self.head.first_chunk::<7>() else { return Ok(()) };
        if a != 0xff || b & 0xf6 != 0xf0 {
            if self.frames == 0 {
                self.state = State::Unread;
                return Ok(());
            }
            return Err(bad("a frame without sync word"));
        }
        self.head.clear();
        self.rate = RATES.get(usize::from(c >> 2 & 0x0f)).copied().unwrap_or(48_000);
        let size = usize::from(d & 3) << 11 | usize::from(e) << 3 | usize::from(f >> 5);
        let left = size.checked_sub(7).ok_or_else(|| bad("a frame shorter than its header"))?;
        self.frames = self.frames.saturating_add(1);
        self.state = if left == 0 { State::Header } else { State::Skip(left) };
        Ok(())
    }
}

fn bad(why: &str) -> Failure {
    Failure::new(Reason::BadAudio, why)
}

/// The time in the private frame, in seconds.
#[expect(clippy::cast_precision_loss, reason = "33 bits")]
fn time_of(tag: &[u8]) -> Option<f64> {
    ticks_of(tag).map(|ticks| ticks as f64 / 90_000.0)
}

/// The same in ticks of 90 kHz.
#[must_use]
pub fn ticks_of(tag: &[u8]) -> Option<i64> {
    let at = tag.windows(OWNER.len()).position(|window| window == OWNER)?;
    let ticks =
        tag.get(at.saturating_add(OWNER.len())..)?.first_chunk().map(|&time| u64::from_be_bytes(time))?;
    i64::try_from(ticks & 0x1_ffff_ffff).ok()
}
