//! Gathers the frames that are ready into one frame, so that one vectored write sends them. The
//! next frame is made once the connection has sent this one.
//!
//! In an interleaved file, a segment of one track is some hundred slices. hyper makes one write for
//! every 16 frames, whatever their size. It writes a frame of many slices at once.

use crate::read::charge::{Charge, WaitingFrame};
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use std::{
    collections::VecDeque,
    io::IoSlice,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// Most slices in one frame. hyper passes no more than this to the kernel at once.
const MAX_SLICES: usize = 64;
/// Size in bytes at which a frame of HTTP/1.1 is sent without waiting for more slices. The kernel
/// takes such a frame at once, while its bytes are still in the processor's cache. Of a larger one
/// it takes a part, and the rest is read from memory again later.
const ENOUGH: usize = 96 << 10;
/// The same for a frame of HTTP/2, whose connection sends the frames of other streams meanwhile.
const ENOUGH_OF_STREAM: usize = 64 << 10;

/// A body whose frames hold everything that its inner body had ready, in order.
#[derive(Debug)]
pub(crate) struct GatheringBody<B: Body> {
    inner: B,
    charge: Arc<Charge>,
    /// Size in bytes at which a frame is sent without waiting for more slices.
    enough: usize,
    /// True if the body ends only when its last frame was sent.
    awaits_last: bool,
    /// Error to return after the frame that was gathered before it.
    error: Option<Box<B::Error>>,
}

impl<B: Body> GatheringBody<B> {
    /// Creates the body of a response of HTTP/1.1.
    pub(crate) fn new(inner: B, charge: Arc<Charge>) -> Self {
        Self { inner, charge, enough: ENOUGH, awaits_last: false, error: None }
    }

    /// Creates the body of an HTTP/2 stream. It ends when its last frame was sent, so that the task
    /// of the stream can end a stream whose client does not take that frame.
    pub(crate) fn of_stream(inner: B, charge: Arc<Charge>) -> Self {
        Self { inner, charge, enough: ENOUGH_OF_STREAM, awaits_last: true, error: None }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for GatheringBody<B>
where
    B::Error: Unpin,
{
    type Data = Slices;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Slices>, B::Error>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(*error)));
        }
        ready!(self.charge.poll_taken(cx));
        let mut slices = Slices::default();
        while slices.count() < MAX_SLICES && slices.remaining < self.enough && !self.charge.has_small_frame()
        {
            match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    // The origin's bodies have no trailers.
                    if let Ok(bytes) = frame.into_data() {
                        if slices.count() == 1 {
                            slices.rest = self.charge.take_slices();
                        }
                        slices.push(bytes);
                    }
                }
                Poll::Ready(Some(Err(error))) if slices.remaining == 0 => {
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(Some(Err(error))) => {
                    self.error = Some(Box::new(error));
                    break;
                }
                Poll::Ready(None) if slices.remaining == 0 => return Poll::Ready(None),
                Poll::Pending if slices.remaining == 0 => return Poll::Pending,
                // The slices gathered so far are sent now.
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        slices.waiting = Some(WaitingFrame::new(self.charge.clone(), slices.remaining as u64));
        Poll::Ready(Some(Ok(Frame::data(slices))))
    }

    fn is_end_stream(&self) -> bool {
        let is_sent = !self.awaits_last || !self.charge.frame_waits();
        is_sent && self.error.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Bytes in several slices.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// Number of bytes in all slices.
    remaining: usize,
    /// Tells the response when the connection has sent the frame.
    waiting: Option<WaitingFrame>,
}

impl Slices {
    fn push(&mut self, bytes: Bytes) {
        self.remaining += bytes.len();
        if self.first.is_empty() {
            self.first = bytes;
        } else if !bytes.is_empty() {
            if self.rest.capacity() == 0 {
                self.rest.reserve(MAX_SLICES);
            }
            self.rest.push_back(bytes);
        }
    }

    fn count(&self) -> usize {
        usize::from(!self.first.is_empty()) + self.rest.len()
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.keep_slices(std::mem::take(&mut self.rest));
        }
    }
}

impl Buf for Slices {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let slices = std::iter::once(&self.first).chain(&self.rest).filter(|slice| !slice.is_empty());
        into.iter_mut().zip(slices).map(|(into, slice)| *into = IoSlice::new(slice)).count()
    }

    fn advance(&mut self, mut count: usize) {
        self.remaining -= count;
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
        fn slices_read_like_one_buffer(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9),
            steps in prop::collection::vec(1..20_usize, 100),
        ) {
            let mut rest = pieces.concat();
            let mut slices = slices(&pieces);
            for step in steps {
                prop_assert_eq!(slices.remaining(), rest.len());
                prop_assert!(rest.starts_with(slices.chunk()) && slices.chunk().is_empty() == rest.is_empty());
                let mut vectors = [IoSlice::new(&[]); 16];
                let count = slices.chunks_vectored(&mut vectors);
                let joined: Vec<u8> = vectors[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                prop_assert_eq!(&joined, &rest);
                prop_assert!(vectors[..count].iter().all(|slice| !slice.is_empty()));
                let step = step.min(rest.len());
                slices.advance(step);
                rest.drain(..step);
            }
        }
    }

    /// Returns a body of frames of these sizes in bytes, which ends with an error if `fails` is
    /// true.
    fn body(sizes: &[usize], fails: bool) -> GatheringBody<impl Body<Data = Bytes, Error = Error> + Unpin> {
        let frames: Vec<_> = sizes.iter().map(|&size| Ok(Frame::data(vec![7; size].into()))).collect();
        let error = fails.then(|| Err(Error::Internal("broken off")));
        let body = StreamBody::new(stream::iter(frames).chain(stream::iter(error)));
        GatheringBody::new(body, Arc::default())
    }

    #[tokio::test]
    async fn ready_slices_are_gathered_into_few_frames() {
        let mut body = body(&[1000; 100], false);
        let mut counts = Vec::new();
        while let Some(frame) = body.frame().await {
            counts.push(frame.unwrap().into_data().unwrap().count());
        }
        assert_eq!(counts, [64, 36]);
    }

    #[tokio::test]
    async fn an_error_follows_the_bytes_before_it() {
        let mut body = body(&[10, 20], true);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap().remaining(), 30);
        assert!(!body.is_end_stream());
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.frame().await.is_none());
    }
}
