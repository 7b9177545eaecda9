//! The walk through a body of boxes that arrives in pieces.

use crate::failure::{Failure, Reason};
use bytes::Bytes;
use latemux_isobmff::{FourCc, header::BoxHeader};

/// The most bytes of a box that is kept to be read.
const MAX_KEPT: u64 = 8 << 20;

/// A walk from box to box.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Bytes of the body so far.
    at: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Head(Vec<u8>),
    /// The whole box is kept.
    Kept {
        bytes: Vec<u8>,
        size: usize,
    },
    /// The payload goes by; that of an `mdat` is shown.
    Passing {
        left: u64,
        media: bool,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

/// What the walk came by.
#[derive(Debug)]
pub(super) enum Passed<'a> {
    /// A whole box, and where it began in the body.
    Box { bytes: Bytes, offset: u64 },
    /// An `mdat` of so many bytes of payload, which begins at that byte of the body, begins.
    MediaData { offset: u64, size: u64 },
    /// Some of its payload.
    Media(&'a [u8]),
}

impl Walk {
    /// Walks on. Boxes of the kinds in `kept` are handed over whole, `mdat` in pieces, others not at all.
    pub(super) fn push<'a>(
        &mut self,
        bytes: &'a [u8],
        kept: &[&[u8; 4]],
        mut visit: impl FnMut(Passed<'a>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut rest = bytes;
        loop {
            match &mut self.state {
                State::Head(head) => {
                    let Some(header) = head_of(head, &mut rest, self.at)? else { return Ok(()) };
                    let start = self.at;
                    let header_len = u64::from(header.header_len);
                    self.at = self.at.saturating_add(header_len);
                    let size =
                        header.size.ok_or_else(|| bad(start, header.kind, "reaches to the end of a file"))?;
                    let payload = size.saturating_sub(header_len);
                    if kept.iter().any(|kind| header.kind == *kind) {
                        let size = usize::try_from(size).ok().filter(|_| size <= MAX_KEPT);
                        let size = size.ok_or_else(|| bad(start, header.kind, "is larger than is read"))?;
                        self.state = State::Kept { bytes: std::mem::take(head), size };
                    } else {
                        let media = header.kind == b"mdat";
                        self.state = State::Passing { left: payload, media };
                        if media {
                            visit(Passed::MediaData { offset: self.at, size: payload })?;
                        }
                    }
                }
                State::Kept { bytes, size } => {
                    let take = size.saturating_sub(bytes.len()).min(rest.len());
                    let (now, later) = rest.split_at(take);
                    bytes.extend_from_slice(now);
                    (rest, self.at) = (later, self.at.saturating_add(len(now)));
                    if bytes.len() < *size {
                        return Ok(());
                    }
                    let whole = std::mem::take(bytes);
                    let offset = self.at.saturating_sub(len(&whole));
                    self.state = State::default();
                    visit(Passed::Box { bytes: whole.into(), offset })?;
                }
                State::Passing { left, media } => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    let (now, later) = rest.split_at(take);
                    *left = left.saturating_sub(len(now));
                    (rest, self.at) = (later, self.at.saturating_add(len(now)));
                    let (done, media) = (*left == 0, *media);
                    if done {
                        self.state = State::default();
                    }
                    if media && !now.is_empty() {
                        visit(Passed::Media(now))?;
                    }
                    if !done {
                        return Ok(());
                    }
                }
            }
            if rest.is_empty() && matches!(&self.state, State::Head(_)) {
                return Ok(());
            }
        }
    }

    /// The body ends.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match &self.state {
            State::Head(head) if head.is_empty() && self.at > 0 => Ok(()),
            State::Head(_) if self.at == 0 => Err(Failure::new(Reason::BadBoxes, "no boxes at all")),
            _ => Err(Failure::new(
                Reason::BadBoxes,
                format!("ends in the middle of a box, after {} bytes", self.at),
            )),
        }
    }
}

/// The header, once there are enough bytes of it; moves them from `rest` to `head`.
fn head_of(head: &mut Vec<u8>, rest: &mut &[u8], at: u64) -> Result<Option<BoxHeader>, Failure> {
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

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
