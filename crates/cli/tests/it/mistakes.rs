//! Mistakes that people make with commands: each gets one line that says what to write instead,
//! at once and not with the first request.

use crate::{
    client::get,
    server::{Server, samples},
    tools::{latemux, said},
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
};

/// Answers every request to an S3 service with the same status and error code.
#[derive(Clone)]
struct S3Answer(Arc<Mutex<(u16, &'static str)>>);

impl S3Answer {
    fn start(status: u16, code: &'static str) -> (Self, SocketAddr) {
        let answer = Self(Arc::new(Mutex::new((status, code))));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = answer.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answers = answers.clone();
                std::thread::spawn(move || answers.connection(stream));
            }
        });
        (answer, address)
    }

    fn set(&self, status: u16, code: &'static str) {
        *self.0.lock().unwrap() = (status, code);
    }

    fn connection(&self, stream: TcpStream) -> Option<()> {
        let mut stream = stream;
        let reader = BufReader::new(stream.try_clone().ok()?);
        for line in reader.lines().map_while(Result::ok) {
            if line.is_empty() {
                let (status, code) = *self.0.lock().unwrap();
                let body = format!("<Error><Code>{code}</Code></Error>");
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
            }
        }
        None
    }
}

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];

fn with(environment: &[(&str, &str)], args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(args).envs(KEYS).envs(environment.iter().copied()).stdin(Stdio::null());
    command.output().unwrap()
}

/// Runs a server that must end before it listens.
pub(crate) fn ended_at_start(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("latemux starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("UTF-8");
    if !line.is_empty() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("latemux ends");
    assert!(line.is_empty(), "{command:?} started: {line}{}", said(&output));
    output
}

/// Checks that a command ends at once, with one line that contains these words.
pub(crate) fn refused(output: &Output, words: &[&str]) {
    let text = said(output);
    assert_eq!((output.status.code(), text.lines().count()), (Some(1), 1), "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

/// Checks that a server ends with one line that contains these words, behind the lines of its log.
pub(crate) fn refused_by_storage(output: &Output, words: &[&str]) {
    let text = said(output);
    let errors: Vec<_> = text.lines().filter(|line| line.starts_with("latemux: ")).collect();
    assert_eq!((output.status.code(), errors.len()), (Some(1), 1), "{text}");
    for word in words {
        assert!(errors[0].contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn endpoints_and_keys_that_made_a_later_panic_are_refused_at_once() {
    for command in ["serve", "inspect"] {
        let s3 = |endpoint: &str| with(&[], &[command, "s3://vod/x.mp4", "--s3-endpoint", endpoint]);
        refused(&s3("127.0.0.1:9000"), &["no scheme", "http://127.0.0.1:9000"]);
        refused(&s3("localhost:9000"), &["no scheme", "http://localhost:9000"]);
        refused(&s3(""), &["is empty"]);
        refused(&s3("ftp://h"), &["http://"]);
        refused(&s3("http://h:9000/?x=y"), &["without '?'"]);
        refused(&s3("http://u:p@h:9000"), &["must not contain credentials"]);
        let env = |name: &str, value: &str, target: &str| with(&[(name, value)], &[command, target]);
        refused(
            &env("AWS_ENDPOINT_URL", "127.0.0.1:9000", "s3://vod/x.mp4"),
            &["AWS_ENDPOINT_URL", "http://"],
        );
        refused(&env("AWS_ACCESS_KEY_ID", "id\n", "s3://vod/x.mp4"), &["AWS_ACCESS_KEY_ID", "line break"]);
        refused(&env("AWS_REGION", "eu\u{e9}", "s3://vod/x.mp4"), &["region"]);
        refused(&env("GOOGLE_BASE_URL", "127.0.0.1:9000", "gs://vod/x.mp4"), &["GOOGLE_BASE_URL", "http://"]);
        let azure = [
            ("AZURE_STORAGE_ACCOUNT_NAME", "a"),
            ("AZURE_STORAGE_ACCOUNT_KEY", "aGVsbG8="),
            ("AZURE_STORAGE_ENDPOINT", "127.0.0.1:9000"),
        ];
        refused(&with(&azure, &[command, "az://vod/x.mp4"]), &["AZURE_STORAGE_ENDPOINT", "http://"]);
    }
}

#[test]
fn missing_credentials_are_named_by_their_variable() {
    // Nothing answers at this address, so no machine has an identity.
    let nobody = [("GOOGLE_BASE_URL", "http://127.0.0.1:1"), ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")];
    let start = |environment: &[(&str, &str)], source: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["serve", source, "--listen", "127.0.0.1:0"]).stdin(Stdio::null());
        command.envs(nobody).envs(environment.iter().copied()).output().unwrap()
    };
    refused(&start(&[], "az://films"), &["az://films", "AZURE_STORAGE_ACCOUNT_NAME is not set"]);
    let missing = [("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")];
    refused(&start(&missing, "gs://films"), &["gs://films", "/nowhere/key.json"]);
    let token =
        [("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token"), ("AWS_ROLE_ARN", "arn:aws:iam::1:role/x")];
    let output = start(&token, "s3://films");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let last = said(&output);
    assert!(last.contains("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"), "{last}");
}

#[test]
fn a_wrong_bucket_or_wrong_keys_are_an_error_at_start() {
    for (status, code, words) in [
        (404, "NoSuchBucket", "the bucket does not exist"),
        (403, "InvalidAccessKeyId", "access denied by storage: InvalidAccessKeyId"),
        (403, "SignatureDoesNotMatch", "access denied by storage: SignatureDoesNotMatch"),
        (403, "AccessDenied", "access denied by storage: neither reading nor listing is permitted"),
    ] {
        let (_, address) = S3Answer::start(status, code);
        let endpoint = format!("http://{address}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["serve", "s3://vod/films", "--s3-endpoint", &endpoint, "--listen", "127.0.0.1:0"]);
        refused_by_storage(&ended_at_start(command.envs(KEYS)), &["s3://vod/films", words]);
    }
}

#[test]
fn a_server_that_has_not_reached_its_storage_is_not_ready() {
    let (storage, address) = S3Answer::start(500, "InternalError");
    let endpoint = format!("http://{address}");
    let args = ["--s3-endpoint", &endpoint, "--admin", "127.0.0.1:0"];
    let server = Server::start("s3://vod", &args, &KEYS);
    let ready = |address| get(address, "/healthz/ready");
    for address in [server.address, server.admin.unwrap()] {
        let response = ready(address);
        assert!(response.status == 503 && response.text().contains("storage_unreached"), "{response:?}");
        assert_eq!(get(address, "/healthz/live").status, 200);
    }
    storage.set(404, "NoSuchKey");
    while ready(server.address).status != 200 {}
    assert_eq!(ready(server.admin.unwrap()).status, 200);

    // What goes wrong later is said by the library and by each title, in one way, without saying
    // where the storage is.
    for (status, code, reason) in
        [(404, "NoSuchBucket", "no_bucket"), (403, "InvalidAccessKeyId", "storage_denied")]
    {
        storage.set(status, code);
        for path in ["/api/library", "/film.mp4/.mpd", "/film/.mpd"] {
            let response = get(server.address, path);
            let body: Value = serde_json::from_str(response.text()).unwrap();
            assert_eq!((response.status, body["reason"].as_str()), (502, Some(reason)), "{path}");
            assert!(!response.text().contains("s3:") && !response.text().contains(code), "{response:?}");
        }
    }
    let log = server.stop();
    assert!(log.contains("/healthz/ready gives status 503") && log.contains("ready"), "{log}");
}

#[test]
fn a_server_can_wait_for_its_bucket_and_is_unready_while_storage_fails_for_long() {
    let (storage, address) = S3Answer::start(404, "NoSuchBucket");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("latemux.toml");
    fs::write(&config, format!("unready_after = '1ms'\nstorage.s3_endpoint = 'http://{address}'")).unwrap();
    let args = ["--config", config.to_str().unwrap(), "--wait-for-storage"];
    let server = Server::start("s3://vod", &args, &KEYS);
    let until = |status, words: &str| loop {
        let response = get(server.address, "/healthz/ready");
        if response.status == status {
            assert!(response.text().contains(words), "{response:?}");
            break;
        }
    };
    until(503, "storage_unreached");
    storage.set(404, "NoSuchKey");
    until(200, "ok");
    storage.set(500, "InternalError");
    // A failure is noticed with the first request that needs storage.
    assert!(get(server.address, "/film.mp4/.mpd").status >= 500);
    until(503, "storage_failing");
    assert_eq!(get(server.address, "/healthz/live").status, 200);
    // No request but health checks arrives, and the process finds out that storage works again.
    storage.set(403, "AccessDenied");
    until(200, "ok");
    let log = server.stop();
    assert!(log.contains("the bucket does not exist") && log.contains("storage answers"), "{log}");
}

#[test]
fn inspect_reads_a_file_whatever_its_extension() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["film.mkv", "film"] {
        fs::copy(format!("{}/lighthouse.mp4", samples()), at(name)).unwrap();
        let output = latemux(&["inspect", &at(name)]);
        assert!(output.status.success() && said(&output).contains("avc1"), "{}", said(&output));
    }
    let out = format!("{}/", at("out"));
    let packed = latemux(&["pack", &at("film.mkv"), "-o", &out]);
    assert!(packed.status.success(), "{}", said(&packed));
    // The server does not: a public folder may hold other files, too.
    let server = Server::start(folder.path().to_str().unwrap(), &[], &[]);
    for name in ["film.mkv", "none.mkv"] {
        let response = get(server.address, &format!("/{name}/.mpd"));
        let text = response.text();
        assert_eq!(response.status, 404, "{text}");
        assert!(text.contains("unknown_extension") && text.contains("mp4, m4v"), "{text}");
    }
}

#[test]
fn what_a_server_cannot_use_at_start_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&latemux(&["serve", &samples(), "--listen", &address]), &[&address, "listen on another address"]);
    let socket = format!("unix:{}", at("no/such.sock"));
    refused(&latemux(&["serve", &samples(), "--listen", &socket]), &["no/such.sock"]);
    let [one, two] = [0; 2].map(|_| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
    fs::write(at("cert.pem"), one.cert.pem()).unwrap();
    fs::write(at("key.pem"), two.signing_key.serialize_pem()).unwrap();
    for (cert, key, words) in [
        ("cert.pem", "key.pem", "the key does not belong to the certificate"),
        ("key.pem", "key.pem", "no certificate in the certificate file"),
        ("cert.pem", "cert.pem", "not readable as PEM"),
        ("none.pem", "key.pem", "none.pem"),
    ] {
        let args =
            ["serve", &samples(), "--listen", "127.0.0.1:0", "--tls-cert", &at(cert), "--tls-key", &at(key)];
        refused(&latemux(&args), &[cert, words]);
    }
    // Root may write anywhere, but not below a file.
    let args = ["serve", &samples(), "--listen", "127.0.0.1:0", "--cache-dir", &at("cert.pem")];
    refused(&latemux(&args), &["cache.dir", "cert.pem"]);
}

#[test]
fn wrong_arguments_are_answered_with_right_ones() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let film = format!("{}/lighthouse.mp4", samples());
    for (args, words) in [
        (&["serve", &film][..], "is a file; name the folder it is in"),
        (&["serve", "s3:/vod"], "write s3://vod"),
        (&["serve", "gcs://vod"], "gs://"),
        (&["index", folder], "is a folder: name one media file"),
        (&["inspect", &film, "--segment-duration", "0s"], "between 100ms and 10m"),
        (&["load", "127.0.0.1:8080/x/.mpd"], "must begin with http://"),
        (&["capture", "film.mkv", "-o", "/tmp/none.mp4"], "must begin with http://"),
    ] {
        refused(&latemux(args), &[words]);
    }
    for flags in [&["serve", ".", "--listen", "9000"][..], &["load", "http://a/x", "--ui", "9000"]] {
        let output = latemux(flags);
        assert!(said(&output).contains("write 127.0.0.1:9000"), "{}", said(&output));
    }
}
