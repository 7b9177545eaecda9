//! A unit on its way: what has arrived of it, for all who wait.

use crate::memory::{
    fill::Fill,
    gauge::{Buffer, to_u64, to_usize},
};
use bytes::Bytes;
use latemux_storage::StorageError;
use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// A unit on its way. Readers hold the one they are at, so its bytes reach them even where there is no room to keep it.
#[derive(Debug)]
pub(crate) struct PendingUnit {
    /// Where its bytes lie in the object.
    pub(crate) range: Range<u64>,
    /// Who fetches it.
    pub(crate) fill: Arc<Fill>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// As they came, without gaps, each with where it starts in the object.
    frames: Vec<(u64, Bytes)>,
    end: Option<Result<Bytes, StorageError>>,
}

impl PendingUnit {
    pub(crate) fn new(range: Range<u64>, fill: Arc<Fill>) -> Self {
        Self { range, fill, state: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Hands a frame on; `at` is where it starts in the object.
    pub(crate) fn push(&self, at: u64, frame: Bytes) {
        self.state().frames.push((at, frame));
        self.changed.notify_waiters();
    }

    /// All that arrived, in one disk_range of exactly its size: that of the buffer.
    pub(crate) fn whole(&self, mut whole: Buffer) -> Buffer {
        let mut at = 0;
        for (_, frame) in &self.state().frames {
            let Some(here) = whole.get_mut(at..at + frame.len()) else { break };
            here.copy_from_slice(frame);
            at += frame.len();
        }
        // What a spare buffer held before must not show.
        debug_assert_eq!(at, whole.len(), "frames make up the unit");
        whole
    }

    /// The unit is complete, or will never be. SourceBody are let go.
    pub(crate) fn finish(&self, end: Result<Bytes, StorageError>) {
        let frames = {
            let mut state = self.state();
            if state.end.is_none() {
                state.end = Some(end);
            }
            std::mem::take(&mut state.frames)
        };
        drop(frames);
        self.changed.notify_waiters();
    }

    /// Bytes of the object from `at` on, which lies in the unit: as many as are there in one disk_range, at least one.
    pub(crate) async fn bytes(&self, at: u64) -> Result<Bytes, StorageError> {
        loop {
            // Made before looking, so that what happens in between is not missed.
            let changed = self.changed.notified();
            if let Some(found) = self.available(at) {
                return found;
            }
            changed.await;
        }
    }

    fn available(&self, at: u64) -> Option<Result<Bytes, StorageError>> {
        let state = self.state();
        match &state.end {
            Some(Ok(whole)) => return Some(Ok(whole.slice(to_usize(at - self.range.start)..))),
            Some(Err(error)) => return Some(Err(error.clone())),
            None => {}
        }
        let after = state.frames.partition_point(|(start, _)| *start <= at);
        let (start, frame) = state.frames.get(after.checked_sub(1)?)?;
        let skip = at - start;
        (skip < to_u64(frame.len())).then(|| Ok(frame.slice(to_usize(skip)..)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
