//! HDS fragments: FLV tags in an `mdat` (Adobe Flash Video File Format Specification 10.1 §E.4).

use super::{
    Span,
    boxes::{Passed, Walk},
};
use crate::failure::{Failure, Reason};

/// An HDS fragment being checked.
#[derive(Debug, Default)]
pub(super) struct Flv {
    walk: Walk,
    tags: Tags,
}

/// The tags of an `mdat`.
#[derive(Debug, Default)]
struct Tags {
    state: State,
    /// Header of a tag, or its size behind it, as far as they are there.
    head: Vec<u8>,
    spans: Vec<Track>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Header,
    /// What the data begin with tells whether they are samples.
    Start {
        kind: u8,
        time: i64,
        size: u32,
    },
    Data {
        left: u32,
        size: u32,
    },
    Size {
        size: u32,
    },
}

/// Times of the tags of one type, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Track {
    kind: u8,
    first: i64,
    last: i64,
    longest: i64,
    step: i64,
}

const HEADER: usize = 11;

impl Flv {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let tags = &mut self.tags;
        self.walk.push(bytes, &[], |passed| match passed {
            Passed::Media(media) => tags.push(media),
            Passed::Box { .. } | Passed::MediaData { .. } => Ok(()),
        })
    }

    pub(super) fn finish(self) -> Result<Vec<Span>, Failure> {
        self.walk.finish()?;
        if !matches!(self.tags.state, State::Header) || !self.tags.head.is_empty() {
            return Err(bad("ends in the middle of a tag"));
        }
        if self.tags.spans.is_empty() {
            return Err(bad("no tags of video or audio"));
        }
        #[expect(clippy::cast_precision_loss, reason = "32 bits of milliseconds")]
        let seconds = |millis: i64| millis as f64 / 1000.0;
        let span = |track: &Track| Span {
            track: track.kind.into(),
            begins: seconds(track.first),
            decode: seconds(track.first),
            end: seconds(track.last.saturating_add(track.step)),
            slack: seconds(track.longest) * 1.5 + 0.002,
        };
        Ok(self.tags.spans.iter().map(span).collect())
    }
}

fn bad(why: &str) -> Failure {
    Failure::new(Reason::BadFlv, why)
}

impl Tags {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.state {
                State::Header => {
                    if self.collect(HEADER, &mut rest) {
                        self.header()?;
                    }
                }
                State::Start { kind, time, size } => {
                    let wanted = usize::try_from(size.min(2)).unwrap_or(2);
                    if self.collect(wanted, &mut rest) {
                        let samples = !is_header(kind, &self.head);
                        self.head.clear();
                        let left = size.saturating_sub(2);
                        self.state =
                            if left == 0 { State::Size { size } } else { State::Data { left, size } };
                        if samples {
                            self.sample(kind, time)?;
                        }
                    }
                }
                State::Data { left, size } => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    rest = rest.get(take..).unwrap_or_default();
                    let left = left.saturating_sub(u32::try_from(take).unwrap_or(u32::MAX));
                    self.state = if left == 0 { State::Size { size } } else { State::Data { left, size } };
                }
                State::Size { size } => {
                    if self.collect(4, &mut rest) {
                        let stated = self.head.first_chunk().map_or(0, |&size| u32::from_be_bytes(size));
                        let actual = size.saturating_add(11);
                        if stated != actual {
                            return Err(bad(&format!("a tag of {actual} bytes that says {stated}")));
                        }
                        self.head.clear();
                        self.state = State::Header;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether `count` bytes are there; takes them from `rest`.
    fn collect(&mut self, count: usize, rest: &mut &[u8]) -> bool {
        let (now, later) = rest.split_at(count.saturating_sub(self.head.len()).min(rest.len()));
        self.head.extend_from_slice(now);
        *rest = later;
        self.head.len() == count
    }

    fn header(&mut self) -> Result<(), Failure> {
        let Some(&[kind, s0, s1, s2, t0, t1, t2, extension, ..]) = self.head.first_chunk::<HEADER>() else {
            return Ok(());
        };
        self.head.clear();
        let size = u32::from_be_bytes([0, s0, s1, s2]);
        let time = i64::from(i32::from_be_bytes([extension, t0, t1, t2]));
        self.state = match kind {
            8 | 9 if size > 0 => State::Start { kind, time, size },
            8 | 9 | 18 if size == 0 => State::Size { size },
            18 => State::Data { left: size, size },
            _ => return Err(bad(&format!("a tag of type {kind}"))),
        };
        Ok(())
    }

    /// Takes note of when a sample is decoded.
    fn sample(&mut self, kind: u8, time: i64) -> Result<(), Failure> {
        match self.spans.iter_mut().find(|track| track.kind == kind) {
            None => self.spans.push(Track { kind, first: time, last: time, longest: 0, step: 0 }),
            Some(track) if time < track.last => {
                let why = format!("a tag at {time} ms behind one at {} ms", track.last);
                return Err(Failure::new(Reason::TimelineGap, why));
            }
            Some(track) => {
                track.step = time.saturating_sub(track.last);
                track.longest = track.longest.max(track.step);
                track.last = time;
            }
        }
        Ok(())
    }
}

/// Whether a tag has the configuration of a decoder, or its end, and no sample: its time says nothing (§E.4.2.1, §E.4.3.1).
fn is_header(kind: u8, data: &[u8]) -> bool {
    match (kind, data) {
        (8, &[format, packet]) => format >> 4 == 10 && packet == 0,
        (9, &[frame, packet]) => frame & 0x0f == 7 && packet != 1,
        _ => false,
    }
}
