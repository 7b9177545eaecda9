//! Turns of tasks, so that neither a client with many connections nor many connections to storage
//! keeps other clients waiting.
//!
//! The runtime polls tasks in the order in which they woke up. If a thousand connections of one
//! client wake up at once, the connection of another client would wait behind all of them. So only
//! a few tasks of each client are in the runtime's queue at a time, and the others wait here. Three
//! other kinds of tasks have such a limit for all clients together: those that serve connections to
//! storage, those that fill the range cache, and those that load titles. In each kind, the clients
//! whose tasks wait get turns one after the other.
//!
//! If one task wakes another, the runtime polls the woken task next, ahead of its queue. It looks
//! for events, such as requests that arrived, only after several polls. If the last look was more
//! than `EVENTS_AFTER` ago, a turn is therefore passed on only after the runtime has looked again.

mod fair_queue;

use crate::{
    on_behalf::{NO_CLIENT, current_client},
    processors,
};
use fair_queue::FairQueue;
use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU8, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
        },
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};
use tokio::task::yield_now;

/// Number of turns for each processor. With two, a client would wait for two polls of each busy
/// client. One turn keeps a processor busy, because it is passed on as soon as a poll ends.
const TURNS_OF_PROCESSOR: usize = 1;

/// Time in microseconds after which a turn is passed on only after the runtime has looked for
/// events. Looking takes a few microseconds, so it would slow down short polls.
const EVENTS_AFTER: u64 = 150;

/// Time in microseconds after which a turn ends although its task has woken up again. Until then,
/// the task is polled again at once. Otherwise, a response would wait for turns of other clients at
/// each of its frames. After work that may take longer, [`may_end_turn`] is called.
const LONGEST_TURN: u64 = 300;

/// The turns of tasks that have the same purpose, such as those of one client.
#[derive(Debug)]
pub struct Turns {
    free: AtomicUsize,
    /// Length of `waiting`, which can be read without the lock.
    count: AtomicUsize,
    waiting: Mutex<FairQueue<Arc<Task>>>,
    /// The constant [`EVENTS_AFTER`], except in tests.
    events_after: u64,
    /// Time at which the runtime was last made to look for events, in microseconds of [`micros`].
    events_at: AtomicU64,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(TURNS_OF_PROCESSOR * processors())
    }
}

impl Turns {
    fn new(turns: usize) -> Self {
        Self {
            free: AtomicUsize::new(turns),
            count: AtomicUsize::new(0),
            waiting: Mutex::default(),
            events_after: EVENTS_AFTER,
            events_at: AtomicU64::new(0),
        }
    }

    /// Creates so many turns that no task ever waits for one.
    pub fn unlimited() -> Arc<Self> {
        Arc::new(Self::new(usize::MAX / 2))
    }

    /// Returns a future that is polled only in its turn.
    pub fn take<F: Future + Unpin>(self: &Arc<Self>, future: F) -> InTurn<F> {
        self.take_for(NO_CLIENT, future)
    }

    /// Returns a future that runs for a client, and is polled only in its turn. Clients whose
    /// futures wait get turns one after the other.
    pub fn take_for<F: Future + Unpin>(self: &Arc<Self>, client: u64, future: F) -> InTurn<F> {
        InTurn::new(future, Client::Same(client), Source::Same(self.clone()))
    }

    /// Takes a turn, if one is free.
    fn try_take(&self) -> bool {
        self.free.fetch_update(SeqCst, SeqCst, |free| free.checked_sub(1)).is_ok()
    }

    /// Gives a turn to a task, now or later.
    fn give_to(&self, task: &Arc<Task>) {
        if self.try_take() {
            if !task.begin_turn(Waker::wake) {
                self.pass_on();
            }
            return;
        }
        self.change_waiting(|waiting| waiting.push(task.client.number(), task.clone()));
        // Meanwhile, a turn may have ended and found no task that waits.
        if self.try_take() {
            self.pass_on();
        }
    }

    /// Returns true, to one caller only, if the runtime should look for events before the next turn
    /// is passed on. Records `now` as the time of that look.
    fn are_events_due(&self, now: u64) -> bool {
        let last = self.events_at.load(Relaxed);
        now.saturating_sub(last) >= self.events_after
            && self.events_at.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
    }

    /// Wakes the task to which the current one passes its turn on after it was polled. This must
    /// not be called elsewhere, such as in a waker: the runtime panics if a task yields while it
    /// wakes those that have yielded.
    fn wake_next(&self, next: Waker) {
        match self.are_events_due(micros()) {
            true => wake_after_events(&next),
            false => next.wake(),
        }
    }

    fn change_waiting<T>(&self, change: impl FnOnce(&mut FairQueue<Arc<Task>>) -> T) -> T {
        let mut waiting = lock(&self.waiting);
        let changed = change(&mut waiting);
        self.count.store(waiting.len(), SeqCst);
        changed
    }

    /// Passes a turn on to the task that has waited the longest, of the client whose turn it is,
    /// and wakes it at once. The turn is free if none waits.
    fn pass_on(&self) {
        self.pass_on_by(Waker::wake);
    }

    /// Does the same, but wakes the task by `wake`.
    fn pass_on_by(&self, wake: impl Fn(Waker)) {
        loop {
            while self.count.load(SeqCst) > 0 {
                let Some(task) = self.change_waiting(FairQueue::pop) else { break };
                if task.begin_turn(&wake) {
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

/// Yields once. In a turn, the task goes on at once, unless the turn has lasted longer than
/// `LONGEST_TURN`. Without turns, other tasks of the runtime run first.
pub async fn may_end_turn() {
    let mut is_first = true;
    poll_fn(|cx| {
        if !std::mem::take(&mut is_first) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Returns the microseconds since the first call.
fn micros() -> u64 {
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(BEGAN.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Wakes a task once the runtime has looked for events, or at once outside of a runtime.
fn wake_after_events(waker: &Waker) {
    // The runtime wakes tasks that yield in this way.
    let _ = pin!(yield_now()).poll(&mut Context::from_waker(waker));
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

    /// Changes the turns. A task that has a turn or waits for one keeps it, and takes its next turn
    /// from `turns`.
    pub fn set(&self, turns: &Arc<Turns>) {
        lock(&self.0).clone_from(turns);
    }

    /// Returns a future that is polled only in its turn.
    pub fn take<F: Future + Unpin>(self: &Arc<Self>, future: F) -> InTurn<F> {
        let current = Mutex::new(lock(&self.0).clone());
        InTurn::new(future, Client::Same(NO_CLIENT), Source::Changing { next: self.clone(), current })
    }
}

/// The turns that a task takes.
#[derive(Debug)]
enum Source {
    Same(Arc<Turns>),
    Changing {
        next: Arc<ChangingTurns>,
        /// The turns from which the task has one or waits for one. They change only when the task
        /// begins to wait, which it does in one place at a time.
        current: Mutex<Arc<Turns>>,
    },
}

impl Source {
    /// Returns the turns from which a task that wakes up takes one.
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

    /// Returns the turns from which a task has taken the one that it has.
    fn current(&self) -> Arc<Turns> {
        match self {
            Self::Same(turns) => turns.clone(),
            Self::Changing { current, .. } => lock(current).clone(),
        }
    }
}

/// The client for which a task runs. Clients whose tasks wait for the same turns get them one after
/// the other.
#[derive(Debug)]
enum Client {
    Same(u64),
    /// The last client whose future woke the task.
    Last(AtomicU64),
}

impl Client {
    fn number(&self) -> u64 {
        match self {
            Self::Same(number) => *number,
            Self::Last(number) => number.load(Relaxed),
        }
    }

    /// Records that the current future wakes the task.
    fn note_current(&self) {
        if let Self::Last(number) = self
            && let current = current_client()
            && current != NO_CLIENT
        {
            number.store(current, Relaxed);
        }
    }
}

/// Runs tasks in turns, such as those that serve the connections to a storage. A client's request
/// wakes the task of its connection, which then runs for that client.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnExecutor(Arc<Turns>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for TurnExecutor {
    fn execute(&self, task: F) {
        let client = Client::Last(AtomicU64::new(current_client()));
        tokio::spawn(InTurn::new(Box::pin(task), client, Source::Same(self.0.clone())));
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
    client: Client,
    state: AtomicU8,
    /// Waker of the runtime's task.
    runtime: AtomicWaker,
}

impl Task {
    fn change(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
    }

    /// Lets the runtime poll the task, by waking it with `wake`. Returns false if it has ended.
    fn begin_turn(&self, wake: impl FnOnce(Waker)) -> bool {
        let begins = self.change(WOKEN, ITS_TURN);
        if begins && let Some(runtime) = self.runtime.take() {
            wake(runtime);
        }
        begins
    }

    /// Continues a turn that began at this time, in microseconds of [`micros`], if the task has
    /// woken up again and the turn may last longer. Returns false if the turn ends.
    fn continue_turn(&self, began: u64) -> bool {
        self.state.load(Acquire) == WOKEN_AGAIN
            && micros().saturating_sub(began) < LONGEST_TURN
            && self.change(WOKEN_AGAIN, RUNNING)
    }

    /// Ends a turn. The task waits for the next one if it has woken up again.
    fn end_turn(self: &Arc<Self>) {
        // Once the task is idle, it may wake up and choose other turns.
        let turns = self.source.current();
        let is_idle = self.change(RUNNING, IDLE);
        turns.pass_on_by(|next| turns.wake_next(next));
        if !is_idle && self.change(WOKEN_AGAIN, WOKEN) {
            self.source.choose().give_to(self);
        }
    }

    /// Ends the turn in which the task has ended.
    fn end_last_turn(&self) {
        self.state.swap(ENDED, AcqRel);
        let turns = self.source.current();
        turns.pass_on_by(|next| turns.wake_next(next));
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.client.note_current();
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
    fn new(future: F, client: Client, source: Source) -> Self {
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
            // If a new task were polled at once, tasks that end in one poll would run in the order
            // of the runtime's queue, each with the turn of the one before.
            return Poll::Pending;
        }
        if !this.task.change(ITS_TURN, RUNNING) {
            return Poll::Pending;
        }
        let began = micros();
        loop {
            let polled = Pin::new(&mut this.future).poll(&mut Context::from_waker(&this.waker));
            if polled.is_ready() {
                this.task.end_last_turn();
                return polled;
            }
            if !this.task.continue_turn(began) {
                this.task.end_turn();
                return polled;
            }
        }
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
