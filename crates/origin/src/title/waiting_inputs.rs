//! Limits the memory of the inputs of work that waits for a place in the work queue. Requests that
//! wait hold the indexes or the title that they will read, even if the caches have dropped them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a piece of work reads: the indexes of a title, or a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Input {
    /// The address in memory, which tells whether two pieces of work read the same input.
    address: usize,
    bytes: u64,
}

impl Input {
    /// Describes an input of so many bytes.
    pub(crate) fn new<T: ?Sized>(input: &T, bytes: u64) -> Self {
        Self { address: std::ptr::from_ref(input).cast::<()>().addr(), bytes }
    }
}

/// The inputs of all work that waits.
#[derive(Debug)]
pub(crate) struct WaitingInputs {
    limit: u64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: u64,
    /// The number of pieces of work that wait with each input, by its address.
    counts: HashMap<usize, usize>,
}

impl WaitingInputs {
    /// Creates a limit of so many bytes.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, waiting: Mutex::default() })
    }

    /// Adds a piece of work that waits with this input. The input counts once, however much work
    /// waits with it. Returns `None` if this input and those of other waiting work would exceed the
    /// limit; an input that waits alone never does. The caller must hold the input as long as the
    /// result, because its address identifies it.
    pub(crate) fn add(self: &Arc<Self>, input: Input) -> Option<WaitingInput> {
        let mut waiting = self.lock();
        let is_new = !waiting.counts.contains_key(&input.address);
        if is_new {
            if waiting.bytes > 0 && waiting.bytes.saturating_add(input.bytes) > self.limit {
                return None;
            }
            waiting.bytes += input.bytes;
        }
        *waiting.counts.entry(input.address).or_default() += 1;
        drop(waiting);
        Some(WaitingInput { input, all: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece of work that waits with its input. Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct WaitingInput {
    input: Input,
    all: Arc<WaitingInputs>,
}

impl Drop for WaitingInput {
    fn drop(&mut self) {
        let mut waiting = self.all.lock();
        let Some(count) = waiting.counts.get_mut(&self.input.address) else { return };
        *count -= 1;
        if *count == 0 {
            waiting.counts.remove(&self.input.address);
            waiting.bytes -= self.input.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_waiting_work_were_not_limited() {
        let inputs = WaitingInputs::new(100);
        let titles = [1, 2, 3, 4];
        let input = |number: usize, bytes| Input::new(&titles[number], bytes);
        let first = inputs.add(input(0, 60)).unwrap();
        let again = inputs.add(input(0, 60)).unwrap();
        assert!(inputs.add(input(1, 41)).is_none());
        let second = inputs.add(input(1, 40)).unwrap();
        drop(first);
        assert!(inputs.add(input(2, 1)).is_none(), "the first input is still held");
        drop(again);
        drop(second);
        let alone = inputs.add(input(3, 1000)).unwrap();
        assert!(inputs.add(input(2, 1)).is_none());
        drop(alone);
        assert!(inputs.add(input(2, 1)).is_some());
    }
}
