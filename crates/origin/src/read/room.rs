//! Memory for responses on their way to clients, divided between the addresses of clients.
//!
//! Whatever a response holds while its client takes the bytes is reserved here first: its plan, the
//! frame that the connection has not sent yet, and source bytes that arrived before their turn. The
//! least that a response needs is reserved before it starts, or it is refused. More is reserved
//! only while half of the memory is free, not counting what heavy clients hold. Without it, a
//! response goes on with small frames.

use latemux_storage::turns::{ChangingTurns, Turns};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{
        AtomicBool, AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};
use tokio::{task::yield_now, time::Instant};

/// Most connections whose responses are paused in a row, before other tasks run.
const ROOMS_IN_A_ROW: usize = 64;

/// Use of a reservation, which decides how much must stay free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// The response cannot start without it.
    Least,
    /// The response is faster with it.
    Ahead,
    /// The response keeps units of the range cache in memory. The cache evicts other units to make
    /// up for them, so only bytes beyond that limit count as memory of responses.
    Pinned,
}

/// The reader of a response, which can give back what it holds.
pub(crate) trait Pausable: std::fmt::Debug + Send + Sync {
    /// Gives back all source bytes and requests to storage if no bytes were wanted since the last
    /// call. Returns true if there were any.
    fn pause_if_stalled(&self) -> bool;
}

/// Memory of all responses.
#[derive(Debug)]
pub(crate) struct ResponseMemory {
    limit: u64,
    /// Bytes that stay in memory for a slice of a unit of the range cache. 0 without such a cache.
    unit: u64,
    /// Bytes of pinned units that lie within the budget of the range cache.
    pinnable: u64,
    /// Bytes reserved for anything but pinned units.
    used: AtomicU64,
    /// Bytes of pinned units. A unit that several responses pin is counted for each of them.
    pinned: AtomicU64,
    /// Bytes of `used` that clients hold who have more than a sixteenth of the memory.
    of_heavy: AtomicU64,
    began: Instant,
    rooms: Mutex<Vec<Weak<Room>>>,
    /// Number of times that a response gave back its source bytes because its client was slow.
    pauses: AtomicU64,
}

impl ResponseMemory {
    /// Creates the memory, with at most `limit` bytes. `unit` is the size of the range cache's
    /// units. The cache has room for `pinnable` bytes of units that only responses keep.
    pub(crate) fn new(limit: u64, unit: u64, pinnable: u64) -> Arc<Self> {
        Arc::new(Self {
            limit,
            unit,
            pinnable,
            used: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
            of_heavy: AtomicU64::new(0),
            began: Instant::now(),
            rooms: Mutex::default(),
            pauses: AtomicU64::new(0),
        })
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes in use, with those of pinned units that the range cache has no room for.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(SeqCst) + self.pinned.load(SeqCst).saturating_sub(self.pinnable)
    }

    fn counter(&self, purpose: Use) -> &AtomicU64 {
        match purpose {
            Use::Least | Use::Ahead => &self.used,
            Use::Pinned => &self.pinned,
        }
    }

    /// Returns true if a client that holds so much is light: it has at most a sixteenth of the
    /// memory.
    fn is_light(&self, of_client: u64) -> bool {
        of_client <= self.limit / 16
    }

    /// Counts a change of what a client holds besides pinned units, for `of_heavy`.
    fn count_heavy(&self, before: u64, after: u64) {
        let counted = |held| if self.is_light(held) { 0 } else { held };
        let (before, after) = (counted(before), counted(after));
        if before != after {
            // Wraps around: the sum over all changes is what the clients hold.
            self.of_heavy.fetch_add(after.wrapping_sub(before), SeqCst);
        }
    }

    /// Returns the bytes in use up to which a client may reserve more. For [`Use::Ahead`] and
    /// [`Use::Pinned`], it is half of the memory. For a light client it is half of what heavy ones
    /// leave, in addition to what they hold, so that they do not make its responses slow.
    fn limit_of(&self, purpose: Use, is_light: bool) -> u64 {
        match (purpose, is_light) {
            (Use::Least, true) => self.limit,
            (Use::Least, false) => self.limit / 4 * 3,
            (Use::Ahead | Use::Pinned, true) => {
                let of_heavy = self.of_heavy.load(SeqCst).min(self.limit / 4 * 3);
                of_heavy + (self.limit - of_heavy) / 2
            }
            (Use::Ahead | Use::Pinned, false) => self.limit / 8 * 3,
        }
    }

    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Relaxed)
    }

    /// Returns the milliseconds since the memory was created.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns true if so much is used that responses of slow clients should give back what they
    /// can.
    pub(crate) fn is_scarce(&self) -> bool {
        self.used() > self.limit / 4
    }

    /// Pauses all responses whose clients took nothing since the last call, and which hold source
    /// bytes or requests to storage. Other tasks run meanwhile, because there may be thousands of
    /// responses.
    pub(crate) async fn pause_stalled(&self) {
        let rooms: Vec<_> = {
            let mut rooms = lock(&self.rooms);
            rooms.retain(|room| room.strong_count() > 0);
            rooms.iter().filter_map(Weak::upgrade).collect()
        };
        for rooms in rooms.chunks(ROOMS_IN_A_ROW) {
            for room in rooms {
                let readers: Vec<_> = lock(&room.readers).iter().filter_map(Weak::upgrade).collect();
                let paused = readers.iter().filter(|reader| reader.pause_if_stalled()).count();
                self.pauses.fetch_add(paused as u64, Relaxed);
            }
            yield_now().await;
        }
    }
}

/// What one client holds, on all its connections.
#[derive(Debug)]
pub(crate) struct ClientShare {
    /// Number of the client, from 1 on.
    pub(crate) number: u64,
    /// Bytes reserved for anything but pinned units.
    used: AtomicU64,
    /// Bytes of pinned units.
    pinned: AtomicU64,
    pub(crate) connections: AtomicUsize,
    /// Number of connections on which only health checks are answered.
    pub(crate) reserved: AtomicUsize,
    pub(crate) requests: AtomicUsize,
    /// Turns of the tasks that serve the client's connections.
    pub(crate) turns: Arc<Turns>,
}

impl Default for ClientShare {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NEXT.fetch_add(1, Relaxed),
            used: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            turns: Arc::default(),
        }
    }
}

impl ClientShare {
    fn counter(&self, purpose: Use) -> &AtomicU64 {
        match purpose {
            Use::Least | Use::Ahead => &self.used,
            Use::Pinned => &self.pinned,
        }
    }

    /// Returns all bytes that the client holds.
    fn holds(&self) -> u64 {
        self.used.load(SeqCst).saturating_add(self.pinned.load(SeqCst))
    }
}

/// The memory for responses, as one connection uses it.
#[derive(Debug)]
pub(crate) struct Room {
    memory: Arc<ResponseMemory>,
    /// Share of the connection's peer.
    peer: Arc<ClientShare>,
    /// On a connection of a trusted proxy.
    of_proxy: Option<TurnsOfProxy>,
    /// Number of requests in flight.
    requests: AtomicUsize,
    /// End of the last request, or begin of the connection, in milliseconds since the memory was
    /// created.
    idle_since: AtomicU64,
    /// Readers of the responses in flight, for [`ResponseMemory::pause_stalled`].
    readers: Mutex<Vec<Weak<dyn Pausable>>>,
    /// True if the connection is ended because its client takes bytes too slowly.
    is_too_slow: AtomicBool,
}

/// Turns of a task that serves a connection of a trusted proxy, which carries the requests of many
/// clients.
#[derive(Debug)]
struct TurnsOfProxy {
    changing: Arc<ChangingTurns>,
    /// Used while no request is in flight.
    unlimited: Arc<Turns>,
    /// True once the connection has one stream for each request. The streams then take turns.
    has_streams: AtomicBool,
}

impl Room {
    pub(crate) fn new(memory: &Arc<ResponseMemory>, peer: &Arc<ClientShare>) -> Arc<Self> {
        Self::with(memory, peer, None)
    }

    /// Creates the room of a connection of a trusted proxy.
    pub(crate) fn of_proxy(memory: &Arc<ResponseMemory>, peer: &Arc<ClientShare>) -> Arc<Self> {
        let unlimited = Turns::unlimited();
        let changing = ChangingTurns::new(unlimited.clone());
        Self::with(memory, peer, Some(TurnsOfProxy { changing, unlimited, has_streams: false.into() }))
    }

    fn with(
        memory: &Arc<ResponseMemory>,
        peer: &Arc<ClientShare>,
        of_proxy: Option<TurnsOfProxy>,
    ) -> Arc<Self> {
        let room = Arc::new(Self {
            memory: memory.clone(),
            peer: peer.clone(),
            of_proxy,
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(memory.now()),
            readers: Mutex::default(),
            is_too_slow: AtomicBool::new(false),
        });
        let mut rooms = lock(&memory.rooms);
        if rooms.len() == rooms.capacity() {
            rooms.retain(|room| room.strong_count() > 0);
        }
        rooms.push(Arc::downgrade(&room));
        room
    }

    /// Returns the share of the connection's peer.
    pub(crate) fn peer(&self) -> &Arc<ClientShare> {
        &self.peer
    }

    /// Returns the turns of a task that serves a connection of a trusted proxy: those of the client
    /// whose request is in flight. Returns `None` for other connections, whose peer is the client.
    pub(crate) fn turns_of_proxy(&self) -> Option<&Arc<ChangingTurns>> {
        self.of_proxy.as_ref().map(|of_proxy| &of_proxy.changing)
    }

    /// Records that the connection has one stream for each request.
    pub(crate) fn set_has_streams(&self) {
        if let Some(of_proxy) = &self.of_proxy {
            of_proxy.has_streams.store(true, Relaxed);
        }
    }

    /// Records that a request of a client begins.
    pub(crate) fn begin_request(&self, client: &ClientShare) {
        self.requests.fetch_add(1, SeqCst);
        if let Some(of_proxy) = self.of_proxy.as_ref().filter(|one| !one.has_streams.load(Relaxed)) {
            of_proxy.changing.set(&client.turns);
        }
    }

    /// Records that a request ends, together with its response.
    pub(crate) fn end_request(&self) {
        self.idle_since.store(self.memory.now(), SeqCst);
        let is_last = self.requests.fetch_sub(1, SeqCst) == 1;
        if let Some(of_proxy) = self.of_proxy.as_ref().filter(|_| is_last) {
            // The next request may be another client's, and must not wait for this one.
            of_proxy.changing.set(&of_proxy.unlimited);
        }
    }

    /// Returns the time without a request, in milliseconds, or `None` if one is in flight.
    pub(crate) fn idle_for(&self) -> Option<u64> {
        let is_idle = self.requests.load(SeqCst) == 0;
        is_idle.then(|| self.memory.now().saturating_sub(self.idle_since.load(SeqCst)))
    }

    /// Returns the bytes that stay in memory for a slice of a unit of the range cache.
    pub(crate) fn unit(&self) -> u64 {
        self.memory.unit
    }

    /// Reserves bytes for a client, if so much is free. The last quarter of what a use may take is
    /// left to clients that hold less than a sixteenth of the memory. Thus one client cannot keep
    /// the others out.
    pub(crate) fn reserve(&self, client: &ClientShare, bytes: u64, purpose: Use) -> bool {
        self.memory.counter(purpose).fetch_add(bytes, SeqCst);
        let before = client.counter(purpose).fetch_add(bytes, SeqCst);
        if purpose != Use::Pinned {
            self.memory.count_heavy(before, before.saturating_add(bytes));
        }
        let fits = self.memory.used() <= self.memory.limit_of(purpose, self.memory.is_light(client.holds()));
        if !fits {
            self.give_back(client, bytes, purpose);
        }
        fits
    }

    /// Gives back bytes that were reserved for the same use. [`Use::Least`] and [`Use::Ahead`] are
    /// counted together.
    pub(crate) fn give_back(&self, client: &ClientShare, bytes: u64, purpose: Use) {
        self.memory.counter(purpose).fetch_sub(bytes, SeqCst);
        let before = client.counter(purpose).fetch_sub(bytes, SeqCst);
        if purpose != Use::Pinned {
            self.memory.count_heavy(before, before.saturating_sub(bytes));
        }
    }

    /// Records that the connection is ended because its client takes bytes too slowly.
    pub(crate) fn set_too_slow(&self) {
        self.is_too_slow.store(true, Relaxed);
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        self.is_too_slow.load(Relaxed)
    }

    /// Adds the reader of a response, so that it can be paused.
    pub(crate) fn watch(&self, reader: Weak<dyn Pausable>) {
        let mut readers = lock(&self.readers);
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(reader);
    }
}

/// Locks a mutex, even if another thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reserves ten bytes at a time for as long as there is room, and returns their number.
    fn take_all(room: &Room, purpose: Use) -> u64 {
        let mut taken = 0;
        while room.reserve(room.peer(), 10, purpose) {
            taken += 10;
        }
        taken
    }

    #[test]
    fn one_client_cannot_take_the_last_quarter() {
        let memory = ResponseMemory::new(1600, 0, 0);
        let greedy = Room::new(&memory, &Arc::default());
        let taken = take_all(&greedy, Use::Least);
        assert_eq!(taken, 1200);
        let normal = Room::new(&memory, &Arc::default());
        assert_eq!(take_all(&normal, Use::Least), 100, "a sixteenth");
        assert_eq!(memory.used(), 1300);
        greedy.give_back(greedy.peer(), taken, Use::Least);
        assert!(normal.reserve(normal.peer(), 300, Use::Least));
    }

    #[test]
    fn a_heavy_client_made_the_responses_of_others_slow() {
        let memory = ResponseMemory::new(1600, 0, 0);
        let heavy = Room::new(&memory, &Arc::default());
        let taken = take_all(&heavy, Use::Least);
        assert_eq!((taken, memory.of_heavy.load(SeqCst)), (1200, 1200));
        let light = Room::new(&memory, &Arc::default());
        assert_eq!(take_all(&light, Use::Ahead), 100, "a sixteenth");
        let crowd: u64 = (0..3).map(|_| take_all(&Room::new(&memory, &Arc::default()), Use::Ahead)).sum();
        assert_eq!(crowd, 100, "half of what the heavy client leaves, together");
        heavy.give_back(heavy.peer(), taken, Use::Least);
        assert_eq!((memory.of_heavy.load(SeqCst), memory.used()), (0, 200));
    }

    #[test]
    fn units_that_a_heavy_client_pins_gave_room_to_others() {
        let memory = ResponseMemory::new(1600, 10, 4000);
        let heavy = Room::new(&memory, &Arc::default());
        take_all(&heavy, Use::Pinned);
        assert_eq!(memory.of_heavy.load(SeqCst), 0);
        heavy.give_back(heavy.peer(), heavy.peer().pinned.load(SeqCst), Use::Pinned);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn half_of_the_memory_is_kept_for_what_responses_cannot_do_without() {
        let memory = ResponseMemory::new(1600, 0, 0);
        let room = Room::new(&memory, &Arc::default());
        assert_eq!(take_all(&room, Use::Ahead), 600);
        assert_eq!(take_all(&room, Use::Least), 600);
        assert_eq!(memory.used(), 1200);
    }

    /// A reader that counts the calls.
    #[derive(Debug, Default)]
    struct Counted(AtomicUsize);

    impl Pausable for Counted {
        fn pause_if_stalled(&self) -> bool {
            self.0.fetch_add(1, SeqCst);
            true
        }
    }

    #[tokio::test]
    async fn other_tasks_waited_until_all_responses_were_paused() {
        const ROOMS: usize = 1000;
        let memory = ResponseMemory::new(1600, 0, 0);
        let rooms: Vec<_> = (0..ROOMS).map(|_| Room::new(&memory, &Arc::default())).collect();
        let counted = Arc::new(Counted::default());
        let reader: Weak<dyn Pausable> = Arc::downgrade(&(counted.clone() as Arc<dyn Pausable>));
        rooms.iter().for_each(|room| room.watch(reader.clone()));
        let pausing = tokio::spawn({
            let memory = memory.clone();
            async move { memory.pause_stalled().await }
        });
        let mut most = 0;
        while !pausing.is_finished() {
            let before = counted.0.load(SeqCst);
            yield_now().await;
            most = most.max(counted.0.load(SeqCst) - before);
        }
        assert_eq!((counted.0.load(SeqCst), memory.pauses()), (ROOMS, ROOMS as u64));
        assert!(most <= ROOMS_IN_A_ROW, "{most} in a row");
    }

    #[test]
    fn pinned_units_take_memory_only_beyond_what_the_cache_gives_up() {
        let memory = ResponseMemory::new(1600, 10, 1000);
        let room = Room::new(&memory, &Arc::default());
        assert_eq!(take_all(&room, Use::Pinned), 1600, "1,000 of the cache, and 600 of the responses");
        assert_eq!(memory.used(), 600);
        room.give_back(room.peer(), 1600, Use::Pinned);
        assert_eq!(memory.used(), 0);
        assert_eq!(take_all(&room, Use::Ahead), 600, "other bytes have no place in the cache");
    }
}
