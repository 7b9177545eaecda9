//! Walking the boxes of a body that arrives in pieces.

use crate::failure::{Failure, Reason};
use bytes::Bytes;
use latemux_isobmff::{FourCc, header::BoxHeader};

/// The maximum number of bytes of a box that is kept whole.
const MAX_KEPT: u64 = 8 << 20;

/// A walk over the boxes of one body.
#[derive(Debug, Default)]
pub(super) struct BoxWalk {
    /// The number of body bytes walked so far.
    at: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The start of a header.
    Header(Vec<u8>),
    /// Within a box that is kept whole.
    Kept { bytes: Vec<u8>, size: usize },
    /// Within a box whose payload is skipped, or reported in pieces if the box is an `mdat`.
    Passing { left: u64, media: bool },
}

impl Default for State {
    fn default() -> Self {
        Self::Header(Vec::new())
    }
}

/// An event of [`BoxWalk::push`].
#[derive(Debug)]
pub(super) enum BoxEvent<'a> {
    /// A whole box that starts at `offset` in the body.
    Box { bytes: Bytes, offset: u64 },
    /// The start of an `mdat`, whose payload has `size` bytes and starts at `offset` in the body.
    MediaStart { offset: u64, size: u64 },
    /// The next bytes of the payload of the `mdat`.
    Media(&'a [u8]),
}

impl BoxWalk {
    /// Takes the next bytes. Reports each box of a type in `kept` as a whole and the payload of
    /// each `mdat` in pieces. Other boxes are skipped.
    pub(super) fn push<'a>(
        &mut self,
        bytes: &'a [u8],
        kept: &[&[u8; 4]],
        mut visit: impl FnMut(BoxEvent<'a>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut rest = bytes;
        loop {
            match &mut self.state {
                State::Header(head) => {
                    let Some(header) = read_header(head, &mut rest, self.at)? else { return Ok(()) };
                    let start = self.at;
                    let header_len = u64::from(header.header_len);
                    self.at += header_len;
                    let size = header.size.ok_or_else(|| bad(start, header.kind, "has no size"))?;
                    let payload = size - header_len;
                    if kept.iter().any(|kind| header.kind == *kind) {
                        let size = usize::try_from(size).ok().filter(|_| size <= MAX_KEPT);
                        let size = size.ok_or_else(|| bad(start, header.kind, "is larger than 8 MiB"))?;
                        self.state = State::Kept { bytes: std::mem::take(head), size };
                    } else {
                        let media = header.kind == b"mdat";
                        self.state = State::Passing { left: payload, media };
                        if media {
                            visit(BoxEvent::MediaStart { offset: self.at, size: payload })?;
                        }
                    }
                }
                State::Kept { bytes, size } => {
                    let take = (*size - bytes.len()).min(rest.len());
                    let (taken, later) = rest.split_at(take);
                    bytes.extend_from_slice(taken);
                    rest = later;
                    self.at += taken.len() as u64;
                    if bytes.len() < *size {
                        return Ok(());
                    }
                    let whole = std::mem::take(bytes);
                    let offset = self.at - whole.len() as u64;
                    self.state = State::default();
                    visit(BoxEvent::Box { bytes: whole.into(), offset })?;
                }
                State::Passing { left, media } => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    let (taken, later) = rest.split_at(take);
                    *left -= taken.len() as u64;
                    rest = later;
                    self.at += taken.len() as u64;
                    let done = *left == 0;
                    let media = *media;
                    if done {
                        self.state = State::default();
                    }
                    if media && !taken.is_empty() {
                        visit(BoxEvent::Media(taken))?;
                    }
                    if !done {
                        return Ok(());
                    }
                }
            }
            if rest.is_empty() && matches!(&self.state, State::Header(_)) {
                return Ok(());
            }
        }
    }

    /// Ends the body. Fails if the body is empty or ends within a box.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match &self.state {
            State::Header(head) if head.is_empty() && self.at > 0 => Ok(()),
            State::Header(head) if head.is_empty() => Err(Failure::new(Reason::BadBoxes, "no boxes")),
            _ => Err(Failure::new(
                Reason::BadBoxes,
                format!("ends in the middle of a box, after {} bytes", self.at),
            )),
        }
    }
}

/// Moves bytes from `rest` to `head` until `head` is a whole header. Returns `None` if more bytes
/// are needed.
fn read_header(head: &mut Vec<u8>, rest: &mut &[u8], at: u64) -> Result<Option<BoxHeader>, Failure> {
    loop {
        let header =
            BoxHeader::read(head, at).map_err(|error| Failure::new(Reason::BadBoxes, error.to_string()))?;
        if let Some(header) = header {
            return Ok(Some(header));
        }
        let Some((&byte, behind)) = rest.split_first() else { return Ok(None) };
        head.push(byte);
        *rest = behind;
    }
}

fn bad(at: u64, kind: FourCc, why: &str) -> Failure {
    Failure::new(Reason::BadBoxes, format!("{kind} at byte {at} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(kind: &[u8; 4], payload: &[u8]) -> Vec<u8> {
        let size = u32::try_from(payload.len() + 8).unwrap();
        [&size.to_be_bytes(), &kind[..], payload].concat()
    }

    /// Walks a body in pieces of a size. Returns the events as text, with media joined.
    fn walk(body: &[u8], size: usize) -> Result<Vec<String>, String> {
        let mut walk = BoxWalk::default();
        let mut events: Vec<String> = Vec::new();
        for piece in body.chunks(size) {
            walk.push(piece, &[b"moof"], |event| {
                match event {
                    BoxEvent::Box { bytes, offset } => events.push(format!("{} at {offset}", bytes.len())),
                    BoxEvent::MediaStart { offset, size } => events.push(format!("{size} from {offset}: ")),
                    BoxEvent::Media(media) => {
                        events.last_mut().unwrap().push_str(std::str::from_utf8(media).unwrap());
                    }
                }
                Ok(())
            })
            .map_err(|failure| failure.detail)?;
        }
        walk.finish().map_err(|failure| failure.detail)?;
        Ok(events)
    }

    #[test]
    fn kept_boxes_are_whole_and_media_is_passed_on() {
        let large = [&1_u32.to_be_bytes(), &b"mdat"[..], &19_u64.to_be_bytes(), b"xyz"].concat();
        let body = [
            boxed(b"styp", b"12"),
            boxed(b"moof", b"345"),
            boxed(b"mdat", b"abcdef"),
            boxed(b"mdat", b""),
            large,
        ];
        for size in [1, 3, 8, 100] {
            let expected = ["11 at 10", "6 from 29: abcdef", "0 from 43: ", "3 from 59: xyz"];
            assert_eq!(walk(&body.concat(), size).unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn boxes_must_be_whole_and_of_a_known_size() {
        assert_eq!(walk(b"", 1).unwrap_err(), "no boxes");
        let whole = boxed(b"moof", b"345");
        for length in 1..whole.len() {
            let why = walk(&whole[..length], 4).unwrap_err();
            assert!(why.starts_with("ends in the middle of a box"), "{length}: {why}");
        }
        let endless = [&0_u32.to_be_bytes(), &b"mdat"[..], b"abc"].concat();
        assert_eq!(walk(&endless, 100).unwrap_err(), "mdat at byte 0 has no size");
        let huge = [&0x0900_0000_u32.to_be_bytes(), &b"moof"[..]].concat();
        assert_eq!(walk(&huge, 100).unwrap_err(), "moof at byte 0 is larger than 8 MiB");
        let tiny = [&7_u32.to_be_bytes(), &b"free"[..]].concat();
        assert!(walk(&tiny, 100).is_err(), "smaller than its header");
    }
}
