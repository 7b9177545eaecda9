//! Single flight: one computation per key, shared by all requests that need its result.

use crate::observe::trace::{for_current_request, record_outcome};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use latemux_storage::Outcome;
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Computations in flight, by key. All waiters share the result, errors included: requests for a
/// source that does not respond time out together, not one after the other.
///
/// The waiters poll the computation. When the last one leaves, it is dropped.
#[derive(Debug)]
pub(crate) struct SingleFlight<K, T: Clone> {
    running: Mutex<Running<K, T>>,
    /// Number of requests that joined a computation in flight.
    joins: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Running<K, T: Clone> {
    by_key: HashMap<K, Flight<T>>,
    next: u64,
}

#[derive(Debug)]
struct Flight<T: Clone> {
    number: u64,
    result: WeakShared<BoxFuture<'static, T>>,
}

impl<K: Hash + Eq + Clone, T: Clone + 'static> SingleFlight<K, T> {
    pub(crate) fn new() -> Self {
        Self { running: Mutex::new(Running { by_key: HashMap::new(), next: 0 }), joins: Arc::default() }
    }

    /// Returns the result of the computation in flight for a key. If there is none, `start` makes
    /// one.
    pub(crate) async fn run(&self, key: K, start: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let (result, number) = self.join(&key, start);
        let waiter = Waiter { result, cleanup: Cleanup { flights: self, key, number } };
        let value = waiter.result.clone().await;
        waiter.cleanup.remove_finished();
        value
    }

    /// Returns the counter of joins.
    pub(crate) fn joins(&self) -> Arc<AtomicU64> {
        self.joins.clone()
    }

    /// Returns true if a computation for a key is in flight.
    pub(crate) fn is_running(&self, key: &K) -> bool {
        self.lock().by_key.get(key).is_some_and(|f| f.result.upgrade().is_some())
    }

    fn join(
        &self,
        key: &K,
        start: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> (Shared<BoxFuture<'static, T>>, u64) {
        let mut running = self.lock();
        if let Some(flight) = running.by_key.get(key)
            && let Some(result) = flight.result.upgrade()
        {
            self.joins.fetch_add(1, Relaxed);
            record_outcome(Outcome::Joined);
            return (result, flight.number);
        }
        // Its reads count for the request that starts it, even if another request polls it.
        let result = for_current_request(start()).boxed().shared();
        let number = running.next;
        running.next += 1;
        if let Some(weak) = result.downgrade() {
            running.by_key.insert(key.clone(), Flight { number, result: weak });
        }
        (result, number)
    }
}

impl<K, T: Clone> SingleFlight<K, T> {
    fn lock(&self) -> MutexGuard<'_, Running<K, T>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waiter for a result. The field order matters: the cleanup is dropped after the future, so it can
/// see whether this was the last waiter.
struct Waiter<'a, K: Hash + Eq + Clone, T: Clone> {
    result: Shared<BoxFuture<'static, T>>,
    cleanup: Cleanup<'a, K, T>,
}

/// Removes the entry of a computation that has finished or was abandoned.
struct Cleanup<'a, K: Hash + Eq + Clone, T: Clone> {
    flights: &'a SingleFlight<K, T>,
    key: K,
    number: u64,
}

impl<K: Hash + Eq + Clone, T: Clone> Cleanup<'_, K, T> {
    /// Removes a finished computation. A later request starts a new one.
    fn remove_finished(&self) {
        let mut running = self.flights.lock();
        if running.by_key.get(&self.key).is_some_and(|f| f.number == self.number) {
            running.by_key.remove(&self.key);
        }
    }
}

impl<K: Hash + Eq + Clone, T: Clone> Drop for Cleanup<'_, K, T> {
    fn drop(&mut self) {
        let mut running = self.flights.lock();
        let abandoned = |f: &Flight<T>| f.number == self.number && f.result.upgrade().is_none();
        if running.by_key.get(&self.key).is_some_and(abandoned) {
            running.by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    };
    use tokio::sync::Notify;

    #[tokio::test]
    async fn all_waiters_share_one_result() {
        let flights = SingleFlight::<&str, u32>::new();
        let starts = Arc::new(AtomicU32::new(0));
        let gate = Arc::new(Notify::new());
        let run = || {
            let starts = starts.clone();
            let gate = gate.clone();
            flights.run("key", move || {
                let number = starts.fetch_add(1, SeqCst);
                async move {
                    gate.notified().await;
                    number
                }
                .boxed()
            })
        };
        let (a, b, ()) = tokio::join!(run(), run(), async {
            tokio::task::yield_now().await;
            gate.notify_one();
        });
        assert_eq!((a, b), (0, 0));
        gate.notify_one();
        assert_eq!(run().await, 1, "a finished computation is not joined");
        assert!(flights.lock().by_key.is_empty());
    }

    #[tokio::test]
    async fn waiters_that_leave_hand_over_the_computation_and_leave_no_entry() {
        let flights = SingleFlight::<u8, ()>::new();
        let gate = Arc::new(Notify::new());
        let wait = || {
            let gate = gate.clone();
            flights.run(1, move || async move { gate.notified().await }.boxed())
        };
        let mut leader = Box::pin(wait());
        assert!(futures_util::poll!(&mut leader).is_pending());
        let mut follower = Box::pin(wait());
        assert!(futures_util::poll!(&mut follower).is_pending());
        drop(leader);
        gate.notify_one();
        follower.await;

        let mut alone = Box::pin(wait());
        assert!(futures_util::poll!(&mut alone).is_pending());
        drop(alone);
        assert!(flights.lock().by_key.is_empty());
    }
}
