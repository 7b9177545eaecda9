//! The rows of the table.

mod encrypted;
mod text;

use crate::{
    Failure,
    load::{Client, Latency, Wrk, open_loop},
    media::{self, Protocol, Title, lay_out},
    report::{Limit, Row, median},
    servers::{Certificate, Server},
};
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

const ROUNDS: usize = 5;
/// Number of rounds for latency. Each has some thousand responses.
const LATENCY_ROUNDS: usize = 3;
/// Share of the rate that a core can serve, for measurements of latency.
const SHARE: f64 = 0.6;
const GB: f64 = 1e9;
/// Approximate bytes of the head of an nginx response.
const NGINX_HEAD: f64 = 240.0;
/// The server's core. The load runs on the other one.
const ONE_CORE: &str = "0";
/// Configuration with the range cache in memory.
const WARM: &str = "[cache]\nmemory = '2GiB'";
/// Configuration without a range cache.
const OFF: &str = "[cache]\nmemory = '0'";

type Measure = fn(&Bench, &'static str) -> Result<Vec<Row>, Failure>;

/// A row, or several rows that are measured together.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
}

/// All rows, in the order of the table.
pub(crate) const ROWS: &[Kind] = &[
    Kind { name: "dash", measure: |bench, name| bench.warm(name, Protocol::Dash, 1.0) },
    Kind { name: "cmaf", measure: |bench, name| bench.warm(name, Protocol::Cmaf, 1.0) },
    Kind { name: "mss", measure: |bench, name| bench.warm(name, Protocol::Smooth, 1.0) },
    Kind { name: "hds", measure: |bench, name| bench.warm(name, Protocol::Hds, 1.3) },
    Kind { name: "ts", measure: |bench, name| bench.warm(name, Protocol::Ts, 1.6) },
    Kind { name: "tracks", measure: Bench::tracks },
    Kind { name: "local", measure: Bench::local },
    Kind { name: "cold", measure: Bench::cold },
    Kind { name: "disk", measure: Bench::disk },
    Kind { name: "mpd", measure: Bench::manifests },
    Kind { name: "text", measure: Bench::text },
    Kind { name: "length", measure: Bench::length },
    Kind { name: "connections", measure: Bench::connections },
    Kind { name: "idle", measure: Bench::idle },
    Kind { name: "cores", measure: Bench::cores },
    Kind { name: "tls", measure: Bench::tls },
    Kind { name: "encrypted", measure: Bench::encrypted },
    Kind { name: "cuts", measure: Bench::first_cuts },
    Kind { name: "stated-cuts", measure: Bench::stated_cuts },
];

/// Folder for the files of a measurement.
#[derive(Debug)]
pub(crate) struct Bench {
    folder: TempDir,
}

/// A title, its segments, and the segments as files.
struct Setup {
    folder: TempDir,
    segments: Vec<(String, Vec<u8>)>,
}

impl Setup {
    fn library(&self) -> String {
        self.folder.path().join("library").display().to_string()
    }

    fn files(&self) -> std::path::PathBuf {
        self.folder.path().join("files")
    }

    fn latemux(&self, config: &str) -> Result<Server, Failure> {
        Ok(Server::latemux(self.folder.path(), &self.library(), ONE_CORE, config, None)?)
    }

    fn nginx(&self) -> Result<Server, Failure> {
        Ok(Server::nginx(self.folder.path(), &self.files(), ONE_CORE, None)?)
    }

    fn wrk(&self) -> Result<Wrk, Failure> {
        Ok(Wrk::new(self.folder.path(), self.segments.iter().map(|(url, _)| url.clone()))?)
    }

    /// Measures latencies at a constant rate, chosen so that the more expensive server uses
    /// [`SHARE`] of its core.
    fn latency(
        &self,
        name: &'static str,
        latemux: &Server,
        nginx: &Server,
        rounds: &[(Cost, Cost)],
    ) -> Result<Row, Failure> {
        let (ours, theirs, _) = costs(rounds, |cost| cost.per_request);
        let rate = (SHARE / ours.max(theirs)).round();
        let urls: Vec<String> = self.segments.iter().map(|(url, _)| url.clone()).collect();
        let ask = |server: &Server| open_loop(self.folder.path(), server.port(), &urls, rate);
        let rounds: Result<Vec<_>, _> =
            (0..LATENCY_ROUNDS).map(|_| Ok((ask(latemux)?, ask(nginx)?))).collect();
        let rounds: Vec<(Latency, Latency)> = rounds.map_err(|error: String| error)?;
        let of = |pick: fn(&(Latency, Latency)) -> f64| median(&rounds.iter().map(pick).collect::<Vec<_>>());
        Ok(Row {
            name,
            what: format!("p99 at {rate} a second, open loop"),
            value: of(|(ours, _)| ours.p99),
            unit: "ms",
            limit: Limit::None,
            note: format!(
                "p50 {:.2}; nginx p50 {:.2}, p99 {:.2}; generator late by {:.2}, {:.2} (p99)",
                of(|(ours, _)| ours.p50),
                of(|(_, theirs)| theirs.p50),
                of(|(_, theirs)| theirs.p99),
                of(|(ours, _)| ours.lag),
                of(|(_, theirs)| theirs.lag),
            ),
            rounds: rounds.iter().map(|(ours, _)| ours.p99).collect(),
        })
    }

    /// Compares every body, and returns the mean number of bytes in a head.
    fn compare(&self, server: &Server) -> Result<f64, Failure> {
        let mut client = Client::connect(server.port())?;
        let mut heads = 0;
        for (url, body) in &self.segments {
            let response = client.get(url)?;
            if response.body != *body {
                return Err(format!("{url} is not what it should be").into());
            }
            heads += response.head;
        }
        Ok(heads as f64 / self.segments.len() as f64)
    }
}

/// A server under load, with the number of bytes in its heads.
struct Loaded<'a> {
    server: &'a Server,
    head: f64,
    wrk: &'a Wrk,
}

/// Cost of one run.
struct Cost {
    /// CPU seconds for each GB of bodies.
    per_gb: f64,
    /// CPU seconds for each request.
    per_request: f64,
    /// GB of bodies per second.
    rate: f64,
}

impl Loaded<'_> {
    fn run(&self) -> Result<Cost, Failure> {
        let before = self.server.cpu()?;
        let done = self.wrk.run(self.server.port())?;
        let cpu = self.server.cpu()? - before;
        let gb = (done.bytes - done.requests * self.head) / GB;
        Ok(Cost { per_gb: cpu / gb, per_request: cpu / done.requests, rate: gb / done.seconds })
    }

    /// Runs once as a warm-up, then [`ROUNDS`] times in turn with another server.
    fn against(&self, other: &Loaded<'_>) -> Result<Vec<(Cost, Cost)>, Failure> {
        self.run()?;
        (0..ROUNDS).map(|_| Ok((self.run()?, other.run()?))).collect()
    }
}

fn costs(rounds: &[(Cost, Cost)], of: impl Fn(&Cost) -> f64) -> (f64, f64, Vec<f64>) {
    let (ours, theirs): (Vec<f64>, Vec<f64>) = rounds.iter().map(|(a, b)| (of(a), of(b))).unzip();
    let ratios = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
    (median(&ours), median(&theirs), ratios)
}

/// Makes a row of CPU seconds for each GB, relative to nginx.
fn row(name: &'static str, what: impl Into<String>, limit: Limit, rounds: &[(Cost, Cost)]) -> Row {
    let (ours, theirs, ratios) = costs(rounds, |cost| cost.per_gb);
    let note = format!("{ours:.3} against {theirs:.3} CPU-s/GB");
    Row { name, what: what.into(), value: median(&ratios), unit: "x nginx", limit, note, rounds: ratios }
}

impl Bench {
    pub(crate) fn new() -> Result<Self, Failure> {
        // The folder is on the disk of the media, so that files can be linked.
        Ok(Self { folder: tempfile::tempdir_in(latemux_testmedia::recipe::folder())? })
    }

    fn setup(&self, title: &Title, protocol: Protocol) -> Result<Setup, Failure> {
        let folder = tempfile::tempdir_in(&self.folder)?;
        let library = folder.path().join("library");
        fs::create_dir(&library)?;
        title.link_into(&library)?;
        let segments = title.segments(protocol);
        lay_out(&folder.path().join("files"), &segments)?;
        Ok(Setup { folder, segments })
    }

    fn film(&self, protocol: Protocol) -> Result<Setup, Failure> {
        self.setup(&Title::new("film.mp4", &[media::film()]), protocol)
    }

    /// Starts both servers with the same segments.
    fn both(
        &self,
        name: &'static str,
        what: &str,
        limit: f64,
        setup: &Setup,
        latemux: &Server,
    ) -> Result<Vec<Row>, Failure> {
        let nginx = setup.nginx()?;
        let wrk = setup.wrk()?;
        let ours = Loaded { server: latemux, head: setup.compare(latemux)?, wrk: &wrk };
        let theirs = Loaded { server: &nginx, head: setup.compare(&nginx)?, wrk: &wrk };
        let rounds = ours.against(&theirs)?;
        let latency = setup.latency(name, latemux, &nginx, &rounds)?;
        Ok(vec![row(name, what, Limit::AtMost(limit), &rounds), latency])
    }

    fn warm(&self, name: &'static str, protocol: Protocol, limit: f64) -> Result<Vec<Row>, Failure> {
        let setup = self.film(protocol)?;
        let what = format!("{protocol:?}, range cache warm in memory");
        self.both(name, &what, limit, &setup, &setup.latemux(WARM)?)
    }

    fn tracks(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let setup = self.setup(&Title::new("film", &media::tracks()), Protocol::Dash)?;
        self.both(name, "Dash, a file for each track, warm", 1.0, &setup, &setup.latemux(WARM)?)
    }

    fn local(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let setup = self.film(Protocol::Dash)?;
        self.both(name, "Dash from local files, range cache off", 1.5, &setup, &setup.latemux(OFF)?)
    }

    /// Makes many copies of the film, so that the cache has evicted a segment before it is
    /// requested again.
    fn copies(&self, count: usize) -> Result<Setup, Failure> {
        let mut setup = self.film(Protocol::Dash)?;
        let mut segments = Vec::new();
        let film = std::mem::take(&mut setup.segments);
        for n in 0..count {
            let base = format!("film{n}.mp4");
            fs::hard_link(media::film(), Path::new(&setup.library()).join(&base))?;
            std::os::unix::fs::symlink("film.mp4", setup.files().join(&base))?;
            let renamed = |url: &str| url.replace("film.mp4", &base).replace("/film-", &format!("/film{n}-"));
            segments.extend(film.iter().map(|(url, body)| (renamed(url), body.clone())));
            for (from, to) in
                film.iter().map(|(url, _)| url).zip(segments.iter().rev().take(film.len()).rev())
            {
                let place = |url: &str| setup.files().join(url.trim_start_matches('/'));
                // The copies differ only in their names.
                if !place(&to.0).exists() {
                    fs::hard_link(place(from), place(&to.0))?;
                }
            }
        }
        setup.segments = segments;
        Ok(setup)
    }

    fn cold(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let setup = self.copies(40)?;
        let storage =
            Server::nginx(&setup.folder.path().join("storage"), Path::new(&setup.library()), "1", None)?;
        let source = format!("http://127.0.0.1:{}/", storage.port());
        let config = "[cache]\nmemory = '128MiB'\n[http]\nmax_connections = 4096";
        let latemux = Server::latemux(setup.folder.path(), &source, ONE_CORE, config, None)?;
        self.both(name, "Dash, every byte cold from HTTP storage", 2.5, &setup, &latemux)
    }

    fn disk(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let setup = self.copies(10)?;
        let dir = setup.folder.path().join("cache");
        let config = format!("[cache]\nmemory = '32MiB'\ndir = '{}'\ndisk = '4GiB'", dir.display());
        let latemux = setup.latemux(&config)?;
        // Bytes that arrive faster than the disk writes are not kept. A second pass adds the rest.
        for _ in 0..2 {
            setup.compare(&latemux)?;
        }
        self.both(name, "Dash, range cache warm on disk only", 1.6, &setup, &latemux)
    }

    fn manifests(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let folder = tempfile::tempdir_in(&self.folder)?;
        let library = folder.path().join("library");
        fs::create_dir(&library)?;
        let tiny = media::tiny();
        let long = media::looped(&tiny, 60)?;
        fs::hard_link(&tiny, library.join("short.mp4"))?;
        for n in 1..=8 {
            fs::hard_link(&long, library.join(format!("long{n}.mp4")))?;
        }
        let latemux = Server::latemux(folder.path(), &library.display().to_string(), ONE_CORE, WARM, None)?;
        // The cost of responses of this size, whatever their contents.
        let files = folder.path().join("files");
        fs::create_dir(&files)?;
        let nginx = Server::nginx(folder.path(), &files, ONE_CORE, None)?;
        let eight = "/long,1,2,3,4,5,6,7,8,.mp4.urlset/.mpd";
        let of = |url: &str, what: &str, least: f64| {
            let head = Client::connect(latemux.port())?.get(url)?.body.len();
            // Many short rounds, since small responses cost up to a fifth more whenever the load
            // pauses for a moment.
            let wrk = Wrk { gzip: true, seconds: 1, ..Wrk::new(folder.path(), [url.to_owned()])? };
            let loaded = Loaded { server: &latemux, head: 0.0, wrk: &wrk };
            loaded.run()?;
            let done = wrk.run(latemux.port())?;
            let mut body = String::new();
            while (body.len() as f64) < done.bytes / done.requests - NGINX_HEAD {
                body.push('x');
            }
            fs::write(files.join("response"), body)?;
            let plain = Wrk { seconds: 1, ..Wrk::new(&files, ["/response".to_owned()])? };
            let static_file = Loaded { server: &nginx, head: 0.0, wrk: &plain };
            let mut rounds = Vec::new();
            let mut files = Vec::new();
            for _ in 0..3 * ROUNDS {
                rounds.push(1.0 / loaded.run()?.per_request);
                files.push(1.0 / static_file.run()?.per_request);
            }
            let note =
                format!("{head} B of text; nginx sends a file of as many bytes {:.0} times", median(&files));
            let what = what.to_owned();
            let value = median(&rounds);
            let limit = Limit::AtLeast(least);
            Ok::<_, Failure>(Row { name, what, value, unit: "per CPU second", limit, note, rounds })
        };
        Ok(vec![
            of(eight, "MPD, 8 renditions x 2 h, gzip", 40_000.0)?,
            of("/short.mp4/.mpd", "MPD, 1 rendition x 2 min, gzip", 120_000.0)?,
        ])
    }

    /// Compares segments of one long title with as many segments of short ones: the same bytes, the
    /// same memory.
    fn length(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        const TIMES: u32 = 120;
        let folder = tempfile::tempdir_in(&self.folder)?;
        let library = folder.path().join("library");
        fs::create_dir(&library)?;
        let short = media::short();
        let long = Title::new("long.mp4", &[media::looped(&short, TIMES)?]);
        long.link_into(&library)?;
        let of_short = Title::new("short.mp4", std::slice::from_ref(&short)).segments(Protocol::Dash);
        let mut of_shorts = Vec::new();
        for n in 0..TIMES {
            let base = format!("short{n}.mp4");
            fs::hard_link(&short, library.join(&base))?;
            let urls = of_short.iter().map(|(url, body)| {
                (url.replace("short.mp4", &base).replace("/short-", &format!("/short{n}-")), body.clone())
            });
            of_shorts.extend(urls);
        }
        let of_long = long.segments(Protocol::Dash);
        let latemux = Server::latemux(folder.path(), &library.display().to_string(), ONE_CORE, WARM, None)?;
        let [one, other] = [folder.path().join("long"), folder.path().join("shorts")];
        fs::create_dir_all(&one)?;
        fs::create_dir_all(&other)?;
        let wrk =
            |folder: &Path, of: &[(String, Vec<u8>)]| Wrk::new(folder, of.iter().map(|(url, _)| url.clone()));
        let one = wrk(&one, &of_long)?;
        let other = wrk(&other, &of_shorts)?;
        let check = |segments: Vec<(String, Vec<u8>)>| {
            let mut client = Client::connect(latemux.port())?;
            let mut heads = 0;
            for (url, body) in &segments {
                let response = client.get(url)?;
                if response.body != *body {
                    return Err(Failure::from(format!("{url} is not what it should be")));
                }
                heads += response.head;
            }
            Ok(heads as f64 / segments.len() as f64)
        };
        let long = Loaded { server: &latemux, head: check(of_long)?, wrk: &one };
        let shorts = Loaded { server: &latemux, head: check(of_shorts)?, wrk: &other };
        let rounds = long.against(&shorts)?;
        let (ours, theirs, _) = costs(&rounds, |cost| cost.per_request * 1e6);
        // Segments of a repeated title differ in size, so costs are compared by byte.
        let (_, _, ratios) = costs(&rounds, |cost| cost.per_gb);
        Ok(vec![Row {
            name,
            what: "4 h against 120 titles of 2 min".to_owned(),
            value: median(&ratios),
            unit: "x 2 min",
            limit: Limit::AtMost(1.1),
            note: format!("{ours:.0} against {theirs:.0} us a segment"),
            rounds: ratios,
        }])
    }

    fn connections(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let setup = self.film(Protocol::Dash)?;
        let latemux = setup.latemux(WARM)?;
        let head = setup.compare(&latemux)?;
        let few = setup.wrk()?;
        let many = Wrk { connections: 1000, seconds: 4, ..setup.wrk()? };
        let rounds = Loaded { server: &latemux, head, wrk: &many }.against(&Loaded {
            server: &latemux,
            head,
            wrk: &few,
        })?;
        let (ours, theirs, ratios) = costs(&rounds, |cost| cost.per_gb);
        Ok(vec![Row {
            name,
            what: "1,000 connections against 16".to_owned(),
            value: median(&ratios),
            unit: "x 16",
            limit: Limit::AtMost(1.25),
            note: format!("{ours:.3} against {theirs:.3} CPU-s/GB"),
            rounds: ratios,
        }])
    }

    fn idle(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let setup = self.film(Protocol::Dash)?;
        let latemux =
            setup.latemux(&format!("{WARM}\n[http]\nmax_connections = 20000\nheader_timeout = '10m'"))?;
        let limit = Command::new("prlimit")
            .args(["--nofile=20000:20000", "--pid", &latemux.id().to_string()])
            .status()?;
        setup.compare(&latemux)?;
        let (url, _) = setup.segments.iter().min_by_key(|(_, body)| body.len()).ok_or("no segments")?;
        let before = latemux.memory()?;
        let mut open = Vec::new();
        while open.len() < 10_000 {
            let Ok(mut client) = Client::connect(latemux.port()) else { break };
            client.get(url)?;
            open.push(client);
        }
        let grown = (latemux.memory()? - before) / open.len() as f64;
        let note = format!(
            "{} connections, each after one segment{}",
            open.len(),
            if limit.success() { "" } else { ", few descriptors" }
        );
        let what = "idle keep-alive connections".to_owned();
        Ok(vec![Row {
            name,
            what,
            value: grown,
            unit: "KiB each",
            limit: Limit::AtMost(16.0),
            note,
            rounds: vec![grown],
        }])
    }

    /// Measures two cores. On a machine with only two, the load takes the processor time that the
    /// server would gain.
    fn cores(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let setup = self.film(Protocol::Dash)?;
        let one = setup.latemux(WARM)?;
        let two = Server::latemux(setup.folder.path(), &setup.library(), "0,1", WARM, None)?;
        let wrk = setup.wrk()?;
        let one_head = setup.compare(&one)?;
        let two_head = setup.compare(&two)?;
        let rounds = Loaded { server: &two, head: two_head, wrk: &wrk }.against(&Loaded {
            server: &one,
            head: one_head,
            wrk: &wrk,
        })?;
        let (ours, theirs, ratios) = costs(&rounds, |cost| cost.rate);
        let (_, _, costs) = costs(&rounds, |cost| cost.per_gb);
        let note = format!(
            "{ours:.2} against {theirs:.2} GB/s with the load on one of both: it is what bounds; CPU per GB x {:.2}",
            median(&costs)
        );
        let what = "two cores against one, throughput".to_owned();
        Ok(vec![Row {
            name,
            what,
            value: median(&ratios),
            unit: "x one core",
            limit: Limit::None,
            note,
            rounds: ratios,
        }])
    }

    fn tls(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        let setup = self.film(Protocol::Dash)?;
        let folder = setup.folder.path();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let certificate = Certificate { cert: folder.join("cert.pem"), key: folder.join("key.pem") };
        fs::write(&certificate.cert, made.cert.pem())?;
        fs::write(&certificate.key, made.signing_key.serialize_pem())?;
        // The client's list decides, so both servers use the same cipher.
        let settings = folder.join("openssl.cnf");
        fs::write(
            &settings,
            "openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1.3\n\
             Ciphersuites = TLS_AES_128_GCM_SHA256\n",
        )?;
        // Bodies are compared without TLS. They are the same.
        let plain = setup.latemux(WARM)?;
        let nginx = setup.nginx()?;
        let our_head = setup.compare(&plain)?;
        let their_head = setup.compare(&nginx)?;
        drop((plain, nginx));
        let latemux = Server::latemux(folder, &setup.library(), ONE_CORE, WARM, Some(&certificate))?;
        let nginx = Server::nginx(folder, &setup.files(), ONE_CORE, Some(&certificate))?;
        let wrk = Wrk { tls: Some(settings), ..setup.wrk()? };
        let rounds = Loaded { server: &latemux, head: our_head, wrk: &wrk }.against(&Loaded {
            server: &nginx,
            head: their_head,
            wrk: &wrk,
        })?;
        Ok(vec![row(name, "Dash, TLS 1.3 AES-128-GCM, warm", Limit::AtMost(1.15), &rounds)])
    }
}
