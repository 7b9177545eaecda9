//! Sockets that wait for clients.

use std::{io, net::SocketAddr};
use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted; the kernel allows no more than its `net.core.somaxconn`, 4096 by default. Of a crowd that
/// arrives within a moment, those beyond it are told nothing: each finds out by itself, after a second, three, seven, or a minute.
const BACKLOG: u32 = 4096;

/// Listens on an address of this machine; port 0 is any that is free. To be called within a runtime.
///
/// # Errors
/// What the system says: the address is in use, is not this machine's, or takes rights this process has not.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // What an earlier process left in TIME_WAIT should not keep this one from starting.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
