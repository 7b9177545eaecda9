//! Load: wrk over a list of URLs, and a plain client that compares bodies.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
};

/// Cycles through all URLs of a list; prints what the machine that reads it wants to know.
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

/// What one run of wrk did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) requests: f64,
    /// Heads and bodies.
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
}

/// wrk, kept to some cores.
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
    /// A load of all `urls` in turn, over 16 connections.
    pub(crate) fn new(folder: &Path, urls: impl IntoIterator<Item = String>) -> io::Result<Self> {
        let (script, list) = (folder.join("urls.lua"), folder.join("urls.txt"));
        fs::write(&script, SCRIPT)?;
        let mut text = String::new();
        for url in urls {
            text.push_str(&url);
            text.push('\n');
        }
        fs::write(&list, text)?;
        Ok(Self { script, list, connections: 16, seconds: 2, gzip: false, tls: None, cores: "1" })
    }

    /// Loads whatever listens on a port of this machine.
    pub(crate) fn run(&self, port: u16) -> Result<Done, String> {
        let mut command = Command::new("taskset");
        let (connections, seconds) = (format!("-c{}", self.connections), format!("-d{}", self.seconds));
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

/// A client that keeps its connection.
#[derive(Debug)]
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

/// An answer: its head's bytes and its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: usize,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        Ok(Self { reader: BufReader::new(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?) })
    }

    /// A body of stated length, of a 200.
    pub(crate) fn get(&mut self, url: &str) -> Result<Answer, String> {
        self.ask(url).map_err(|error| format!("{url}: {error}"))
    }

    fn ask(&mut self, url: &str) -> io::Result<Answer> {
        let request = format!("GET {url} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        self.reader.get_mut().write_all(request.as_bytes())?;
        let (mut line, mut head, mut length) = (String::new(), 0, None);
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
        self.reader.read_exact(&mut body)?;
        Ok(Answer { head, body })
    }
}
