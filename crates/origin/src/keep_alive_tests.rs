use super::*;
use http_body_util::Full;
use tokio::{
    io::{AsyncReadExt, DuplexStream, duplex},
    sync::watch,
    task::JoinHandle,
};

const PATIENCE: Duration = Duration::from_secs(10);
const ASKS: &[u8] = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n";

type Serving = JoinHandle<Result<(), Failure>>;

/// A connection whose answers are the paths asked for, its client's end, and who says when it drains.
fn begin() -> (DuplexStream, watch::Sender<bool>, Serving) {
    let (ours, theirs) = duplex(1 << 16);
    let (drain, serving) = serve_on(ours);
    (theirs, drain, serving)
}

fn serve_on(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> (watch::Sender<bool>, Serving) {
    let (drain, draining) = watch::channel(false);
    let answer = |request: Request<Incoming>| {
        let path = request.uri().path().to_owned();
        async move { Response::new(Full::<Bytes>::from(path)) }
    };
    (drain, tokio::spawn(serve(stream, Builder::new(), PATIENCE, Draining(draining), answer)))
}

/// The same, and what the server's end has seen.
fn begin_seen() -> (DuplexStream, watch::Sender<bool>, Serving, Arc<AtomicUsize>, Arc<AtomicBool>) {
    let (inner, theirs) = duplex(1 << 16);
    let (room, shut) = <(Arc<AtomicUsize>, Arc<AtomicBool>)>::default();
    let (drain, serving) = serve_on(Seen { inner, room: room.clone(), shut: shut.clone() });
    (theirs, drain, serving, room, shut)
}

/// A stream that tells how large the last buffer was that it was to read into, and whether it was shut down.
struct Seen {
    inner: DuplexStream,
    room: Arc<AtomicUsize>,
    shut: Arc<AtomicBool>,
}

impl AsyncRead for Seen {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.room.store(buf.remaining(), Relaxed);
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Seen {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut.store(true, Relaxed);
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Reads one answer.
async fn answered(client: &mut DuplexStream) {
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n/a") {
        seen.push(client.read_u8().await.unwrap());
    }
    assert!(seen.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn wherever_requests_are_cut_and_however_long_the_pause_they_are_answered() {
    let requests = ASKS.repeat(3);
    for pause in [Duration::ZERO, LINGER / 2, LINGER * 2, PATIENCE / 2] {
        for cut in 1..requests.len() {
            let (mut client, _drain, _serving) = begin();
            client.write_all(&requests[..cut]).await.unwrap();
            tokio::time::sleep(pause).await;
            client.write_all(&requests[cut..]).await.unwrap();
            for _ in 0..3 {
                answered(&mut client).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_requests_at_once_are_answered() {
    let (mut client, _drain, _serving) = begin();
    client.write_all(&ASKS.repeat(300)).await.unwrap();
    for _ in 0..300 {
        answered(&mut client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn draining_ends_it_whether_hyper_still_waits_or_not() {
    for pause in [Duration::ZERO, LINGER / 2, LINGER * 2] {
        let (mut client, drain, serving) = begin();
        client.write_all(ASKS).await.unwrap();
        answered(&mut client).await;
        tokio::time::sleep(pause).await;
        let begun = Instant::now();
        drain.send_replace(true);
        serving.await.unwrap().unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(client.read_u8().await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_request_is_waited_for_so_long() {
    for (pause, more, after) in [
        (Duration::ZERO, &b""[..], LINGER + PATIENCE),
        (Duration::ZERO, b"GET /", PATIENCE),
        (LINGER * 2, b"GET /", PATIENCE),
    ] {
        let (mut client, _drain, serving) = begin();
        client.write_all(ASKS).await.unwrap();
        answered(&mut client).await;
        tokio::time::sleep(pause).await;
        let begun = Instant::now();
        client.write_all(more).await.unwrap();
        serving.await.unwrap().unwrap_err();
        let waited = begun.elapsed();
        // The clock goes in milliseconds.
        assert!(waited >= after && waited < after + Duration::from_millis(5), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn hyper_waits_for_a_moment_and_is_let_go() {
    let (mut client, _drain, _serving, room, _) = begin_seen();
    for _ in 0..3 {
        client.write_all(ASKS).await.unwrap();
        answered(&mut client).await;
        tokio::time::sleep(LINGER / 2).await;
        assert!(room.load(Relaxed) > FIRST, "hyper reads");
        tokio::time::sleep(LINGER).await;
        assert_eq!(room.load(Relaxed), FIRST, "it does no more");
    }
}

/// Bytes that come one by one, a second apart, until the server ends the connection; how long that took.
async fn dribbled(client: &mut DuplexStream, bytes: &[u8]) -> Duration {
    let begun = Instant::now();
    for byte in bytes {
        let gone = tokio::time::timeout(Duration::from_secs(1), client.read_u8()).await;
        if gone.is_ok_and(|read| read.is_err()) || client.write_all(&[*byte]).await.is_err() {
            break;
        }
    }
    begun.elapsed()
}

/// However often bytes come, a head has come as a whole in time.
#[tokio::test(start_paused = true)]
async fn a_head_that_comes_byte_by_byte_has_so_long_from_its_first() {
    let (second, within) = (Duration::from_secs(1), Duration::from_millis(1100));
    for before in [0, 1, 5] {
        for pause in [Duration::ZERO, LINGER * 2] {
            let (mut client, _drain, serving) = begin();
            for _ in 0..before {
                client.write_all(ASKS).await.unwrap();
                answered(&mut client).await;
            }
            tokio::time::sleep(pause).await;
            let took = dribbled(&mut client, &[b'x'; 100]).await;
            // The first byte comes after a second.
            assert!(took >= PATIENCE + second && took < PATIENCE + second + within, "{took:?}");
            serving.await.unwrap().unwrap_err();
        }
    }
}

/// What one head takes is not taken from the next one's time, though hyper answers so fast that nothing is seen between them.
#[tokio::test(start_paused = true)]
async fn each_head_has_its_own_time() {
    let (mut client, _drain, _serving) = begin();
    let (head, tail) = ASKS.split_at(10);
    client.write_all(head).await.unwrap();
    for _ in 0..5 {
        tokio::time::sleep(PATIENCE * 3 / 4).await;
        client.write_all(&[tail, head].concat()).await.unwrap();
        answered(&mut client).await;
    }
}

/// Nor is the time for which nothing was asked, where hyper is kept because a request had a body.
#[tokio::test(start_paused = true)]
async fn requests_with_bodies_may_go_on_for_ever() {
    let (mut client, _drain, serving) = begin();
    for _ in 0..5 {
        client.write_all(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc").await.unwrap();
        answered(&mut client).await;
        tokio::time::sleep(PATIENCE * 3 / 4).await;
    }
    serving.await.unwrap().unwrap_err();
}

/// TLS does so by a message of its own.
#[tokio::test(start_paused = true)]
async fn the_client_is_told_of_the_end() {
    for leaves in [true, false] {
        for pause in [LINGER / 2, LINGER * 2] {
            let (mut client, drain, serving, _, shut) = begin_seen();
            client.write_all(ASKS).await.unwrap();
            answered(&mut client).await;
            tokio::time::sleep(pause).await;
            if leaves {
                client.shutdown().await.unwrap();
            } else {
                drain.send_replace(true);
            }
            serving.await.unwrap().unwrap();
            assert!(shut.load(Relaxed), "{leaves} {pause:?}");
        }
    }
}

#[test]
fn bytes_stay_in_order() {
    for (read, ahead) in [("ab", "cd"), ("abcd", ""), ("", "abcd")] {
        assert_eq!(unread(read.into(), ahead.into()), "abcd");
    }
}

/// Where a body ends is a thing that hyper knows.
#[tokio::test(start_paused = true)]
async fn hyper_is_kept_where_a_request_had_a_body() {
    let (mut client, _drain, _serving, room, _) = begin_seen();
    client.write_all(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc").await.unwrap();
    answered(&mut client).await;
    tokio::time::sleep(LINGER * 2).await;
    assert!(room.load(Relaxed) > FIRST, "hyper reads");
}
