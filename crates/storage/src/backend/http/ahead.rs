//! Connections opened before requests need them.
//!
//! The first burst of requests would otherwise wait a round trip for TCP, and one or two for TLS,
//! before its own. A connection that is taken is replaced at once. Servers close connections that
//! stay idle, so a task replaces those too, but only every [`PAUSE`]: a server that closes them
//! immediately gets few new ones.

use futures_util::future::join_all;
use http::Uri;
use hyper::rt;
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tower_service::Service;

/// Time between two looks for connections that the server has closed.
const PAUSE: Duration = Duration::from_secs(5);

/// Idle connections to one server.
#[derive(Debug)]
pub(super) struct Ahead<T> {
    /// The server, known from the first read.
    server: OnceLock<Uri>,
    /// The oldest first.
    idle: Mutex<VecDeque<TokioIo<T>>>,
    /// Number of connections to keep.
    count: usize,
    /// Number of connections that were taken and are not replaced yet.
    taken: AtomicUsize,
    on_taken: Arc<Notify>,
}

/// Hands out idle connections. Without one, it asks another connector.
#[derive(Debug)]
pub(super) struct AheadConnector<C, T> {
    inner: C,
    ahead: Arc<Ahead<T>>,
}

impl<C: Clone, T> Clone for AheadConnector<C, T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), ahead: self.ahead.clone() }
    }
}

impl<C, T> AheadConnector<C, T>
where
    C: Service<Uri, Response = T> + Clone + Send + Sync + 'static,
    C::Future: Send,
    C::Error: Send,
    T: rt::Read + Unpin + Send + 'static,
{
    /// Creates a connector that keeps `count` connections ready, from the first request on, which
    /// names the server.
    pub(super) fn new(inner: C, count: usize) -> Self {
        let ahead = Ahead {
            server: OnceLock::new(),
            idle: Mutex::default(),
            count,
            taken: AtomicUsize::new(0),
            on_taken: Arc::default(),
        };
        Self { inner, ahead: Arc::new(ahead) }
    }

    /// Opens connections to the server of an address, and keeps them for as long as this connector
    /// exists. Does so for the first address only.
    pub(super) fn keep(&self, address: &Uri, connect_timeout: Duration) {
        if self.ahead.count == 0 || self.ahead.server.get().is_some() {
            return;
        }
        if self.ahead.server.set(address.clone()).is_ok() {
            let keeper = Keeper {
                connector: self.inner.clone(),
                ahead: Arc::downgrade(&self.ahead),
                server: address.clone(),
                connect_timeout,
            };
            tokio::spawn(keeper.run(self.ahead.on_taken.clone()));
        }
    }
}

impl<T: rt::Read + Unpin> Ahead<T> {
    fn idle(&self) -> MutexGuard<'_, VecDeque<TokioIo<T>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection that is still open, if there is one for this server.
    fn take(&self, address: &Uri) -> Option<T> {
        let server = self.server.get()?;
        if (server.scheme(), server.authority()) != (address.scheme(), address.authority()) {
            return None;
        }
        let mut idle = self.idle();
        let mut all = std::iter::from_fn(|| idle.pop_front());
        let open = all.find_map(|mut one| is_open(&mut one).then_some(one))?;
        self.taken.fetch_add(1, Relaxed);
        self.on_taken.notify_one();
        Some(open.into_inner())
    }

    /// Drops closed connections. Returns how many are missing.
    fn missing(&self) -> usize {
        let mut idle = self.idle();
        idle.retain_mut(is_open);
        self.count.saturating_sub(idle.len())
    }
}

/// Returns true if the server has neither closed the connection nor sent anything on it.
fn is_open<T: rt::Read + Unpin>(connection: &mut TokioIo<T>) -> bool {
    let mut byte = [0];
    let mut context = Context::from_waker(Waker::noop());
    Pin::new(connection).poll_read(&mut context, &mut ReadBuf::new(&mut byte)).is_pending()
}

/// Replaces connections that were taken or closed.
struct Keeper<C, T> {
    connector: C,
    ahead: Weak<Ahead<T>>,
    server: Uri,
    connect_timeout: Duration,
}

impl<C, T> Keeper<C, T>
where
    C: Service<Uri, Response = T> + Clone,
    T: rt::Read + Unpin,
{
    /// Runs until the connector is dropped.
    async fn run(self, on_taken: Arc<Notify>) {
        let mut looks = interval(PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut works = true;
        loop {
            // After a failure, requests do not lead to more attempts.
            let is_look = tokio::select! {
                biased;
                _ = looks.tick() => true,
                () = on_taken.notified(), if works => false,
            };
            let Some(ahead) = self.ahead.upgrade() else { return };
            let taken = ahead.taken.swap(0, Relaxed);
            let missing = ahead.missing();
            works = self.open_several(&ahead, if is_look { missing } else { taken.min(missing) }).await;
        }
    }

    /// Opens a connection and, if that works, the others at one time. Returns false if the first
    /// attempt failed.
    async fn open_several(&self, ahead: &Ahead<T>, count: usize) -> bool {
        if count == 0 {
            return true;
        }
        let Some(first) = self.open().await else { return false };
        ahead.idle().push_back(first);
        let others = join_all((1..count).map(|_| self.open())).await;
        ahead.idle().extend(others.into_iter().flatten());
        true
    }

    async fn open(&self) -> Option<TokioIo<T>> {
        let connecting = self.connector.clone().call(self.server.clone());
        timeout(self.connect_timeout, connecting).await.ok()?.ok().map(TokioIo::new)
    }
}

impl<C, T> Service<Uri> for AheadConnector<C, T>
where
    C: Service<Uri, Response = T>,
    C::Future: Send + 'static,
    C::Error: 'static,
    T: rt::Read + Unpin + Send + 'static,
{
    type Response = T;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<T, C::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        match self.ahead.take(&address) {
            Some(connection) => Box::pin(async { Ok(connection) }),
            None => Box::pin(self.inner.call(address)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    /// The server's ends of all connections, in the order in which they were opened.
    type Opened = Arc<Mutex<Vec<DuplexStream>>>;

    /// Opens connections to nowhere.
    #[derive(Clone, Default)]
    struct StandIn {
        opened: Opened,
        fails: bool,
    }

    impl Service<Uri> for StandIn {
        type Response = TokioIo<DuplexStream>;
        type Error = io::Error;
        type Future = std::future::Ready<io::Result<TokioIo<DuplexStream>>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Uri) -> Self::Future {
            let (client, server) = duplex(64);
            self.opened.lock().unwrap().push(server);
            let result = if self.fails {
                Err(io::ErrorKind::ConnectionRefused.into())
            } else {
                Ok(TokioIo::new(client))
            };
            std::future::ready(result)
        }
    }

    fn here() -> Uri {
        Uri::from_static("https://storage.example/a/b.mp4")
    }

    struct World {
        opened: Opened,
        connector: AheadConnector<StandIn, TokioIo<DuplexStream>>,
    }

    impl World {
        fn new(count: usize, fails: bool) -> Self {
            let inner = StandIn { opened: Opened::default(), fails };
            Self { opened: inner.opened.clone(), connector: AheadConnector::new(inner, count) }
        }

        /// Returns the number of connections opened so far.
        fn opened(&self) -> usize {
            self.opened.lock().unwrap().len()
        }

        /// Returns the number of connections that are ready.
        fn ready(&self) -> usize {
            self.connector.ahead.count - self.connector.ahead.missing()
        }

        fn keep(&self) {
            self.connector.keep(&here(), Duration::from_secs(1));
        }
    }

    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_requests_each_waited_for_a_connection_of_their_own() {
        let mut world = World::new(4, false);
        settle().await;
        assert_eq!(world.opened(), 0, "the server is not known yet");
        world.keep();
        world.keep();
        settle().await;
        assert_eq!((world.opened(), world.ready()), (4, 4));
        // Five requests at one time: four connections are ready, and only those are replaced.
        let connections: Vec<_> = (0..5).map(|_| world.connector.call(here())).collect();
        assert_eq!(world.opened(), 5);
        let connections = join_all(connections).await;
        assert!(connections.iter().all(Result::is_ok));
        settle().await;
        assert_eq!((world.opened(), world.ready()), (9, 4));
        // Another server, such as that of the credentials.
        world.connector.call("https://elsewhere.example/".parse().unwrap()).await.unwrap();
        world.connector.call("http://storage.example/".parse().unwrap()).await.unwrap();
        assert_eq!((world.opened(), world.ready()), (11, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_that_the_server_closes_are_not_used_and_are_opened_again() {
        let mut world = World::new(3, false);
        world.keep();
        settle().await;
        let mut servers: Vec<_> = world.opened.lock().unwrap().drain(..).collect();
        servers[1].write_all(b"HTTP/1.1 408 Request Timeout").await.unwrap();
        drop(servers.remove(0));
        assert_eq!(world.ready(), 1);
        world.connector.call(here()).await.unwrap();
        settle().await;
        // The one that was taken is replaced at once, the closed ones later.
        assert_eq!((world.opened(), world.ready()), (1, 1));
        tokio::time::advance(PAUSE).await;
        settle().await;
        assert_eq!((world.opened(), world.ready()), (3, 3));
        // A server that closes all of them at once.
        let mut closed = 0;
        for _ in 0..20 {
            closed += world.opened.lock().unwrap().drain(..).count();
            tokio::time::advance(PAUSE / 10).await;
            settle().await;
        }
        assert!((6..=9).contains(&closed), "{closed}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_refuses_connections_gets_one_attempt_at_a_time() {
        let mut world = World::new(8, true);
        world.keep();
        settle().await;
        assert_eq!(world.opened(), 1);
        tokio::time::advance(PAUSE).await;
        settle().await;
        assert_eq!(world.opened(), 2);
        world.connector.call(here()).await.unwrap_err();
        settle().await;
        assert_eq!(world.opened(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_after_the_connector_is_gone() {
        let world = World::new(2, false);
        world.keep();
        settle().await;
        let opened = world.opened.clone();
        let ahead = Arc::downgrade(&world.connector.ahead);
        drop(world);
        assert!(ahead.upgrade().is_none());
        tokio::time::advance(PAUSE * 3).await;
        settle().await;
        assert_eq!(opened.lock().unwrap().len(), 2);
        let none = World::new(0, false);
        none.keep();
        settle().await;
        assert_eq!(none.opened(), 0);
    }
}
