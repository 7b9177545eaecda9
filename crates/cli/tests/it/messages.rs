//! The messages of failed commands: each is one line, and states nothing twice.

use crate::{
    server::{Server, samples},
    tools::{latemux, said},
};
use std::{fs, net::TcpListener};

/// Returns the fault of a command's message. It must be one line, except for errors of TOML. It
/// must have the expected text, and none of its parts may contain another.
fn fault(args: &[&str], expected: &str) -> Option<String> {
    let output = latemux(args);
    let text = String::from_utf8_lossy(&output.stderr);
    let parts: Vec<&str> = text.trim_end().split(": ").skip(1).collect();
    let repeated = parts.iter().enumerate().find(|(at, part)| {
        parts.iter().enumerate().any(|(other, text)| other != *at && text.contains(*part))
    });
    let what = if output.status.code() != Some(1)
        || (text.lines().count() != 1 && !text.contains("TOML"))
        || !text.starts_with("latemux: ")
    {
        "not one line".to_owned()
    } else if !text.contains(expected) {
        format!("without '{expected}'")
    } else {
        format!("'{}' twice", repeated?.1)
    };
    Some(format!("{args:?}: {what}: {}", said(&output)))
}

#[test]
fn messages_repeated_their_cause() {
    let server = Server::start(&samples(), &[], &[]);
    let missing = format!("http://{}/lighthouse.mp4/none", server.address);
    let missing_media = format!("http://{}/none.mp4", server.address);
    let no_manifest = format!("http://{}/?", server.address);
    // No other test listens on this address, so nobody takes the port when it is free again.
    let free = TcpListener::bind("127.0.0.9:0").unwrap().local_addr().unwrap();
    let refused = format!("http://{free}/x/film.mp4");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let film = at("film.mp4");
    fs::copy(format!("{}/lighthouse.mp4", samples()), &film).unwrap();
    fs::write(at("text.mp4"), "not an MP4 at all").unwrap();
    fs::write(at("wrong.toml"), "listen = 5\n").unwrap();
    fs::write(at("part-0-of-1.json"), "{").unwrap();
    fs::create_dir(at("empty")).unwrap();
    let none = at("none.mp4");
    let text = at("text.mp4");
    let config = at("wrong.toml");
    let empty = at("empty");
    // A file is no folder, so nothing can be written below it, not even by root.
    let unwritable = at("film.mp4/x");
    let unwritable_mp4 = at("film.mp4/x.index.mp4");
    let unwritable_folder = at("film.mp4/x/");
    let here = folder.path().to_str().unwrap();
    let gone = "No such file or directory";
    let url = format!("http://{}/lighthouse.mp4/.mpd", server.address);

    let cases = [
        (&["serve", &none][..], gone),
        (&["serve", "ftp://host/x"], "ftp"),
        (&["serve", "s3://"], "s3://"),
        (&["serve", here, "--config", &none], gone),
        (&["serve", here, "--config", &config], "listen"),
        (&["serve", here, "--listen", &taken], "cannot listen"),
        (&["serve", here, "--listen", "127.0.0.1:0", "--admin", &taken], "cannot listen"),
        (&["serve", here, "--listen", "127.0.0.1:0", "--tls-cert", &none, "--tls-key", &none], gone),
        (&["serve", here, "--listen", "127.0.0.1:0", "--tls-cert", &text, "--tls-key", &text], "certificate"),
        (&["serve", here, "--listen", "127.0.0.1:0", "--cache-dir", &unwritable], "is not a folder"),
        (&["inspect", &none], gone),
        (&["inspect", &text], "not an MP4"),
        (&["inspect", &empty], "empty"),
        (&["inspect", &missing_media], "not found"),
        (&["inspect", &refused], "cannot connect"),
        (&["index", &none], gone),
        (&["index", &none, "-o", &at("x.mp4"), "--location", "x"], gone),
        (&["index", &text], "not an MP4"),
        (&["index", &missing_media, "-o", &at("x.mp4"), "--location", "x"], "not found"),
        (&["index", &refused, "-o", &at("x.mp4"), "--location", "x"], "cannot connect"),
        (&["index", &film, "-o", &unwritable_mp4, "--location", "x"], "Not a directory"),
        (&["manifest", "-o", &at("t.ism"), &none], gone),
        (&["manifest", "-o", &at("t.ism"), &text], "not an MP4"),
        (&["manifest", "-o", &at("none/t.ism"), &film], gone),
        (&["pack", &none, "-o", &at("x.cmfv")], gone),
        (&["pack", &missing_media, "-o", &at("x.cmfv")], "not found"),
        (&["pack", &refused, "-o", &at("x.cmfv")], "cannot connect"),
        (&["pack", &film, "-o", &at("x.cmft")], "no track"),
        (&["pack", &film, "-o", &at("film.mp4/x.cmfv")], "Not a directory"),
        (&["pack", &film, "-o", &unwritable_folder], "Not a directory"),
        (&["load", &missing], "1 of 1 requests failed"),
        (&["load", "film.mp4"], "film.mp4 is not a URL"),
        (&["load", "ftp://host/film.mp4"], "neither http nor https"),
        (&["load", &url, "--abr", "trace:none"], gone),
        (&["load", &url, "--ca", &none], gone),
        (&["load", &url, "--ca", &text], "certificate"),
        (&["load", &url, "--ui", &taken], "cannot listen"),
        (&["load", &url, "--out", &unwritable], "Not a directory"),
        (&["load", &url, "--out", &format!("http://{free}/x")], "cannot be written"),
        (&["capture", &missing, "-o", &at("x.mp4")], "status_404"),
        (&["capture", &refused, "-o", &at("x.mp4")], "refused"),
        (&["capture", &no_manifest, "-o", &at("x.mp4")], "manifest"),
        (&["capture", "film.mp4", "-o", &at("x.mp4")], "film.mp4 is not a URL"),
        (&["capture", &url, "-o", &unwritable], "Not a directory"),
        (&["capture", &url, "-o", &at("x.mp4"), "--trace", &unwritable], "Not a directory"),
        (&["capture", &url, "-o", &at("x.mp4"), "--trace", "/dev/full"], "No space left"),
        (&["capture", &url, "-o", &at("x.mp4"), "--ca", &none], gone),
        (&["restore", &none, "--init", &film, "-o", &at("x.mp4")], gone),
        (&["restore", &film, "--init", &none, "-o", &at("x.mp4")], gone),
        (&["restore", &film, "--init", &text, "-o", &at("x.mp4")], "init segment cannot be read"),
        (&["restore", &text, "--init", &film, "-o", &at("x.mp4")], "no fragments"),
        (&["report", &none], gone),
        (&["report", &empty], "no results"),
        (&["report", &refused], "film.mp4: cannot connect"),
        (&["report", here, "-o", &at("out")], "EOF"),
    ];
    let faults: Vec<String> = cases.iter().filter_map(|(args, expected)| fault(args, expected)).collect();
    assert!(faults.is_empty(), "{}", faults.concat());
}
