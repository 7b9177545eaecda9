//! Listening sockets, and a limit of the connections accepted from them.

#[cfg(target_os = "linux")]
use socket2::SockRef;
use std::{
    fs::{self, Permissions},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::either::Either;

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

/// Rights to a socket that only the user of this process may use.
const OWNER_ONLY: u32 = 0o600;
/// Rights to a socket that all users of the machine may use if they can reach its folder.
const EVERYONE: u32 = 0o666;

/// Listens on a Unix socket that only the user of this process may use. A socket that another
/// process left behind is replaced. The function must be called within a runtime.
///
/// # Errors
/// `AddrInUse` if another process listens there, `AlreadyExists` if the path is no socket, and
/// other errors of the system.
pub fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    bind_unix(path, OWNER_ONLY)
}

/// Listens on a Unix socket for clients, such as a proxy that another user runs. Everyone who can
/// reach its folder may use it. Otherwise it is like [`listen_unix`].
///
/// # Errors
/// `AddrInUse` if another process listens there, `AlreadyExists` if the path is no socket, and
/// other errors of the system.
pub fn listen_unix_for_all(path: &Path) -> io::Result<UnixListener> {
    bind_unix(path, EVERYONE)
}

fn bind_unix(path: &Path, rights: u32) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path is not a socket"));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
        }
        _ => {}
    }
    // The socket gets its name only after its rights are set.
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = Path::new(&unfinished);
    let _ = fs::remove_file(unfinished);
    let listener = UnixListener::bind(unfinished)?;
    let rights = Permissions::from_mode(rights);
    let named = fs::set_permissions(unfinished, rights).and_then(|()| fs::rename(unfinished, path));
    named.inspect_err(|_| drop(fs::remove_file(unfinished)))?;
    Ok(listener)
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A Unix socket. The rights of its file say who may use it.
    Unix(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Listener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// An accepted connection.
pub(crate) type Stream = Either<TcpStream, UnixStream>;

impl Listener {
    /// Accepts the next connection. Connections to a Unix socket come from this machine, so their
    /// peer counts as 127.0.0.1.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, IpAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Either::Left(stream), peer.ip()))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Either::Right(stream), Ipv4Addr::LOCALHOST.into()))
            }
        }
    }
}

/// A listener with a limit of accepted connections. Further clients wait in the kernel's queue.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: Listener,
    slots: Arc<Semaphore>,
}

impl Acceptor {
    pub(crate) fn new(listener: Listener, max_connections: usize) -> Self {
        let max_connections = max_connections.clamp(1, Semaphore::MAX_PERMITS);
        Self { listener, slots: Arc::new(Semaphore::new(max_connections)) }
    }

    /// Accepts the next connection, after waiting until one more is allowed. The connection counts
    /// as open for as long as the permit lives. Returns `None` if accepting failed and the caller
    /// should try again.
    pub(crate) async fn accept(&mut self) -> Option<(Stream, IpAddr, OwnedSemaphorePermit)> {
        let slot = self.slots.clone().acquire_owned().await.ok()?;
        match self.listener.accept().await {
            Ok((stream, peer)) => {
                if let Either::Left(stream) = &stream {
                    // Small writes, such as heads and last frames, must not wait for an
                    // acknowledgement.
                    let _ = stream.set_nodelay(true);
                    #[cfg(target_os = "linux")]
                    let _ = SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT);
                }
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
