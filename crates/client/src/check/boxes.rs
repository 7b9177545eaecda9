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
    /// A box that is kept whole.
    Kept { bytes: Vec<u8>, size: usize },
    /// A box whose payload is skipped, or passed on if it is an `mdat`.
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
    /// Bytes of the payload of that `mdat`.
    Media(&'a [u8]),
}

impl BoxWalk {
    /// Takes the next bytes. Reports boxes of the types in `kept` whole, an `mdat` in pieces, and no
    /// other boxes.
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
                    self.at = self.at.saturating_add(header_len);
                    let size = header.size.ok_or_else(|| bad(start, header.kind, "has no size"))?;
                    let payload = size.saturating_sub(header_len);
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
                    let take = size.saturating_sub(bytes.len()).min(rest.len());
                    let (taken, later) = rest.split_at(take);
                    bytes.extend_from_slice(taken);
                    (rest, self.at) = (later, self.at.saturating_add(taken.len() as u64));
                    if bytes.len() < *size {
                        return Ok(());
                    }
                    let whole = std::mem::take(bytes);
                    let offset = self.at.saturating_sub(whole.len() as u64);
                    self.state = State::default();
                    visit(BoxEvent::Box { bytes: whole.into(), offset })?;
                }
                State::Passing { left, media } => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    let (taken, later) = rest.split_at(take);
                    *left = left.saturating_sub(taken.len() as u64);
                    (rest, self.at) = (later, self.at.saturating_add(taken.len() as u64));
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

    /// Ends the body. Fails if it is empty or ends within a box.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match &self.state {
            State::Header(head) if head.is_empty() && self.at > 0 => Ok(()),
            State::Header(_) if self.at == 0 => Err(Failure::new(Reason::BadBoxes, "no boxes")),
            _ => Err(Failure::new(
                Reason::BadBoxes,
                format!("ends in the middle of a box, after {} bytes", self.at),
            )),
        }
    }
}

/// Moves bytes from `rest` to `head` until they are a whole header, and returns that.
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
