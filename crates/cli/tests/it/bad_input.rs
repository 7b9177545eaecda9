//! `load` and `capture` with faulty servers and disks: they fail with one clear line, and keep
//! their results so far, marked as partial.

use crate::{
    client::get,
    server::{Server, samples},
    tools::{latemux, said},
};
use latemux_testmedia::probe::probe;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc,
};
use url::Url;

/// Starts a server on a free port that handles every connection in the given way. It ends with the
/// test.
fn start_server(
    respond: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let respond = std::sync::Arc::new(respond);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), respond) = (stream, respond.clone()) else { return };
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                    head.push(byte[0]);
                }
                let path = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned();
                let _ = respond(&path, &mut stream);
            });
        }
    });
    address
}

/// Returns the only line on standard error.
fn only_error_line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn faulty_servers_are_reported_in_one_line() {
    let endless = start_server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n#EXTM3U\n")?;
        loop {
            stream.write_all(&[b'#'; 1 << 16])?;
        }
    });
    // One byte at a time, until the client leaves.
    let slow = start_server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n#EXTM3U\n")?;
        stream.read_exact(&mut [0])
    });
    let other = Server::start(&samples(), &[], &[]);
    let elsewhere = format!("http://{}/lighthouse.mp4/.m3u8", other.address);
    let pointing = start_server(move |_, stream| {
        let body = format!("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{elsewhere}\n");
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    });
    let pointing_to_segments = {
        let elsewhere = format!("http://{}/gone.ts", other.address);
        start_server(move |_, stream| {
            let body = format!("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{elsewhere}\n#EXT-X-ENDLIST\n");
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        })
    };
    let closing = start_server(|_, _| Ok(()));
    let babbling = start_server(|_, stream| stream.write_all(b"220 smtp.example ESMTP\r\n"));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.mp4");
    for (address, reason) in [
        (endless.to_string(), "body_too_large"),
        (slow.to_string(), "timeout"),
        (pointing.to_string(), "host_not_allowed"),
        (pointing_to_segments.to_string(), "host_not_allowed"),
        (closing.to_string(), "closed"),
        (babbling.to_string(), "bad_response"),
        // A broadcast address takes no connections, so nothing is sent.
        ("255.255.255.255:80".to_owned(), "unreachable"),
    ] {
        let url = format!("http://{address}/.m3u8");
        let limit = ["--timeout", if reason == "timeout" { "300ms" } else { "30s" }];
        let captured = latemux(&[&["capture", &url, "-o", text(&out)], &limit[..]].concat());
        assert!(only_error_line(&captured).contains(&format!("latemux: {reason}: ")), "{}", said(&captured));
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "{reason}: nothing came that is worth keeping"
        );
        let loaded = latemux(&[&["load", &url], &limit[..]].concat());
        assert!(only_error_line(&loaded).contains(" failed"), "{}", said(&loaded));
        assert!(String::from_utf8_lossy(&loaded.stdout).contains(reason), "{}", said(&loaded));
        if reason == "timeout" {
            assert!(said(&captured).contains("after 300ms") && said(&loaded).contains("after 300ms"));
        }
        if reason == "host_not_allowed" {
            let hint = format!("--allow-host {}", other.address);
            assert!(said(&captured).contains(&hint) && said(&loaded).contains(&hint), "{}", said(&loaded));
        }
    }
    // The media is on another server than the manifest.
    let here = get(other.address, "/lighthouse.mp4/.mpd");
    let base = format!("http://{}/lighthouse.mp4/", other.address);
    let mpd = here.text().replacen("<Period", &format!("<BaseURL>{base}</BaseURL><Period"), 1);
    let below = start_server(move |_, stream| {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{mpd}", mpd.len())
    });
    let url = format!("http://{below}/.mpd");
    assert!(only_error_line(&latemux(&["capture", &url, "-o", text(&out)])).contains("host_not_allowed"));
    let allowed = latemux(&["capture", &url, "-o", text(&out), "--allow-host", &other.address.to_string()]);
    assert!(allowed.status.success() && out.exists(), "{}", said(&allowed));
    let name = other.address.ip().to_string();
    assert!(!latemux(&["load", "--sequence", &url]).status.success());
    let allowed = latemux(&["load", "--sequence", &url, "--allow-host", &name]);
    assert!(allowed.status.success() && said(&allowed).contains("dash.video"), "{}", said(&allowed));
}

/// Runs a script in which `$0` is the binary and `$1` a folder on a new file system of this size in
/// KiB. Returns `None` if no file system may be mounted.
#[expect(clippy::print_stdout, reason = "reports that a test was skipped")]
fn on_a_small_disk(kibibytes: u32, script: &str, more: &[&str]) -> Option<Output> {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o size={kibibytes}k tmpfs \"$1\" 2>/dev/null || exit 99\n{script}");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_latemux"), text(dir.path())])
        .args(more);
    let output = command.stdin(Stdio::null()).output().ok()?;
    if output.status.code() == Some(99) || said(&output).contains("unshare failed") {
        println!("skipped: no file system may be mounted here");
        return None;
    }
    Some(output)
}

#[test]
fn results_on_a_full_disk_are_partial() {
    let server = Server::start(&samples(), &[], &[]);
    let url = format!("http://{}/lighthouse.mp4/.mpd", server.address);
    // The disk is full from the start, so nothing is measured.
    let full = "cat /dev/zero > \"$1/full\" 2>/dev/null; exec \"$0\" load \"$2\" --sequence --out \"$1/run\"";
    if let Some(output) = on_a_small_disk(4, full, &[&url]) {
        let line = only_error_line(&output);
        assert!(
            line.contains("part-0-of-1.json: No space left on device") && output.stdout.is_empty(),
            "{line}"
        );
    }
    // Only the first, empty part fits. It stays, and is marked as partial.
    let kept = tempfile::tempdir().unwrap();
    let small = "\"$0\" load \"$2\" --sequence --out \"$1/run\"; code=$?; cp \"$1/run\"/* \"$3\"; exit $code";
    if let Some(output) = on_a_small_disk(4, small, &[&url, text(kept.path())]) {
        assert!(
            only_error_line(&output).contains("part-0-of-1.json: No space left on device"),
            "{}",
            said(&output)
        );
        // The results are printed all the same.
        assert!(String::from_utf8_lossy(&output.stdout).contains("dash.video"), "{}", said(&output));
        let names: Vec<_> =
            fs::read_dir(kept.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["part-0-of-1.json"]);
        let report = latemux(&["report", text(kept.path())]);
        assert!(!report.status.success() && said(&report).contains("partial"), "{}", said(&report));
    }
}

#[test]
fn a_capture_on_a_full_disk_keeps_complete_fragments() {
    let server = Server::start(&samples(), &[], &[]);
    let kept = tempfile::tempdir().unwrap();
    let script =
        "\"$0\" capture \"$2\" -o \"$1/$3\" --trace \"$1/trace\"; code=$?; cp \"$1\"/* \"$4\"; exit $code";
    for (manifest, name) in [(".mpd", "out.mp4"), (".m3u8", "out2.mp4"), (".m3u8", "out.ts")] {
        let url = format!("http://{}/lighthouse.mp4/{manifest}", server.address);
        let Some(output) = on_a_small_disk(256, script, &[&url, name, text(kept.path())]) else { return };
        let line = only_error_line(&output);
        assert!(
            line.contains("cannot write: No space left on device") && line.contains(&format!("{name}.part")),
            "{line}"
        );
        assert!(!kept.path().join(name).exists());
        let part = probe(&kept.path().join(format!("{name}.part")), &[]);
        assert!(part.first("video").packets.len() > 50, "{name}");
        if name.ends_with("mp4") {
            assert_eq!(part.warnings, "", "{name}");
        }
    }
    // The trace of requests is on another disk.
    let url = format!("http://{}/lighthouse.mp4/.mpd", server.address);
    let out = kept.path().join("whole.mp4");
    let output = latemux(&["capture", &url, "-o", text(&out), "--trace", "/dev/full"]);
    let line = only_error_line(&output);
    assert!(line.contains("cannot write the trace: No space left on device") && !out.exists(), "{line}");
}

/// Returns the first URL in a playlist, and the body of its response.
fn first_url(server: &Server, path: &str) -> (String, Vec<u8>) {
    let playlist = get(server.address, path);
    let line = playlist.text().lines().find(|line| !line.starts_with('#') && !line.is_empty()).unwrap();
    let base = Url::parse("http://a/").unwrap().join(path).unwrap();
    let path = base.join(line).unwrap().path().to_owned();
    let body = get(server.address, &path).body.to_vec();
    (path, body)
}

#[test]
fn a_stopped_capture_keeps_its_bytes() {
    let server = Server::start(&samples(), &[], &[]);
    let (playlist, _) = first_url(&server, "/lighthouse.mp4/.m3u8");
    let (_, segment) = first_url(&server, &playlist);
    let (asks, asked) = mpsc::channel();
    let body = segment.clone();
    let halting = start_server(move |path, stream| {
        let body = match path {
            "/x.m3u8" => {
                b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:4,\n0.ts\n#EXTINF:4,\n1.ts\n#EXT-X-ENDLIST\n"
                    .as_slice()
            }
            "/0.ts" => &body,
            _ => {
                let _ = asks.send(());
                return stream.read_exact(&mut [0]);
            }
        };
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
        stream.write_all(body)
    });
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.ts");
    let trace = folder.path().join("trace");
    let child = Command::new(env!("CARGO_BIN_EXE_latemux"))
        .args(["capture", &format!("http://{halting}/x.m3u8"), "-o", text(&out), "--trace", text(&trace)])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    asked.recv().unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let line = only_error_line(&child.wait_with_output().unwrap());
    assert!(line.contains("stopped; the media received until then is in "), "{line}");
    assert!(!out.exists() && fs::read(folder.path().join("out.ts.part")).unwrap() == segment);
    assert_eq!(fs::read_to_string(&trace).unwrap().lines().count(), 2);
}

#[test]
fn a_given_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(at("cert.pem"), made.cert.pem()).unwrap();
    fs::write(at("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::write(at("empty.pem"), "").unwrap();
    let cert = at("cert.pem");
    let key = at("key.pem");
    let server = Server::start(&samples(), &["--tls-cert", text(&cert), "--tls-key", text(&key)], &[]);
    let url = format!("https://localhost:{}/lighthouse.mp4/.mpd", server.address.port());
    let by_address = format!("https://{}/lighthouse.mp4/.mpd", server.address);
    let out = at("out.mp4");
    let capture = |url: &str, more: &[&str]| latemux(&[&["capture", url, "-o", text(&out)], more].concat());
    assert!(only_error_line(&capture(&url, &[])).contains("latemux: tls: "));
    let good = capture(&url, &["--ca", text(&cert)]);
    assert!(good.status.success() && out.exists(), "{}", said(&good));
    assert!(only_error_line(&capture(&by_address, &["--ca", text(&cert)])).contains("not valid for name"));
    assert!(capture(&by_address, &["--insecure"]).status.success());
    for (wrong, why) in [("empty.pem", "the file holds no certificate"), ("none.pem", "cannot read")] {
        assert!(only_error_line(&capture(&url, &["--ca", text(&at(wrong))])).contains(why), "{wrong}");
    }
    let load = |more: &[&str]| latemux(&[&["load", &url, "--sequence"], more].concat());
    assert!(load(&["--ca", text(&cert)]).status.success() && load(&["--insecure"]).status.success());
    let refused = load(&[]);
    assert!(
        only_error_line(&refused).contains("failed") && said(&refused).contains("tls"),
        "{}",
        said(&refused)
    );
}
