//! The queue of work that takes all samples of a title: making titles, and making manifests.
//!
//! Such work takes milliseconds for a film, and seconds for 64 films that a comma list names. Large
//! work has places of its own, so that usual titles never wait for it. Clients get places in turn.

use crate::{
    Error,
    title::{
        loading_memory::LoadingMemory,
        waiting_inputs::{Input, WaitingInputs},
        workers::Workers,
    },
};
use futures_util::future::poll_immediate;
use latemux_storage::{client::Permits, processors};
use std::{pin::pin, sync::Arc, time::Duration};

/// Number of samples from which work is large: ten renditions of a film of two hours have 4
/// million.
const LARGE: u64 = 1 << 22;

/// Longest wait for a place and for memory.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Places for work on whole titles, and the memory for it.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    usual: Arc<Permits>,
    large: Arc<Permits>,
    memory: LoadingMemory,
    waiting: Arc<WaitingInputs>,
    workers: Workers,
}

/// Amount of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Samples that are read.
    pub(crate) samples: u64,
    /// Estimate of the memory that it takes, in bytes.
    pub(crate) bytes: u64,
    /// What it reads, and holds while it waits.
    pub(crate) input: Input,
}

impl WorkQueue {
    /// Creates a queue with a place for each processor, and half as many places for large work.
    pub(crate) fn new(memory: LoadingMemory, workers: Workers) -> Self {
        let processors = processors();
        Self::with_places(processors, (processors / 2).max(1), memory, workers)
    }

    fn with_places(usual: usize, large: usize, memory: LoadingMemory, workers: Workers) -> Self {
        // As much as work may take beside its input.
        let waiting = WaitingInputs::new(memory.bytes());
        Self { usual: Permits::new(usual), large: Permits::new(large), memory, waiting, workers }
    }

    /// Waits for a place and for memory, then does work on the threads for it. The work keeps
    /// both until it ends, even if nobody waits for it any more.
    ///
    /// # Errors
    /// - [`Error::TitleBusy`] after a wait of 10 s
    /// - [`Error::TitlesWait`] at once, if other work waits with inputs of too many bytes
    /// - [`Error::Internal`] if the work panics
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        amount: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let places = if amount.samples >= LARGE { &self.large } else { &self.usual };
        let admitted = async {
            let place = places.acquire(1).await;
            (place, self.memory.grant(amount.bytes).await)
        };
        let busy = |_| Error::TitleBusy { after: LONGEST_WAIT };
        let mut admitted = pin!(tokio::time::timeout(LONGEST_WAIT, admitted));
        let admitted = match poll_immediate(&mut admitted).await {
            Some(admitted) => admitted,
            None => {
                let _waiting = self.waiting.add(amount.input).ok_or(Error::TitlesWait)?;
                admitted.await
            }
        };
        self.workers.run_with(admitted.map_err(busy)?, work).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use latemux_storage::client::on_behalf_of;
    use std::sync::{Mutex, mpsc};
    use tokio::task::JoinHandle;

    /// Work with an input of its own.
    fn work(samples: u64, bytes: u64) -> Work {
        Work { samples, bytes, input: Input::new(&bytes, 0) }
    }

    #[tokio::test(start_paused = true)]
    async fn large_work_does_not_hold_up_usual_work_and_is_refused_if_it_waits_too_long() {
        let queue = Arc::new(WorkQueue::with_places(1, 1, LoadingMemory::new(1 << 20), Workers::new(None)));
        let (end, ended) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run(work(LARGE, 1), move || ended.recv().is_ok()).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(queue.run(work(1, 1), || 7).await.unwrap(), 7);
        let second = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run(work(LARGE, 1), || 7).await }
        });
        tokio::task::yield_now().await;
        tokio::time::advance(LONGEST_WAIT + Duration::from_secs(1)).await;
        let error = second.await.unwrap().unwrap_err();
        assert_eq!((error.reason(), error.status().0.as_u16()), ("title_busy", 503));
        assert_eq!(error.retry_after(), Some(1));
        end.send(()).unwrap();
        assert!(first.await.unwrap().unwrap());
        assert_eq!(queue.run(work(LARGE, 1), || 7).await.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn work_waits_for_memory() {
        let memory = LoadingMemory::new(1 << 20);
        let queue = WorkQueue::with_places(1, 1, memory.clone(), Workers::new(None));
        let held = memory.grant(1 << 19).await;
        let amount = work(1, 1 << 30);
        assert_eq!(queue.run(amount, || 7).await.unwrap_err().reason(), "title_busy");
        drop(held);
        assert_eq!(queue.run(amount, || 7).await.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn titles_of_waiting_work_were_not_limited() {
        let queue = WorkQueue::with_places(1, 1, LoadingMemory::new(1 << 20), Workers::new(None));
        let held = queue.usual.acquire(1).await;
        let titles = [1, 2];
        let reading = |title: usize, bytes| Work { input: Input::new(&titles[title], bytes), ..work(1, 1) };
        let first = queue.run(reading(0, 1 << 20), || 7);
        let again = queue.run(reading(0, 1 << 20), || 7);
        let other = async {
            tokio::task::yield_now().await;
            let refused = queue.run(reading(1, 1), || 7).await.unwrap_err();
            assert_eq!((refused.reason(), refused.retry_after()), ("title_busy", Some(1)));
            drop(held);
        };
        let (first, again, ()) = tokio::join!(first, again, other);
        assert_eq!((first.unwrap(), again.unwrap()), (7, 7));
        assert_eq!(queue.run(reading(1, 1), || 7).await.unwrap(), 7);
    }

    /// Clients whose work is done, in order, once what they wait for is free.
    type Done = Arc<Mutex<Vec<u64>>>;

    /// Starts one piece of work for each of these clients.
    async fn begin<F: Future + Send + 'static>(
        clients: [u64; 4],
        work: impl Fn(Done, u64) -> F,
    ) -> (Done, Vec<JoinHandle<F::Output>>)
    where
        F::Output: Send,
    {
        let done = Done::default();
        let begun = clients.map(|client| tokio::spawn(on_behalf_of(client, work(done.clone(), client))));
        tokio::time::advance(Duration::from_millis(1)).await;
        (done, begun.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_much_work_was_served_before_all_others() {
        let memory = LoadingMemory::new(1 << 20);
        let queue = Arc::new(WorkQueue::with_places(1, 1, memory.clone(), Workers::new(None)));
        let held = queue.usual.acquire(1).await;
        let (done, begun) = begin([1, 1, 1, 2], |done, client| {
            let queue = queue.clone();
            async move { queue.run(work(1, 1), move || done.lock().unwrap().push(client)).await.unwrap() }
        })
        .await;
        drop(held);
        join_all(begun).await;
        assert_eq!(*done.lock().unwrap(), [1, 2, 1, 1]);

        let held = memory.grant(1 << 20).await;
        let (done, begun) = begin([1, 1, 1, 2], |done, client| {
            let memory = memory.clone();
            async move {
                let _granted = memory.grant(1 << 20).await;
                done.lock().unwrap().push(client);
            }
        })
        .await;
        drop(held);
        join_all(begun).await;
        assert_eq!(*done.lock().unwrap(), [1, 2, 1, 1]);
    }
}
