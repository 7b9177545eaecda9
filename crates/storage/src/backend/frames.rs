//! A pool of frame buffers. A new buffer of a quarter megabyte would be zeroed, and often mapped,
//! each time.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of spare buffers.
const SPARES: usize = 32;

/// Buffers of one size.
#[derive(Debug)]
pub(crate) struct FramePool {
    size: usize,
    spares: Mutex<Vec<Box<[u8]>>>,
}

/// A buffer that is being filled or read. It returns to the pool when its last reader drops it.
#[derive(Debug)]
pub(crate) struct PooledFrame {
    data: Box<[u8]>,
    /// Number of bytes in use.
    len: usize,
    frames: Arc<FramePool>,
}

impl FramePool {
    /// Creates a pool of buffers of `size` bytes each.
    pub(crate) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size, spares: Mutex::default() })
    }

    /// Returns a buffer of `len` bytes with unspecified contents.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> PooledFrame {
        // A reader that keeps a few bytes should not keep a large buffer.
        let pooled = len <= self.size && len > self.size / 4;
        let spare = if pooled { self.lock().pop() } else { None };
        let data = spare.unwrap_or_else(|| vec![0; if pooled { self.size } else { len }].into_boxed_slice());
        PooledFrame { data, len, frames: Arc::clone(self) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for PooledFrame {
    fn as_ref(&self) -> &[u8] {
        self.data.get(..self.len).unwrap_or_default()
    }
}

impl AsMut<[u8]> for PooledFrame {
    fn as_mut(&mut self) -> &mut [u8] {
        self.data.get_mut(..self.len).unwrap_or_default()
    }
}

impl From<PooledFrame> for Bytes {
    fn from(frame: PooledFrame) -> Self {
        Self::from_owner(frame)
    }
}

impl Drop for PooledFrame {
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.data);
        if data.len() == self.frames.size {
            let mut spares = self.frames.lock();
            if spares.len() < SPARES {
                spares.push(data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_returns_when_its_last_reader_drops_it() {
        let frames = FramePool::new(1000);
        let mut frame = frames.take(900);
        frame.as_mut().fill(7);
        let bytes = Bytes::from(frame);
        let half = bytes.slice(..450);
        drop(bytes);
        assert_eq!(frames.lock().len(), 0);
        assert_eq!(*half, [7; 450]);
        drop(half);
        assert_eq!(frames.lock().len(), 1);
        assert_eq!(frames.take(1000).as_ref().len(), 1000);
    }

    #[test]
    fn small_frames_are_not_pooled_and_spares_are_bounded() {
        let frames = FramePool::new(1000);
        assert_eq!(frames.take(10).data.len(), 10);
        assert_eq!(frames.take(5000).data.len(), 5000);
        let all: Vec<PooledFrame> = (0..100).map(|_| frames.take(1000)).collect();
        drop(all);
        assert_eq!(frames.lock().len(), SPARES);
    }
}
