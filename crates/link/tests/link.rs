//! A link has the round-trip time and rate that it is set to, and no lower throughput.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use latemux_link::{Distance, Link};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::Instant,
};

const ROUND_TRIP: Duration = Duration::from_millis(60);

/// Starts a server that sends `response` bytes for each byte it receives.
async fn server(response: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0];
                while let Ok(1) = stream.read(&mut request).await {
                    let bytes: Vec<u8> =
                        (0..response).map(|i| request[0].wrapping_add(i.to_le_bytes()[0])).collect();
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Sends one request and returns the times until the first and the last byte of the response.
async fn request(stream: &mut TcpStream, response: usize) -> (Duration, Duration) {
    let begun = Instant::now();
    stream.write_all(&[7]).await.unwrap();
    let mut bytes = vec![0; response];
    stream.read_exact(&mut bytes[..1]).await.unwrap();
    let first = begun.elapsed();
    stream.read_exact(&mut bytes[1..]).await.unwrap();
    assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == 7_u8.wrapping_add(i.to_le_bytes()[0])));
    (first, begun.elapsed())
}

#[tokio::test]
async fn a_link_adds_its_round_trip_time() {
    let link = Link::to(server(1000).await, Distance { round_trip: ROUND_TRIP, ..Distance::default() })
        .await
        .unwrap();
    let mut stream = TcpStream::connect(link.address).await.unwrap();
    let (cold, _) = request(&mut stream, 1000).await;
    assert!(cold >= 2 * ROUND_TRIP, "a connection takes a round trip too: {cold:?}");
    let (warm, _) = request(&mut stream, 1000).await;
    assert!(warm >= ROUND_TRIP, "{warm:?}");
    // On a busy machine, one of several attempts shows that it does not add much more.
    let mut best = warm;
    for _ in 0..20 {
        best = best.min(request(&mut stream, 1000).await.0);
    }
    assert!(best < ROUND_TRIP * 2, "{best:?}");
    // Each half is closed separately, and the end is delayed too.
    stream.shutdown().await.unwrap();
    let begun = Instant::now();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    assert!(begun.elapsed() >= ROUND_TRIP);
}

#[tokio::test]
async fn a_long_link_does_not_lower_the_throughput() {
    // 8 MB in chunks that each wait for the one before would take 125 round trips.
    let response = 8_000_000;
    let link = Link::to(server(response).await, Distance { round_trip: ROUND_TRIP, ..Distance::default() })
        .await
        .unwrap();
    let mut stream = TcpStream::connect(link.address).await.unwrap();
    let (first, last) = request(&mut stream, response).await;
    assert!(last - first < ROUND_TRIP * 60, "{first:?} {last:?}");
}

#[tokio::test]
async fn a_rate_is_shared_by_all_connections() {
    let distance = Distance { round_trip: Duration::ZERO, rate: Some(4_000_000), burst: 100_000 };
    let link = Link::to(server(500_000).await, distance).await.unwrap();
    let begun = Instant::now();
    let both = || async {
        let mut stream = TcpStream::connect(link.address).await.unwrap();
        request(&mut stream, 500_000).await
    };
    tokio::join!(both(), both());
    // A million bytes, less the burst.
    assert!(begun.elapsed() >= Duration::from_millis(225), "{:?}", begun.elapsed());
}
