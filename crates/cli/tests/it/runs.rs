//! The results of `load` in folders and buckets, also when the run is stopped.

use crate::{
    server::{Server, samples},
    store::S3,
    tools::said,
};
use latemux_load::results::Run;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc,
};

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", S3::ACCESS), ("AWS_SECRET_ACCESS_KEY", S3::SECRET)];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(args).envs(KEYS).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the only line on standard error.
fn only_error_line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn parts_are_merged_from_a_bucket() {
    let empty = tempfile::tempdir().unwrap();
    fs::write(empty.path().join("other"), "").unwrap();
    let Some(s3) = S3::start(empty.path().to_str().unwrap()) else { return };
    let server = Server::start(&samples(), &[], &[]);
    let endpoint = s3.endpoint();
    let more = ["--s3-endpoint", &endpoint, "--s3-region", "us-east-1"];
    let url = format!("http://{}/harbour/.m3u8", server.address);
    let load = |shard: &str, out: &str| {
        let args = ["load", &url, "--sequence", "--players", "5", "--shard", shard, "--out", out];
        command(&[&args, &more[..]].concat()).output().unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    let report = |more_args: &[&str]| {
        command(&[&["report", "s3://library/runs/a"], more_args, &more[..]].concat()).output().unwrap()
    };
    assert!(only_error_line(&report(&["-o", here])).contains("s3://library/runs/a: contains no results"));
    let first = load("0/2", "s3://library/runs/a/");
    assert!(first.status.success(), "{}", said(&first));
    let half = report(&["-o", here]);
    assert!(said(&half).contains("1 of 2 parts are missing"), "{}", said(&half));
    assert!(only_error_line(&half).contains("1 of 1 runs are partial"));
    assert!(load("1/2", "s3://library/runs/a").status.success());
    assert!(only_error_line(&report(&[])).contains("--output is needed"));
    let both = report(&["-o", here]);
    assert!(
        both.status.success() && said(&both).contains("players: 5 started, 5 finished"),
        "{}",
        said(&both)
    );
    // The same run in one part, with its results in a folder.
    assert!(load("0/1", here).status.success());
    let compared = report(&[here]);
    assert!(compared.status.success(), "{}", said(&compared));
    let table = fs::read_to_string(folder.path().join("requests.csv")).unwrap();
    let rows = |run: &str| -> Vec<String> {
        let start = format!("{run},");
        let rows = table.lines().filter_map(|row| row.strip_prefix(&start));
        rows.map(|row| row.split(',').take(4).collect::<Vec<_>>().join(",")).collect()
    };
    assert_eq!(rows("s3://library/runs/a"), rows(here));
    assert_eq!(rows(here).len(), 4, "{table}");
    // Without a place for its results, a run does not start.
    let refused = load("0/1", "s3://nobody/a");
    assert!(
        only_error_line(&refused).contains("cannot write s3://nobody/a/part-0-of-1.json"),
        "{}",
        said(&refused)
    );
    assert!(refused.stdout.is_empty());
    let read_only = load("0/1", "https://127.0.0.1:1/a");
    assert!(only_error_line(&read_only).contains("cannot be written"), "{}", said(&read_only));
}

/// Starts a server that responds to three requests, and to the others when the sender is dropped.
/// It sends a message for each request.
fn server_with_late_responses() -> (String, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (request_sent, requests) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let mut count = 0;
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let _ = request_sent.send(());
            count += 1;
            if count > 3 {
                let _ = released.recv();
            }
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    (format!("http://{address}/x"), requests, release)
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_stopped_run_is_partial() {
    let folder = tempfile::tempdir().unwrap();
    let report = |out: &Path| command(&["report", out.to_str().unwrap()]).output().unwrap();
    for name in ["-INT", "-TERM", "-KILL"] {
        let out = folder.path().join(name);
        let (url, heard, may) = server_with_late_responses();
        let child =
            command(&["load", "--single", &url, "--requests", "1000000000", "--out", out.to_str().unwrap()])
                .spawn()
                .unwrap();
        (0..4).for_each(|_| heard.recv().unwrap());
        signal(name, child.id());
        // Responses in flight are waited for.
        drop(may);
        let output = child.wait_with_output().unwrap();
        let run = Run::read(&out).unwrap();
        assert!(!run.whole.complete, "{name}");
        let total = run.whole.results.total();
        if name == "-KILL" {
            // The last results written are from before the first measurement.
            assert_eq!((output.status.code(), total.count), (None, 0));
        } else {
            assert!(only_error_line(&output).contains("stopped: the results are partial"));
            assert!(total.count >= 4 && total.failed() == 0, "{}", said(&output));
            assert_eq!(total.bytes, total.count * 5);
            assert!(String::from_utf8_lossy(&output.stdout).contains("single"), "{}", said(&output));
        }
        let report = report(&out);
        assert!(only_error_line(&report).contains("1 of 1 runs are partial"));
        assert!(said(&report).contains("was stopped early"), "{}", said(&report));
    }
    // Stopped before the agreed start.
    let out = folder.path().join("early");
    let args = ["load", "--single", "http://127.0.0.1:1/", "--requests", "1", "--start-at", "4000000000"];
    let mut child = command(&args).args(["--out", out.to_str().unwrap()]).spawn().unwrap();
    let mut begun = [0; 8];
    child.stdout.as_mut().unwrap().read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"starting");
    signal("-INT", child.id());
    assert!(only_error_line(&child.wait_with_output().unwrap()).contains("stopped before the start"));
    assert!(!Run::read(&out).unwrap().whole.complete);
}

/// A bucket that accepts one object, and does not respond to the next.
#[test]
fn a_run_with_a_silent_bucket_can_be_stopped() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (heard, hears) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for (count, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut head = String::new();
            let mut byte = [0];
            while !head.ends_with("\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(char::from(byte[0]));
            }
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
            });
            let mut body = vec![0; length.unwrap_or(0)];
            let _ = stream.read_exact(&mut body);
            let _ = heard.send(head.lines().next().unwrap_or_default().to_owned());
            if count == 0 {
                let response =
                    b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = stream.write_all(response);
            } else {
                kept.push(stream);
            }
        }
    });
    let server = Server::start(&samples(), &[], &[]);
    let url = format!("http://{}/harbour/.m3u8", server.address);
    let args = ["load", &url, "--sequence", "--out", "s3://b/run", "--s3-endpoint", &endpoint];
    let child = command(&args).args(["--s3-region", "us-east-1"]).spawn().unwrap();
    for _ in 0..2 {
        assert_eq!(hears.recv().unwrap(), "PUT /b/run/part-0-of-1.json HTTP/1.1");
    }
    signal("-INT", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(only_error_line(&output).contains("stopped: the last results are not written"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("hls.video"), "{}", said(&output));
}
