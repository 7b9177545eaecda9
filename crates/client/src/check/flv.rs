//! Checks of HDS fragments: boxes, and the FLV tags in their `mdat`.

use super::{
    Span,
    boxes::{BoxEvent, BoxWalk},
    collect,
};
use crate::{
    failure::{Failure, Reason},
    flv::{AUDIO, SCRIPT, TAG_HEADER, TAG_TRAILER, TagHeader, VIDEO},
};

/// The check of one HDS fragment.
#[derive(Debug, Default)]
pub(super) struct FlvCheck {
    walk: BoxWalk,
    tags: TagCheck,
}

/// The check of the tags in an `mdat`.
#[derive(Debug, Default)]
struct TagCheck {
    state: State,
    /// The bytes of the current state that have arrived.
    head: Vec<u8>,
    tracks: Vec<TagTimes>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Header,
    /// The first two bytes of the data, which tell samples from configuration.
    Start(TagHeader),
    Data {
        left: u32,
        size: u32,
    },
    /// The size of the tag, which is repeated behind it.
    Trailer {
        size: u32,
    },
}

/// Times of the tags of one type, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct TagTimes {
    kind: u8,
    first: i64,
    last: i64,
    /// The longest and the last interval between tags.
    longest_step: i64,
    last_step: i64,
}

impl FlvCheck {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let tags = &mut self.tags;
        self.walk.push(bytes, &[], |event| match event {
            BoxEvent::Media(media) => tags.push(media),
            BoxEvent::Box { .. } | BoxEvent::MediaStart { .. } => Ok(()),
        })
    }

    pub(super) fn finish(self) -> Result<Vec<Span>, Failure> {
        self.walk.finish()?;
        if !matches!(self.tags.state, State::Header) || !self.tags.head.is_empty() {
            return Err(bad("ends in the middle of a tag"));
        }
        if self.tags.tracks.is_empty() {
            return Err(bad("no tags of video or audio"));
        }
        #[expect(clippy::cast_precision_loss, reason = "32 bits of milliseconds")]
        let seconds = |millis: i64| millis as f64 / 1000.0;
        let span = |track: &TagTimes| Span {
            track: track.kind.into(),
            begins: seconds(track.first),
            decode: seconds(track.first),
            end: seconds(track.last + track.last_step),
            // The duration of the last sample is not known, and times are rounded.
            slack: seconds(track.longest_step) * 1.5 + 0.002,
        };
        Ok(self.tags.tracks.iter().map(span).collect())
    }
}

fn bad(why: &str) -> Failure {
    Failure::new(Reason::BadFlv, why)
}

impl TagCheck {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.state {
                State::Header => {
                    if collect(&mut self.head, TAG_HEADER, &mut rest) {
                        self.header()?;
                    }
                }
                State::Start(tag) => {
                    let wanted = if tag.size < 2 { 1 } else { 2 };
                    if collect(&mut self.head, wanted, &mut rest) {
                        let is_sample = !is_configuration(tag.kind, &self.head);
                        self.head.clear();
                        self.state = Self::in_data(tag.size.saturating_sub(2), tag.size);
                        if is_sample {
                            self.sample(tag)?;
                        }
                    }
                }
                State::Data { left, size } => {
                    let (taken, later) = rest.split_at(rest.len().min(left as usize));
                    rest = later;
                    self.state = Self::in_data(left - u32::try_from(taken.len()).unwrap_or(left), size);
                }
                State::Trailer { size } => {
                    if collect(&mut self.head, TAG_TRAILER, &mut rest) {
                        let stated = self.head.first_chunk().map_or(0, |&size| u32::from_be_bytes(size));
                        // Sizes have 24 bits.
                        let actual = size + 11;
                        if stated != actual {
                            return Err(bad(&format!("a tag of {actual} bytes that states {stated}")));
                        }
                        self.head.clear();
                        self.state = State::Header;
                    }
                }
            }
        }
        Ok(())
    }

    const fn in_data(left: u32, size: u32) -> State {
        if left == 0 { State::Trailer { size } } else { State::Data { left, size } }
    }

    fn header(&mut self) -> Result<(), Failure> {
        let Some(tag) = TagHeader::read(&self.head) else { return Ok(()) };
        self.head.clear();
        self.state = match tag.kind {
            AUDIO | VIDEO if tag.size > 0 => State::Start(tag),
            AUDIO | VIDEO | SCRIPT => Self::in_data(tag.size, tag.size),
            kind => return Err(bad(&format!("a tag of type {kind}"))),
        };
        Ok(())
    }

    fn sample(&mut self, tag: TagHeader) -> Result<(), Failure> {
        let TagHeader { kind, time, .. } = tag;
        match self.tracks.iter_mut().find(|track| track.kind == kind) {
            None => {
                let times = TagTimes { kind, first: time, last: time, longest_step: 0, last_step: 0 };
                self.tracks.push(times);
            }
            Some(track) if time < track.last => {
                let why = format!("a tag at {time} ms behind one at {} ms", track.last);
                return Err(Failure::new(Reason::TimelineGap, why));
            }
            Some(track) => {
                track.last_step = time - track.last;
                track.longest_step = track.longest_step.max(track.last_step);
                track.last = time;
            }
        }
        Ok(())
    }
}

/// Returns true if a tag holds a decoder configuration or an end of sequence, whose time has no
/// meaning (§E.4.2.1, §E.4.3.1).
fn is_configuration(kind: u8, data: &[u8]) -> bool {
    match (kind, data) {
        (AUDIO, &[format, packet]) => format >> 4 == 10 && packet == 0,
        (VIDEO, &[frame, packet]) => frame & 0x0f == 7 && packet != 1,
        _ => false,
    }
}
