//! Reads in flight: the byte ranges a response needs, gathered into few requests to storage that all start at once.

use crate::{
    Error,
    config::{Reach, ReadConfig},
    observe::trace::Trace,
    title::index::Object,
};
use bytes::{Bytes, BytesMut};
use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt, poll_fn},
    stream::BoxStream,
};
use latemux_packager::plan::SourceRange;
use latemux_storage::{Read, ReadRequest, Storage, StorageError};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// Reads of a title's objects, each pinned to the version its index was made from. Bytes that arrive before they are
/// wanted are kept, at most the spans themselves; dropping this ends all transfers.
pub(crate) struct Fetch {
    storage: Arc<dyn Storage>,
    objects: Arc<[Arc<Object>]>,
    config: ReadConfig,
    spans: Vec<Span>,
    /// What else of the objects is worth reading along.
    reach: Vec<SourceRange>,
    /// The request this reads for.
    trace: Option<Trace>,
}

/// One request to storage.
struct Span {
    object: usize,
    range: Range<u64>,
    /// What a cache may read along; holds the range.
    reach: Range<u64>,
    state: State,
    /// What arrived and is still wanted, in order without gaps; ends at `received`.
    chunks: VecDeque<Chunk>,
    /// End of what arrived, from the start of the object.
    received: u64,
}

enum State {
    /// Not asked yet, because enough others are.
    Waiting,
    Opening(BoxFuture<'static, Result<Read, StorageError>>),
    Streaming(BoxStream<'static, Result<Bytes, StorageError>>),
    Failed(Error),
    /// Complete, or no longer wanted.
    Ended,
}

struct Chunk {
    offset: u64,
    bytes: Bytes,
}

impl std::fmt::Debug for Fetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spans = self.spans.iter().map(|s| (s.object, &s.range));
        f.debug_list().entries(spans).finish()
    }
}

impl Fetch {
    /// No reads yet; those to come are for the current request.
    pub(crate) fn new(storage: Arc<dyn Storage>, objects: Arc<[Arc<Object>]>, config: ReadConfig) -> Self {
        Self { storage, objects, config, spans: Vec::new(), reach: Vec::new(), trace: Trace::current() }
    }

    /// What belongs together with what will be asked for, at most one range for each object.
    pub(crate) fn belongs_to(&mut self, reach: Vec<SourceRange>) {
        self.reach = reach;
    }

    /// Starts reading what of `ranges` is not being read yet.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`], [`Error::Scattered`].
    pub(crate) fn cover(&mut self, ranges: &[SourceRange]) -> Result<(), Error> {
        let mut missing = Vec::with_capacity(ranges.len());
        for wanted in ranges.iter().filter(|r| !r.range.is_empty()) {
            let object = self.object(wanted.object)?;
            if wanted.range.end > object.version.size {
                let (end, size) = (wanted.range.end, object.version.size);
                return Err(Error::BeyondEnd { key: object.key.to_string(), end, size });
            }
            self.uncovered(wanted, &mut missing);
        }
        let spans = gather(missing, self.config.gap, self.config.waste);
        let requests = self.spans.len() + spans.len();
        if requests > self.config.requests {
            return Err(Error::Scattered { requests, limit: self.config.requests });
        }
        for SourceRange { object, range } in spans {
            let (reach, received) = (self.reach_of(object, &range), range.start);
            let (state, chunks) = (State::Waiting, VecDeque::new());
            self.spans.push(Span { object, range, reach, state, chunks, received });
        }
        self.open_more(None)
    }

    /// Waits until storage has answered every request that was started, with its first bytes or an error.
    pub(crate) async fn opened(&mut self) -> Result<(), Error> {
        poll_fn(|cx| {
            self.drive(cx);
            let opening = self.spans.iter().any(|s| matches!(s.state, State::Opening(_)));
            let failed = self.spans.iter().find_map(|s| match &s.state {
                State::Failed(error) => Some(error.clone()),
                _ => None,
            });
            match failed {
                Some(error) => Poll::Ready(Err(error)),
                None if opening => {
                    self.take_in(cx);
                    Poll::Pending
                }
                None => Poll::Ready(Ok(())),
            }
        })
        .await
    }

    /// At least `len` bytes of an object from `from` on, as they arrive. They stay remembered.
    pub(crate) async fn bytes(&mut self, object: usize, from: u64, len: u64) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        loop {
            let have = u64::try_from(whole.len()).unwrap_or(u64::MAX);
            let at = from.saturating_add(have);
            let span = self.span_at(object, at).ok_or(Error::Internal("bytes that are not being read"))?;
            let next = poll_fn(|cx| self.poll_at(cx, span, at)).await?;
            let enough = have.saturating_add(u64::try_from(next.len()).unwrap_or(u64::MAX)) >= len;
            if enough && whole.is_empty() {
                return Ok(next);
            }
            whole.extend_from_slice(&next);
            if enough {
                return Ok(whole.freeze());
            }
        }
    }

    /// The span that holds a byte of an object.
    pub(crate) fn span_at(&self, object: usize, offset: u64) -> Option<usize> {
        self.spans.iter().position(|s| s.object == object && s.range.contains(&offset))
    }

    /// Where a span ends, in bytes from the start of its object.
    pub(crate) fn span_end(&self, span: usize) -> u64 {
        self.spans.get(span).map_or(0, |s| s.range.end)
    }

    /// Number of spans: requests to storage.
    pub(crate) fn span_count(&self) -> usize {
        self.spans.len()
    }

    /// The bytes of a span from `offset` on, as many as arrived in one piece. Others are opened meanwhile.
    pub(crate) fn poll_at(
        &mut self,
        cx: &mut Context<'_>,
        span: usize,
        offset: u64,
    ) -> Poll<Result<Bytes, Error>> {
        if let Some(bytes) = self.spans.get(span).and_then(|s| s.arrived(offset)) {
            return Poll::Ready(Ok(bytes));
        }
        self.open_more(Some(span))?;
        self.drive(cx);
        if self.spans.get(span).is_some_and(|span| matches!(span.state, State::Opening(_))) {
            self.take_in(cx);
        }
        let Some(this) = self.spans.get_mut(span) else {
            return Poll::Ready(Err(Error::Internal("no such span")));
        };
        while !this.range.contains(&offset) || this.received <= offset {
            if !this.range.contains(&offset) {
                return Poll::Ready(Err(Error::Internal("bytes outside of their span")));
            }
            let key = self.objects.get(this.object).map(|o| o.key.as_str()).unwrap_or_default();
            ready!(this.poll_more(cx, key))?;
        }
        Poll::Ready(this.arrived(offset).ok_or(Error::Internal("bytes that were let go")))
    }

    /// Forgets the bytes of a span before `offset`; all of it where `None`, and ends the transfer.
    pub(crate) fn release(&mut self, span: usize, offset: Option<u64>) {
        let Some(span) = self.spans.get_mut(span) else { return };
        let Some(offset) = offset else {
            span.chunks.clear();
            span.state = State::Ended;
            return;
        };
        while span.chunks.front().is_some_and(|c| c.end() <= offset) {
            span.chunks.pop_front();
        }
    }

    /// Bytes of what was read went into the answer.
    pub(crate) fn used(&self, bytes: u64) {
        if let Some(trace) = &self.trace {
            trace.media_used(bytes);
        }
    }

    /// What a cache may read along with a range.
    fn reach_of(&self, object: usize, range: &Range<u64>) -> Range<u64> {
        let size = self.objects.get(object).map_or(0, |object| object.version.size);
        match self.config.reach {
            Reach::Exact => range.clone(),
            Reach::Block(block) => {
                let block = block.max(1);
                let end = range.end.div_ceil(block).saturating_mul(block).min(size).max(range.end);
                range.start / block * block..end
            }
            Reach::Grid => {
                let more = self.reach.iter().find(|reach| reach.object == object);
                let all = more.map_or(range.clone(), |SourceRange { range: more, .. }| {
                    range.start.min(more.start)..range.end.max(more.end.min(size))
                });
                let wasted = (all.end - all.start).saturating_sub(range.end - range.start);
                if wasted > self.config.waste { range.clone() } else { all }
            }
        }
    }

    fn object(&self, object: usize) -> Result<&Arc<Object>, Error> {
        self.objects.get(object).ok_or(Error::Internal("a range of no object"))
    }

    /// The parts of a range that no span reads, numbered behind those at hand.
    fn uncovered(&self, wanted: &SourceRange, missing: &mut Vec<(usize, SourceRange)>) {
        let mut at = wanted.range.start;
        while at < wanted.range.end {
            if let Some(span) = self.span_at(wanted.object, at) {
                at = self.span_end(span);
                continue;
            }
            let starts = self.spans.iter().filter(|s| s.object == wanted.object).map(|s| s.range.start);
            let end = starts.filter(|&s| s > at).min().unwrap_or(wanted.range.end).min(wanted.range.end);
            missing.push((missing.len(), SourceRange { object: wanted.object, range: at..end }));
            at = end;
        }
    }

    /// Opens requests up to the limit; `needed` in any case.
    fn open_more(&mut self, needed: Option<usize>) -> Result<(), Error> {
        let mut open =
            self.spans.iter().filter(|s| matches!(s.state, State::Opening(_) | State::Streaming(_))).count();
        for (i, span) in self.spans.iter_mut().enumerate() {
            let wanted = open < self.config.open.max(1) || needed == Some(i);
            if !wanted || !matches!(span.state, State::Waiting) {
                continue;
            }
            let object = self.objects.get(span.object).ok_or(Error::Internal("a range of no object"))?;
            let storage = object.elsewhere.as_ref().map_or(&self.storage, |place| &place.media).clone();
            let (object, range, reach) = (object.clone(), span.range.clone(), span.reach.clone());
            let read = async move {
                let request = ReadRequest::range(&object.key, range).pinned(&object.version);
                storage.read(request.with_reach(reach)).await
            };
            span.state = State::Opening(match &self.trace {
                Some(trace) => trace.scope(read).boxed(),
                None => read.boxed(),
            });
            open += 1;
        }
        Ok(())
    }

    /// Lets all requests that are being opened make progress.
    fn drive(&mut self, cx: &mut Context<'_>) {
        for span in &mut self.spans {
            let State::Opening(read) = &mut span.state else { continue };
            let Poll::Ready(answer) = read.poll_unpin(cx) else { continue };
            span.state = match answer {
                Ok(read) if read.range == span.range => State::Streaming(read.body),
                Ok(read) => {
                    let key = self.objects.get(span.object).map(|o| o.key.as_str()).unwrap_or_default();
                    let detail =
                        format!("bytes {:?} were asked for, {:?} were answered", span.range, read.range);
                    State::Failed(bad_answer(key, detail))
                }
                Err(error) => State::Failed(error.into()),
            };
        }
    }

    /// Takes what comes of reads whose turn is not yet, while another one waits to be opened: each holds a place at the storage, and with
    /// places held by those who wait for one, nobody would ever get any.
    fn take_in(&mut self, cx: &mut Context<'_>) {
        for span in &mut self.spans {
            let key = self.objects.get(span.object).map(|o| o.key.as_str()).unwrap_or_default();
            // What failed is said when it is its turn.
            while matches!(span.state, State::Streaming(_)) && span.poll_more(cx, key).is_ready() {}
        }
    }
}

impl Span {
    /// The bytes from `offset` on, where they are there.
    fn arrived(&self, offset: u64) -> Option<Bytes> {
        let after = self.chunks.partition_point(|c| c.offset <= offset);
        let chunk = self.chunks.get(after.checked_sub(1)?)?;
        let skip = usize::try_from(offset.checked_sub(chunk.offset)?).ok()?;
        (skip < chunk.bytes.len()).then(|| chunk.bytes.slice(skip..))
    }

    /// Takes the next piece off the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>, key: &str) -> Poll<Result<(), Error>> {
        let body = match &mut self.state {
            State::Streaming(body) => body,
            State::Opening(_) => return Poll::Pending,
            State::Failed(error) => return Poll::Ready(Err(error.clone())),
            State::Waiting | State::Ended => {
                return Poll::Ready(Err(Error::Internal("a read that was not started")));
            }
        };
        let next = ready!(body.poll_next_unpin(cx));
        let result = match next {
            Some(Ok(bytes)) => self.take(bytes, key),
            Some(Err(error)) => Err(error.into()),
            None => Err(bad_answer(key, format!("ended at byte {} of {:?}", self.received, self.range))),
        };
        match &result {
            Err(error) => self.state = State::Failed(error.clone()),
            Ok(()) if self.received == self.range.end => self.state = State::Ended,
            Ok(()) => {}
        }
        Poll::Ready(result)
    }

    fn take(&mut self, bytes: Bytes, key: &str) -> Result<(), Error> {
        let offset = self.received;
        let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if end > self.range.end {
            return Err(bad_answer(key, format!("more bytes than {:?}", self.range)));
        }
        self.received = end;
        if !bytes.is_empty() {
            self.chunks.push_back(Chunk { offset, bytes });
        }
        Ok(())
    }
}

impl Chunk {
    fn end(&self) -> u64 {
        self.offset.saturating_add(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}

fn bad_answer(key: &str, detail: String) -> Error {
    StorageError::BadResponse { key: key.to_owned(), detail }.into()
}

/// Few ranges that hold all of `runs`, which are numbered as they are used: neighbours at most `gap` bytes apart become one, unless more than `waste` bytes
/// would be read in vain; then the widest gaps are left out. In the order the ranges are first used.
fn gather(
    mut runs: Vec<(usize, SourceRange)>,
    gap: u64,
    waste: u64,
) -> impl ExactSizeIterator<Item = SourceRange> {
    runs.sort_unstable_by_key(|(_, r)| (r.object, r.range.start, r.range.end));
    // What touches is one.
    runs.dedup_by(|(first_use, next), (first, run)| {
        let touches = run.object == next.object && next.range.start <= run.range.end;
        if touches {
            run.range.end = run.range.end.max(next.range.end);
            *first = (*first).min(*first_use);
        }
        touches
    });
    // Which gaps to read across: the narrowest first, as far as the budget goes. They are told by width and number.
    let mut gaps: Vec<(u64, usize)> = Vec::with_capacity(runs.len().saturating_sub(1));
    gaps.extend(runs.windows(2).enumerate().filter_map(|(i, pair)| {
        let [(_, left), (_, right)] = pair else { return None };
        let width = right.range.start.saturating_sub(left.range.end);
        (left.object == right.object && width <= gap).then_some((width, i))
    }));
    gaps.sort_unstable();
    let affordable = gaps.iter().scan(0_u64, |wasted, &(width, _)| {
        *wasted = wasted.saturating_add(width);
        Some(*wasted)
    });
    let Some(widest) =
        affordable.take_while(|wasted| *wasted <= waste).zip(&gaps).last().map(|(_, gap)| *gap)
    else {
        return in_order(runs);
    };
    let mut numbers = 0..;
    runs.dedup_by(|(first_use, next), (first, span)| {
        let width = next.range.start.saturating_sub(span.range.end);
        let number = numbers.next().unwrap_or(usize::MAX);
        let joins = span.object == next.object && (width, number) <= widest;
        if joins {
            span.range.end = next.range.end;
            *first = (*first).min(*first_use);
        }
        joins
    });
    in_order(runs)
}

/// Ranges by when they are first used.
fn in_order(mut ranges: Vec<(usize, SourceRange)>) -> impl ExactSizeIterator<Item = SourceRange> {
    ranges.sort_unstable_by_key(|(first_use, _)| *first_use);
    ranges.into_iter().map(|(_, range)| range)
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
pub(crate) mod tests;
