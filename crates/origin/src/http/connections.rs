//! Open connections: their limits, and which of them end when there are too many.

use crate::{
    config::HttpConfig,
    read::room::{ClientShare, ResponseMemory, Room, lock},
};
use latemux_storage::turns::InTurn;
use std::{
    cmp::Reverse,
    collections::HashMap,
    future::Future,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, Weak,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Number of connections beyond the limit on which health checks are answered.
pub(crate) const RESERVE: usize = 64;
/// Most of these connections that one address may have.
const RESERVE_OF_ADDRESS: usize = 8;
/// Number of connections that an address may always have while there are any.
const FEW: usize = 16;
/// Shortest time between two warnings that all connections are in use.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// All open connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    memory: Arc<ResponseMemory>,
    limit: usize,
    per_address: usize,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    clients: Mutex<HashMap<IpAddr, Weak<ClientShare>>>,
    /// Time of the last warning that all connections are in use.
    warned: Mutex<Option<Instant>>,
    /// Number of idle connections that were closed because others needed their place.
    pub(crate) evicted: AtomicU64,
    /// Number of connections that were closed at once because of the limits for one address.
    pub(crate) refused: AtomicU64,
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: IpAddr,
    pub(crate) room: Arc<Room>,
    /// True if only health checks are answered.
    pub(crate) is_reserved: bool,
    is_evicted: AtomicBool,
    evicted: Notify,
}

impl Connection {
    /// Returns a task that serves this connection. The client's connections take turns, so that
    /// other clients wait less. A connection of a trusted proxy takes the turns of the client whose
    /// request is in flight.
    pub(crate) fn in_turn<F: Future + Unpin>(&self, task: F) -> InTurn<F> {
        match self.room.turns_of_proxy() {
            Some(turns) => turns.take(task),
            None => self.room.peer().turns.take(task),
        }
    }

    /// Waits until the connection is to end so that another one can be opened.
    pub(crate) async fn evicted(&self) {
        while !self.is_evicted.load(SeqCst) {
            self.evicted.notified().await;
        }
    }

    /// Waits until the connection has been without a request for this time.
    pub(crate) async fn idle(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        loop {
            let left = limit.saturating_sub(self.room.idle_for().unwrap_or(0));
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(left)).await;
        }
    }
}

/// A connection for as long as it is open.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    number: u64,
    connection: Arc<Connection>,
    connections: Arc<Connections>,
}

impl std::ops::Deref for OpenConnection {
    type Target = Arc<Connection>;

    fn deref(&self) -> &Self::Target {
        &self.connection
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let share = self.connection.room.peer();
        share.connections.fetch_sub(1, SeqCst);
        share.reserved.fetch_sub(usize::from(self.connection.is_reserved), SeqCst);
        lock(&self.connections.open).remove(&self.number);
    }
}

impl Connections {
    pub(crate) fn new(memory: Arc<ResponseMemory>, config: &HttpConfig) -> Arc<Self> {
        Arc::new(Self {
            memory,
            limit: config.max_connections.max(1),
            per_address: config.max_connections_per_address,
            open: Mutex::default(),
            next: AtomicU64::new(0),
            clients: Mutex::default(),
            warned: Mutex::default(),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Returns what the clients of an address hold.
    pub(crate) fn share_of(&self, address: IpAddr) -> Arc<ClientShare> {
        let network = network_of(address);
        let mut clients = lock(&self.clients);
        if let Some(share) = clients.get(&network).and_then(Weak::upgrade) {
            return share;
        }
        if clients.len() == clients.capacity() {
            clients.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::<ClientShare>::default();
        clients.insert(network, Arc::downgrade(&share));
        share
    }

    /// Admits a connection. If too many are open, those end that have been idle the longest, first
    /// those of addresses with many connections. If none is idle, the connection is reserved for
    /// health checks. Returns `None` if its address has too many of these too.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr, is_proxy: bool) -> Option<OpenConnection> {
        let share = self.share_of(peer);
        let of_address = share.connections.load(SeqCst) + 1;
        let mut open = lock(&self.open);
        let is_heavy = !is_proxy && of_address > self.many();
        let is_crowded = open.len() >= self.limit - self.limit / 4;
        let is_full = open.len() >= self.limit;
        let own = |other: &Connection| Arc::ptr_eq(other.room.peer(), &share);
        let is_reserved = (!is_proxy && self.per_address > 0 && of_address > self.per_address)
            || (is_heavy && is_crowded && !self.evict(&open, own))
            || (is_full && !self.evict(&open, |_| true));
        if is_full {
            self.warn();
        }
        if is_reserved && share.reserved.fetch_add(1, SeqCst) >= RESERVE_OF_ADDRESS {
            share.reserved.fetch_sub(1, SeqCst);
            self.refused.fetch_add(1, Relaxed);
            return None;
        }
        let connection = Arc::new(Connection {
            peer,
            is_reserved,
            room: if is_proxy {
                Room::of_proxy(&self.memory, &share)
            } else {
                Room::new(&self.memory, &share)
            },
            is_evicted: AtomicBool::new(false),
            evicted: Notify::new(),
        });
        share.connections.fetch_add(1, SeqCst);
        let number = self.next.fetch_add(1, Relaxed);
        open.insert(number, connection.clone());
        Some(OpenConnection { number, connection, connections: self.clone() })
    }

    /// Ends the idle connections for which `may_end` is true: a sixty-fourth of the limit at once,
    /// since finding them takes time. Returns false if there are none.
    fn evict(&self, open: &HashMap<u64, Arc<Connection>>, may_end: impl Fn(&Connection) -> bool) -> bool {
        let is_ending = |connection: &&Arc<Connection>| connection.is_evicted.load(SeqCst);
        let ending = open.values().filter(is_ending).count();
        if open.len() - ending < self.limit && ending > 0 {
            return true;
        }
        let many = self.many();
        let mut idle: Vec<_> = open
            .values()
            .filter(|other| !other.is_reserved && !other.is_evicted.load(SeqCst) && may_end(other))
            .filter_map(|other| {
                let idle_for = other.room.idle_for()?;
                let is_heavy = other.room.peer().connections.load(SeqCst) > many;
                Some((Reverse((is_heavy, idle_for)), other))
            })
            .collect();
        let count = self.limit.div_ceil(64).min(idle.len());
        if count == 0 {
            return false;
        }
        idle.select_nth_unstable_by_key(count - 1, |(order, _)| *order);
        for (_, other) in idle.iter().take(count) {
            other.is_evicted.store(true, SeqCst);
            other.evicted.notify_one();
        }
        self.evicted.fetch_add(count as u64, Relaxed);
        true
    }

    /// Returns the number of connections above which an address has many.
    fn many(&self) -> usize {
        self.limit.div_ceil(16).max(FEW)
    }

    /// Warns the operator that connections are used up.
    fn warn(&self) {
        let mut warned = lock(&self.warned);
        if warned.is_none_or(|when| when.elapsed() >= WARN_INTERVAL) {
            *warned = Some(Instant::now());
            tracing::warn!(
                reason = "connections",
                most = self.limit,
                "the limit of open connections is reached: idle ones are closed, further clients wait"
            );
        }
    }
}

/// Returns the address that stands for all addresses of one client: an IPv6 client usually has a
/// whole /64 network.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::charge::Charge;

    fn connections(limit: usize, per_address: usize) -> Arc<Connections> {
        let config = HttpConfig {
            max_connections: limit,
            max_connections_per_address: per_address,
            ..HttpConfig::default()
        };
        Connections::new(ResponseMemory::new(64 << 20, 0, 0), &config)
    }

    fn address(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn is_evicted(connection: &Connection) -> bool {
        connection.is_evicted.load(SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_ends_when_all_are_in_use() {
        let all = connections(3, 0);
        let mut open = Vec::new();
        for number in 0..3 {
            open.push(all.admit(address(number), false).unwrap());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let busy = Charge::begin(open[0].room.clone(), open[0].room.peer().clone(), 0).unwrap();
        let next = all.admit(address(9), false).unwrap();
        assert!(!next.is_reserved);
        assert_eq!(open.iter().map(|one| is_evicted(one)).collect::<Vec<_>>(), [false, true, false]);
        drop(busy);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_beyond_the_limit_only_answer_health_checks_while_all_are_busy() {
        let all = connections(2, 0);
        let open = [1, 2].map(|number| all.admit(address(number), false).unwrap());
        let busy: Vec<_> = open
            .iter()
            .map(|one| Charge::begin(one.room.clone(), one.room.peer().clone(), 0).unwrap())
            .collect();
        assert!(all.admit(address(3), false).unwrap().is_reserved);
        assert!(open.iter().all(|one| !is_evicted(one)));
        drop(busy);
        assert!(!all.admit(address(3), false).unwrap().is_reserved);
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_cannot_take_the_last_quarter_of_the_connections() {
        let all = connections(64, 0);
        let mut open = Vec::new();
        let mut busy = Vec::new();
        while let Some(one) = all.admit(address(1), false).filter(|one| !one.is_reserved) {
            busy.push(Charge::begin(one.room.clone(), one.room.peer().clone(), 0).unwrap());
            open.push(one);
        }
        assert_eq!(open.len(), 48);
        let others: Vec<_> = (2..18).map(|number| all.admit(address(number), false).unwrap()).collect();
        assert!(others.iter().all(|one| !one.is_reserved));
        let reserved: Vec<_> = std::iter::from_fn(|| all.admit(address(1), false)).collect();
        assert_eq!(reserved.len(), RESERVE_OF_ADDRESS);
        assert!(reserved.iter().all(|one| one.is_reserved));
        assert_eq!(all.refused.load(SeqCst), 1);
        busy.pop();
        let instead = all.admit(address(1), false).unwrap();
        assert!(!instead.is_reserved, "in place of an idle one of its own");
    }

    /// Lets other tasks run: ends the turn and waits for a task that takes none.
    async fn step_aside() {
        tokio::spawn(async {}).await.unwrap();
    }

    #[tokio::test]
    async fn clients_behind_a_proxy_took_no_turns() {
        let all = connections(1000, 0);
        let heavy = all.share_of(address(1));
        let steps = Arc::new(AtomicU64::new(0));
        let tasks: tokio::task::JoinSet<()> = (0..200)
            .map(|_| {
                let connection = all.admit(address(9), true).unwrap();
                let (heavy, steps, room) = (heavy.clone(), steps.clone(), connection.room.clone());
                let serving = connection.in_turn(Box::pin(async move {
                    let _request = Charge::begin(room, heavy, 0).unwrap();
                    loop {
                        steps.fetch_add(1, SeqCst);
                        step_aside().await;
                    }
                }));
                async move {
                    serving.await;
                    drop(connection);
                }
            })
            .collect();
        let connection = all.admit(address(9), true).unwrap();
        let (other, room) = (all.share_of(address(2)), connection.room.clone());
        let most = tokio::spawn(connection.in_turn(Box::pin(async move {
            let mut most = 0;
            // The first request gives the connection the turns of this client.
            for _ in 0..20 {
                let _request = Charge::begin(room.clone(), other.clone(), 0).unwrap();
                step_aside().await;
                let before = steps.load(SeqCst);
                step_aside().await;
                most = most.max(steps.load(SeqCst) - before);
            }
            most
        })));
        let most = most.await.unwrap();
        let turns = 4 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
        assert!((1..=2 * turns).contains(&most), "{most} steps");
        drop(tasks);
    }

    #[tokio::test(start_paused = true)]
    async fn the_connections_of_one_network_are_limited() {
        let all = connections(100, 2);
        let v6 = |low: u128| IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) | low));
        let open: Vec<_> = [1, 2].into_iter().map(|low| all.admit(v6(low), false).unwrap()).collect();
        assert!(all.admit(v6(3), false).unwrap().is_reserved);
        assert!(!all.admit(v6(3), true).unwrap().is_reserved, "a trusted proxy");
        assert!(!all.admit(v6(1 << 64), false).unwrap().is_reserved);
        drop(open);
        assert!(!all.admit(v6(3), false).unwrap().is_reserved);
        assert_eq!(lock(&all.clients).values().filter(|share| share.strong_count() > 0).count(), 0);
    }
}
