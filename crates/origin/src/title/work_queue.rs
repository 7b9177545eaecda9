//! The queue of work that takes all samples of a title: making titles, and making manifests.
//!
//! Such work takes milliseconds for a film, and seconds for 64 films that a comma list names. Large
//! work has places of its own, so that usual titles never wait for it.

use crate::{Error, title::loading_memory::LoadingMemory};
use std::{num::NonZero, sync::Arc, thread::available_parallelism, time::Duration};
use tokio::sync::Semaphore;

/// Number of samples from which work is large: ten renditions of a film of two hours have 4
/// million.
const LARGE: u64 = 1 << 22;

/// Longest wait for a place and for memory.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Places for work on whole titles, and the memory for it.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    usual: Arc<Semaphore>,
    large: Arc<Semaphore>,
    memory: LoadingMemory,
}

/// Amount of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Samples that are read.
    pub(crate) samples: u64,
    /// Estimate of the memory that it takes, in bytes.
    pub(crate) bytes: u64,
}

impl WorkQueue {
    /// Creates a queue with a place for each processor, and half as many places for large work.
    pub(crate) fn new(memory: LoadingMemory) -> Self {
        let processors = available_parallelism().map_or(1, NonZero::get);
        Self::with_places(processors, (processors / 2).max(1), memory)
    }

    fn with_places(usual: usize, large: usize, memory: LoadingMemory) -> Self {
        Self { usual: Arc::new(Semaphore::new(usual)), large: Arc::new(Semaphore::new(large)), memory }
    }

    /// Waits for a place and for memory, then does work on the blocking pool. The work keeps both
    /// until it ends, even if nobody waits for it any more.
    ///
    /// # Errors
    /// - [`Error::TitleBusy`] after a wait of 10 s
    /// - [`Error::Internal`] if the work panics
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        amount: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let places = if amount.samples >= LARGE { &self.large } else { &self.usual };
        let admitted = async {
            let place = places.clone().acquire_owned().await.ok();
            (place, self.memory.grant(amount.bytes).await)
        };
        let busy = |_| Error::TitleBusy { after: LONGEST_WAIT };
        let admitted = tokio::time::timeout(LONGEST_WAIT, admitted).await.map_err(busy)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(admitted);
            done
        });
        done.await.map_err(|_| Error::Internal("work on a title panicked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const SMALL: Work = Work { samples: 1, bytes: 1 };
    const LONG: Work = Work { samples: LARGE, bytes: 1 };

    #[tokio::test(start_paused = true)]
    async fn large_work_does_not_hold_up_usual_work_and_is_refused_if_it_waits_too_long() {
        let queue = Arc::new(WorkQueue::with_places(1, 1, LoadingMemory::new(1 << 20)));
        let (end, ended) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run(LONG, move || ended.recv().is_ok()).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(queue.run(SMALL, || 7).await.unwrap(), 7);
        let second = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run(LONG, || 7).await }
        });
        tokio::task::yield_now().await;
        tokio::time::advance(LONGEST_WAIT + Duration::from_secs(1)).await;
        let error = second.await.unwrap().unwrap_err();
        assert_eq!((error.reason(), error.status().0.as_u16()), ("title_busy", 503));
        assert_eq!(error.retry_after(), Some(1));
        end.send(()).unwrap();
        assert!(first.await.unwrap().unwrap());
        assert_eq!(queue.run(LONG, || 7).await.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn work_waits_for_memory() {
        let memory = LoadingMemory::new(1 << 20);
        let queue = WorkQueue::with_places(1, 1, memory.clone());
        let held = memory.grant(1 << 19).await;
        let amount = Work { samples: 1, bytes: 1 << 30 };
        assert_eq!(queue.run(amount, || 7).await.unwrap_err().reason(), "title_busy");
        drop(held);
        assert_eq!(queue.run(amount, || 7).await.unwrap(), 7);
    }
}
