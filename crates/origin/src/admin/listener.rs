//! The listener of the admin address: a port, or a Unix socket.

use std::{
    io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
};

/// Pause after a failure to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// A listener for metrics, health checks and purging.
#[derive(Debug)]
pub enum AdminListener {
    /// A port. Whoever reaches it may use it, unless a token is needed.
    Tcp(TcpListener),
    /// A Unix socket. The rights of its file say who may use it.
    Unix(UnixListener),
}

impl From<TcpListener> for AdminListener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for AdminListener {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// A connection of either kind.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl AdminListener {
    /// Accepts the next connection.
    pub(super) async fn accept(&self) -> Box<dyn Connection> {
        loop {
            let accepted: io::Result<Box<dyn Connection>> = match self {
                Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as _),
                Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as _),
            };
            match accepted {
                Ok(stream) => return stream,
                Err(error) => tracing::warn!(reason = "accept", error = error.to_string(), "admin"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Listens on a Unix socket that only the user of this process may use. A socket that another
/// process left behind is replaced. The function must be called within a runtime.
///
/// # Errors
/// `AddrInUse` if another process listens there, `AlreadyExists` if the path is no socket, and
/// other errors of the system.
pub fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path is not a socket"));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
        }
        _ => {}
    }
    // The socket gets its name only when nobody else may use it.
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = Path::new(&unfinished);
    let _ = std::fs::remove_file(unfinished);
    let listener = UnixListener::bind(unfinished)?;
    let rights = std::fs::Permissions::from_mode(0o600);
    let named = std::fs::set_permissions(unfinished, rights).and_then(|()| std::fs::rename(unfinished, path));
    named.inspect_err(|_| drop(std::fs::remove_file(unfinished)))?;
    Ok(listener)
}
