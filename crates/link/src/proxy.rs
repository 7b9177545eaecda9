//! A distant server, simulated by a TCP proxy in this process that delays every byte but does not
//! lower the throughput, unless it has a rate.
//!
//! It gives tests and experiments storage that is 40 ms away, on any machine and without privileges
//! to shape the network. It does not simulate TCP's own reaction to such a distance (slow start,
//! loss), so compare with a plain request over the same link, on an equally warm connection.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    sync::{Semaphore, mpsc},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

/// Number of bytes read at a time.
const CHUNK: usize = 64 * 1024;
/// Maximum number of bytes under way in one direction of one connection. 16 MiB are 3 Gbit/s at 40
/// ms.
const WINDOW: usize = 16 << 20;

/// The network between a client and a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Distance {
    /// Round-trip time that is added to each request and response, and to each new connection.
    pub round_trip: Duration,
    /// Bytes per second in each direction, over all connections; `None` for no limit.
    pub rate: Option<u64>,
    /// Bytes that may pass at once after a pause, if there is a rate.
    pub burst: u64,
}

/// A running proxy. When dropped it stops, and its connections close.
#[derive(Debug)]
pub struct Link {
    /// Address to connect to instead of the server's.
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    distance: Distance,
    up: Direction,
    down: Direction,
}

#[derive(Debug)]
struct Direction {
    /// Time at which all bytes so far have passed at the given rate. This is the state of a token
    /// bucket.
    free_at: Mutex<Instant>,
    /// The number of bytes handed on so far.
    carried: AtomicU64,
}

impl Direction {
    fn new() -> Self {
        Self { free_at: Mutex::new(Instant::now()), carried: AtomicU64::new(0) }
    }

    /// Returns the time at which bytes have passed that are ready `at`.
    fn pass(&self, distance: &Distance, at: Instant, bytes: usize) -> Instant {
        let Some(rate) = distance.rate else { return at };
        let time = |bytes: u64| Duration::from_secs(1).mul_f64(bytes as f64 / rate.max(1) as f64);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        // A pause saves up at most the burst.
        let since = at.checked_sub(time(distance.burst)).unwrap_or(at);
        *free_at = (*free_at).max(since) + time(bytes as u64);
        (*free_at).max(at)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Link {
    /// Starts a proxy to a server, on a free port.
    ///
    /// # Errors
    /// If no port can be bound.
    pub async fn to(server: SocketAddr, distance: Distance) -> io::Result<Self> {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), server, distance).await
    }

    /// Starts a proxy to a server, at an address.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn at(listen: SocketAddr, server: SocketAddr, distance: Distance) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { distance, up: Direction::new(), down: Direction::new() });
        let accepted = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                let shared = Arc::clone(&accepted);
                open.spawn(async move {
                    // If a client or a server goes away, its connection ends.
                    let _ = forward(client, server, &shared).await;
                });
            }
        });
        Ok(Self { address, accepting, shared })
    }

    /// Returns the number of bytes that clients were sent so far, over all connections.
    pub fn carried(&self) -> u64 {
        self.shared.down.carried.load(Relaxed)
    }
}

async fn forward(client: TcpStream, server: SocketAddr, shared: &Shared) -> io::Result<()> {
    // The client's connection exists at once. Its first bytes make up for the handshake's round
    // trip.
    let connected = Instant::now() + shared.distance.round_trip;
    client.set_nodelay(true)?;
    let server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = one_way(from_client, to_server, shared, &shared.up, connected);
    let down = one_way(from_server, to_client, shared, &shared.down, connected);
    // The end of one direction does not end the other, since an HTTP client may close its half. A
    // failure does.
    tokio::try_join!(up, down)?;
    Ok(())
}

async fn one_way(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    shared: &Shared,
    direction: &Direction,
    connected: Instant,
) -> io::Result<()> {
    // Bytes under way, in order, each piece with the time at which it arrives; `None` is the end.
    let (pieces, mut line) = mpsc::unbounded_channel::<(Instant, Option<Vec<u8>>)>();
    let window = Semaphore::new(WINDOW);
    let sending = async {
        loop {
            let mut piece = vec![0; CHUNK];
            let read = from.read(&mut piece).await?;
            piece.truncate(read);
            let left = direction.pass(&shared.distance, Instant::now().max(connected), read);
            let at = left + shared.distance.round_trip / 2;
            if read == 0 {
                let _ = pieces.send((at, None));
                return Ok(());
            }
            if let Ok(room) = window.acquire_many(u32::try_from(read).unwrap_or(u32::MAX)).await {
                room.forget();
            }
            let _ = pieces.send((at, Some(piece)));
        }
    };
    let arriving = async {
        while let Some((at, piece)) = line.recv().await {
            sleep_until(at).await;
            let Some(piece) = piece else { return to.shutdown().await };
            to.write_all(&piece).await?;
            direction.carried.fetch_add(piece.len() as u64, Relaxed);
            window.add_permits(piece.len());
        }
        Ok(())
    };
    tokio::try_join!(sending, arriving).map(|((), ())| ())
}
