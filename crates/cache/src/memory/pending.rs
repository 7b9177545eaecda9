//! Units in flight: the bytes that have arrived so far, for all readers that wait.

use crate::memory::{
    fill::Fill,
    gauge::{Buffer, to_u64, to_usize},
    lock::lock,
};
use bytes::Bytes;
use latemux_storage::StorageError;
use std::{
    ops::Range,
    sync::{Arc, Mutex},
};
use tokio::sync::Notify;

/// A unit in flight. Readers hold the unit they are at, so its bytes reach them even if there is no
/// room to keep it.
#[derive(Debug)]
pub(crate) struct PendingUnit {
    /// Range of the unit in its object.
    pub(crate) range: Range<u64>,
    /// The fill that brings the unit.
    pub(crate) fill: Arc<Fill>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Frames as they arrived, without gaps, each with its position in the object.
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

    /// Passes a frame on; `at` is its position in the object.
    pub(crate) fn push(&self, at: u64, frame: Bytes) {
        lock(&self.state).frames.push((at, frame));
        self.changed.notify_waiters();
    }

    /// Joins all frames in a buffer of exactly the unit's length.
    pub(crate) fn whole(&self, mut whole: Buffer) -> Buffer {
        let mut at = 0;
        for (_, frame) in &lock(&self.state).frames {
            let Some(here) = whole.get_mut(at..at + frame.len()) else { break };
            here.copy_from_slice(frame);
            at += frame.len();
        }
        // The previous contents of a spare buffer must not show.
        debug_assert_eq!(at, whole.len(), "frames make up the unit");
        whole
    }

    /// Completes the unit, or ends it with an error, and drops its frames.
    pub(crate) fn finish(&self, end: Result<Bytes, StorageError>) {
        let frames = {
            let mut state = lock(&self.state);
            if state.end.is_none() {
                state.end = Some(end);
            }
            std::mem::take(&mut state.frames)
        };
        drop(frames);
        self.changed.notify_waiters();
    }

    /// Waits for bytes from `at` on, a position in the unit, and returns at least one.
    pub(crate) async fn bytes(&self, at: u64) -> Result<Bytes, StorageError> {
        loop {
            // The future is created before the lookup, so that no change in between is missed.
            let changed = self.changed.notified();
            if let Some(found) = self.available(at) {
                return found;
            }
            changed.await;
        }
    }

    fn available(&self, at: u64) -> Option<Result<Bytes, StorageError>> {
        let state = lock(&self.state);
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
}
