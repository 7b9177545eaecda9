//! Options of `load` besides players and requests: lists of URLs, steps, metrics, chunks; and the
//! comparison of runs.

use crate::{
    server::{Server, samples},
    tools::{latemux, said},
};
use latemux_load::results::Run;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
};

/// Runs `load` and reads its results.
fn load(args: &[&str], out: &Path) -> Run {
    let output = latemux(&[&["load", "--out", out.to_str().unwrap()], args].concat());
    assert!(output.status.success(), "{}", said(&output));
    Run::read(out).unwrap()
}

#[test]
fn results_keep_the_metrics_of_the_server_and_the_usage_of_machines() {
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0"], &[]);
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("urls");
    let paths = ["harbour/.mpd", "harbour/.m3u8", "lighthouse.mp4/.mpd"];
    let lines: Vec<String> = paths.map(|path| format!("http://{}/{path}", server.address)).to_vec();
    fs::write(&list, format!("# three manifests\n{}\n", lines.join("\n"))).unwrap();
    let metrics = format!("http://{}/metrics", server.admin.unwrap());
    let args = ["--single", "--list", list.to_str().unwrap(), "--requests", "60", "--metrics", &metrics];
    let run = load(&args, &folder.path().join("run")).whole;
    let grown: f64 = run.counters[&metrics]
        .grown()
        .filter(|(sample, _)| sample.starts_with("latemux_responses_total{"))
        .map(|(_, growth)| growth)
        .sum();
    assert_eq!((run.results.total().count, grown), (60, 60.0));
    assert!(run.plan["list"].starts_with("3 URLs, xxh3 "), "{:?}", run.plan);
    assert_eq!((run.connections, run.hosts.len()), (1, 1));
    let record = run.hosts.values().next().unwrap();
    assert!(record.cores > 0 && !record.samples.is_empty(), "{record:?}");
    // The run takes less than a second, so that its only sample is the one at its end.
    let report = latemux(&["report", folder.path().join("run").to_str().unwrap()]);
    assert!(report.status.success(), "{}", said(&report));
    let table = |name: &str| fs::read_to_string(folder.path().join("run").join(name)).unwrap();
    assert!(table("counters.csv").contains("latemux_responses_total{"), "{}", table("counters.csv"));
    assert!(table("hosts.csv").lines().count() >= 2 && table("interfaces.csv").contains(",lo,"));
}

#[test]
fn metrics_that_need_a_token_are_read_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "a-token-of-the-admin-address\n").unwrap();
    let token = token.to_str().unwrap();
    let config = folder.path().join("latemux.toml");
    fs::write(&config, format!("admin_token_file = {token:?}\n")).unwrap();
    let flags = ["--admin", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let server = Server::start(&samples(), &flags, &[]);
    let url = format!("http://{}/harbour/.mpd", server.address);
    let metrics = format!("http://{}/metrics", server.admin.unwrap());
    let args = ["load", &url, "--single", "--requests", "1", "--metrics", &metrics];
    let refused = latemux(&args);
    assert!(!refused.status.success() && said(&refused).contains("status_401"), "{}", said(&refused));
    let with_token = [&args[..], &["--metrics-token-file", token]].concat();
    let read = latemux(&with_token);
    assert!(read.status.success(), "{}", said(&read));
}

#[test]
fn a_run_does_not_start_without_the_metrics_it_is_to_keep() {
    let server = Server::start(&samples(), &[], &[]);
    let url = format!("http://{}/harbour/.mpd", server.address);
    let missing = format!("http://{}/metrics", server.address);
    let output = latemux(&["load", &url, "--single", "--requests", "1", "--metrics", &missing]);
    let text = said(&output);
    assert!(!output.status.success() && output.stdout.is_empty(), "{text}");
    assert!(text.contains("--metrics: status_404") && text.lines().count() == 1, "{text}");
}

#[test]
fn steps_have_results_of_their_own() {
    let server = Server::start(&samples(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/harbour/.mpd", server.address);
    let args = [&url, "--single", "--step", "1/300ms", "--step", "3/400ms", "--ramp", "100ms"];
    let run = load(&args, folder.path()).whole;
    let steps: Vec<_> = run.results.steps.iter().map(|step| (step.level, step.from, step.until)).collect();
    assert_eq!(steps, [(1, 100, 300), (3, 400, 700)]);
    let counted: u64 = run.results.steps.iter().map(|step| step.requests.count).sum();
    assert!(counted > 0 && counted <= run.results.total().count, "{:?}", run.results.steps);
    assert_eq!((run.plan["steps"].as_str(), run.connections), ("1/300ms 3/400ms", 3));
    let report = latemux(&["report", folder.path().to_str().unwrap()]);
    assert!(said(&report).contains("\nsteps "), "{}", said(&report));
    assert_eq!(fs::read_to_string(folder.path().join("steps.csv")).unwrap().lines().count(), 3);
}

#[test]
fn repeats_are_compared_with_those_of_another_run() {
    let server = Server::start(&samples(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/harbour/.mpd", server.address);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["a1", "a2", "b1", "b2"] {
        let connections: &[&str] = if name.starts_with('a') { &[] } else { &["--new-connections"] };
        let args = [&[url.as_str(), "--single", "--requests", "50"], connections].concat();
        let run = load(&args, Path::new(&at(name))).whole;
        assert_eq!(run.connections, if connections.is_empty() { 1 } else { 50 });
    }
    let output = latemux(&["report", &at("a1"), &at("a2"), "--against", &at("b1"), &at("b2")]);
    let text = said(&output);
    assert!(output.status.success() && text.contains("mean of repeats ± 95 %"), "{text}");
    let table = fs::read_to_string(folder.path().join("a1/comparison.csv")).unwrap();
    let rate = table.lines().find(|line| line.starts_with("requests/s,2,")).unwrap();
    assert!(rate.split(',').count() == 12 && !rate.ends_with(','), "{rate}");
    let mixed = latemux(&["report", "--repeats", &at("a1"), &at("b1")]);
    assert!(!mixed.status.success() && said(&mixed).contains("is no repeat of"), "{}", said(&mixed));
    assert_eq!(said(&mixed).lines().count(), 1);
    let one_side = latemux(&["report", "--repeats", &at("a1"), &at("a2")]);
    assert!(one_side.status.success() && said(&one_side).contains("requests/s"), "{}", said(&one_side));
}

#[test]
fn players_fetch_chunks_from_the_server_beside_plain_downloads() {
    let server = Server::start(&samples(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    for manifest in [".mpd", ".m3u8", "Manifest", ".f4m"] {
        let out = folder.path().join(manifest);
        let url = format!("http://{}/harbour/{manifest}", server.address);
        let args = [&url, "--sequence", "--streams", "3", "--chunk", "20kB", "--competing", "2"];
        let run = load(&args, &out).whole;
        let streams = &run.results.streams;
        assert!(streams.requests > streams.resources && streams.resources > 3, "{manifest}: {streams:?}");
        assert_eq!((streams.duplicated, streams.truncated, streams.failed), (0, 0, 0), "{manifest}");
        assert_eq!(run.results.competing.downloads, 2);
        let report = latemux(&["report", out.to_str().unwrap()]);
        assert!(said(&report).contains("streams: ") && said(&report).contains("fairness ratio"));
        assert_eq!(fs::read_to_string(out.join("streams.csv")).unwrap().lines().count(), 2);
    }
}

#[test]
fn players_without_streams_are_compared_with_plain_downloads() {
    let server = Server::start(&samples(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let manifest = format!("http://{}/harbour/.mpd", server.address);
    let segment = format!("http://{}/harbour/.m3u8", server.address);
    for (name, args) in [
        ("players", &[manifest.as_str(), "--sequence", "--competing", "2"][..]),
        ("single", &[&segment, "--single", "--requests", "500", "--competing", "2"]),
    ] {
        let out = folder.path().join(name);
        let run = load(args, &out).whole;
        assert_eq!((run.results.competing.downloads, run.results.streams.requests), (2, 0), "{name}");
        assert_eq!(run.plan["competing"], "2");
        let report = said(&latemux(&["report", out.to_str().unwrap()]));
        let line = report.lines().find(|line| line.starts_with("competing downloads: 2, with "));
        assert!(line.is_some_and(|line| line.ends_with(" (1 is fair)")), "{report}");
        assert!(run.results.fairness().is_some() && !report.contains("fairness ratio -"), "{report}");
        assert_eq!(fs::read_to_string(out.join("streams.csv")).unwrap().lines().count(), 2);
    }
}

#[test]
fn http2_that_the_server_offers_is_noted_with_the_number_of_connections() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let at = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let certificate = at("cert.pem", made.cert.pem());
    let key = at("key.pem", made.signing_key.serialize_pem());
    let secure = Server::start(&samples(), &["--tls-cert", &certificate, "--tls-key", &key], &[]);
    let plain = Server::start(&samples(), &[], &[]);
    let flags = "--sequence --streams 3 --chunk 20kB --insecure";
    let summary = |url: &str, flags: &str| {
        let args: Vec<&str> = ["load", url].into_iter().chain(flags.split(' ')).collect();
        let output = latemux(&args);
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    let url = format!("https://localhost:{}/harbour/.mpd", secure.address.port());
    let text = summary(&url, flags);
    assert!(text.contains("\nstreams: 3 for each player over HTTP/1.1, 3 connections opened; "), "{text}");
    let note = "note: the server offers HTTP/2, over which the 3 streams of a player would share one connection; these streams used HTTP/1.1 and 3 connections\n";
    assert!(text.contains(note), "{text}");
    let text = summary(&url, "--sequence --insecure");
    assert!(!text.contains("HTTP/2"), "without streams, there is nothing to share: {text}");
    let text = summary(&format!("http://{}/harbour/.mpd", plain.address), flags);
    assert!(!text.contains("HTTP/2"), "only TLS offers it: {text}");
}

#[test]
fn players_ask_for_the_most_important_samples_first() {
    let server = Server::start(&samples(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/harbour/.mpd", server.address);
    let bytes = |flags: &[&str]| {
        let run = load(&[&[url.as_str(), "--sequence"], flags].concat(), folder.path()).whole;
        (run.plan.get("order").cloned(), run.results.requests["dash.video"].bytes)
    };
    let (none, plain) = bytes(&[]);
    let (order, ordered) = bytes(&["--order", "priority"]);
    assert_eq!((none, order.as_deref()), (None, Some("priority")));
    // The order of importance takes more runs in each trun.
    assert!(ordered > plain, "{ordered} and {plain} bytes");
}

#[test]
fn a_server_without_ranges_is_named_in_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        }
    });
    let url = format!("http://{address}/x");
    let output = latemux(&["load", &url, "--single", "--requests", "1", "--streams", "2"]);
    assert!(!output.status.success());
    let named = "failed: wrong_range 1: ";
    assert!(said(&output).contains(named), "{}", said(&output));
    assert!(said(&output).contains("does not answer byte ranges, which chunks need"), "{}", said(&output));
}

#[test]
fn options_that_make_no_sense_are_refused_in_one_line() {
    let url = "http://127.0.0.1:1/x";
    let cases: [(&[&str], &str); 13] = [
        (&["--list", "/nonexistent"], "--list: cannot read /nonexistent"),
        (&[url, "--zipf=-1"], "--zipf"),
        (&[url, "--zipf", "NaN"], "--zipf"),
        (&[url, "--step", "5/1s", "--ramp", "1s"], "--ramp must be shorter than each --step"),
        (&[url, "--single", "--requests", "1", "--ramp", "1s"], "--ramp only with --step"),
        (&[url, "--metrics", "x"], "--metrics: x is not a URL"),
        (&[url, "--watch-host", "a/b"], "--watch-host: not HOST:PORT"),
        (&[url, "--streams", "0"], "--streams must be from 1 to 64"),
        (&[url, "--streams", "65"], "--streams must be from 1 to 64"),
        (&[url, "--streams", "2", "--chunk", "0"], "--chunk must be from 1"),
        (&[url, "--streams", "2", "--chunk", "1GB"], "--chunk must be from 1"),
        (
            &[url, "--streams", "2", "--single", "--requests", "1", "--on-deadline", "truncate"],
            "--on-deadline truncate",
        ),
        (&[url, "--single"], "or a --step"),
    ];
    for (args, word) in cases {
        let output = latemux(&[&["load"], args].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.contains(word) && text.lines().count() == 1, "{args:?}: {text}");
    }
    // The parser of arguments refuses these.
    for args in [
        &[url, "--step", "5"][..],
        &[url, "--step", "5/0s"],
        &[url, "--chunk", "5"],
        &[url, "--streams", "2", "--chunk-timeout", "0s"],
        &[url, "--streams", "2", "--new-connections"],
        &[url, "--order", "random"],
        &[url, "--single", "--requests", "1", "--order", "priority"],
    ] {
        assert_eq!(latemux(&[&["load"], args].concat()).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn the_model_of_streams_is_printed_as_text_json_and_csv() {
    let flags = "model streams --bandwidth 8192kbit/s --rtt 100ms --queue 200ms --loss 0.1% --chunk 160kB --streams 5 --gap 210ms";
    let printed = |more: &[&str]| {
        let args: Vec<&str> = flags.split(' ').chain(more.iter().copied()).collect();
        let output = latemux(&args);
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    assert!(printed(&[]).contains("r_rrloss") && printed(&[]).contains("MMSys 2011"));
    let json: serde_json::Value = serde_json::from_str(&printed(&["--json"])).unwrap();
    assert_eq!(json["parameters"]["streams"], 5.0);
    assert_eq!(printed(&["--sweep", "rtt=0..200ms:10ms"]).lines().count(), 22);
}

#[test]
fn parameters_without_a_model_are_refused_in_one_line() {
    let flags = "--bandwidth 8192kbit/s --rtt 100ms --queue 200ms --chunk 160kB --streams 5";
    let refused = |flags: &str| {
        let args: Vec<&str> = ["model", "streams"].into_iter().chain(flags.split(' ')).collect();
        let output = latemux(&args);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (given, other, message) in [
        ("--queue 200ms", "--queue 0s", "--queue must not be 0: the streams share it"),
        ("--chunk 160kB", "--chunk 0", "--chunk must not be 0"),
        ("--streams 5", "--streams 0", "--streams must not be 0"),
        ("--streams 5", "--streams 10001", "--streams must be at most 10000"),
        ("--streams 5", "--streams 5 --sweep streams=0..5:1", "--streams must not be 0"),
        ("--streams 5", "--streams 5 --sweep chunk=0..160kB:10kB", "--chunk must not be 0"),
        ("--streams 5", "--streams 5 --sweep bandwidth=0..8Mbit/s:1Mbit/s", "--bandwidth must not be 0"),
    ] {
        let (code, text) = refused(&flags.replace(given, other));
        assert_eq!((code, text), (Some(1), format!("latemux: {message}\n")), "{other}");
    }
    // The parser of arguments refuses a bandwidth of 0, and names the flag.
    for rate in ["0", "0kbit/s"] {
        let (code, text) = refused(&flags.replace("8192kbit/s", rate));
        assert_eq!(code, Some(2), "{rate}: {text}");
        let message = format!("'{rate}' for '--bandwidth <RATE>': not a bit rate such as 8192kbit/s");
        assert!(text.contains(&message), "{rate}: {text}");
    }
}
