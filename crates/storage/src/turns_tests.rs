use super::*;
use crate::client::{Permits, call_on_behalf_of, on_behalf_of};
use futures_util::future::BoxFuture;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    runtime::Builder,
    sync::{mpsc, oneshot},
    task::{JoinSet, yield_now},
    time::timeout,
};

/// Lets other tasks run: ends the turn and waits for a task that takes none. Unlike `yield_now`, it
/// does not wait until the runtime has looked for events.
async fn step_aside() {
    tokio::spawn(async {}).await.unwrap();
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

/// The connections of a client that requests much wait for each other, those of others do not.
#[tokio::test]
async fn a_connection_waited_for_all_those_of_the_client_that_used_it_before() {
    let executor = TurnExecutor(Arc::new(Turns::new(1)));
    let steps = Arc::new(AtomicUsize::new(0));
    let (ask, mut asked) = mpsc::channel::<oneshot::Sender<()>>(1);
    call_on_behalf_of(1, || {
        for _ in 0..200 {
            let steps = steps.clone();
            executor.execute(async move {
                loop {
                    steps.fetch_add(1, SeqCst);
                    step_aside().await;
                }
            });
        }
        executor.execute(async move {
            while let Some(answer) = asked.recv().await {
                let _ = answer.send(());
            }
        });
    });
    let most = on_behalf_of(2, async move {
        let mut most = 0;
        for request in 0..100 {
            let before = steps.load(SeqCst);
            let (answer, answered) = oneshot::channel();
            ask.send(answer).await.unwrap();
            answered.await.unwrap();
            // At first, the connection waits as a new task of the other client.
            if request > 0 {
                most = most.max(steps.load(SeqCst) - before);
            }
        }
        most
    });
    let most = tokio::spawn(most).await.unwrap();
    assert!((1..=12).contains(&most), "{most} steps");
}

#[tokio::test]
async fn without_turns_a_task_waits_for_all_others() {
    let most = most_steps_between(|task| drop(tokio::spawn(task))).await;
    assert!(most >= 100, "{most} steps");
}

/// Runs tasks that take turns, in a runtime that looks for events after 1,000 polls: 200 that never
/// end, or 20,000 that end in their first turn. Returns the most steps of them before a task is
/// polled whose socket has become readable.
fn most_steps_before_an_event(events_after: u64, are_endless: bool) -> usize {
    let runtime = Builder::new_current_thread().enable_io().event_interval(1000).build().unwrap();
    runtime.block_on(async {
        let turns = Arc::new(Turns { events_after, ..Turns::new(2) });
        assert!(turns.try_take() && turns.try_take());
        let steps = Arc::new(AtomicUsize::new(0));
        let tasks = if are_endless { 200 } else { 20_000 };
        for _ in 0..tasks {
            let steps = steps.clone();
            tokio::spawn(turns.take(Box::pin(async move {
                loop {
                    steps.fetch_add(1, SeqCst);
                    if !are_endless {
                        break;
                    }
                    step_aside().await;
                }
            })));
        }
        while turns.count.load(SeqCst) < tasks {
            yield_now().await;
        }
        turns.pass_on();
        turns.pass_on();
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let of_other = tokio::spawn(async move {
            let mut most = 0;
            for _ in 0..10 {
                near.write_all(b"a").await.unwrap();
                let before = steps.load(SeqCst);
                far.read_exact(&mut [0]).await.unwrap();
                most = most.max(steps.load(SeqCst) - before);
            }
            most
        });
        of_other.await.unwrap()
    })
}

#[test]
fn a_request_that_arrived_was_seen_only_after_many_turns_of_other_clients() {
    for are_endless in [true, false] {
        let most = most_steps_before_an_event(0, are_endless);
        assert!(most <= 8, "{most} steps");
        let without = most_steps_before_an_event(u64::MAX, are_endless);
        assert!(without >= 200, "{without} steps");
    }
}

#[test]
fn short_turns_are_passed_on_without_looking_for_events() {
    let turns = Turns::new(1);
    let times = [EVENTS_AFTER, EVENTS_AFTER + 1, 2 * EVENTS_AFTER - 1, 2 * EVENTS_AFTER, u64::MAX];
    assert_eq!(times.map(|now| turns.are_events_due(now)), [true, false, false, true, true]);
    assert!(!turns.are_events_due(7), "a clock that another thread read earlier");
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
async fn a_task_that_woke_up_again_waited_for_tasks_of_other_clients() {
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = steps.clone();
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, SeqCst);
            step_aside().await;
        }
    });
    let of_other = steps.clone();
    let frames = tokio::spawn(Arc::new(Turns::new(1)).take(Box::pin(async move {
        let before = of_other.load(SeqCst);
        for _ in 0..100 {
            may_end_turn().await;
        }
        of_other.load(SeqCst) - before
    })));
    // The system may stop the thread for longer than a turn.
    let most = frames.await.unwrap();
    assert!(most < 50, "{most} steps");
    other.abort();
}

#[tokio::test]
async fn a_task_that_always_woke_up_again_kept_its_turn() {
    let turns = Arc::new(Turns::new(1));
    let is_other_done = Arc::new(AtomicUsize::new(0));
    let done = is_other_done.clone();
    let endless = tokio::spawn(turns.take(Box::pin(async move {
        let began = Instant::now();
        while done.load(SeqCst) == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "the turn does not end");
            may_end_turn().await;
        }
    })));
    let other = tokio::spawn(turns.take(Box::pin(async move { is_other_done.store(1, SeqCst) })));
    other.await.unwrap();
    endless.await.unwrap();
}

#[tokio::test]
async fn a_task_that_is_dropped_gives_its_turn_to_the_next() {
    let turns = Arc::new(Turns::new(1));
    let mut dropped = turns.take(Box::pin(async {}));
    // It has the turn, but is not polled in it.
    assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut dropped).poll(cx).is_pending())).await);
    assert_eq!(dropped.task.state.load(Acquire), ITS_TURN);
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

/// Runs tasks of these clients, all of which wait for one turn. Returns the clients in the order in
/// which their tasks ended.
async fn order_of(clients: &[u64]) -> Vec<u64> {
    let turns = Arc::new(Turns::new(1));
    let order = Arc::new(Mutex::new(Vec::new()));
    let held = turns.try_take();
    assert!(held);
    let mut tasks = JoinSet::new();
    for &client in clients {
        let order = order.clone();
        tasks.spawn(turns.take_for(client, Box::pin(async move { lock(&order).push(client) })));
    }
    yield_now().await;
    assert_eq!(turns.count.load(SeqCst), clients.len());
    turns.pass_on();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!((turns.free.load(SeqCst), turns.count.load(SeqCst)), (1, 0));
    lock(&order).clone()
}

#[tokio::test]
async fn a_client_with_many_tasks_had_all_turns_before_the_next_client() {
    assert_eq!(order_of(&[1, 1, 1, 1, 2, 3, 2]).await, [1, 2, 3, 1, 2, 1, 1]);
    assert_eq!(order_of(&[5, 5, 5]).await, [5, 5, 5]);
}

#[tokio::test]
async fn new_tasks_that_ended_at_once_ran_before_those_of_the_next_client() {
    let turns = Arc::new(Turns::new(2));
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for client in [1; 50].into_iter().chain([2]) {
        let order = order.clone();
        tasks.spawn(turns.take_for(client, Box::pin(async move { lock(&order).push(client) })));
    }
    while tasks.join_next().await.is_some() {}
    let place = lock(&order).iter().position(|client| *client == 2).unwrap();
    assert!(place <= 4, "{place} tasks of the first client ran before");
}

#[tokio::test]
async fn a_task_takes_other_turns_after_a_change() {
    let first = Arc::new(Turns::new(1));
    let second = Arc::new(Turns::new(1));
    let changing = ChangingTurns::new(first.clone());
    let free = |turns: &Turns| turns.free.load(SeqCst);
    let (send, mut received) = mpsc::channel::<[usize; 2]>(8);
    let task = tokio::spawn(changing.take(Box::pin({
        let (changing, first, second) = (changing.clone(), first.clone(), second.clone());
        async move {
            send.send([free(&first), free(&second)]).await.unwrap();
            changing.set(&second);
            // The task still has its first turn, and gives that one back.
            send.send([free(&first), free(&second)]).await.unwrap();
            step_aside().await;
            send.send([free(&first), free(&second)]).await.unwrap();
        }
    })));
    task.await.unwrap();
    let mut all = Vec::new();
    while let Some(free) = received.recv().await {
        all.push(free);
    }
    assert_eq!(all, [[0, 1], [0, 1], [1, 0]]);
    assert_eq!((free(&first), free(&second)), (1, 1));
}

/// Turns change at any time, while tasks wake each other on several threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_turn_is_lost_when_turns_change() {
    let all = [1, 2, 3].map(|count| Arc::new(Turns::new(count)));
    let mut tasks = JoinSet::new();
    for number in 0..40 {
        let changing = ChangingTurns::new(all[number % 3].clone());
        let all = all.clone();
        tasks.spawn(changing.clone().take(Box::pin(async move {
            for step in 0..500 {
                changing.set(&all[(number + step) % 3]);
                match step % 5 {
                    0 => yield_now().await,
                    1 => may_end_turn().await,
                    _ => step_aside().await,
                }
            }
        })));
    }
    let ended = async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    };
    timeout(Duration::from_secs(60), ended).await.expect("a turn was lost");
    for (turns, count) in all.iter().zip(1..) {
        assert_eq!((turns.free.load(SeqCst), turns.count.load(SeqCst)), (count, 0));
    }
}

/// Requests of clients wait for fills, and these for a permit and a connection to storage. Each
/// kind of task has turns of its own.
#[tokio::test]
async fn chained_turns_end_all_and_serve_a_small_client_early() {
    const MANY: usize = 100;
    for count in [1, 2, 3] {
        let fills = Arc::new(Turns::new(count));
        let connections = TurnExecutor(Arc::new(Turns::new(count)));
        // Each connection answers its requests one after the other.
        let connections: Vec<_> = (0..4)
            .map(|_| {
                let (ask, mut asked) = mpsc::channel::<oneshot::Sender<()>>(1);
                connections.execute(async move {
                    while let Some(answer) = asked.recv().await {
                        step_aside().await;
                        let _ = answer.send(());
                    }
                });
                ask
            })
            .collect();
        let permits = Permits::new(connections.len());
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut requests = JoinSet::new();
        let heavy = Arc::new(Turns::new(count));
        let small = Arc::new(Turns::new(count));
        let all = (0..MANY).map(|number| (1, number, &heavy)).chain([(2, 0, &small)]);
        for (client, number, turns) in all {
            let (fills, permits, order) = (fills.clone(), permits.clone(), order.clone());
            let connection = connections[number % connections.len()].clone();
            requests.spawn(turns.take(Box::pin(async move {
                let (filled, fill) = oneshot::channel();
                tokio::spawn(fills.take_for(
                    client,
                    Box::pin(on_behalf_of(client, async move {
                        let _permit = permits.acquire(1).await;
                        let (answer, answered) = oneshot::channel();
                        connection.send(answer).await.unwrap();
                        answered.await.unwrap();
                        filled.send(()).unwrap();
                    })),
                ));
                fill.await.unwrap();
                lock(&order).push(client);
            })));
        }
        let ended = async {
            while let Some(ended) = requests.join_next().await {
                ended.unwrap();
            }
        };
        timeout(Duration::from_secs(60), ended).await.expect("the tasks wait for each other");
        let place = lock(&order).iter().position(|client| *client == 2).unwrap();
        assert!(place < MANY / 4, "{place} of the other client's requests were served before");
        assert_eq!(lock(&order).len(), MANY + 1);
    }
}
