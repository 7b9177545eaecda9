//! Requests for keys that are signed for AWS, compared with those that curl signs.

use crate::server::samples;
use latemux_testmedia::process::tool;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::mpsc::{Receiver, channel},
};

const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "a/session+token==";

/// A request: its head in lower case but for values, and its body.
struct Received {
    lines: Vec<(String, String)>,
    body: String,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.lines.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value)
    }
}

fn receive(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let lines = lines.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
            let received = Received { lines, body: body.to_owned() };
            if body.len() >= received.header("content-length").parse().unwrap_or(0) {
                return Some(received);
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// Starts a server that refuses all requests.
fn stand_in() -> (SocketAddr, Receiver<Received>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // The test looks for the request as soon as its client has got the answer.
            if let Some(received) = receive(&mut stream) {
                let _ = sender.send(received);
            }
            let _ = stream.write_all(b"HTTP/1.1 403 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        }
    });
    (address, receiver)
}

#[test]
fn requests_for_keys_are_signed_as_by_curl() {
    let Some(curl) = tool("curl") else { return };
    let (address, requests) = stand_in();
    let url = format!("http://{address}/v2/keys");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("drm.toml");
    let rule = "[[drm]]\ntitles = [\"**\"]\ndash = \"cenc\"\nsystems = [\"widevine\"]\n";
    let keys = format!("keys.speke = \"{url}\"\nkeys.aws_region = \"eu-central-1\"\n");
    fs::write(&config, format!("source = {:?}\n{rule}{keys}", samples())).unwrap();
    for token in [None, Some(TOKEN)] {
        let latemux = |id: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
            command.args(["keys", "lighthouse.mp4", "--config"]).arg(&config);
            command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", SECRET);
            command.env_remove("AWS_SESSION_TOKEN").envs(token.map(|token| ("AWS_SESSION_TOKEN", token)));
            let out = command.output().unwrap();
            assert!(!out.status.success());
            String::from_utf8([out.stdout, out.stderr].concat()).unwrap()
        };
        let said = latemux(ID);
        assert!(!said.contains(SECRET) && !said.contains(TOKEN), "{said}");
        let sent = requests.try_recv().unwrap_or_else(|_| panic!("nothing was sent: {said}"));
        assert_eq!(sent.header("x-amz-security-token"), token.unwrap_or_default());
        assert!(sent.body.contains("CPIX"), "{}", sent.body);

        let mut command = Command::new(&curl);
        command.args(["--silent", "--aws-sigv4", "aws:amz:eu-central-1:execute-api"]);
        command.args(["--user", &format!("{ID}:{SECRET}"), "--data-binary", "@-", &url]);
        for (name, value) in &sent.lines {
            if name.starts_with("x-amz-") || name == "content-type" {
                command.args(["-H", &format!("{name}: {value}")]);
            }
        }
        let mut running = command.stdin(Stdio::piped()).spawn().unwrap();
        running.stdin.take().unwrap().write_all(sent.body.as_bytes()).unwrap();
        assert!(running.wait().unwrap().success());
        let signed = requests.recv().unwrap();
        assert_eq!(signed.body, sent.body);
        let authorization = |request: &Received| request.header("authorization").replace(", ", ",");
        assert!(authorization(&sent).contains("content-type;host;x-amz-content-sha256;x-amz-date"));
        assert_eq!(authorization(&sent), authorization(&signed));

        // Without an access key, nothing is sent.
        let said = latemux("");
        assert!(said.contains("AWS_ACCESS_KEY_ID is not set"), "{said}");
        assert!(requests.try_recv().is_err());
    }
}
