//! Permits for requests to storage. While all are in use, clients get them in turn, so that the
//! requests of one client do not make another wait for all of them.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

tokio::task_local! {
    static CLIENT: u64;
}

/// Runs a future for a client, whose number is that of no other client. Requests to storage outside
/// of such a future count as those of one further client.
pub fn on_behalf_of<F: Future>(client: u64, future: F) -> impl Future<Output = F::Output> + use<F> {
    CLIENT.scope(client, future)
}

/// Calls a function for a client, as [`on_behalf_of`] runs a future.
pub fn call_on_behalf_of<T>(client: u64, function: impl FnOnce() -> T) -> T {
    CLIENT.sync_scope(client, function)
}

/// Returns the number of the client for which the current future runs.
pub fn current_client() -> u64 {
    CLIENT.try_with(|client| *client).unwrap_or(0)
}

/// A limited number of permits.
#[derive(Debug)]
pub(super) struct Permits(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The clients that wait, in the order of their turns.
    turns: VecDeque<u64>,
    /// The waiting requests of each of these clients.
    waiting: HashMap<u64, VecDeque<oneshot::Sender<HeldPermit>>>,
}

/// A permit, which is given back when it is dropped.
#[derive(Debug)]
pub(super) struct HeldPermit(Option<Arc<Permits>>);

impl Permits {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { free: count, turns: VecDeque::new(), waiting: HashMap::new() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a permit if one is free, which is so only while nobody waits.
    pub(super) fn try_acquire(self: &Arc<Self>) -> Option<HeldPermit> {
        let mut state = self.state();
        state.free = state.free.checked_sub(1)?;
        Some(HeldPermit(Some(self.clone())))
    }

    /// Waits for the turn of the current client.
    pub(super) async fn acquire(self: &Arc<Self>) -> Option<HeldPermit> {
        let receiver = {
            let mut state = self.state();
            if let Some(free) = state.free.checked_sub(1) {
                state.free = free;
                return Some(HeldPermit(Some(self.clone())));
            }
            let client = current_client();
            let (sender, receiver) = oneshot::channel();
            let State { turns, waiting, .. } = &mut *state;
            let requests = waiting.entry(client).or_default();
            if requests.is_empty() {
                turns.push_back(client);
            }
            if requests.len() == requests.capacity() {
                // Requests that were given up.
                requests.retain(|sender| !sender.is_closed());
            }
            requests.push_back(sender);
            receiver
        };
        // The sender is dropped only with the permits.
        receiver.await.ok()
    }
}

impl State {
    /// Returns the request whose turn is next.
    fn next(&mut self) -> Option<oneshot::Sender<HeldPermit>> {
        let client = self.turns.pop_front()?;
        let requests = self.waiting.get_mut(&client)?;
        let next = requests.pop_front();
        if requests.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        next
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        let Some(permits) = self.0.take() else { return };
        loop {
            let next = {
                let mut state = permits.state();
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                    return;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Self(Some(permits.clone()))) {
                Ok(()) => return,
                // That request has been given up. The permit that comes back goes to another.
                Err(mut permit) => permit.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, future::BoxFuture};

    fn waiting(permits: &Arc<Permits>, client: u64) -> BoxFuture<'static, Option<HeldPermit>> {
        let permits = permits.clone();
        let mut waiting = on_behalf_of(client, async move { permits.acquire().await }).boxed();
        assert!((&mut waiting).now_or_never().is_none());
        waiting
    }

    #[test]
    fn clients_get_permits_in_turn() {
        let permits = Permits::new(1);
        let mut held = permits.try_acquire();
        assert!(permits.try_acquire().is_none());
        let mut queue: Vec<_> =
            [1, 1, 1, 1, 2, 3, 2].map(|client| (client, waiting(&permits, client))).into();
        let mut order = Vec::new();
        while !queue.is_empty() {
            drop(held.take());
            let (at, permit) = queue
                .iter_mut()
                .enumerate()
                .find_map(|(at, (_, waiting))| Some((at, waiting.now_or_never()?)))
                .unwrap();
            held = permit;
            order.push(queue.remove(at).0);
        }
        assert_eq!(order, [1, 2, 3, 1, 2, 1, 1]);
        drop(held);
        assert!(permits.state().waiting.is_empty() && permits.state().turns.is_empty());
    }

    #[test]
    fn requests_that_were_given_up_keep_no_permit() {
        let permits = Permits::new(1);
        let held = permits.try_acquire();
        let given_up = [1, 1, 2].map(|client| waiting(&permits, client));
        let last = waiting(&permits, 3);
        drop(given_up);
        drop(held);
        let last = last.now_or_never().expect("its turn").unwrap();
        drop(last);
        // A permit that arrives after its request was given up comes back too.
        let held = permits.try_acquire();
        let late = waiting(&permits, 1);
        drop(held);
        drop(late);
        assert_eq!(permits.state().free, 1);
    }
}
