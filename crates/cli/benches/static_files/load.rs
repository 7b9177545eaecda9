//! Load: wrk over a list of URLs, requests at a constant rate, and a plain client that compares
//! bodies.

use latemux_load::results::Run;
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Script for wrk that cycles through a list of URLs and prints its results for this program.
const SCRIPT: &str = r#"
local requests, at = {}, 0
function init(args)
  for line in io.lines(args[1]) do requests[#requests + 1] = wrk.format("GET", line) end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
function done(summary)
  local e = summary.errors
  io.write(string.format("SUMMARY %d %d %d %d\n", summary.requests, summary.bytes, summary.duration,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"#;

/// Results of one run of wrk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) requests: f64,
    /// Bytes of heads and bodies.
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
}

/// wrk on some cores.
#[derive(Debug)]
pub(crate) struct Wrk {
    pub(crate) script: PathBuf,
    pub(crate) list: PathBuf,
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
    pub(crate) gzip: bool,
    pub(crate) tls: Option<PathBuf>,
    pub(crate) cores: &'static str,
}

impl Wrk {
    /// Prepares a load of all `urls` in turn, over 16 connections.
    pub(crate) fn new(folder: &Path, urls: impl IntoIterator<Item = String>) -> io::Result<Self> {
        let script = folder.join("urls.lua");
        let list = folder.join("urls.txt");
        fs::write(&script, SCRIPT)?;
        let mut text = String::new();
        for url in urls {
            text.push_str(&url);
            text.push('\n');
        }
        fs::write(&list, text)?;
        Ok(Self { script, list, connections: 16, seconds: 2, gzip: false, tls: None, cores: "1" })
    }

    /// Loads the server on a port of this machine.
    pub(crate) fn run(&self, port: u16) -> Result<Done, String> {
        let mut command = Command::new("taskset");
        let connections = format!("-c{}", self.connections);
        let seconds = format!("-d{}", self.seconds);
        command.args(["-c", self.cores, "wrk", "-t1", "--timeout", "30", &connections, &seconds]);
        if self.gzip {
            command.args(["-H", "accept-encoding: gzip"]);
        }
        let scheme = if let Some(settings) = &self.tls {
            command.env("OPENSSL_CONF", settings);
            "https"
        } else {
            "http"
        };
        command.arg("-s").arg(&self.script).arg(format!("{scheme}://localhost:{port}/"));
        command.arg("--").arg(&self.list);
        let out = command.output().map_err(|error| format!("wrk: {error}"))?;
        let text = String::from_utf8_lossy(&out.stdout);
        let line = text.lines().find_map(|line| line.strip_prefix("SUMMARY "));
        let said = || format!("wrk: {text}{}", String::from_utf8_lossy(&out.stderr));
        let numbers: Vec<f64> =
            line.ok_or_else(said)?.split(' ').filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [requests, bytes, micros, 0.0] if requests > 0.0 => {
                Ok(Done { requests, bytes, seconds: micros / 1e6 })
            }
            _ => Err(said()),
        }
    }
}

/// Latencies of requests at a constant rate, each measured from the time when it was due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latency {
    /// Median in milliseconds.
    pub(crate) p50: f64,
    /// 99th percentile in milliseconds.
    pub(crate) p99: f64,
    /// 99th percentile of the lateness of the generator itself, in milliseconds.
    pub(crate) lag: f64,
}

/// Duration of the requests at a rate, in seconds.
const OPEN: &str = "2s";
/// Number of connections, so that as many requests may wait at a time.
const WAITING: &str = "64";

/// Requests all `urls` in turn with `latemux load`, `rate` times a second.
pub(crate) fn open_loop(folder: &Path, port: u16, urls: &[String], rate: f64) -> Result<Latency, String> {
    let out = tempfile::tempdir_in(folder).map_err(|error| error.to_string())?;
    let mut command = Command::new("taskset");
    command.args(["-c", "1", env!("CARGO_BIN_EXE_latemux"), "load", "--single", "--concurrency", WAITING]);
    command.args(["--duration", OPEN, "--rate", &rate.to_string(), "--out"]).arg(out.path());
    command.args(urls.iter().map(|url| format!("http://127.0.0.1:{port}{url}")));
    let output = command.output().map_err(|error| format!("latemux load: {error}"))?;
    if !output.status.success() {
        return Err(format!("latemux load: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let run = Run::read(out.path()).map_err(|error| error.to_string())?;
    let results = &run.whole.results;
    let milliseconds = |micros: u64| micros as f64 / 1e3;
    let all = results.total().latency;
    Ok(Latency {
        p50: milliseconds(all.quantile(0.5)),
        p99: milliseconds(all.quantile(0.99)),
        lag: milliseconds(results.lag.quantile(0.99)),
    })
}

/// A client that keeps its connection open.
#[derive(Debug)]
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    /// Bytes of the head.
    pub(crate) head: usize,
    /// Time from the request to the first byte of the body.
    pub(crate) first_byte: Duration,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        Ok(Self { reader: BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?) })
    }

    /// Requests a URL. The status must be 200, and the body must have a stated length.
    pub(crate) fn get(&mut self, url: &str) -> Result<Response, String> {
        self.request(url).map_err(|error| format!("{url}: {error}"))
    }

    fn request(&mut self, url: &str) -> io::Result<Response> {
        let request = format!("GET {url} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        let start = Instant::now();
        self.reader.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        let mut head = 0;
        let mut length = None;
        loop {
            line.clear();
            let read = self.reader.read_line(&mut line)?;
            if head == 0 && !line.starts_with("HTTP/1.1 200") {
                return Err(io::Error::other(line));
            }
            head += read;
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok();
            }
            if read <= 2 {
                break;
            }
        }
        let mut body = vec![0; length.ok_or_else(|| io::Error::other("no length"))?];
        self.reader.fill_buf()?;
        let first_byte = start.elapsed();
        self.reader.read_exact(&mut body)?;
        Ok(Response { head, first_byte, body })
    }
}
