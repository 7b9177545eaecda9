//! Checks of HDS fragments: boxes, and the FLV tags in their `mdat`.

use super::{
    body::{BodyCheck, DecodeTimes, Span, collect},
    boxes::{BoxEvent, BoxWalk},
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
    /// The times of the samples of each tag type, in milliseconds.
    tracks: Vec<(u8, DecodeTimes)>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Header,
    /// The first two bytes of the data, which distinguish samples from configurations.
    Start(TagHeader),
    Data {
        left: u32,
        size: u32,
    },
    /// The size of the tag, which is repeated after it.
    Trailer {
        size: u32,
    },
}

impl BodyCheck for FlvCheck {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let tags = &mut self.tags;
        self.walk.push(bytes, &[], |event| match event {
            BoxEvent::Media(media) => tags.push(media),
            BoxEvent::Box { .. } | BoxEvent::MediaStart { .. } => Ok(()),
        })
    }

    fn finish(self: Box<Self>) -> Result<Vec<Span>, Failure> {
        self.walk.finish()?;
        if !matches!(self.tags.state, State::Header) || !self.tags.head.is_empty() {
            return Err(bad("ends in the middle of a tag"));
        }
        if self.tags.tracks.is_empty() {
            return Err(bad("no tags of video or audio"));
        }
        let span = |&(kind, times): &(u8, DecodeTimes)| times.span(kind.into(), times.first, 1000, 0.002);
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
                            return Err(bad(&format!(
                                "a tag of {actual} bytes states a size of {stated} bytes"
                            )));
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
        match self.tracks.iter_mut().find(|(known, _)| *known == kind) {
            None => self.tracks.push((kind, DecodeTimes::starting_at(time))),
            Some((_, times)) if time < times.last => {
                let why = format!("a tag at {time} ms follows a tag at {} ms", times.last);
                return Err(Failure::new(Reason::TimelineGap, why));
            }
            Some((_, times)) => times.add(time),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(kind: u8, time: u32, data: &[u8]) -> Vec<u8> {
        let size = u32::try_from(data.len()).unwrap();
        let [_, s0, s1, s2] = size.to_be_bytes();
        let [extension, t0, t1, t2] = time.to_be_bytes();
        let header = [kind, s0, s1, s2, t0, t1, t2, extension, 0, 0, 0];
        [&header[..], data, &(size + 11).to_be_bytes()].concat()
    }

    fn check(tags: &[Vec<u8>], size: usize) -> Result<Vec<Span>, Failure> {
        let tags = tags.concat();
        let length = u32::try_from(tags.len() + 8).unwrap();
        let body = [&length.to_be_bytes(), &b"mdat"[..], &tags].concat();
        let mut check = FlvCheck::default();
        body.chunks(size).try_for_each(|piece| check.push(piece))?;
        Box::new(check).finish()
    }

    const FRAME: &[u8] = &[0x27, 1, 0, 0, 0, 9];

    #[test]
    fn times_are_those_of_samples_and_not_of_configurations() {
        let tags = [
            tag(SCRIPT, 0, b"onMetaData"),
            tag(VIDEO, 7, &[0x17, 0, 0, 0, 0, 1]),
            tag(AUDIO, 8, &[0xaf, 0, 0x12, 0x10]),
            tag(VIDEO, 1000, FRAME),
            tag(AUDIO, 1010, &[0xaf, 1, 5]),
            tag(VIDEO, 1040, FRAME),
            tag(VIDEO, 1100, FRAME),
            tag(VIDEO, 2000, &[0x17, 2, 0, 0, 0]),
            tag(AUDIO, 3000, &[]),
        ];
        for size in [1, 5, 1000] {
            let spans = check(&tags, size).unwrap();
            let of = |span: &Span| (span.track, span.begins, span.end);
            assert_eq!(spans.iter().map(of).collect::<Vec<_>>(), [(9, 1.0, 1.16), (8, 1.01, 1.01)]);
            assert!((spans[0].slack - (0.06 * 1.5 + 0.002)).abs() < 1e-9, "{:?}", spans[0]);
        }
    }

    #[test]
    fn damaged_tags_are_refused() {
        let reason = |tags: &[Vec<u8>]| check(tags, 7).unwrap_err().reason;
        assert_eq!(reason(&[tag(VIDEO, 10, FRAME), tag(VIDEO, 9, FRAME)]), Reason::TimelineGap);
        assert_eq!(reason(&[tag(10, 0, FRAME)]), Reason::BadFlv, "an unknown type");
        assert_eq!(reason(&[tag(SCRIPT, 0, b"onMetaData")]), Reason::BadFlv, "no samples");
        let mut cut = tag(VIDEO, 0, FRAME);
        cut.pop();
        assert_eq!(reason(&[cut]), Reason::BadFlv, "cut");
        let mut wrong = tag(VIDEO, 0, FRAME);
        *wrong.last_mut().unwrap() += 1;
        assert_eq!(reason(&[wrong]), Reason::BadFlv, "another size after the tag");
        assert!(check(&[tag(VIDEO, 0, &[0x27])], 1).is_ok(), "one byte of data");
    }
}
