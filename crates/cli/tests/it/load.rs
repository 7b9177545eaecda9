//! `load` and `report` against `serve`: players get the right bytes, and both sides count the same.

use crate::{
    client::get,
    crawl::NATIVE,
    server::{Server, samples},
    tools::{latemux, said},
};
use latemux_load::results::Run;
use latemux_testmedia::process::tool;
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

fn manifests(server: SocketAddr, title: &str) -> Vec<String> {
    NATIVE.iter().map(|manifest| format!("http://{server}/{title}/{manifest}")).collect()
}

/// Runs `load` and reads its results.
fn load(urls: &[String], more: &[&str], out: &Path) -> Run {
    let urls = urls.iter().map(String::as_str);
    let out_text = out.to_str().expect("UTF-8");
    let args: Vec<&str> =
        ["load", "--out", out_text].into_iter().chain(urls).chain(more.iter().copied()).collect();
    let output = latemux(&args);
    assert!(output.status.success(), "{}", said(&output));
    Run::read(out).expect("results")
}

/// Returns the responses and body bytes that the server's metrics count.
fn counted(server: &Server) -> (u64, u64) {
    let metrics = get(server.admin.expect("it says where"), "/metrics");
    let sum = |name: &str| -> u64 {
        let lines = metrics.text().lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    (sum("latemux_responses_total{"), sum("latemux_response_bytes_total{"))
}

#[test]
fn players_of_every_protocol_find_no_errors() {
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let mut urls = manifests(server.address, "harbour");
    urls.extend(manifests(server.address, "lighthouse.mp4"));
    urls.extend(manifests(server.address, "ferry.mp4"));
    let players = (urls.len() * 2).to_string();
    let run = load(&urls, &["--sequence", "--abr", "random", "--players", &players], folder.path());
    let results = &run.whole.results;
    assert_eq!(results.players.finished.to_string(), players);
    for class in
        ["dash.video", "hls.muxed", "hls.video", "hls.audio", "hls.init", "smooth.audio", "hds.muxed"]
    {
        assert!(results.requests[class].count > 0, "{class}");
    }
    let total = results.total();
    assert_eq!((total.count, total.bytes), counted(&server));
}

#[test]
fn a_ramp_to_a_thousand_players_without_an_error() {
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let urls = manifests(server.address, "harbour");
    let more = ["--players", "1000", "--ramp", "5s", "--duration", "8s", "--abr", "fixed:min"];
    let run = load(&urls, &more, folder.path());
    let results = &run.whole.results;
    let players = &run.whole.results.players;
    assert_eq!((players.started, players.failed, players.stopped), (1000, 0, 1000));
    let total = results.total();
    assert_eq!((total.count, total.bytes), counted(&server));
    // How many segments follow the manifest depends on the speed of this machine.
    assert!(total.count > 1000, "{}", total.count);
    let came: u64 = results.seconds.iter().map(|second| second.came).sum();
    assert_eq!(came, 1000);
}

#[test]
fn two_shards_add_up_to_the_unsharded_run() {
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    let two = folder.path().join("two");
    let urls = manifests(server.address, "harbour");
    let more = ["--sequence", "--players", "12", "--abr", "random", "--seed", "7"];
    let whole = load(&urls, &more, &one);
    let half = load(&urls, &[&more[..], &["--shard", "1/2"]].concat(), &two);
    assert!(!half.whole.complete, "half a run counts as complete");
    let report = latemux(&["report", two.to_str().unwrap()]);
    assert!(
        !report.status.success() && said(&report).contains("1 of 2 parts are missing"),
        "{}",
        said(&report)
    );
    let both = load(&urls, &[&more[..], &["--shard", "0/2"]].concat(), &two);
    assert!(both.whole.complete);
    let counts = |run: &Run| -> Vec<(String, u64, u64, u64)> {
        let requests = run.whole.results.requests.iter();
        requests.map(|(class, r)| (class.clone(), r.count, r.bytes, r.latency.count())).collect()
    };
    assert_eq!(counts(&both), counts(&whole));
    assert_eq!(both.whole.results.players.finished, 12);
    let report = latemux(&["report", one.to_str().unwrap(), two.to_str().unwrap()]);
    assert!(report.status.success(), "{}", said(&report));
    assert_eq!(said(&report).matches("players: 12 started, 12 finished").count(), 2, "{}", said(&report));
}

/// Returns the columns that do not depend on the speed of this machine: run, class, requests,
/// failed and bytes.
fn counted_in(table: &Path, run: &Path) -> Vec<String> {
    let text = fs::read_to_string(table).unwrap();
    let start = format!("{},", run.display());
    let rows = text.lines().filter_map(|row| row.strip_prefix(&start));
    rows.map(|row| row.split(',').take(4).collect::<Vec<_>>().join(",")).collect()
}

#[test]
fn parts_that_start_together_add_up_to_the_unsharded_run() {
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    let three = folder.path().join("three");
    let urls = manifests(server.address, "harbour");
    let options = ["--sequence", "--players", "12", "--abr", "random", "--seed", "9", "--ramp", "300ms"];
    #[expect(clippy::disallowed_methods, reason = "the parts of a run agree on a date")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start = now + Duration::from_secs(2);
    let part = |shard: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.arg("load").args(&urls).args(options).arg("--out").arg(&three);
        command.args(["--shard", shard, "--start-at", &format!("{:.3}", start.as_secs_f64())]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let running = [part("0/3"), part("1/3")];
    // Meanwhile, the same run in one part.
    let whole = load(&urls, &options, &one);
    for child in running {
        let output = child.wait_with_output().unwrap();
        // On a busy machine they may start late, which they report.
        let in_time = said(&output).contains("starting in ") != said(&output).contains(" s late");
        assert!(output.status.success() && in_time, "{}", said(&output));
    }
    let run = Run::read(&three).unwrap();
    let started = run.whole.started;
    let meant = u64::try_from(start.as_millis()).unwrap();
    // The earlier start of both: neither began before the agreed time.
    assert!(started >= meant, "{started} for {meant}");
    assert!(!run.whole.complete && run.whole.results.players.finished == 8);
    // The third part starts after the others have ended.
    let output = part("2/3").wait_with_output().unwrap();
    assert!(output.status.success() && said(&output).contains(" s late"), "{}", said(&output));

    let output = latemux(&["report", one.to_str().unwrap(), three.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let table = one.join("requests.csv");
    let expected = counted_in(&table, &one);
    assert!(expected.len() > 8, "{expected:?}");
    assert_eq!(counted_in(&table, &three), expected);
    let run = Run::read(&three).unwrap();
    assert!(run.whole.complete && run.whole.results.players.finished == 12);
    let histograms = |run: &Run| -> Vec<u64> {
        let requests = run.whole.results.requests.values();
        requests.flat_map(|class| [class.latency.count(), class.first_byte.count()]).collect()
    };
    assert_eq!(histograms(&run), histograms(&whole));
    let came = |run: &Run| run.whole.results.seconds.iter().map(|second| second.came).sum::<u64>();
    assert_eq!((came(&run), came(&whole)), (12, 12));
    // The server counted the same numbers, and the same for both.
    let (requests, bytes) = counted(&server);
    let total = run.whole.results.total();
    assert_eq!((requests, bytes), (2 * total.count, 2 * total.bytes));
}

#[test]
fn a_part_waits_for_its_start() {
    let folder = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the parts of a run agree on a date")]
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_hours(1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    // No server listens there, so a run that has begun ends at once.
    command.args(["load", "http://127.0.0.1:1/.mpd", "--out"]).arg(folder.path());
    command.args(["--start-at", &format!("{:.3}", start.as_secs_f64())]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("starting in 3"), "{line}");
}

#[test]
fn one_url_is_requested_as_ab_does() {
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/harbour/.mpd", server.address);
    let run = load(&[url], &["--single", "--concurrency", "10", "--requests", "200"], folder.path());
    let single = &run.whole.results.requests["single"];
    assert_eq!((single.count, single.bytes), counted(&server));
    assert_eq!(single.count, 200);
}

#[test]
fn several_urls_are_requested_in_turn() {
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let urls = ["harbour/.mpd", "lighthouse.mp4/.mpd", "harbour/Manifest"]
        .map(|path| format!("http://{}/{path}", server.address));
    let lengths: Vec<u64> = ["harbour/.mpd", "lighthouse.mp4/.mpd", "harbour/Manifest"]
        .map(|path| get(server.address, &format!("/{path}")).body.len() as u64)
        .to_vec();
    // 31 requests: the first URL is requested once more than the others, by any of the four
    // workers.
    let more = ["--single", "--concurrency", "4", "--rate", "500", "--requests", "31"];
    let run = load(&urls, &more, folder.path());
    let single = &run.whole.results.requests["single"];
    assert_eq!((single.count, single.bytes), (31, 10 * lengths.iter().sum::<u64>() + lengths[0]));
}

/// Starts a server that sends the same few bytes for every request, with a thread for each
/// connection. It needs far less processor time than its client.
fn terse_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|read| read > 0)
                    && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok()
                {
                }
            });
        }
    });
    address
}

#[test]
fn a_saturated_generator_is_reported() {
    if tool("taskset").is_none() {
        return;
    }
    let url = format!("http://{}/", terse_server());
    let mut command = Command::new("taskset");
    command.args(["-c", "0", env!("CARGO_BIN_EXE_latemux"), "load", &url, "--single"]);
    let output = command.args(["--concurrency", "64", "--duration", "3s"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    // The client uses all of one core, or waits for it, since there is always a response to read.
    assert!(said(&output).contains("note: the load generator was the limit"), "{}", said(&output));
}

#[test]
fn errors_are_one_line_and_an_exit_code() {
    let server = Server::start(&samples(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("file"), "").unwrap();
    fs::write(at("trace"), "5 800k").unwrap();
    let mpd = format!("http://{}/harbour/.mpd", server.address);
    let gone = format!("http://{}/gone/.mpd", server.address);
    // A port whose server is gone.
    let closed = Server::start(&samples(), &[], &[]);
    let refused = format!("http://{}/harbour/.mpd", closed.address);
    closed.stop();
    let cases: [(&[&str], &str, bool); 9] = [
        (&[&gone], "status_404", true),
        (&[&refused], "connection_refused", true),
        (&[&mpd, "--abr", "best"], "--abr", false),
        (&[&mpd, "--abr", &format!("trace:{}", at("trace"))], "times must start at 0", false),
        (&[&mpd, "--abr", "trace:/nonexistent"], "/nonexistent", false),
        (&[&mpd, "--out", &at("file")], "file", false),
        (&["ftp://a/b"], "neither http nor https", false),
        (&["--single", &mpd], "--requests or --duration", false),
        (&[&mpd, "--start-at", "soon"], "--start-at", false),
    ];
    for (args, word, ran) in cases {
        let output = latemux(&[&["load"], args].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(said(&output).contains(word), "{args:?}: {}", said(&output));
        let lines = String::from_utf8_lossy(&output.stderr).lines().count();
        assert_eq!((lines, output.stdout.is_empty()), (1, !ran), "{args:?}: {}", said(&output));
    }
    let report = latemux(&["report", &at("")]);
    assert!(!report.status.success() && said(&report).contains("no results"), "{}", said(&report));
}
