//! Measures the cost of `latemux load` itself: `make bench-load`.
//!
//! - Gigabytes received in a second of one core's time, compared with wrk on the same URLs. nginx
//!   sends files from one core, and the generator runs on the other. Players (`--sequence`) check
//!   every body, while `--single` and wrk check none.
//! - Memory of a player that waits for its buffer to empty.
//!
//! Processor time and memory come from the kernel, not from the generator: the time of ended child
//! processes, and the memory of the running one.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot continue stops")]

#[path = "../static_files/load.rs"]
#[expect(dead_code, reason = "shared with the benchmark of static files, which uses all of it")]
mod load;
#[path = "../static_files/servers.rs"]
#[expect(dead_code, reason = "shared with the benchmark of static files, which uses all of it")]
mod servers;

use latemux_load::results::Run;
use load::Wrk;
use servers::Server;
use std::{
    env,
    error::Error,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

type Failure = Box<dyn Error>;

/// Number of rounds. The median counts.
const ROUNDS: usize = 5;

/// Goals of the measurements.
const GIGABYTES_PER_CORE_SECOND: f64 = 2.0;
const PLAYERS_PER_GIGABYTE: f64 = 20_000.0;

/// Numbers of players whose memory is measured. The few players show the memory of the rest of the
/// process.
const MANY: u32 = 4000;
const FEW: u32 = 10;

fn main() -> Result<(), Failure> {
    // `cargo test --benches` runs this too, without measuring.
    if !env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    for tool in ["wrk", "taskset", "ffmpeg"] {
        if Command::new(tool).arg("-v").output().is_err() {
            println!("{tool} is not installed: make tools");
            return Ok(());
        }
    }
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    media(&root)?;
    let server = Server::nginx(folder.path(), &root, "0", None)?;
    let mut held = true;
    for (name, bytes) in [("1 MB", "1m"), ("10 MB", "10m")] {
        let wrk = Wrk::new(folder.path(), [format!("/{bytes}")])?;
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            let single = ["--single", "--concurrency", "16", "--duration", "3s"];
            let ours = received(folder.path(), &server, bytes, &single)?;
            let before = children();
            let theirs = wrk.run(server.port())?;
            rates.push((ours, theirs.bytes / 1e9 / (children() - before)));
        }
        let ours = median(rates.iter().map(|rate| rate.0));
        let theirs = median(rates.iter().map(|rate| rate.1));
        held &= ours >= GIGABYTES_PER_CORE_SECOND;
        println!("{name:6} one URL         {ours:6.2} GB per core second; wrk {theirs:.2}");
    }
    for (name, manifest) in [("DASH", "dash/index.mpd"), ("TS", "ts/index.m3u8")] {
        let sequence = ["--sequence", "--players", "16", "--duration", "3s"];
        let rates: Result<Vec<f64>, Failure> =
            (0..ROUNDS).map(|_| received(folder.path(), &server, manifest, &sequence)).collect();
        let rate = median(rates?.into_iter());
        held &= rate >= GIGABYTES_PER_CORE_SECOND;
        println!("{name:6} checked bodies  {rate:6.2} GB per core second");
    }
    let few = memory(folder.path(), &server, FEW)?;
    let many = memory(folder.path(), &server, MANY)?;
    let one = (many - few) / f64::from(MANY - FEW);
    held &= 1e9 / one >= PLAYERS_PER_GIGABYTE;
    println!(
        "memory of a pacing player  {:.1} kB: {:.0} per GB ({MANY} take {:.0} MB)",
        one / 1e3,
        1e9 / one,
        many / 1e6
    );
    if held { Ok(()) } else { Err("less than it must be".into()) }
}

/// Makes plain files, and titles of a high and of a low bit rate.
fn media(root: &Path) -> Result<(), Failure> {
    for (name, bytes) in [("1m", 1_000_000), ("10m", 10_000_000)] {
        fs::create_dir_all(root)?;
        fs::write(root.join(name), vec![1_u8; bytes])?;
    }
    let rich = "-f lavfi -i nullsrc=size=640x360:rate=25:duration=16,geq=random(1)*255:128:128 -f lavfi -i sine=duration=16 \
        -c:v libx264 -preset ultrafast -qp 16 -g 100 -keyint_min 100 -sc_threshold 0 -c:a aac";
    let lean = "-f lavfi -i testsrc=size=320x180:rate=25:duration=120 -f lavfi -i sine=duration=120 -c:v libx264 -preset ultrafast \
        -b:v 200k -g 100 -keyint_min 100 -sc_threshold 0 -c:a aac -b:a 64k";
    for (folder, input, muxer) in [
        ("dash", rich, "-f dash -seg_duration 4 index.mpd"),
        ("ts", rich, "-f hls -hls_time 4 -hls_playlist_type vod index.m3u8"),
        ("lean", lean, "-f dash -seg_duration 4 index.mpd"),
    ] {
        let folder = root.join(folder);
        fs::create_dir_all(&folder)?;
        let arguments = ["-v error -y", input, muxer].join(" ");
        let made = Command::new("ffmpeg").current_dir(&folder).args(arguments.split_whitespace()).status()?;
        if !made.success() {
            return Err("ffmpeg made no media".into());
        }
    }
    Ok(())
}

/// Starts the generator on some cores.
fn generator(cores: &str, server: &Server, path: &str, more: &[&str]) -> Result<Child, Failure> {
    let url = format!("http://127.0.0.1:{}/{path}", server.port());
    let mut command = Command::new("taskset");
    command.args(["-c", cores, env!("CARGO_BIN_EXE_latemux"), "load", &url]).args(more);
    Ok(command.stdout(Stdio::null()).spawn()?)
}

/// Returns the gigabytes that a run received in a second of processor time.
fn received(folder: &Path, server: &Server, path: &str, more: &[&str]) -> Result<f64, Failure> {
    let out = folder.join("run");
    let before = children();
    let out_text = out.to_str().unwrap();
    let ended = generator("1", server, path, &[more, &["--out", out_text]].concat())?.wait()?;
    if !ended.success() {
        return Err("the generator failed".into());
    }
    #[expect(clippy::cast_precision_loss, reason = "bytes of a run")]
    let bytes = Run::read(&out)?.whole.results.total().bytes as f64;
    Ok(bytes / 1e9 / (children() - before))
}

/// Returns the bytes that this many players take while they wait for their buffers to empty: the
/// median over ten seconds, once all have started.
fn memory(folder: &Path, server: &Server, players: u32) -> Result<f64, Failure> {
    let out = folder.join("run");
    let count = players.to_string();
    let out_text = out.to_str().unwrap();
    let times = ["--ramp", "20s", "--duration", "50s", "--buffer", "12s"];
    let more = [&["--players", &count, "--out", out_text], &times[..]].concat();
    let mut child = generator("0,1", server, "lean/index.mpd", &more)?;
    let start = Instant::now();
    let mut seen = Vec::new();
    while start.elapsed() < Duration::from_secs(48) {
        thread::sleep(Duration::from_millis(500));
        if start.elapsed() > Duration::from_secs(36) {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kib: f64 =
                line.and_then(|line| line.split_whitespace().next()?.parse().ok()).ok_or("no VmRSS")?;
            seen.push(kib * 1024.0);
        }
    }
    if !child.wait()?.success() {
        return Err("the generator failed".into());
    }
    let results = Run::read(&out)?.whole.results;
    // No other player started, and none ended early.
    if results.seconds.iter().map(|second| second.came).sum::<u64>() != u64::from(players) {
        return Err("not as many players as there should have been".into());
    }
    Ok(median(seen.into_iter()))
}

/// Returns the processor time in seconds of children that have ended: fields 16 and 17 of
/// proc_pid_stat(5), in hundredths of a second.
fn children() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
