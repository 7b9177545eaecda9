//! Bodies of responses. The first reads start before the head is sent. Bytes are then received as
//! the connection polls the body, so a slow client slows down its own reads.

use crate::{
    Error,
    observe::access::AccessLog,
    read::charge::{Charge, SMALL_FRAME},
    read::fetch::Fetch,
    read::first_byte_wait::FirstByteWait,
    read::prefetch::PrefetchGuard,
    read::reader::SourceReader,
    read::room::{Use, lock},
    title::checks::Checks,
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
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

/// Most bytes that a transform is given, and returns, at one time.
const FRAME: usize = 96 << 10;
/// Most pieces that a transform is given at one time.
const MOST_PIECES: usize = 32;
/// Memory for a frame of a transform, in bytes: its output may be a little longer.
const FRAME_ROOM: usize = FRAME + FRAME / 8;
/// Memory that a part of a plan takes in a body and its reader, in bytes.
const PER_PART: usize = 96;

/// Body of exactly known length. It ends early only with an error, which aborts the connection.
#[derive(Debug)]
pub(crate) struct Body {
    content: Content,
    /// Bytes still to send.
    left: u64,
    log: Option<Box<AccessLog>>,
    charge: Option<Arc<Charge>>,
    /// Comparisons of the title with storage, which are doubtful once a read fails because of its
    /// object.
    checks: Option<Arc<Checks>>,
    /// Cache entry that is filled with the body, and kept once all of it was sent.
    cached: Option<Box<Collecting>>,
    /// Prefetch of the following segments.
    prefetch: Option<PrefetchGuard>,
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
        let left = bytes.len() as u64;
        Self::new(Content::Bytes(bytes), left, None)
    }

    pub(crate) fn plan(plan: PlanBody, checks: Option<Arc<Checks>>) -> Self {
        let left = plan.left;
        Self::new(Content::Plan(Box::new(plan)), left, checks)
    }

    fn new(content: Content, left: u64, checks: Option<Arc<Checks>>) -> Self {
        Self { content, left, log: None, charge: None, checks, cached: None, prefetch: None }
    }

    /// Returns the bytes that the body keeps in memory besides what its plan and its reads have
    /// reserved.
    pub(crate) fn unreserved(&self) -> u64 {
        if matches!(self.content, Content::Plan(_)) { 0 } else { self.left }
    }

    /// Returns a window of a cached body.
    pub(crate) fn from_cache(pieces: &[Bytes], window: Range<u64>) -> Self {
        let mut at = 0_u64;
        let mut slices = VecDeque::with_capacity(pieces.len());
        for piece in pieces {
            let end = at + piece.len() as u64;
            let from = window.start.max(at);
            let to = window.end.min(end);
            if from < to {
                let index = |n: u64| usize::try_from(n - at).unwrap_or(usize::MAX).min(piece.len());
                slices.push_back(piece.slice(index(from)..index(to)));
            }
            at = end;
        }
        let left = window.end - window.start;
        Self::new(Content::Pieces(slices), left, None)
    }

    /// Keeps the body in a cache once all of it was sent.
    pub(crate) fn cached(mut self, entry: Option<Collecting>) -> Self {
        self.cached = entry.map(Box::new);
        self
    }

    /// Ends a prefetch if the body is dropped before all of it was sent.
    pub(crate) fn with_prefetch(mut self, prefetch: Option<PrefetchGuard>) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// Logs the request when the body ends. `charge` tells whether its client was too slow.
    pub(crate) fn logged(mut self, mut log: Box<AccessLog>, charge: Arc<Charge>) -> Self {
        self.charge = Some(charge);
        if self.left == 0 {
            log.record_sent(0, true);
        }
        self.log = Some(log);
        self
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let is_too_slow = self.charge.as_ref().is_some_and(|charge| charge.is_too_slow());
        if let Some(log) = self.log.as_mut().filter(|_| is_too_slow) {
            log.record_too_slow();
        }
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
                pieces.pop_front().ok_or(Error::Internal("a cached body is shorter than planned"))
            }
            Content::Plan(plan) => ready!(plan.poll_next(cx)),
        };
        match next {
            Ok(bytes) => {
                let sent = bytes.len() as u64;
                self.left = self.left.saturating_sub(sent);
                let is_done = self.left == 0;
                if let Some(log) = &mut self.log {
                    log.record_sent(sent, is_done);
                }
                if let Some(entry) = &mut self.cached {
                    entry.push(bytes.clone());
                }
                if is_done {
                    if let Some(entry) = self.cached.take() {
                        entry.finish();
                    }
                    if let Some(prefetch) = self.prefetch.take() {
                        prefetch.detach();
                    }
                    // Ends transfers that are still in flight.
                    self.content = Content::Bytes(Bytes::new());
                }
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Err(error) => {
                if let Some(checks) = self.checks.as_ref().filter(|_| error.is_caused_by_object()) {
                    checks.mark_doubtful();
                }
                if let Some(log) = &mut self.log {
                    log.record_body_error(&error);
                }
                self.content = Content::Bytes(Bytes::new());
                self.cached = None;
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

/// Body made from a window of a plan's parts as their source bytes arrive.
#[derive(Debug)]
pub(crate) struct PlanBody {
    steps: VecDeque<Step>,
    /// Shared so that it can be paused while the client takes nothing.
    reader: Arc<Mutex<SourceReader>>,
    charge: Arc<Charge>,
    transform: Option<Transforming>,
    /// Bytes of the window still to return.
    left: u64,
}

/// Part of a plan, cut to the window.
#[derive(Debug)]
enum Step {
    Inline(Bytes),
    /// Number of bytes to take from the reader.
    Source(u64),
}

#[derive(Debug)]
struct Transforming {
    transform: Box<dyn Transform>,
    /// Pieces of input that are written together.
    input: Vec<Bytes>,
    out: BytesMut,
    /// Bytes reserved for `out`. Without any, `out` is the small frame of the response.
    reserved: usize,
    /// Bytes of output before the window that are still to be dropped.
    skip: u64,
    /// True if the window reaches the end. Then all output is made, and its length is checked.
    is_to_end: bool,
    has_begun: bool,
    is_finished: bool,
}

impl PlanBody {
    /// Starts all reads of a window of a plan's body. Waits until storage has responded to them,
    /// but at most for `wait`: a failure within this time can still become a status code.
    pub(crate) async fn start(
        mut plan: Plan,
        window: Range<u64>,
        fetch: Fetch,
        wait: &FirstByteWait,
    ) -> Result<Self, Error> {
        let left = window.end - window.start;
        let is_whole = window == (0..plan.content_length);
        let skip = if is_whole { 0 } else { plan.cut(window.clone()) };
        let parts = plan.parts;
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
        // The head of the response is made from the index. It need not wait for a round trip to
        // remote storage.
        wait.limit(reader.ready()).await.unwrap_or(Ok(()))?;
        let charge = reader.charge().clone();
        let reader = Arc::new(Mutex::new(reader));
        charge.watch(Arc::<Mutex<SourceReader>>::downgrade(&reader));
        let transform = plan.transform.map(|transform| Transforming {
            transform,
            input: Vec::new(),
            out: BytesMut::new(),
            reserved: 0,
            skip,
            is_to_end: window.end == plan.content_length,
            has_begun: false,
            is_finished: false,
        });
        Ok(Self { steps, reader, charge, transform, left })
    }

    /// Reads all bytes of parts on which the length of a response depends, at most `limit`. The
    /// transfers stay in `fetch`.
    pub(crate) async fn read_all(parts: &[Part], fetch: &mut Fetch, limit: u64) -> Result<BytesMut, Error> {
        let total = parts.iter().map(Part::len).sum::<u64>();
        if total > limit {
            let error = PackError::TooLarge("more media is needed for its length than may be held");
            return Err(error.into());
        }
        // The bytes, what is read of them, and the segment made of them.
        fetch.charge().require(total * 3)?;
        let mut ranges = Vec::with_capacity(parts.len());
        ranges.extend(parts.iter().filter_map(|part| match part {
            Part::Source(range) => Some(range.clone()),
            Part::Inline(_) => None,
        }));
        fetch.start(&ranges)?;
        fetch.opened().await?;
        let mut media = BytesMut::with_capacity(usize::try_from(total).unwrap_or(usize::MAX));
        for part in parts {
            match part {
                Part::Inline(bytes) => media.extend_from_slice(bytes),
                Part::Source(source) if source.range.is_empty() => {}
                Part::Source(SourceRange { object, range }) => {
                    fetch.append(*object, range.clone(), &mut media).await?;
                }
            }
        }
        Ok(media)
    }

    /// Returns the next bytes of the window. It must not be called after the last.
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
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Poll::Ready(Err(Error::Internal("the body is longer than planned")));
        };
        self.left = left;
        Poll::Ready(Ok(bytes))
    }

    /// Returns the next bytes of the parts, before any transform. Returns `None` after the last.
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
                let polled = lock(&self.reader).poll_next(cx, limit);
                let bytes = match ready!(polled) {
                    Some(Ok(bytes)) => bytes,
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => return Poll::Ready(Some(Err(Error::Internal("a read ended early")))),
                };
                *left -= bytes.len() as u64;
                if *left == 0 {
                    self.steps.pop_front();
                }
                Poll::Ready(Some(Ok(bytes)))
            }
        }
    }

    /// Takes the next bytes of the parts as far as they are ready, until they fill the room or are
    /// too many pieces.
    fn poll_pieces(
        &mut self,
        cx: &mut Context<'_>,
        mut room: usize,
        pieces: &mut Vec<Bytes>,
    ) -> Poll<Option<Result<(), Error>>> {
        pieces.reserve_exact(MOST_PIECES);
        while room > 0 && pieces.len() < MOST_PIECES {
            match ready!(self.poll_input(cx, room)) {
                Some(Ok(bytes)) => {
                    room -= bytes.len().min(room);
                    pieces.push(bytes);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        Poll::Ready(Some(Ok(())))
    }

    /// Returns the next bytes of a transform's output within the window.
    fn poll_output(&mut self, cx: &mut Context<'_>, this: &mut Transforming) -> Poll<Result<Bytes, Error>> {
        if !std::mem::replace(&mut this.has_begun, true) {
            // The first output, such as program tables, need not wait for media.
            this.transform.write(&[], &mut this.out);
        }
        if this.reserved == 0 && self.charge.try_reserve(FRAME_ROOM as u64) {
            this.reserved = FRAME_ROOM;
        }
        let most = if this.reserved > 0 { FRAME } else { SMALL_FRAME / 9 * 8 };
        loop {
            this.drop_skipped();
            let have = this.out.len() as u64;
            let is_last = have >= self.left && !this.is_to_end;
            if is_last || this.is_finished || (this.out.len() >= most && have < self.left) {
                break;
            }
            let frame = usize::try_from(self.left).unwrap_or(most).min(most);
            if this.out.capacity() < frame {
                // One allocation for the whole frame.
                this.out.reserve(frame + frame / 8);
            }
            // The output is a little longer than the input.
            let room = (most - this.out.len().min(most)).max(1);
            let polled = self.poll_pieces(cx, room, &mut this.input);
            this.transform.write_all(&this.input, &mut this.out);
            if let Some(error) = this.transform.failure() {
                return Poll::Ready(Err(error.into()));
            }
            let has_input = !this.input.is_empty();
            this.input.clear();
            match polled {
                Poll::Ready(Some(Ok(()))) => {}
                Poll::Pending if has_input => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => {
                    this.transform.finish(&mut this.out);
                    this.is_finished = true;
                }
                // Output that is ready is returned without waiting for more input.
                Poll::Pending if !this.out.is_empty() && have < self.left => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        let have = this.out.len() as u64;
        let is_short = have < self.left || this.skip > 0;
        if this.is_finished && (is_short || (this.is_to_end && have > self.left)) {
            return Poll::Ready(Err(Error::Internal("a transform's output is not as long as planned")));
        }
        match std::mem::take(&mut this.reserved) {
            0 => self.charge.use_small_frame(),
            reserved => self.charge.give_back_with_frame(reserved as u64, Use::Ahead),
        }
        let len = usize::try_from(self.left.min(have)).unwrap_or(usize::MAX);
        Poll::Ready(Ok(this.out.split_to(len).freeze()))
    }
}

/// Returns an estimate of the memory that a plan and its body take, in bytes.
pub(crate) fn weight(plan: &Plan) -> u64 {
    let inline = plan.parts.iter().map(|part| match part {
        Part::Inline(bytes) => bytes.len(),
        Part::Source(_) => 0,
    });
    let transform = plan.transform.as_ref().map_or(0, |transform| transform.heap_bytes());
    (plan.parts.len() * PER_PART + inline.sum::<usize>() + transform) as u64
}

impl Transforming {
    fn drop_skipped(&mut self) {
        let len = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.out.len());
        self.out.advance(len);
        self.skip -= len as u64;
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
