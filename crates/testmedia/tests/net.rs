//! A link is as long and as narrow as it says, and no narrower.

#![cfg(feature = "net")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use latemux_testmedia::net::{Distance, Link};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::Instant,
};

const ROUND_TRIP: Duration = Duration::from_millis(60);

/// Answers each byte it is sent with so many.
async fn server(answer: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0];
                while let Ok(1) = stream.read(&mut asked).await {
                    let bytes: Vec<u8> =
                        (0..answer).map(|i| asked[0].wrapping_add(i.to_le_bytes()[0])).collect();
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Asks once; how long the first byte of the answer took, and the last.
async fn ask(stream: &mut TcpStream, answer: usize) -> (Duration, Duration) {
    let begun = Instant::now();
    stream.write_all(&[7]).await.unwrap();
    let mut bytes = vec![0; answer];
    stream.read_exact(&mut bytes[..1]).await.unwrap();
    let first = begun.elapsed();
    stream.read_exact(&mut bytes[1..]).await.unwrap();
    assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == 7_u8.wrapping_add(i.to_le_bytes()[0])));
    (first, begun.elapsed())
}

#[tokio::test]
async fn the_round_trip_is_as_long_as_configured() {
    let link = Link::to(server(1000).await, Distance { round_trip: ROUND_TRIP, ..Distance::default() })
        .await
        .unwrap();
    let mut stream = TcpStream::connect(link.address).await.unwrap();
    let (cold, _) = ask(&mut stream, 1000).await;
    assert!(cold >= 2 * ROUND_TRIP, "opening a connection takes a round trip: {cold:?}");
    let (warm, _) = ask(&mut stream, 1000).await;
    assert!(warm >= ROUND_TRIP, "{warm:?}");
    // Of several tries on a busy machine one shows that it is not much longer.
    let mut best = warm;
    for _ in 0..20 {
        best = best.min(ask(&mut stream, 1000).await.0);
    }
    assert!(best < ROUND_TRIP * 2, "{best:?}");
    assert_eq!((link.passed().connections, link.passed().to_server), (1, 22));
    assert_eq!(link.passed().from_server, 22_000);
    // Each half is closed by itself, and late.
    stream.shutdown().await.unwrap();
    let begun = Instant::now();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    assert!(begun.elapsed() >= ROUND_TRIP);
}

#[tokio::test]
async fn a_long_round_trip_does_not_reduce_throughput() {
    // 8 MB in pieces that each wait for the one before would take 125 round trips.
    let answer = 8_000_000;
    let link = Link::to(server(answer).await, Distance { round_trip: ROUND_TRIP, ..Distance::default() })
        .await
        .unwrap();
    let mut stream = TcpStream::connect(link.address).await.unwrap();
    let (first, last) = ask(&mut stream, answer).await;
    assert!(last - first < ROUND_TRIP * 60, "{first:?} {last:?}");
}

#[tokio::test]
async fn a_rate_is_shared_by_all_connections() {
    let distance = Distance { round_trip: Duration::ZERO, rate: Some(4_000_000), burst: 100_000 };
    let link = Link::to(server(500_000).await, distance).await.unwrap();
    let begun = Instant::now();
    let both = || async {
        let mut stream = TcpStream::connect(link.address).await.unwrap();
        ask(&mut stream, 500_000).await
    };
    tokio::join!(both(), both());
    // A million bytes but for the burst.
    assert!(begun.elapsed() >= Duration::from_millis(225), "{:?}", begun.elapsed());
}
