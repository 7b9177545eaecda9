//! Permits that clients get in turn while all are in use, so that the requests of one client do not
//! make another wait for all of them.

use crate::on_behalf::{NO_CLIENT, current_client};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// A limited number of permits, of which one request may need several.
#[derive(Debug)]
pub struct Permits(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// Most permits that one client may hold at a time, unless a single request needs more.
    most_of_one: usize,
    /// The clients that wait and may hold more, in the order of their turns.
    turns: VecDeque<u64>,
    /// The clients that hold permits or wait for some.
    clients: HashMap<u64, Client>,
}

#[derive(Debug, Default)]
struct Client {
    /// Permits that the client holds.
    held: usize,
    waiting: VecDeque<Waiting>,
    /// True if the client is among the turns.
    is_lined_up: bool,
}

/// A request that waits for permits.
#[derive(Debug)]
struct Waiting {
    count: usize,
    sender: oneshot::Sender<HeldPermits>,
}

/// Permits of one request, which are given back when they are dropped.
#[derive(Debug)]
pub struct HeldPermits {
    /// `None` once they are given back.
    of: Option<Arc<Permits>>,
    client: u64,
    count: usize,
}

impl Permits {
    /// Creates permits, all of which one client may hold.
    pub fn new(count: usize) -> Arc<Self> {
        Self::with_most_of_one(count, count)
    }

    /// Creates permits, of which one client may hold no more than `most_of_one` at a time. Work
    /// that is done for no client may hold all.
    pub fn with_most_of_one(count: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            free: count,
            most_of_one,
            turns: VecDeque::new(),
            clients: HashMap::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn given(self: &Arc<Self>, client: u64, count: usize) -> HeldPermits {
        HeldPermits { of: Some(self.clone()), client, count }
    }

    /// Returns permits if they are free, nobody waits for them, and the current client may have
    /// them.
    pub fn try_acquire(self: &Arc<Self>, count: usize) -> Option<HeldPermits> {
        let client = current_client();
        let mut state = self.state();
        (state.turns.is_empty() && state.take(client, count)).then(|| self.given(client, count))
    }

    /// Returns permits like [`Self::try_acquire`], for requests that can be left out: the current
    /// client then holds at most half of what it may hold, so that its other requests find permits.
    pub fn try_acquire_spare(self: &Arc<Self>, count: usize) -> Option<HeldPermits> {
        let client = current_client();
        let mut state = self.state();
        let held = state.clients.get(&client).map_or(0, |client| client.held);
        let is_spare = client == NO_CLIENT || held + count <= state.most_of_one / 2;
        (is_spare && state.turns.is_empty() && state.take(client, count)).then(|| self.given(client, count))
    }

    /// Waits for the turn of the current client. `count` must be no more than all permits.
    pub async fn acquire(self: &Arc<Self>, count: usize) -> Option<HeldPermits> {
        let client = current_client();
        let receiver = {
            let mut state = self.state();
            if state.turns.is_empty() && state.take(client, count) {
                return Some(self.given(client, count));
            }
            state.enqueue(client, count)
        };
        let mut waiter = Waiter { receiver, permits: Some(self) };
        let given = (&mut waiter.receiver).await;
        waiter.permits = None;
        // The sender is dropped only with the permits.
        given.ok()
    }

    /// Gives free permits to the clients whose turns are next.
    fn give(self: &Arc<Self>) {
        loop {
            let next = self.state().next();
            let Some((client, Waiting { count, sender })) = next else { return };
            if let Err(mut permits) = sender.send(self.given(client, count)) {
                // The request has just been given up.
                permits.of = None;
                self.state().put_back(client, count);
            }
        }
    }
}

impl Client {
    /// Returns the number of permits that the next request needs, if one waits. Forgets requests
    /// that were given up.
    fn next_count(&mut self) -> Option<usize> {
        while self.waiting.front().is_some_and(|waiting| waiting.sender.is_closed()) {
            self.waiting.pop_front();
        }
        self.waiting.front().map(|waiting| waiting.count)
    }
}

impl State {
    /// Takes permits for a client. Returns false if it may not have them now.
    fn take(&mut self, client: u64, count: usize) -> bool {
        if count > self.free || !self.may_have(client, count) {
            return false;
        }
        self.free -= count;
        self.clients.entry(client).or_default().held += count;
        true
    }

    fn may_have(&self, client: u64, count: usize) -> bool {
        let held = self.clients.get(&client).map_or(0, |client| client.held);
        client == NO_CLIENT || held == 0 || held + count <= self.most_of_one
    }

    fn enqueue(&mut self, client: u64, count: usize) -> oneshot::Receiver<HeldPermits> {
        let (sender, receiver) = oneshot::channel();
        let waiting = &mut self.clients.entry(client).or_default().waiting;
        if waiting.len() == waiting.capacity() {
            // Requests that were given up.
            waiting.retain(|waiting| !waiting.sender.is_closed());
        }
        waiting.push_back(Waiting { count, sender });
        self.line_up(client);
        receiver
    }

    /// Puts a client at the end of the turns, if it waits and may hold more. Removes it if it holds
    /// no permit and waits for none.
    fn line_up(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number).filter(|client| !client.is_lined_up) else { return };
        match client.next_count() {
            None if client.held == 0 => _ = self.clients.remove(&number),
            Some(count) if self.may_have(number, count) => {
                self.turns.push_back(number);
                self.clients.entry(number).or_default().is_lined_up = true;
            }
            _ => {}
        }
    }

    /// Takes permits for the request whose turn is next, and returns it with its client.
    fn next(&mut self) -> Option<(u64, Waiting)> {
        while let Some(number) = self.turns.front().copied() {
            let count = self.clients.get_mut(&number).and_then(Client::next_count);
            if count.is_some_and(|count| count > self.free) {
                return None;
            }
            self.turns.pop_front();
            // A client that asks for more than it may hold now is lined up again when it returns
            // permits.
            let is_given = count.is_some_and(|count| self.take(number, count));
            let client = self.clients.entry(number).or_default();
            client.is_lined_up = false;
            let next = if is_given { client.waiting.pop_front() } else { None };
            self.line_up(number);
            if let Some(next) = next {
                return Some((number, next));
            }
        }
        None
    }

    fn put_back(&mut self, number: u64, count: usize) {
        self.free += count;
        if let Some(client) = self.clients.get_mut(&number) {
            client.held = client.held.saturating_sub(count);
        }
        self.line_up(number);
    }
}

/// A request that waits. If it is given up, those behind it may have their turns.
struct Waiter<'a> {
    receiver: oneshot::Receiver<HeldPermits>,
    /// `None` once the request has its permits.
    permits: Option<&'a Arc<Permits>>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if let Some(permits) = self.permits {
            self.receiver.close();
            // Permits that arrived in the meantime go back.
            drop(self.receiver.try_recv());
            permits.give();
        }
    }
}

impl Drop for HeldPermits {
    fn drop(&mut self) {
        let Some(permits) = self.of.take() else { return };
        permits.state().put_back(self.client, self.count);
        permits.give();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_behalf::{call_on_behalf_of, on_behalf_of};
    use futures_util::{FutureExt, future::BoxFuture};

    fn waiting(permits: &Arc<Permits>, client: u64) -> BoxFuture<'static, Option<HeldPermits>> {
        let permits = permits.clone();
        let mut waiting = on_behalf_of(client, async move { permits.acquire(1).await }).boxed();
        assert!((&mut waiting).now_or_never().is_none());
        waiting
    }

    #[test]
    fn clients_get_permits_in_turn() {
        let permits = Permits::new(1);
        let mut held = permits.try_acquire(1);
        assert!(permits.try_acquire(1).is_none());
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
        assert!(permits.state().clients.is_empty() && permits.state().turns.is_empty());
    }

    #[test]
    fn requests_that_were_given_up_keep_no_permit() {
        let permits = Permits::new(1);
        let held = permits.try_acquire(1);
        let given_up = [1, 1, 2].map(|client| waiting(&permits, client));
        let last = waiting(&permits, 3);
        drop(given_up);
        drop(held);
        let last = last.now_or_never().expect("its turn").unwrap();
        drop(last);
        // A permit that arrives after its request was given up comes back too.
        let held = permits.try_acquire(1);
        let late = waiting(&permits, 1);
        drop(held);
        drop(late);
        assert_eq!(permits.state().free, 1);
    }

    #[test]
    fn a_client_holds_no_more_than_its_share() {
        let permits = Permits::with_most_of_one(4, 2);
        let acquire = |client| call_on_behalf_of(client, || permits.try_acquire(1));
        let held = [acquire(1).unwrap(), acquire(1).unwrap()];
        assert!(acquire(1).is_none(), "a third permit of one client");
        let mut third = waiting(&permits, 1);
        // Others are not held up by a client that has its share.
        let other = acquire(2).unwrap();
        assert!((&mut third).now_or_never().is_none());
        drop(other);
        assert!((&mut third).now_or_never().is_none());
        drop(held);
        assert!(third.now_or_never().unwrap().is_some());
        assert!(permits.state().clients.is_empty());
    }

    /// The chunks of long reads could take all permits of their client. A response that opens
    /// several reads before it takes bytes of the first one then waited for itself.
    #[test]
    fn requests_that_can_be_left_out_take_no_more_than_half() {
        let permits = Permits::with_most_of_one(8, 4);
        let acquire = |client| call_on_behalf_of(client, || permits.try_acquire_spare(1));
        let held = [acquire(1).unwrap(), acquire(1).unwrap()];
        assert!(acquire(1).is_none());
        let others: Vec<_> =
            (0..2).map(|_| call_on_behalf_of(1, || permits.try_acquire(1)).unwrap()).collect();
        // Work for no client may hold all.
        let rest: Vec<_> = std::iter::from_fn(|| permits.try_acquire_spare(1)).collect();
        assert_eq!(rest.len(), 4);
        drop((held, others, rest));
        assert!(permits.state().clients.is_empty());
    }

    #[test]
    fn large_requests_wait_their_turn_and_block_nobody_once_they_are_given_up() {
        let permits = Permits::new(3);
        let held = permits.try_acquire(2).unwrap();
        let all = permits.clone();
        let mut large = on_behalf_of(1, async move { all.acquire(3).await }).boxed();
        assert!((&mut large).now_or_never().is_none());
        assert!(permits.try_acquire(1).is_none(), "it would starve the large request");
        let mut small = waiting(&permits, 2);
        drop(large);
        assert!((&mut small).now_or_never().unwrap().is_some());
        drop(held);
        assert_eq!(permits.state().free, 3);
    }
}
