//! Bodies of answers: polled by the connection, so nothing is read that nobody takes.

use crate::{
    Error, observe::access::AccessLog, read::fetch::Fetch, read::patience::Patience, read::prefetch::Ahead,
    read::reader::SourceReader, title::titles::LoadedTitle,
};
use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Frame, SizeHint};
use latemux_cache::segments::Collecting;
use latemux_packager::{
    PackError,
    plan::{Part, Plan, SourceRange, Transform},
};
use std::{
    collections::VecDeque,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// Bytes a transform is given, and gives, at a time.
const FRAME: usize = 96 << 10;

/// A body of exactly known length. It ends early only with an error, upon which the connection is broken off.
#[derive(Debug)]
pub(crate) struct Body {
    content: Content,
    /// Bytes still to come.
    left: u64,
    log: Option<Box<AccessLog>>,
    /// What the bytes are of: to be looked at again where storage refuses them.
    title: Option<Arc<LoadedTitle>>,
    /// Where it is kept once it has been sent whole.
    keep: Option<Box<Collecting>>,
    /// What is read ahead for who takes it.
    ahead: Option<Ahead>,
}

#[derive(Debug)]
enum Content {
    Bytes(Bytes),
    Pieces(VecDeque<Bytes>),
    Plan(Box<PlanBody>),
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::full(Bytes::new())
    }

    pub(crate) fn full(bytes: Bytes) -> Self {
        let left = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self { content: Content::Bytes(bytes), left, log: None, title: None, keep: None, ahead: None }
    }

    pub(crate) fn plan(plan: PlanBody, title: Option<Arc<LoadedTitle>>) -> Self {
        Self {
            left: plan.left,
            content: Content::Plan(Box::new(plan)),
            log: None,
            title,
            keep: None,
            ahead: None,
        }
    }

    /// A window of a body that was kept.
    pub(crate) fn kept(pieces: &[Bytes], window: Range<u64>) -> Self {
        let mut at = 0_u64;
        let mut slices = VecDeque::with_capacity(pieces.len());
        for piece in pieces {
            let end = at.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
            let (from, to) = (window.start.max(at), window.end.min(end));
            if from < to {
                let index = |n: u64| usize::try_from(n - at).unwrap_or(usize::MAX).min(piece.len());
                slices.push_back(piece.slice(index(from)..index(to)));
            }
            at = end;
        }
        let left = window.end.saturating_sub(window.start);
        Self { content: Content::Pieces(slices), left, log: None, title: None, keep: None, ahead: None }
    }

    /// Has the body kept once it has been sent.
    pub(crate) fn keep(mut self, keep: Option<Collecting>) -> Self {
        self.keep = keep.map(Box::new);
        self
    }

    /// Has what is read ahead end with it, unless it is taken whole.
    pub(crate) fn with(mut self, ahead: Option<Ahead>) -> Self {
        self.ahead = ahead;
        self
    }

    /// Has the request logged when this body ends.
    pub(crate) fn logged(mut self, mut log: Box<AccessLog>) -> Self {
        if self.left == 0 {
            log.sent(0, true);
        }
        self.log = Some(log);
        self
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let next = match &mut self.content {
            Content::Bytes(bytes) => Ok(std::mem::take(bytes)),
            Content::Pieces(pieces) => {
                pieces.pop_front().ok_or(Error::Internal("a body kept is shorter than planned"))
            }
            Content::Plan(plan) => ready!(plan.poll_next(cx)),
        };
        match next {
            Ok(bytes) => {
                let sent = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                self.left = self.left.saturating_sub(sent);
                let done = self.left == 0;
                if let Some(log) = &mut self.log {
                    log.sent(sent, done);
                }
                if let Some(keep) = &mut self.keep {
                    keep.push(bytes.clone());
                }
                if let Some(keep) = self.keep.take_if(|_| done) {
                    keep.finish();
                }
                if done {
                    if let Some(ahead) = self.ahead.take() {
                        ahead.go_on();
                    }
                    // Whatever is still being read is not needed.
                    self.content = Content::Bytes(Bytes::new());
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Err(error) => {
                if let Some(title) = self.title.as_ref().filter(|_| error.is_of_object()) {
                    title.doubt();
                }
                if let Some(log) = &mut self.log {
                    log.broken_off(&error);
                }
                self.content = Content::Bytes(Bytes::new());
                self.keep = None;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The parts of a plan, or a window of them, as their source bytes arrive.
#[derive(Debug)]
pub(crate) struct PlanBody {
    steps: VecDeque<Step>,
    reader: SourceReader,
    transform: Option<Transforming>,
    /// Bytes of the window still to come.
    left: u64,
}

/// A part, without the window's outside.
#[derive(Debug)]
enum Step {
    Inline(Bytes),
    /// So many bytes off the reader.
    Source(u64),
}

#[derive(Debug)]
struct Transforming {
    transform: Box<dyn Transform>,
    out: BytesMut,
    /// Bytes of output before the window.
    skip: u64,
    /// The window reaches the end: the whole output is made, and its length checked.
    to_end: bool,
    begun: bool,
    finished: bool,
}

impl PlanBody {
    /// Starts all reads of a window of a plan's body and waits, for at most `patience`, until storage has answered them: what it
    /// refuses till then can still become a status code.
    ///
    /// # Errors
    /// What storage answers; see [`Fetch::cover`].
    pub(crate) async fn start(
        plan: Plan,
        window: Range<u64>,
        fetch: Fetch,
        patience: &Patience,
    ) -> Result<Self, Error> {
        let left = window.end.saturating_sub(window.start);
        // A transform's output says nothing of where in its input it came from: it is given all.
        let is_whole = window == (0..plan.content_length);
        let slice = if is_whole { None } else { plan.slice(window.clone()) };
        let parts = slice.unwrap_or(plan.parts);
        let mut steps = VecDeque::with_capacity(parts.len());
        let mut ranges = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Inline(bytes) if bytes.is_empty() => {}
                Part::Inline(bytes) => steps.push_back(Step::Inline(bytes)),
                Part::Source(source) if source.range.is_empty() => {}
                Part::Source(source) => {
                    steps.push_back(Step::Source(source.range.end - source.range.start));
                    ranges.push(source);
                }
            }
        }
        let mut reader = SourceReader::new(fetch, &ranges)?;
        // Far storage takes a round trip to answer: the head, made from the index, need not wait for it.
        patience.with(reader.ready()).await.unwrap_or(Ok(()))?;
        let transform = plan.transform.map(|transform| Transforming {
            transform,
            out: BytesMut::new(),
            skip: window.start,
            to_end: window.end == plan.content_length,
            begun: false,
            finished: false,
        });
        Ok(Self { steps, reader, transform, left })
    }

    /// All bytes of parts, where the length of an answer depends on them. What is read stays in `fetch`.
    ///
    /// # Errors
    /// As [`PlanBody::start`]; more than `limit` bytes.
    pub(crate) async fn hold(parts: &[Part], fetch: &mut Fetch, limit: u64) -> Result<BytesMut, Error> {
        let total = parts.iter().map(Part::len).fold(0, u64::saturating_add);
        if total > limit {
            return Err(
                PackError::TooLarge("its length is known only from more media than may be held").into()
            );
        }
        let ranges = parts.iter().filter_map(|part| match part {
            Part::Source(range) => Some(range.clone()),
            Part::Inline(_) => None,
        });
        let ranges: Vec<_> = ranges.collect();
        fetch.cover(&ranges)?;
        fetch.opened().await?;
        let mut held = BytesMut::new();
        for part in parts {
            match part {
                Part::Inline(bytes) => held.extend_from_slice(bytes),
                Part::Source(source) if source.range.is_empty() => {}
                Part::Source(SourceRange { object, range }) => {
                    let len = range.end.saturating_sub(range.start);
                    let bytes = fetch.bytes(*object, range.start, len).await?;
                    let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
                    held.extend_from_slice(bytes.get(..wanted).unwrap_or_default());
                }
            }
        }
        Ok(held)
    }

    /// The next bytes of the window; not called after its last.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Error>> {
        let bytes = match self.transform.take() {
            None => ready!(self.poll_input(cx, usize::MAX))
                .unwrap_or(Err(Error::Internal("the parts are shorter than planned")))?,
            Some(mut transform) => {
                let polled = self.poll_output(cx, &mut transform);
                self.transform = Some(transform);
                ready!(polled)?
            }
        };
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let Some(left) = self.left.checked_sub(len) else {
            return Poll::Ready(Err(Error::Internal("the body is longer than planned")));
        };
        self.left = left;
        Poll::Ready(Ok(bytes))
    }

    /// The next bytes of the parts, untouched; `None` after the last.
    fn poll_input(&mut self, cx: &mut Context<'_>, limit: usize) -> Poll<Option<Result<Bytes, Error>>> {
        match self.steps.front_mut() {
            None => Poll::Ready(None),
            Some(Step::Inline(bytes)) => {
                let bytes = bytes.split_to(bytes.len().min(limit));
                if matches!(self.steps.front(), Some(Step::Inline(rest)) if rest.is_empty()) {
                    self.steps.pop_front();
                }
                Poll::Ready(Some(Ok(bytes)))
            }
            Some(Step::Source(left)) => {
                let limit = limit.min(usize::try_from(*left).unwrap_or(usize::MAX));
                let bytes = match ready!(self.reader.poll_next(cx, limit)) {
                    Some(Ok(bytes)) => bytes,
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(Some(Err(Error::Internal("a read ended early")))),
                };
                *left = left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                if *left == 0 {
                    self.steps.pop_front();
                }
                Poll::Ready(Some(Ok(bytes)))
            }
        }
    }

    /// The next bytes of a transform's output within the window.
    fn poll_output(&mut self, cx: &mut Context<'_>, this: &mut Transforming) -> Poll<Result<Bytes, Error>> {
        if !std::mem::replace(&mut this.begun, true) {
            // What comes before all media, such as tables of programs, need not wait for it.
            this.transform.write(&[], &mut this.out);
        }
        loop {
            this.drop_skipped();
            let have = u64::try_from(this.out.len()).unwrap_or(u64::MAX);
            let last = have >= self.left && !this.to_end;
            if last || this.finished || (this.out.len() >= FRAME && have < self.left) {
                break;
            }
            let frame = usize::try_from(self.left).unwrap_or(FRAME).min(FRAME);
            if this.out.capacity() < frame {
                // All of a frame at once, rather than grown to it.
                this.out.reserve(frame + frame / 8);
            }
            // What is put out is a little more than what is put in.
            match self.poll_input(cx, (FRAME - this.out.len().min(FRAME)).max(1)) {
                Poll::Ready(Some(Ok(bytes))) => this.transform.write(&bytes, &mut this.out),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => {
                    this.transform.finish(&mut this.out);
                    this.finished = true;
                }
                // What is there already need not wait.
                Poll::Pending if !this.out.is_empty() && have < self.left => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        let have = u64::try_from(this.out.len()).unwrap_or(u64::MAX);
        let short = have < self.left || this.skip > 0;
        if this.finished && (short || (this.to_end && have > self.left)) {
            return Poll::Ready(Err(Error::Internal("a transform's output is not as long as planned")));
        }
        let len = usize::try_from(self.left.min(have)).unwrap_or(usize::MAX);
        Poll::Ready(Ok(this.out.split_to(len).freeze()))
    }
}

impl Transforming {
    fn drop_skipped(&mut self) {
        let len = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.out.len());
        self.out.advance(len);
        self.skip -= u64::try_from(len).unwrap_or(u64::MAX).min(self.skip);
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
