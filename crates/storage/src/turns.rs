//! Turns of tasks, so that neither a client with many connections nor many connections to storage
//! keep other clients waiting.
//!
//! The runtime polls tasks in the order in which they woke up. If a thousand connections of one
//! client wake up at once, the connection of another client would wait behind all of them. So only
//! a few tasks of each client are in the runtime's queue at a time, and the others wait here. The
//! same holds for the tasks that serve connections to storage, and for those that fill the range
//! cache.

use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use std::{
    collections::VecDeque,
    future::Future,
    num::NonZero,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
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

/// The turns of tasks that have the same purpose, such as those of one client.
#[derive(Debug)]
pub struct Turns {
    free: AtomicUsize,
    /// Length of `waiting`, which can be read without the lock.
    count: AtomicUsize,
    waiting: Mutex<VecDeque<Arc<Task>>>,
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

    /// Returns a future that is polled only in its turn.
    pub fn take<F: Future + Unpin>(self: &Arc<Self>, future: F) -> InTurn<F> {
        let task =
            Arc::new(Task { turns: self.clone(), state: AtomicU8::new(IDLE), runtime: AtomicWaker::new() });
        let waker = Waker::from(task.clone());
        InTurn { future, task, waker, is_new: true }
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
        self.change_waiting(|waiting| waiting.push_back(task.clone()));
        // Meanwhile, a turn may have ended and found no task that waits.
        if self.try_take() {
            self.pass_on();
        }
    }

    fn change_waiting<T>(&self, change: impl FnOnce(&mut VecDeque<Arc<Task>>) -> T) -> T {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut waiting);
        self.count.store(waiting.len(), SeqCst);
        changed
    }

    /// Passes a turn on to the task that has waited the longest. The turn is free if none waits.
    fn pass_on(&self) {
        loop {
            while self.count.load(SeqCst) > 0 {
                let Some(task) = self.change_waiting(VecDeque::pop_front) else { break };
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
    turns: Arc<Turns>,
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
        let is_idle = self.change(RUNNING, IDLE);
        self.turns.pass_on();
        if !is_idle && self.change(WOKEN_AGAIN, WOKEN) {
            self.turns.give_to(self);
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // If the poll ends between the two attempts, both fail, and the first must be repeated.
        loop {
            if self.change(IDLE, WOKEN) {
                return self.turns.give_to(self);
            }
            if self.change(RUNNING, WOKEN_AGAIN) || ![IDLE, RUNNING].contains(&self.state.load(Acquire)) {
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
            self.task.turns.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::BoxFuture;
    use std::{future::poll_fn, time::Duration};
    use tokio::{
        sync::mpsc,
        task::{JoinSet, yield_now},
        time::timeout,
    };

    /// Lets other tasks run. Unlike `yield_now`, it does not wait until the runtime has looked for
    /// events.
    async fn step_aside() {
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

    /// Starts 200 tasks by `spawn`. Returns the most steps of them between two steps of another
    /// task.
    async fn most_steps_between(spawn: impl Fn(BoxFuture<'static, ()>)) -> usize {
        let steps = Arc::new(AtomicUsize::new(0));
        for _ in 0..200 {
            let steps = steps.clone();
            spawn(Box::pin(async move {
                loop {
                    steps.fetch_add(1, SeqCst);
                    step_aside().await;
                }
            }));
        }
        let of_other = tokio::spawn(async move {
            let mut most = 0;
            for _ in 0..100 {
                let before = steps.load(SeqCst);
                step_aside().await;
                most = most.max(steps.load(SeqCst) - before);
            }
            most
        });
        of_other.await.unwrap()
    }

    #[tokio::test]
    async fn a_client_waits_for_a_few_tasks_of_another_one_only() {
        let turns = Arc::new(Turns::new(3));
        let most = most_steps_between(|task| drop(tokio::spawn(turns.take(task)))).await;
        assert!((1..=12).contains(&most), "{most} steps");
    }

    #[tokio::test]
    async fn all_wait_for_a_few_tasks_of_an_executor_only() {
        let executor = TurnExecutor(Arc::new(Turns::new(3)));
        let most = most_steps_between(|task| executor.execute(task)).await;
        assert!((1..=12).contains(&most), "{most} steps");
    }

    #[tokio::test]
    async fn without_turns_a_task_waits_for_all_others() {
        let most = most_steps_between(|task| drop(tokio::spawn(task))).await;
        assert!(most >= 100, "{most} steps");
    }

    /// No wake-up is lost, however tasks on several threads wake each other.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn tasks_that_wake_each_other_all_end() {
        for count in [1, 2, 5] {
            let turns = Arc::new(Turns::new(count));
            let (first, mut previous) = mpsc::channel(1);
            let mut tasks = JoinSet::new();
            for number in 0..50 {
                let (next, received) = mpsc::channel(1);
                let mut from = std::mem::replace(&mut previous, received);
                tasks.spawn(turns.take(Box::pin(async move {
                    while let Some(value) = from.recv().await {
                        if (value + number) % 7 == 0 {
                            yield_now().await;
                        }
                        next.send(value).await.unwrap();
                    }
                })));
            }
            let sending = tokio::spawn(async move {
                for value in 0..1000 {
                    first.send(value).await.unwrap();
                }
            });
            for expected in 0..1000 {
                let received = timeout(Duration::from_secs(60), previous.recv()).await;
                assert_eq!(received.expect("a wake-up was lost"), Some(expected));
            }
            sending.await.unwrap();
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
            assert_eq!((turns.free.load(SeqCst), turns.count.load(SeqCst)), (count, 0));
        }
    }

    #[tokio::test]
    async fn a_task_that_is_dropped_gives_its_turn_to_the_next() {
        let turns = Arc::new(Turns::new(1));
        let mut dropped = turns.take(Box::pin(async {}));
        // It has the turn, but is not polled in it.
        let woken = poll_fn(|cx| {
            dropped.is_new = false;
            dropped.task.runtime.register(cx.waker());
            dropped.waker.wake_by_ref();
            Poll::Ready(dropped.task.state.load(Acquire))
        });
        assert_eq!(woken.await, ITS_TURN);
        let mut waits = turns.take(Box::pin(async { 1 }));
        assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut waits).poll(cx).is_pending())).await);
        let next = tokio::spawn(turns.take(Box::pin(async { 2 })));
        yield_now().await;
        assert!(!next.is_finished());
        drop(waits);
        drop(dropped);
        assert_eq!(next.await.unwrap(), 2);
        assert_eq!((turns.free.load(SeqCst), turns.count.load(SeqCst)), (1, 0));
    }

    #[tokio::test]
    async fn a_task_that_panics_gives_its_turn_back() {
        let turns = Arc::new(Turns::new(1));
        let panics = tokio::spawn(turns.take(Box::pin(async { panic!("as it must") })));
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(tokio::spawn(turns.take(Box::pin(async { 3 }))).await.unwrap(), 3);
    }
}
