//! Turns of tasks, so that neither a client with many connections nor many connections to storage
//! keep other clients waiting.
//!
//! The runtime polls tasks in the order in which they woke up. If a thousand connections of one
//! client wake up at once, the connection of another client would wait behind all of them. So only
//! a few tasks of each client are in the runtime's queue at a time, and the others wait here. The
//! same holds for the tasks that serve connections to storage, and for those that fill the range
//! cache, where clients get turns one after the other.

mod fair_queue;

use fair_queue::FairQueue;
use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use std::{
    future::Future,
    num::NonZero,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU8, AtomicUsize,
            Ordering::{AcqRel, Acquire, SeqCst},
        },
    },
    task::{Context, Poll, Wake, Waker},
    thread::available_parallelism,
};

/// Number of turns for each processor. With two, a processor finds the next task while another
/// processor is about to pass a turn on.
const TURNS_OF_PROCESSOR: usize = 2;

/// Number of the client of tasks that have the same one, or none.
const ANY_CLIENT: u64 = 0;

/// The turns of tasks that have the same purpose, such as those of one client.
#[derive(Debug)]
pub struct Turns {
    free: AtomicUsize,
    /// Length of `waiting`, which can be read without the lock.
    count: AtomicUsize,
    waiting: Mutex<FairQueue<Arc<Task>>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(TURNS_OF_PROCESSOR * available_parallelism().map_or(1, NonZero::get))
    }
}

impl Turns {
    fn new(turns: usize) -> Self {
        Self { free: AtomicUsize::new(turns), count: AtomicUsize::new(0), waiting: Mutex::default() }
    }

    /// Creates turns for which no task waits.
    pub fn unlimited() -> Arc<Self> {
        Arc::new(Self::new(usize::MAX / 2))
    }

    /// Returns a future that is polled only in its turn.
    pub fn take<F: Future + Unpin>(self: &Arc<Self>, future: F) -> InTurn<F> {
        self.take_for(ANY_CLIENT, future)
    }

    /// Returns a future that runs for a client, and is polled only in its turn. Clients whose
    /// futures wait get turns one after the other.
    pub fn take_for<F: Future + Unpin>(self: &Arc<Self>, client: u64, future: F) -> InTurn<F> {
        InTurn::new(future, client, Source::Same(self.clone()))
    }

    /// Takes a turn, if one is free.
    fn try_take(&self) -> bool {
        self.free.fetch_update(SeqCst, SeqCst, |free| free.checked_sub(1)).is_ok()
    }

    /// Gives a turn to a task, now or later.
    fn give_to(&self, task: &Arc<Task>) {
        if self.try_take() {
            if !task.begin_turn() {
                self.pass_on();
            }
            return;
        }
        self.change_waiting(|waiting| waiting.push(task.client, task.clone()));
        // Meanwhile, a turn may have ended and found no task that waits.
        if self.try_take() {
            self.pass_on();
        }
    }

    fn change_waiting<T>(&self, change: impl FnOnce(&mut FairQueue<Arc<Task>>) -> T) -> T {
        let mut waiting = lock(&self.waiting);
        let changed = change(&mut waiting);
        self.count.store(waiting.len(), SeqCst);
        changed
    }

    /// Passes a turn on to the task that has waited the longest, of the client whose turn it is.
    /// The turn is free if none waits.
    fn pass_on(&self) {
        loop {
            while self.count.load(SeqCst) > 0 {
                let Some(task) = self.change_waiting(FairQueue::pop) else { break };
                if task.begin_turn() {
                    return;
                }
            }
            self.free.fetch_add(1, SeqCst);
            // Meanwhile, a task may have found no free turn and begun to wait.
            if self.count.load(SeqCst) == 0 || !self.try_take() {
                return;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns that change with the client for which a task runs, such as one that serves a connection of
/// a proxy.
#[derive(Debug)]
pub struct ChangingTurns(Mutex<Arc<Turns>>);

impl ChangingTurns {
    /// Creates turns that are `first` until they are changed.
    pub fn new(first: Arc<Turns>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(first)))
    }

    /// Changes the turns. A task that has a turn or waits for one takes the next one of these.
    pub fn set(&self, turns: &Arc<Turns>) {
        lock(&self.0).clone_from(turns);
    }

    /// Returns a future that is polled only in its turn.
    pub fn take<F: Future + Unpin>(self: &Arc<Self>, future: F) -> InTurn<F> {
        let current = Mutex::new(lock(&self.0).clone());
        InTurn::new(future, ANY_CLIENT, Source::Changing { next: self.clone(), current })
    }
}

/// The turns that a task takes.
#[derive(Debug)]
enum Source {
    Same(Arc<Turns>),
    Changing {
        next: Arc<ChangingTurns>,
        /// The turns of which the task has one or waits for one. They change only when the task
        /// begins to wait, which it does in one place at a time.
        current: Mutex<Arc<Turns>>,
    },
}

impl Source {
    /// Returns the turns of which a task that wakes up takes one.
    fn choose(&self) -> Arc<Turns> {
        match self {
            Self::Same(turns) => turns.clone(),
            Self::Changing { next, current } => {
                let chosen = lock(&next.0).clone();
                lock(current).clone_from(&chosen);
                chosen
            }
        }
    }

    /// Returns the turns of which a task has one.
    fn current(&self) -> Arc<Turns> {
        match self {
            Self::Same(turns) => turns.clone(),
            Self::Changing { current, .. } => lock(current).clone(),
        }
    }
}

/// Runs tasks in turns, such as those that serve the connections to a storage.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnExecutor(Arc<Turns>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for TurnExecutor {
    fn execute(&self, task: F) {
        tokio::spawn(self.0.take(Box::pin(task)));
    }
}

/// The task waits for an event.
const IDLE: u8 = 0;
/// The task has woken up, and waits for its turn.
const WOKEN: u8 = 1;
/// It is the task's turn: the runtime polls it soon.
const ITS_TURN: u8 = 2;
/// The task is polled.
const RUNNING: u8 = 3;
/// The task is polled, and has woken up again meanwhile.
const WOKEN_AGAIN: u8 = 4;
/// The task has ended.
const ENDED: u8 = 5;

/// A task that runs only in its turn.
#[derive(Debug)]
struct Task {
    source: Source,
    client: u64,
    state: AtomicU8,
    /// Waker of the runtime's task.
    runtime: AtomicWaker,
}

impl Task {
    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }

    /// Lets the runtime poll the task. Returns false if it has ended.
    fn begin_turn(&self) -> bool {
        let begins = self.change(WOKEN, ITS_TURN);
        if begins {
            self.runtime.wake();
        }
        begins
    }

    /// Ends a turn. The task waits for the next one if it has woken up again.
    fn end_turn(self: &Arc<Self>) {
        // Once the task is idle, it may wake up and choose other turns.
        let turns = self.source.current();
        let is_idle = self.change(RUNNING, IDLE);
        turns.pass_on();
        if !is_idle && self.change(WOKEN_AGAIN, WOKEN) {
            self.source.choose().give_to(self);
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The attempt fails if the state changes meanwhile, and is then repeated.
        loop {
            let state = self.state.load(Acquire);
            let next = match state {
                IDLE => WOKEN,
                RUNNING => WOKEN_AGAIN,
                ENDED => return,
                // The poll that follows must see what happened before this call, so the state is
                // written although it stays the same.
                _ => state,
            };
            if self.change(state, next) {
                if state == IDLE {
                    self.source.choose().give_to(self);
                }
                return;
            }
        }
    }
}

/// A future that is polled only in its turn.
#[derive(Debug)]
pub struct InTurn<F> {
    future: F,
    task: Arc<Task>,
    waker: Waker,
    /// The future has not been polled yet.
    is_new: bool,
}

impl<F> InTurn<F> {
    fn new(future: F, client: u64, source: Source) -> Self {
        let task = Arc::new(Task { source, client, state: AtomicU8::new(IDLE), runtime: AtomicWaker::new() });
        let waker = Waker::from(task.clone());
        Self { future, task, waker, is_new: true }
    }
}

impl<F: Future + Unpin> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.task.runtime.register(cx.waker());
        if this.is_new {
            this.is_new = false;
            this.waker.wake_by_ref();
        }
        if !this.task.change(ITS_TURN, RUNNING) {
            return Poll::Pending;
        }
        let polled = Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker));
        if polled.is_pending() {
            this.task.end_turn();
        }
        polled
    }
}

impl<F> Drop for InTurn<F> {
    fn drop(&mut self) {
        let before = self.task.state.swap(ENDED, AcqRel);
        if [ITS_TURN, RUNNING, WOKEN_AGAIN].contains(&before) {
            self.task.source.current().pass_on();
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
