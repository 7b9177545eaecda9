//! `latemux restore`: segments in order of importance, cut off as a client does that has no more
//! time.

use crate::{
    client::{Answer, get},
    server::{Server, samples},
    tools::{latemux, said},
};
use latemux_testmedia::{
    probe::probe,
    svc::{Entry, OpenH264},
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
};

/// Sends a request with more headers. Returns the head and the body of the response.
fn request(server: SocketAddr, method: &str, path: &str, header: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{header}\r\n")
        .unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let body = bytes.split_off(end + 4);
    (String::from_utf8(bytes).unwrap(), body)
}

/// Asserts that HEAD, a condition and ranges fit a whole response. Returns its first bytes.
fn assert_parts(server: SocketAddr, url: &str, whole: &Answer, cut: usize) -> Vec<u8> {
    let (head, none) = request(server, "HEAD", url, "");
    assert!(head.contains(&format!("content-length: {}\r\n", whole.body.len())), "{head}");
    assert!(none.is_empty());
    let condition = format!("If-None-Match: {}\r\n", whole.headers["etag"]);
    let (head, _) = request(server, "GET", url, &condition);
    assert!(head.starts_with("HTTP/1.1 304"), "{head}");
    let (head, first) = request(server, "GET", url, &format!("Range: bytes=0-{}\r\n", cut - 1));
    assert!(head.starts_with("HTTP/1.1 206"), "{head}");
    assert_eq!(first, whole.body[..cut]);
    let (_, rest) = request(server, "GET", url, &format!("Range: bytes={cut}-\r\n"));
    assert_eq!(rest, whole.body[cut..]);
    first
}

/// Returns the name of the first video representation.
fn video_id(mpd: &str) -> &str {
    let at = mpd.find("id=\"video=").unwrap() + 4;
    mpd[at..].split('"').next().unwrap()
}

#[test]
fn a_segment_that_was_cut_off_is_restored() {
    let server = Server::start(&samples(), &[], &[]);
    let mpd = get(server.address, "/lighthouse.mp4/.mpd?mpd_segment_template=number");
    let base = format!("/lighthouse.mp4/dash/lighthouse-{}", video_id(mpd.text()));
    let init = get(server.address, &format!("{base}.dash")).body;
    let plain = get(server.address, &format!("{base}-2.m4s"));
    let url = format!("{base}-2.m4s?order=priority");
    let whole = get(server.address, &url);
    assert_ne!(whole.headers["etag"], plain.headers["etag"]);
    assert!(whole.body.len() > plain.body.len(), "the sample library has frames in another order");

    let first = assert_parts(server.address, &url, &whole, whole.body.len() * 9 / 10);

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("init.mp4"), &init).unwrap();
    fs::write(at("plain.mp4"), [&init[..], &plain.body].concat()).unwrap();
    fs::write(at("cut.m4s"), &first).unwrap();
    let output = latemux(&["restore", &at("cut.m4s"), "--init", &at("init.mp4"), "-o", &at("out.mp4")]);
    assert!(output.status.success(), "{}", said(&output));
    let restored = probe(Path::new(&at("out.mp4")), &[]);
    assert_eq!(restored.warnings, "");
    let restored = restored.streams[0].packets.clone();
    let all = probe(Path::new(&at("plain.mp4")), &[]);
    let all = &all.streams[0].packets;
    assert!(restored.len() < all.len() && restored.len() > all.len() / 10, "{} packets", restored.len());
    for packet in &restored {
        let same = all.iter().find(|other| (other.pts, other.dts) == (packet.pts, packet.dts));
        assert_eq!(same.map(|other| &other.hash), Some(&packet.hash), "{packet:?}");
    }
    assert!(said(&output).contains(&format!("{} samples", restored.len())), "{}", said(&output));
}

#[test]
fn layers_that_are_missing_are_counted() {
    let Some(openh264) = OpenH264::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::copy(openh264.mp4(2, 3, Entry::Avc1), at("layers.mp4")).unwrap();
    let server = Server::start(&at(""), &[], &[]);
    let mpd = get(server.address, "/layers.mp4/.mpd?mpd_segment_template=number");
    let base = format!("/layers.mp4/dash/layers-{}", video_id(mpd.text()));
    let url = format!("{base}-1.m4s?order=priority");
    let whole = get(server.address, &url);
    assert_ne!(whole.headers["etag"], get(server.address, &format!("{base}-1.m4s")).headers["etag"]);
    let first = assert_parts(server.address, &url, &whole, whole.body.len() * 6 / 10);
    fs::write(at("init.mp4"), get(server.address, &format!("{base}.dash")).body).unwrap();
    fs::write(at("cut.m4s"), first).unwrap();
    let output = latemux(&["restore", &at("cut.m4s"), "--init", &at("init.mp4"), "-o", &at("out.mp4")]);
    assert!(output.status.success(), "{}", said(&output));
    let text = said(&output);
    assert!(text.contains(" samples, 0 are missing, ") && text.contains(" lack layers"), "{text}");
    let restored = probe(Path::new(&at("out.mp4")), &[]);
    assert_eq!(restored.warnings, "");
    assert!(text.contains(&format!("{} samples", restored.streams[0].packets.len())), "{text}");
}
