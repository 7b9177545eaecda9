//! Listening sockets, and a limit of the connections accepted from them.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// Most connections that may wait to be accepted. The kernel lowers the number to
/// `net.core.somaxconn`, 4096 by default. Further clients get no reply: they retry after 1, 3 and 7
/// seconds, and so on up to a minute.
const BACKLOG: u32 = 4096;
/// Shortest time between two warnings that all connections are in use.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// Listens on an address of this machine. Port 0 stands for any free port. The function must be
/// called within a runtime.
///
/// # Errors
/// Returns the error of the system, if the address is in use, is not one of this machine, or needs
/// rights that the process lacks.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Lets this process start while connections of an earlier one are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A listener with a limit of open connections. Further clients wait in the kernel's queue.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    pub(crate) max_connections: usize,
    /// Time of the last warning that all connections are in use.
    warned: Option<Instant>,
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener, max_connections: usize) -> Self {
        let max_connections = max_connections.clamp(1, Semaphore::MAX_PERMITS);
        Self { listener, slots: Arc::new(Semaphore::new(max_connections)), max_connections, warned: None }
    }

    /// Accepts the next connection, after waiting until one more is allowed. The connection counts
    /// as open for as long as the permit lives. Returns `None` if accepting failed and the caller
    /// should try again.
    pub(crate) async fn accept(&mut self) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let slot = match self.slots.clone().try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                self.warn();
                self.slots.clone().acquire_owned().await.ok()?
            }
        };
        match self.listener.accept().await {
            Ok((stream, peer)) => {
                // Small writes, such as heads and last frames, must not wait for an
                // acknowledgement.
                let _ = stream.set_nodelay(true);
                Some((stream, peer, slot))
            }
            Err(error) => {
                tracing::warn!(reason = "accept", "{error}");
                // The process is probably out of file descriptors until other connections close.
                tokio::time::sleep(Duration::from_millis(50)).await;
                None
            }
        }
    }

    /// Warns the operator that clients wait. The clients themselves get no notice.
    fn warn(&mut self) {
        if self.warned.is_none_or(|when| when.elapsed() >= WARN_INTERVAL) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                reason = "connections",
                most = self.max_connections,
                "the limit of open connections is reached: further clients wait"
            );
        }
    }
}
