//! Response times with storage 40 ms away: `cargo bench -p latemux-origin --bench far_storage`.
//!
//! nginx serves the media over a [`Link`] that adds the delay. The benchmark prints the time for a
//! cold manifest of eight renditions, from a new origin each time, with open connections to storage
//! and without. It also prints the time for a segment whose index is known, beside that of a plain
//! read of as many bytes over the same link. All times are medians of several rounds, taken in
//! turn.

use futures_util::TryStreamExt;
use latemux_origin::{Origin, OriginConfig};
use latemux_storage::{Key, Options, ReadRequest, Storage, open};
use latemux_testmedia::{
    net::{Distance, Link},
    process::{Process, tool},
    recipe,
};
use std::{
    error::Error,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

type Failure = Box<dyn Error>;

const ROUND_TRIP: Duration = Duration::from_millis(40);
const RENDITIONS: usize = 8;
const ROUNDS: usize = 15;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "prints its results")]
async fn main() -> Result<(), Failure> {
    // `cargo test --benches` runs this program too, only to check that it compiles.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let Some(nginx) = tool("nginx") else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let list = library(dir.path())?;
    let process = serve(&nginx, dir.path())?;
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, process.port));
    let link = Link::to(server, Distance { round_trip: ROUND_TRIP, ..Distance::default() }).await?;
    let location = format!("http://{}/", link.address);
    println!("storage {} ms away; medians of {ROUNDS} rounds, in ms", ROUND_TRIP.as_millis());

    let manifest = format!("/{list}.urlset/.mpd");
    let kept = open(&location, &Options::default())?;
    let mut warm = Vec::new();
    let mut cold = Vec::new();
    for _ in 0..=ROUNDS {
        warm.push(get(start(kept.clone()).await?, &manifest).await?.whole);
        let unconnected = open(&location, &Options::default())?;
        cold.push(get(start(unconnected).await?, &manifest).await?.whole);
    }
    // The first round opened the connections and is left out.
    println!("cold manifest of {RENDITIONS} renditions, open connections:   {:.1}", median(&warm[1..]));
    println!("cold manifest of {RENDITIONS} renditions, no connections:     {:.1}", median(&cold[1..]));

    let address = start(kept.clone()).await?;
    let mpd = String::from_utf8(get(address, "/large.mp4/.mpd").await?.body)?;
    let segment = first_segment(&mpd).ok_or("no segment in the manifest")?;
    let key = Key::new("large.mp4").ok_or("no key")?;
    let mut head = Vec::new();
    let mut whole = Vec::new();
    let mut plain = Vec::new();
    let mut size = 0;
    for _ in 0..=ROUNDS {
        let response = get(address, &format!("/large.mp4/{segment}")).await?;
        size = response.body.len();
        head.push(response.first);
        whole.push(response.whole);
        plain.push(read(&*kept, &key, size as u64).await?);
    }
    let head = median(&head[1..]);
    let whole = median(&whole[1..]);
    let plain = median(&plain[1..]);
    println!("segment of {size} bytes, index known: first byte {head:.1}, whole {whole:.1}");
    println!("plain read of as many bytes: {plain:.1}; the segment takes {:.3} times that", whole / plain);
    Ok(())
}

/// Makes eight small renditions and one large file. Returns the comma list of the eight.
fn library(dir: &Path) -> Result<String, Failure> {
    let root = dir.join("root");
    fs::create_dir(&root)?;
    let mut list = "r_".to_owned();
    for i in 1..=RENDITIONS {
        let size = format!("{}x{}", 128 + 32 * i, 72 + 18 * i);
        // `moov` is first in some files and last in others.
        let muxer = if i % 2 == 0 { "-movflags +faststart" } else { "" };
        fs::copy(recipe::avc("far", &size, muxer), root.join(format!("r_{i}.mp4")))?;
        list += &format!(",{i}");
    }
    // Noise of about 4 Mbit/s: a segment of 4 s has 2 MB.
    let noise = "-f lavfi -i testsrc2=size=640x360:rate=25:duration=12,noise=alls=40:allf=t -c:v libx264 -preset ultrafast \
                 -b:v 4M -minrate 4M -maxrate 4M -bufsize 1M -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p";
    fs::copy(recipe::make("far-large", "mp4", noise), root.join("large.mp4"))?;
    Ok(list + ",.mp4")
}

fn serve(nginx: &Path, dir: &Path) -> Result<Process, Failure> {
    let at = dir.display().to_string();
    fs::create_dir(dir.join("tmp"))?;
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {at}/tmp;"))
        .concat();
    Ok(Process::start(|port| {
        let config = format!(
            "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log;
             events {{}} http {{ access_log off; {paths} keepalive_requests 1000000; sendfile on;
             server {{ listen 127.0.0.1:{port}; root {at}/root; }} }}"
        );
        let written = fs::write(dir.join("nginx.conf"), config);
        assert!(written.is_ok(), "{written:?}");
        let mut command = Command::new(nginx);
        command.arg("-p").arg(dir).arg("-c").arg(dir.join("nginx.conf")).stderr(Stdio::null());
        command
    }))
}

/// Starts an origin with empty caches and returns its address.
async fn start(storage: Arc<dyn Storage>) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let origin = Origin::new(storage, OriginConfig::default());
    tokio::spawn(async move { origin.serve(listener, None, std::future::pending()).await });
    Ok(address)
}

struct Response {
    /// Time until the first byte of the body.
    first: Duration,
    /// Time until the last byte of the body.
    whole: Duration,
    body: Vec<u8>,
}

async fn get(server: SocketAddr, path: &str) -> Result<Response, Failure> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let begun = Instant::now();
    let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::with_capacity(4 << 20);
    let mut body = None;
    let mut first = None;
    while stream.read_buf(&mut bytes).await? > 0 {
        body = body.or_else(|| Some(bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4));
        if body.is_some_and(|body| bytes.len() > body) {
            first = first.or(Some(begun.elapsed()));
        }
    }
    let whole = begun.elapsed();
    let body = body.ok_or("no response")?;
    if !bytes.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&bytes).into());
    }
    Ok(Response { first: first.ok_or("no body")?, whole, body: bytes.split_off(body) })
}

async fn read(storage: &dyn Storage, key: &Key, size: u64) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let read = storage.read(ReadRequest::range(key, 1000..1000 + size)).await?;
    let frames: Vec<_> = read.body.try_collect().await?;
    let took = begun.elapsed();
    drop(frames);
    Ok(took)
}

/// Returns the URL of the video's first segment.
fn first_segment(mpd: &str) -> Option<String> {
    let after = |text: &str, name: &str| {
        Some(text.split_once(&format!(" {name}=\""))?.1.split('"').next()?.to_owned())
    };
    let (_, template) = mpd.split_once("<SegmentTemplate")?;
    let (_, representation) = mpd.split_once("<Representation")?;
    let (_, timeline) = template.split_once("<S ")?;
    let time = after(&format!(" {timeline}"), "t").unwrap_or_else(|| "0".to_owned());
    let media = after(template, "media")?;
    Some(media.replace("$RepresentationID$", &after(representation, "id")?).replace("$Time$", &time))
}

/// Returns the median in milliseconds.
fn median(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}
