//! Single flight: one computation per key however many wait for it.

use crate::observe::trace::{carried, note};
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

/// Computations in flight. All who wait share the result, errors too: a source that does not answer is waited for once, not
/// once per client in turn. Whoever waits drives the computation; when the last one leaves, it is dropped.
#[derive(Debug)]
pub(crate) struct Flights<K, T: Clone> {
    running: Mutex<Running<K, T>>,
    /// How often a computation in flight was waited for.
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

impl<K: Hash + Eq + Clone, T: Clone + 'static> Flights<K, T> {
    pub(crate) fn new() -> Self {
        Self { running: Mutex::new(Running { by_key: HashMap::new(), next: 0 }), joins: Arc::default() }
    }

    /// The result for a key: of the computation in flight, else of `start`.
    pub(crate) async fn run(&self, key: K, start: impl FnOnce() -> BoxFuture<'static, T>) -> T {
        let (result, number) = self.join(&key, start);
        let waiter = Waiter { result, seat: Seat { flights: self, key, number } };
        let value = waiter.result.clone().await;
        waiter.seat.land();
        value
    }

    /// How often a computation in flight was waited for, counted on.
    pub(crate) fn joins(&self) -> Arc<AtomicU64> {
        self.joins.clone()
    }

    /// Whether a computation for a key is in flight.
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
            note(Outcome::Joined);
            return (result, flight.number);
        }
        // Whoever drives it: what it reads is read for who began it.
        let result = carried(start()).boxed().shared();
        let number = running.next;
        running.next += 1;
        if let Some(weak) = result.downgrade() {
            running.by_key.insert(key.clone(), Flight { number, result: weak });
        }
        (result, number)
    }
}

impl<K, T: Clone> Flights<K, T> {
    fn lock(&self) -> MutexGuard<'_, Running<K, T>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits. Fields drop in order: the future first, then the seat looks whether it was the last.
struct Waiter<'a, K: Hash + Eq + Clone, T: Clone> {
    result: Shared<BoxFuture<'static, T>>,
    seat: Seat<'a, K, T>,
}

struct Seat<'a, K: Hash + Eq + Clone, T: Clone> {
    flights: &'a Flights<K, T>,
    key: K,
    number: u64,
}

impl<K: Hash + Eq + Clone, T: Clone> Seat<'_, K, T> {
    /// The result is there: who comes from now on starts anew.
    fn land(&self) {
        let mut running = self.flights.lock();
        if running.by_key.get(&self.key).is_some_and(|f| f.number == self.number) {
            running.by_key.remove(&self.key);
        }
    }
}

impl<K: Hash + Eq + Clone, T: Clone> Drop for Seat<'_, K, T> {
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
        let flights = Flights::<&str, u32>::new();
        let (starts, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let run = || {
            let (starts, gate) = (starts.clone(), gate.clone());
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
        assert_eq!(run().await, 1, "a landed flight is not joined");
        assert!(flights.lock().by_key.is_empty());
    }

    #[tokio::test]
    async fn leaving_leaves_nothing_behind_and_hands_over() {
        let flights = Flights::<u8, ()>::new();
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
