//! Listening sockets, and a limit of the connections accepted from them.

#[cfg(target_os = "linux")]
use socket2::SockRef;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// Most connections that may wait to be accepted. The kernel lowers the number to
/// `net.core.somaxconn`, 4096 by default. Further clients get no reply: they retry after 1, 3 and 7
/// seconds, and so on up to a minute.
const BACKLOG: u32 = 4096;
/// Bytes that the kernel takes of a response beyond what it has sent. A client that takes nothing
/// leaves them there. The kernel takes whole buffers of up to 64 KiB, so it may be one more. Bytes
/// on their way to a client that takes them are not limited.
#[cfg(target_os = "linux")]
const MAX_UNSENT: u32 = 128 << 10;
/// Memory for received bytes in the kernel. Requests are short.
const RECEIVE_BUFFER: u32 = 64 << 10;

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
    // Connections inherit the size.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A listener with a limit of accepted connections. Further clients wait in the kernel's queue.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    slots: Arc<Semaphore>,
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener, max_connections: usize) -> Self {
        let max_connections = max_connections.clamp(1, Semaphore::MAX_PERMITS);
        Self { listener, slots: Arc::new(Semaphore::new(max_connections)) }
    }

    /// Accepts the next connection, after waiting until one more is allowed. The connection counts
    /// as open for as long as the permit lives. Returns `None` if accepting failed and the caller
    /// should try again.
    pub(crate) async fn accept(&mut self) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let slot = self.slots.clone().acquire_owned().await.ok()?;
        match self.listener.accept().await {
            Ok((stream, peer)) => {
                // Small writes, such as heads and last frames, must not wait for an
                // acknowledgement.
                let _ = stream.set_nodelay(true);
                #[cfg(target_os = "linux")]
                let _ = SockRef::from(&stream).set_tcp_notsent_lowat(MAX_UNSENT);
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
}
