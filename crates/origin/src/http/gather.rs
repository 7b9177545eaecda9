//! Frames that are ready together, sent together: one vectored write for many slices of a source.
//!
//! In an interleaved file a segment of one track is some hundred slices. hyper writes once for every 16 frames, whatever their
//! size; a frame that holds many slices is written whole.

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use std::{
    collections::VecDeque,
    io::IoSlice,
    pin::Pin,
    task::{Context, Poll},
};

/// Slices in one write: more than hyper passes to the kernel at once wait for the next.
const MOST: usize = 64;
/// Bytes that are worth a write of their own.
const ENOUGH: usize = 512 << 10;

/// A body whose frames hold all that its inner body had ready, in order.
#[derive(Debug)]
pub(crate) struct Gathered<B: Body> {
    inner: B,
    /// Why it ends behind what was gathered before.
    failed: Option<Box<B::Error>>,
}

impl<B: Body> Gathered<B> {
    pub(crate) fn new(inner: B) -> Self {
        Self { inner, failed: None }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Gathered<B>
where
    B::Error: Unpin,
{
    type Data = Slices;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Slices>, B::Error>>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(*error)));
        }
        let mut slices = Slices::default();
        while slices.count() < MOST && slices.left < ENOUGH {
            match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // No body here has trailers.
                    if let Ok(bytes) = frame.into_data() {
                        slices.push(bytes);
                    }
                }
                Poll::Ready(Some(Err(error))) if slices.left == 0 => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Err(error))) => {
                    self.failed = Some(Box::new(error));
                    break;
                }
                Poll::Ready(None) if slices.left == 0 => return Poll::Ready(None),
                Poll::Pending if slices.left == 0 => return Poll::Pending,
                // What is there already need not wait.
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        Poll::Ready(Some(Ok(Frame::data(slices))))
    }

    fn is_end_stream(&self) -> bool {
        self.failed.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Bytes in several places.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// Bytes of all.
    left: usize,
}

impl Slices {
    fn push(&mut self, bytes: Bytes) {
        self.left += bytes.len();
        if self.first.is_empty() {
            self.first = bytes;
        } else if !bytes.is_empty() {
            if self.rest.is_empty() {
                self.rest.reserve(MOST);
            }
            self.rest.push_back(bytes);
        }
    }

    fn count(&self) -> usize {
        usize::from(!self.first.is_empty()) + self.rest.len()
    }
}

impl Buf for Slices {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let slices = std::iter::once(&self.first).chain(&self.rest).filter(|slice| !slice.is_empty());
        into.iter_mut().zip(slices).map(|(into, slice)| *into = IoSlice::new(slice)).count()
    }

    fn advance(&mut self, mut count: usize) {
        self.left = self.left.saturating_sub(count);
        while count >= self.first.len() && count > 0 {
            count -= self.first.len();
            match self.rest.pop_front() {
                Some(next) => self.first = next,
                None => {
                    self.first.clear();
                    return;
                }
            }
        }
        self.first.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use futures_util::{StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};
    use proptest::prelude::*;

    fn slices(pieces: &[Vec<u8>]) -> Slices {
        let mut slices = Slices::default();
        pieces.iter().for_each(|piece| slices.push(piece.clone().into()));
        slices
    }

    proptest! {
        #[test]
        fn they_are_one_after_the_other(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9),
            steps in prop::collection::vec(1..20_usize, 100),
        ) {
            let mut rest = pieces.concat();
            let mut slices = slices(&pieces);
            for step in steps {
                prop_assert_eq!(slices.remaining(), rest.len());
                prop_assert!(rest.starts_with(slices.chunk()) && slices.chunk().is_empty() == rest.is_empty());
                let mut seen = [IoSlice::new(&[]); 16];
                let count = slices.chunks_vectored(&mut seen);
                let together: Vec<u8> = seen[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                prop_assert_eq!(&together, &rest);
                prop_assert!(seen[..count].iter().all(|slice| !slice.is_empty()));
                let step = step.min(rest.len());
                slices.advance(step);
                rest.drain(..step);
            }
        }
    }

    /// Frames of so many bytes; an error behind them.
    fn body(sizes: &[usize], fails: bool) -> Gathered<impl Body<Data = Bytes, Error = Error> + Unpin> {
        let frames: Vec<_> = sizes.iter().map(|&size| Ok(Frame::data(vec![7; size].into()))).collect();
        let error = fails.then(|| Err(Error::Internal("broken off")));
        Gathered::new(StreamBody::new(stream::iter(frames).chain(stream::iter(error))))
    }

    #[tokio::test]
    async fn what_is_ready_comes_in_few_frames() {
        let mut body = body(&[1000; 100], false);
        let mut counts = Vec::new();
        while let Some(frame) = body.frame().await {
            counts.push(frame.unwrap().into_data().unwrap().count());
        }
        assert_eq!(counts, [64, 36]);
    }

    #[tokio::test]
    async fn an_error_comes_behind_what_came_before_it() {
        let mut body = body(&[10, 20], true);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().remaining(), 30);
        assert!(!body.is_end_stream());
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }
}
