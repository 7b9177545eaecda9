//! The threads for work that takes milliseconds of processor time or more: parsing indexes, making
//! titles and making manifests.
//!
//! They may have a lower priority than the threads that serve responses. So nothing here reads
//! files, which responses may wait for, and nothing here holds a lock.

use crate::Error;
use latemux_storage::{client::Permits, processors};
use std::sync::Arc;
use tokio::runtime::Handle;

/// The threads for long work.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    /// The runtime with the threads. `None` stands for the current runtime.
    runtime: Option<Handle>,
    /// Places for work that has no place of a [`WorkQueue`](super::work_queue::WorkQueue).
    places: Arc<Permits>,
}

impl Workers {
    /// Creates workers on the blocking threads of a runtime, or of the current one. One piece of
    /// work for each processor is done at a time.
    pub(crate) fn new(runtime: Option<Handle>) -> Self {
        let places = Permits::new(processors());
        Self { runtime, places }
    }

    /// Does work when the current client has a place.
    ///
    /// # Errors
    /// [`Error::Internal`] if the work panics
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.places.acquire(1).await;
        self.run_with(place, work).await
    }

    /// Does work, and keeps `held` until it ends, even if nobody waits for it any more.
    ///
    /// # Errors
    /// [`Error::Internal`] if the work panics
    pub(crate) async fn run_with<H: Send + 'static, T: Send + 'static>(
        &self,
        held: H,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let work = move || {
            let done = work();
            drop(held);
            done
        };
        let done = match &self.runtime {
            Some(runtime) => runtime.spawn_blocking(work),
            None => tokio::task::spawn_blocking(work),
        };
        done.await.map_err(|_| Error::Internal("work on a title panicked"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};
    use tokio::{runtime::Builder, task::yield_now};

    fn name_of_thread() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    #[tokio::test]
    async fn work_is_done_by_the_threads_of_the_given_runtime() {
        let own = Builder::new_current_thread().thread_name("own").build().unwrap();
        let workers = Workers::new(Some(own.handle().clone()));
        assert_eq!(workers.run(name_of_thread).await.unwrap().as_deref(), Some("own"));
        assert_eq!(workers.run_with((), name_of_thread).await.unwrap().as_deref(), Some("own"));
        let panics = workers.run(|| -> u32 { panic!("as a test") });
        assert_eq!(panics.await.unwrap_err().reason(), "internal");
        own.shutdown_background();
    }

    #[tokio::test]
    async fn one_piece_of_work_for_each_place_is_done_at_a_time() {
        let workers = Workers { places: Permits::new(1), ..Workers::new(None) };
        let (end, ended) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let run = |work: Box<dyn FnOnce() -> bool + Send>| {
            let workers = workers.clone();
            tokio::spawn(async move { workers.run(work).await })
        };
        let first = run(Box::new(move || ended.recv().is_err()));
        yield_now().await;
        let second = run(Box::new(move || begin.send(()).is_ok()));
        yield_now().await;
        // The place is kept although nobody waits for the work any more.
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        yield_now().await;
        assert!(workers.places.try_acquire(1).is_none());
        assert!(begun.try_recv().is_err());
        drop(end);
        assert!(second.await.unwrap().unwrap());
        assert!(begun.try_recv().is_ok());
    }
}
