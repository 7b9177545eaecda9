//! Rows of encrypted titles. nginx sends the clear segments from files.

use super::{Bench, Client, Failure, Loaded, ONE_CORE, Protocol, Row, Setup, WARM, costs, row};
use crate::{
    report::{Limit, median},
    servers::Server,
};
use std::{fs, path::Path, process::Command};

/// A scheme to measure.
struct Encryption {
    what: &'static str,
    protocol: Protocol,
    /// The line of a `[[drm]]` rule that names the scheme.
    scheme: &'static str,
    /// More lines of the configuration.
    more: &'static str,
    limit: f64,
}

const ENCRYPTIONS: [Encryption; 6] = [
    Encryption {
        what: "Dash, cenc, warm",
        protocol: Protocol::Dash,
        scheme: "dash = 'cenc'",
        more: "",
        limit: 1.25,
    },
    Encryption {
        what: "Cmaf, cbcs, warm",
        protocol: Protocol::Cmaf,
        scheme: "hls_fmp4 = 'cbcs'",
        more: "",
        limit: 1.25,
    },
    Encryption {
        what: "Smooth, PIFF, warm",
        protocol: Protocol::Smooth,
        scheme: "mss = 'piff'",
        more: "",
        limit: 1.35,
    },
    Encryption {
        what: "Ts, SAMPLE-AES, warm",
        protocol: Protocol::Ts,
        scheme: "hls_ts = 'sample-aes'",
        more: "",
        limit: 2.2,
    },
    Encryption {
        what: "Ts, AES-128, warm",
        protocol: Protocol::Ts,
        scheme: "hls_ts = 'aes-128'",
        more: "",
        limit: 4.2,
    },
    Encryption {
        what: "Ts, AES-128, memory.segments",
        protocol: Protocol::Ts,
        scheme: "hls_ts = 'aes-128'",
        more: "[memory]\nsegments = '1GiB'\n",
        limit: 1.0,
    },
];

/// Returns a rule that encrypts all titles by one key, whose file it writes into `folder`.
fn rule(folder: &Path, scheme: &str) -> Result<String, Failure> {
    let file = folder.join("keys.json");
    let key = r#"{"keys": [{"kid": "00000000000000000000000000000a01", "key": "a1a2a3a4a5a6a7a8a9aaabacadaeaf11"}]}"#;
    fs::write(&file, key)?;
    let systems = match scheme.contains("aes-128") {
        true => "",
        false => "systems = ['playready', 'clearkey']\n",
    };
    let keys = file.display();
    Ok(format!("[[drm]]\ntitles = ['**']\n{scheme}\n{systems}serve_keys = 'open'\nkeys.file = '{keys}'\n"))
}

impl Setup {
    /// Checks that every body is encrypted, and returns the mean number of bytes in a head.
    fn check_encrypted(&self, server: &Server) -> Result<f64, Failure> {
        let mut client = Client::connect(server.port())?;
        let mut heads = 0;
        for (url, clear) in &self.segments {
            let response = client.get(url)?;
            let has_length =
                (clear.len()..clear.len() + clear.len() / 10 + 4096).contains(&response.body.len());
            if !has_length || response.body == *clear {
                return Err(format!("{url} is not what it should be").into());
            }
            heads += response.head;
        }
        Ok(heads as f64 / self.segments.len() as f64)
    }
}

impl Setup {
    /// Compares the time until the first byte of a segment arrives. Segments are requested in turn,
    /// and are together larger than the caches.
    fn later_first_byte(
        &self,
        name: &'static str,
        what: &str,
        encrypted: &Server,
        clear: &Server,
    ) -> Result<Row, Failure> {
        let mut clients = (Client::connect(encrypted.port())?, Client::connect(clear.port())?);
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        let mut later = Vec::new();
        for (url, _) in &self.segments {
            let milliseconds =
                |client: &mut Client| client.get(url).map(|response| response.first_byte.as_secs_f64() * 1e3);
            let first = milliseconds(&mut clients.0)?;
            let second = milliseconds(&mut clients.1)?;
            ours.push(first);
            theirs.push(second);
            later.push(first - second);
        }
        let bytes = self.segments.iter().map(|(_, body)| body.len()).sum::<usize>() / self.segments.len();
        let ours = median(&ours);
        let theirs = median(&theirs);
        Ok(Row {
            name,
            what: format!("{what}: first byte"),
            value: median(&later),
            unit: "ms later",
            limit: Limit::None,
            note: format!("{ours:.2} against {theirs:.2} ms, segments of {} kB", bytes / 1000),
            rounds: later,
        })
    }
}

impl Bench {
    /// Measures all schemes with a warm range cache.
    pub(super) fn encrypted(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let measure = |scheme: &Encryption| {
            let setup = self.film(scheme.protocol)?;
            let rule = rule(setup.folder.path(), scheme.scheme)?;
            let latemux = setup.latemux(&format!("{WARM}\n{}{rule}", scheme.more))?;
            let nginx = setup.nginx()?;
            let wrk = setup.wrk()?;
            let ours = Loaded { server: &latemux, head: setup.check_encrypted(&latemux)?, wrk: &wrk };
            let theirs = Loaded { server: &nginx, head: setup.compare(&nginx)?, wrk: &wrk };
            Ok(row(name, scheme.what, Limit::AtMost(scheme.limit), &ours.against(&theirs)?))
        };
        ENCRYPTIONS.iter().map(measure).collect()
    }

    /// Compares the first request for encrypted segments, whose cuts are not known, with the first
    /// one for clear segments. All bytes come from storage.
    pub(super) fn first_cuts(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        self.first_requests(name, "Dash, cenc, cuts not known", Limit::AtMost(1.05), "")
    }

    /// Does the same for index MP4s, which state the cuts.
    pub(super) fn stated_cuts(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        self.first_requests(name, "Dash, cenc, cuts in index MP4s", Limit::None, ".index")
    }

    /// Measures first requests for segments of `film.mp4`, or of its index MP4 with cuts if `index`
    /// is `.index`.
    fn first_requests(
        &self,
        name: &'static str,
        what: &str,
        limit: Limit,
        index: &str,
    ) -> Result<Vec<Row>, Failure> {
        let mut setup = self.copies(40)?;
        if !index.is_empty() {
            for n in 0..40 {
                write_index(&format!("{}/film{n}.mp4", setup.library()))?;
            }
            for (url, _) in &mut setup.segments {
                *url = url.replace(".mp4/", ".index.mp4/").replace("-video", ".index-video");
                *url = url.replace("-audio", ".index-audio");
            }
        }
        let folder = setup.folder.path();
        let storage = Server::nginx(&folder.join("storage"), Path::new(&setup.library()), "1", None)?;
        let source = format!("http://127.0.0.1:{}/", storage.port());
        let cold = "[cache]\nmemory = '128MiB'\n[memory]\ncuts = '0'\n";
        let clear = Server::latemux(folder, &source, ONE_CORE, cold, None)?;
        let encrypting = format!("{cold}{}", rule(folder, "dash = 'cenc'")?);
        let encrypted = Server::latemux(folder, &source, ONE_CORE, &encrypting, None)?;
        let wrk = setup.wrk()?;
        let ours = Loaded { server: &encrypted, head: setup.check_encrypted(&encrypted)?, wrk: &wrk };
        let theirs = Loaded { server: &clear, head: setup.compare(&clear)?, wrk: &wrk };
        let (ours, theirs, ratios) = costs(&ours.against(&theirs)?, |cost| cost.per_gb);
        let cost = Row {
            name,
            what: format!("{what}, every byte cold"),
            value: median(&ratios),
            unit: "x clear",
            limit,
            note: format!("{ours:.3} against {theirs:.3} CPU-s/GB"),
            rounds: ratios,
        };
        Ok(vec![cost, setup.later_first_byte(name, what, &encrypted, &clear)?])
    }
}

/// Writes the index MP4 of a file beside it, with cuts.
fn write_index(file: &str) -> Result<(), Failure> {
    let made = Command::new(env!("CARGO_BIN_EXE_latemux")).args(["index", "--cuts", file]).output()?;
    if !made.status.success() {
        return Err(format!("{file}: {}", String::from_utf8_lossy(&made.stderr)).into());
    }
    Ok(())
}
