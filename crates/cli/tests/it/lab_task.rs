//! `latemux lab task`: single functions, as engines start and stop them.

use crate::{client::get, store::S3};
use latemux_lab::{
    function::Function,
    nbmp::{Output, Task},
};
use latemux_testmedia::{
    http_server::{Reply, Request, Server, Then},
    process::tool,
};
use serde_json::Value;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The longest time for what must happen soon.
const SOON: Duration = Duration::from_secs(60);

/// The time in which a function writes its part after SIGINT.
const STOP: Duration = Duration::from_secs(8);

const LOAD: [(&str, &str); 4] = [("kind", "list"), ("format", "hls"), ("title", "t"), ("connections", "1")];

/// A task with a folder of its own, and a title of one segment.
struct Lab {
    folder: TempDir,
    task: Task,
}

impl Lab {
    fn new(function: Function, parameters: &[(&str, &str)], input: &str, output: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("content/t")).unwrap();
        let paths = r#"{"manifest": "/m", "segments": ["/segment"], "bytes": 4}"#;
        for format in ["hls", "dash"] {
            fs::write(folder.path().join(format!("content/t/{format}.json")), paths).unwrap();
        }
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let task = Task {
            id: format!("{function}-lab-x-r1"),
            function,
            parameters: parameters.iter().map(own).collect(),
            inputs: vec![input.to_owned()],
            outputs: output
                .map(|url| Output { connection: "a-b".to_owned(), url: url.to_owned() })
                .into_iter()
                .collect(),
        };
        fs::write(folder.path().join("x.tdd"), task.to_json().unwrap()).unwrap();
        Self { folder, task }
    }

    fn start(&self, more: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["lab", "task"]).arg(self.folder.path().join("x.tdd"));
        command.arg("--folder").arg(self.folder.path());
        command.arg("--content").arg(self.folder.path().join("content")).args(more);
        command.env("AWS_ACCESS_KEY_ID", S3::ACCESS).env("AWS_SECRET_ACCESS_KEY", S3::SECRET);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn part(&self) -> Value {
        let path = self.folder.path().join(format!("{}.json", self.task.id));
        serde_json::from_slice(&fs::read(path).expect("the task has written its part")).unwrap()
    }

    /// Stops a task with SIGINT, which must succeed in time. Returns its part.
    fn stop(&self, child: Child) -> Value {
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let (status, error) = end(child, STOP);
        assert!(status.success(), "{}: {status}: {error}", self.task.id);
        self.part()
    }
}

/// Returns the exit status of a process that must end in time, and its standard error.
fn end(mut child: Child, within: Duration) -> (ExitStatus, String) {
    let mut status = None;
    wait_until("the end of a process", within, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    (status.unwrap(), error)
}

fn wait_until(what: &str, within: Duration, mut is_true: impl FnMut() -> bool) {
    let until = Instant::now() + within;
    while !is_true() {
        assert!(Instant::now() < until, "{what} takes too long");
        thread::yield_now();
    }
}

/// Starts a server with a body for each path, except that some paths never get a response.
fn server(runtime: &Runtime, hangs: &'static str) -> Server {
    runtime.block_on(Server::start(move |_, request: &Request| match &*request.target {
        target if target == hangs => Reply::nothing(Then::Hang),
        "/lab-ready" => Reply::cut(404, &[], b"", 0, Then::Close),
        _ => Reply::cut(200, &[], b"body", 4, Then::Close),
    }))
}

fn is_asked(server: &Server, path: &str) -> bool {
    server.requests().iter().any(|request| request.target == path)
}

/// Returns an address that no other test listens on, so nobody takes the port meanwhile.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.9:0").unwrap().local_addr().unwrap()
}

/// Waits until a function serves a path.
fn wait_until_served(address: SocketAddr) {
    wait_until("a server", SOON, || TcpStream::connect(address).is_ok());
    assert_eq!(get(address, "/x").body, b"body");
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_stopped_server_writes_its_part() {
    let runtime = runtime();
    let storage = server(&runtime, "/hangs");
    let input = format!("{}/", storage.address);
    let mut functions = vec![(Function::Link, vec![("rtt", "1ms")])];
    if tool("nginx").is_some() {
        functions.push((Function::Cache, vec![("mode", "meta")]));
    }
    for (function, parameters) in functions {
        let address = free();
        let lab = Lab::new(function, &parameters, &input, Some(&format!("http://{address}/")));
        let running = lab.start(&[]);
        wait_until_served(address);
        let mut client = TcpStream::connect(address).unwrap();
        client
            .write_all(b"GET /y HTTP/1.1\r\nHost: x\r\nRange: bytes=1-2\r\nConnection: close\r\n\r\n")
            .unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
        let part = lab.stop(running);
        assert_eq!((&part["function"], &part["is_partial"]), (&function.name().into(), &false.into()));
        match function {
            Function::Link => {
                let last = part["carried"].as_array().unwrap().last().unwrap();
                assert!(last["bytes"].as_u64() >= Some(4), "{part}");
            }
            _ => {
                let all = part["responses"].as_array().unwrap().iter();
                let requests: Vec<_> = all.map(|response| (&response["uri"], &response["range"])).collect();
                assert_eq!(requests, [(&"/x".into(), &Value::Null), (&"/y".into(), &"bytes=1-2".into())]);
            }
        }
    }
}

#[test]
fn a_stopped_load_left_no_part() {
    let runtime = runtime();
    let origin = server(&runtime, "/segment");
    let input = format!("{}/", origin.address);
    for before in ["none", "same"] {
        let parameters = [&LOAD[..], &[("before", before)]].concat();
        let lab = Lab::new(Function::Load, &parameters, &input, None);
        let running = lab.start(&[]);
        let earlier = origin.requests().len();
        wait_until("the load", SOON, || {
            origin.requests()[earlier.min(origin.requests().len())..]
                .iter()
                .any(|request| request.target == "/segment")
        });
        let part = lab.stop(running);
        assert_eq!((&part["function"], &part["is_partial"]), (&"load".into(), &true.into()));
        // The load that fills caches has no results.
        let results = lab.folder.path().join(&lab.task.id).join("results");
        assert_eq!(results.exists(), before == "none");
    }
}

#[test]
fn a_stopped_player_left_no_part() {
    if tool("node").is_none() {
        return;
    }
    let runtime = runtime();
    let origin = server(&runtime, "/segment");
    let input = format!("{}/", origin.address);
    let lab = Lab::new(Function::Player, &[("format", "dash"), ("title", "t")], &input, None);
    let script = lab.folder.path().join("play.mjs");
    fs::write(&script, "await fetch(process.argv[3]); setInterval(() => {}, 1000);").unwrap();
    let running = lab.start(&["--player", script.to_str().unwrap()]);
    wait_until("the player", SOON, || is_asked(&origin, "/m"));
    let part = lab.stop(running);
    assert_eq!((&part["function"], &part["is_partial"]), (&"player".into(), &true.into()));
}

#[test]
fn a_task_that_still_waits_for_its_input_can_be_stopped() {
    let lab = Lab::new(Function::Load, &LOAD, &format!("http://{}/", free()), None);
    let running = lab.start(&[]);
    wait_until("the task", SOON, || lab.folder.path().join(&lab.task.id).join("temporary").exists());
    assert_eq!(lab.stop(running)["is_partial"], true);
}

#[test]
fn an_input_that_does_not_answer_is_an_error_in_one_line() {
    let closed = format!("{}", free());
    for (peer, input) in [
        (closed.as_str(), format!("http://{closed}/")),
        // RFC 6761, section 6.4: this name never exists.
        ("storage-lab-x-r1.invalid:80", "http://storage-lab-x-r1.invalid/in".to_owned()),
    ] {
        let lab = Lab::new(Function::Load, &LOAD, &input, None);
        let (status, error) = end(lab.start(&["--input-wait", "200ms"]), SOON);
        assert!(!status.success());
        assert_eq!(error, format!("latemux: load-lab-x-r1: {peer} does not answer within 0.2 s\n"));
    }
}

#[test]
fn peers_have_names_and_a_service_passes_requests_to_the_port_of_the_container() {
    let runtime = runtime();
    let storage = server(&runtime, "/hangs");
    let input = format!("{}/in.0/x", storage.address.replace("127.0.0.1", "localhost"));
    // A name that only others know, and an address of another machine (RFC 5737).
    for output in ["http://link-lab-x-r1.media.invalid/out.0", "http://192.0.2.1/"] {
        let address = free();
        let lab = Lab::new(Function::Link, &[], &input, Some(output));
        let running = lab.start(&["--listen", &address.to_string()]);
        wait_until_served(address);
        lab.stop(running);
    }
}

#[test]
fn results_go_to_a_folder_or_a_bucket() {
    let runtime = runtime();
    let origin = server(&runtime, "/hangs");
    let input = format!("{}/", origin.address);
    let ends = |results: &str, more: &[&str]| {
        let lab = Lab::new(Function::Load, &LOAD, &input, None);
        let (status, error) = end(lab.start(&[&["--results", results], more].concat()), SOON);
        assert!(status.success(), "{error}");
        assert!(!lab.folder.path().join("load-lab-x-r1.json").exists());
    };
    let has_all = |folder: &std::path::Path| {
        let part = fs::read(folder.join("load-lab-x-r1.json")).unwrap();
        let part: Value = serde_json::from_slice(&part).unwrap();
        assert_eq!(part["is_partial"], false);
        let run = latemux_load::results::Run::read(&folder.join("load-lab-x-r1/results")).unwrap();
        assert_eq!(run.whole.results.total().count, 1);
    };
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("new");
    ends(new.to_str().unwrap(), &[]);
    has_all(&new);
    let empty = tempfile::tempdir().unwrap();
    let Some(s3) = S3::start(empty.path().to_str().unwrap()) else { return };
    let endpoint = s3.endpoint();
    ends("s3://library/runs/a/", &["--s3-endpoint", &endpoint, "--s3-region", "us-east-1"]);
    has_all(&s3.folder().join("runs/a"));
}
