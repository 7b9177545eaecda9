//! The memory that one response has reserved, and the frame of it that waits for the client.
//!
//! A response hands one frame at a time to its connection. The next one is made once the connection
//! has sent the frame and dropped it. What the frame kept in memory is given back then.

use crate::{
    Error,
    read::room::{ClientShare, Pausable, Room, Use, lock},
};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use latemux_storage::turns::Turns;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, Weak,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    task::{Context, Poll},
};

/// Estimate of the memory that a request takes besides its plan, in bytes: its head, its futures
/// and its record.
const REQUEST: u64 = 16 << 10;
/// Size in bytes of the frame that every response may send without a further reservation.
pub(crate) const SMALL_FRAME: usize = 32 << 10;

/// What one response has reserved. It is given back when the response and its last frame are
/// dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    /// `None` if nothing limits the memory, as for commands that write files.
    room: Option<(Arc<Room>, Arc<ClientShare>)>,
    own: Account,
    /// Bytes of units of the range cache.
    pinned: Account,
    /// True if the current frame has the bytes of [`SMALL_FRAME`].
    has_small: AtomicBool,
    /// True while a frame waits for the client.
    frame_waits: AtomicBool,
    /// Bytes that the client has taken, in whole frames.
    taken: AtomicU64,
    waker: AtomicWaker,
    /// Empty list for the slices of the next frame, whose memory the last frame has used.
    slices: Mutex<VecDeque<Bytes>>,
    is_too_slow: AtomicBool,
}

/// Bytes that a response has reserved for one use.
#[derive(Debug, Default)]
struct Account {
    /// Bytes reserved now.
    reserved: AtomicU64,
    /// Bytes of these that only the current frame keeps in memory.
    framed: AtomicU64,
}

impl Charge {
    /// Reserves the least that a request of a client needs.
    ///
    /// # Errors
    /// - [`Error::TooManyRequests`] if the client has more than `most` requests in flight
    /// - [`Error::TooBusy`] if the memory for responses is used up
    pub(crate) fn begin(room: Arc<Room>, client: Arc<ClientShare>, most: usize) -> Result<Arc<Self>, Error> {
        room.begin_request(&client);
        let requests = client.requests.fetch_add(1, Relaxed);
        let mut this = Self::default();
        this.room = Some((room, client));
        if most > 0 && requests >= most {
            return Err(Error::TooManyRequests { limit: most });
        }
        this.require(REQUEST + SMALL_FRAME as u64)?;
        Ok(Arc::new(this))
    }

    /// Returns the number of the client, or 0 if there is none.
    pub(crate) fn client(&self) -> u64 {
        self.room.as_ref().map_or(0, |(_, client)| client.number)
    }

    /// Returns the turns of the client's tasks.
    pub(crate) fn turns(&self) -> Option<&Arc<Turns>> {
        self.room.as_ref().map(|(_, client)| &client.turns)
    }

    /// Reserves bytes that the response cannot do without.
    ///
    /// # Errors
    /// [`Error::TooBusy`] if they are not free.
    pub(crate) fn require(&self, bytes: u64) -> Result<(), Error> {
        if self.reserve(bytes, Use::Least) { Ok(()) } else { Err(Error::TooBusy) }
    }

    /// Reserves bytes that make the response faster, if they are free.
    pub(crate) fn try_reserve(&self, bytes: u64) -> bool {
        self.reserve(bytes, Use::Ahead)
    }

    /// Returns true if [`Self::try_reserve`] would reserve so much.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let is_free = self.try_reserve(bytes);
        if is_free {
            self.give_back(bytes, Use::Ahead);
        }
        is_free
    }

    /// Reserves bytes for a use, if they are free.
    pub(crate) fn reserve(&self, bytes: u64, purpose: Use) -> bool {
        let Some((room, client)) = &self.room else { return true };
        let is_reserved = room.reserve(client, bytes, purpose);
        if is_reserved {
            self.account(purpose).reserved.fetch_add(bytes, Relaxed);
        }
        is_reserved
    }

    fn account(&self, purpose: Use) -> &Account {
        match purpose {
            Use::Least | Use::Ahead => &self.own,
            Use::Pinned => &self.pinned,
        }
    }

    /// Gives back bytes that were reserved for the same use.
    pub(crate) fn give_back(&self, bytes: u64, purpose: Use) {
        if let Some((room, client)) = self.room.as_ref().filter(|_| bytes > 0) {
            self.account(purpose).reserved.fetch_sub(bytes, Relaxed);
            room.give_back(client, bytes, purpose);
        }
    }

    /// Gives back reserved bytes once the client has taken the frame that is being made.
    pub(crate) fn give_back_with_frame(&self, bytes: u64, purpose: Use) {
        self.account(purpose).framed.fetch_add(bytes, Relaxed);
    }

    /// Returns the bytes reserved now.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> u64 {
        self.own.reserved.load(Relaxed) + self.pinned.reserved.load(Relaxed)
    }

    /// Returns the bytes that stay in memory for a slice of a unit of the range cache, or 0 if
    /// there is no such cache.
    pub(crate) fn unit(&self) -> u64 {
        self.room.as_ref().map_or(0, |(room, _)| room.unit())
    }

    /// Lets the reader of the response be paused.
    pub(crate) fn watch(&self, reader: Weak<dyn Pausable>) {
        if let Some((room, _)) = &self.room {
            room.watch(reader);
        }
    }

    /// Records that the frame being made has the bytes of [`SMALL_FRAME`].
    pub(crate) fn use_small_frame(&self) {
        self.has_small.store(true, Relaxed);
    }

    /// Returns true if the frame being made has the bytes of [`SMALL_FRAME`], so that it must end.
    pub(crate) fn has_small_frame(&self) -> bool {
        self.has_small.load(Relaxed)
    }

    /// Waits until the client has taken the last frame, and gives back what it kept in memory.
    pub(crate) fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        if self.frame_waits() {
            self.waker.register(cx.waker());
            if self.frame_waits() {
                return Poll::Pending;
            }
        }
        for purpose in [Use::Ahead, Use::Pinned] {
            self.give_back(self.account(purpose).framed.swap(0, Relaxed), purpose);
        }
        self.has_small.store(false, Relaxed);
        Poll::Ready(())
    }

    /// Returns true while a frame waits for the client.
    pub(crate) fn frame_waits(&self) -> bool {
        self.frame_waits.load(Acquire)
    }

    /// Returns an empty list for the slices of a frame.
    pub(crate) fn take_slices(&self) -> VecDeque<Bytes> {
        std::mem::take(&mut *lock(&self.slices))
    }

    /// Returns the number of bytes that the client has taken, in whole frames.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// Records that the client takes bytes too slowly, so that the response is ended.
    pub(crate) fn set_too_slow(&self) {
        self.is_too_slow.store(true, Relaxed);
    }

    pub(crate) fn is_too_slow(&self) -> bool {
        self.is_too_slow.load(Relaxed) || self.room.as_ref().is_some_and(|(room, _)| room.is_too_slow())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some((room, client)) = &self.room {
            for purpose in [Use::Ahead, Use::Pinned] {
                room.give_back(client, self.account(purpose).reserved.load(Relaxed), purpose);
            }
            client.requests.fetch_sub(1, Relaxed);
            room.end_request();
        }
    }
}

/// A frame that waits for the client until this value is dropped.
#[derive(Debug)]
pub(crate) struct WaitingFrame {
    charge: Arc<Charge>,
    bytes: u64,
}

impl WaitingFrame {
    pub(crate) fn new(charge: Arc<Charge>, bytes: u64) -> Self {
        charge.frame_waits.store(true, Release);
        Self { charge, bytes }
    }

    /// Keeps the list of the frame's slices for the next frame.
    pub(crate) fn keep_slices(&self, mut slices: VecDeque<Bytes>) {
        slices.clear();
        *lock(&self.charge.slices) = slices;
    }
}

impl Drop for WaitingFrame {
    fn drop(&mut self) {
        self.charge.taken.fetch_add(self.bytes, AcqRel);
        self.charge.frame_waits.store(false, Release);
        self.charge.waker.wake();
    }
}
