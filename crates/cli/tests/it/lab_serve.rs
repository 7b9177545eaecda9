//! `latemux lab serve`: workflows of this machine over the workflow API.

use crate::lab_run::{Lab, signal};
use latemux_testmedia::recipe;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const MEDIA_TYPE: &str = "Content-Type: application/mpeg-nbmp-wdd+json";

/// An engine whose results are in the folder of a run.
struct Engine {
    child: Child,
    address: SocketAddr,
}

struct Response {
    status: u16,
    head: String,
    body: Value,
}

impl Engine {
    fn start(lab: &Lab) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["lab", "serve", "--listen", "127.0.0.1:0", "--out"]).arg(lab.out());
        command.arg("--content").arg(recipe::folder().join("lab"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap().trim_end_matches('/');
        Self { child, address: address.parse().unwrap() }
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Response {
        self.ask_with(method, path, &[&format!("Host: {}", self.address), MEDIA_TYPE], body)
    }

    fn ask_with(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Response {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let headers = headers.join("\r\n");
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{headers}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        )
        .unwrap();
        // A body that is too large is not read to its end.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        Response {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: serde_json::from_str(body).unwrap_or_default(),
        }
    }

    /// Asks for a workflow until it does not run.
    fn wait(&self, path: &str) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let response = self.ask("GET", path, b"");
            assert_eq!(response.status, 200);
            if response.body["general"]["state"] != "running" {
                return response.body;
            }
            assert!(Instant::now() < until, "the workflow does not end");
            thread::yield_now();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a library with one cell, whose load has more parameters.
fn lab(more: &str) -> Option<Lab> {
    let lab = Lab::new("loopback")?;
    let path = lab.folder.path().join("lab/experiments/counts.toml");
    let text = fs::read_to_string(&path).unwrap();
    let one = text
        .replace("setup = ['ipp', 'n-single']", "setup = ['ipp']")
        .replace("before = ['none', 'same', 'hls']\n", "")
        .replace("before = '$before'", more);
    fs::write(path, one).unwrap();
    Some(lab)
}

/// Returns the workflow document of the only cell, as planned.
fn document(lab: &Lab) -> Vec<u8> {
    let documents = lab.folder.path().join("documents");
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(["lab", "plan"]).arg(lab.folder.path().join("lab/experiments/counts.toml"));
    assert!(command.arg("--documents").arg(&documents).output().unwrap().status.success());
    let files = fs::read_dir(documents).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.extension().is_some_and(|extension| extension == "wdd"));
    fs::read(files.next().unwrap()).unwrap()
}

fn changed(document: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value = serde_json::from_slice(document).unwrap();
    change(&mut value);
    serde_json::to_vec(&value).unwrap()
}

/// Replaces a parameter of a function.
fn with(document: &[u8], function: &str, name: &str, new: &str) -> Vec<u8> {
    changed(document, |value| {
        let functions = value["processing"]["function-restrictions"].as_array_mut().unwrap();
        let function = functions.iter_mut().find(|one| one["instance"] == function).unwrap();
        let parameters = function["configuration"]["parameters"].as_array_mut().unwrap();
        let parameter = parameters.iter_mut().find(|one| one["name"] == name).unwrap();
        parameter["values"][0]["restrictions"][0] = new.into();
    })
}

fn id(document: &[u8]) -> String {
    let value: Value = serde_json::from_slice(document).unwrap();
    value["general"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_workflow_has_the_counts_that_the_run_of_its_cell_has() {
    let Some(lab) = lab("before = 'none'") else { return };
    let out = lab.run();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let record = lab.records().remove(0);
    let planned = document(&lab);
    let engine = Engine::start(&lab);
    let created = engine.ask("POST", "/v2/workflows", &planned);
    let path = format!("/v2/workflows/{}", id(&planned));
    assert_eq!((created.status, &created.body["general"]["state"]), (201, &"running".into()));
    assert!(created.head.contains(&format!("\r\nlocation: {path}")), "{}", created.head);
    let ended = engine.wait(&path);
    assert_eq!(ended["general"]["state"], "idle", "{ended}");
    let variables = ended["monitoring"]["system-variables"].as_array().unwrap();
    for name in ["requests", "failures", "bytes", "storage_requests", "storage_bytes"] {
        let found = variables.iter().find(|variable| variable["name"] == name).unwrap();
        assert_eq!(found["value"], record["measured"][name], "{name}");
    }
    assert!(record["measured"]["storage_requests"].as_u64() > Some(0));
    assert!(!lab.out().join("work").exists());

    // An id is used once, until its workflow is deleted.
    assert_eq!(engine.ask("POST", "/v2/workflows", &planned).status, 409);
    assert_eq!(engine.ask("DELETE", &path, b"").status, 204);
    for method in ["GET", "DELETE"] {
        assert_eq!(engine.ask(method, &path, b"").status, 404);
    }

    // The client of other engines uses this one, too.
    let file = lab.folder.path().join("x.wdd");
    fs::write(&file, &planned).unwrap();
    let part = lab.out().join("results").join(format!("load-{}.json", id(&planned)));
    fs::remove_file(&part).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(["lab", "submit"]).arg(file).args(["--engine", &format!("http://{}", engine.address)]);
    command.args(["--wait", "--interval", "100ms", "--results"]).arg(lab.out().join("results"));
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8(out.stdout).unwrap(), format!("{}\n{}\n", id(&planned), part.display()));
    assert!(part.exists());
    assert_eq!(engine.ask("GET", &path, b"").status, 404);
}

#[test]
fn one_workflow_runs_at_a_time_and_ends_when_it_is_deleted() {
    let Some(mut lab) = lab("duration = '120s'") else { return };
    // The run makes the title.
    lab.net = "loopback";
    let planned = document(&lab);
    let other = changed(&planned, |value| {
        value["general"]["id"] = "other".into();
        value["general"]["name"] = "other".into();
    });
    make_title(&lab);
    let mut engine = Engine::start(&lab);
    let path = format!("/v2/workflows/{}", id(&planned));
    assert_eq!(engine.ask("POST", "/v2/workflows", &planned).status, 201);
    let busy = engine.ask("POST", "/v2/workflows", &other);
    assert_eq!(busy.status, 503);
    assert!(busy.head.contains("\r\nretry-after: 10"), "{}", busy.head);
    assert_eq!(engine.ask("POST", "/v2/workflows", &planned).status, 409);
    let functions =
        |lab: &Lab| lab.processes().iter().filter(|(_, command)| command.contains("task")).count();
    lab.wait_until("three tasks", |lab| functions(lab) >= 3);
    assert_eq!(engine.ask("DELETE", &path, b"").status, 204);
    assert_eq!(functions(&lab), 0, "{:?}", lab.processes());
    assert!(!lab.out().join("work").exists());
    assert_eq!(engine.ask("GET", &path, b"").status, 404);
    // The engine itself ends what it runs.
    assert_eq!(engine.ask("POST", "/v2/workflows", &other).status, 201);
    lab.wait_until("three tasks", |lab| functions(lab) >= 3);
    signal(&engine.child, "-INT");
    assert!(engine.child.wait().unwrap().success());
    assert_eq!(lab.processes(), Vec::new());
}

/// An engine that is killed can end nothing itself.
#[test]
fn an_engine_that_is_killed_leaves_no_process() {
    let Some(mut lab) = lab("duration = '120s'") else { return };
    lab.net = "loopback";
    let planned = document(&lab);
    make_title(&lab);
    let mut engine = Engine::start(&lab);
    assert_eq!(engine.ask("POST", "/v2/workflows", &planned).status, 201);
    lab.wait_until("three tasks", |lab| {
        lab.processes().iter().filter(|(_, command)| command.contains("task")).count() >= 3
    });
    engine.child.kill().unwrap();
    engine.child.wait().unwrap();
    lab.wait_until("no process", |lab| lab.processes().is_empty());
}

/// Makes the title of a library, with a run of its own.
fn make_title(lab: &Lab) {
    let path = lab.folder.path().join("lab/experiments/counts.toml");
    let long = fs::read_to_string(&path).unwrap();
    fs::write(&path, long.replace("duration = '120s'", "before = 'none'")).unwrap();
    assert!(lab.run().status.success());
    fs::write(&path, long).unwrap();
}

#[test]
fn what_is_not_a_workflow_of_this_machine_is_refused() {
    let Some(lab) = lab("before = 'none'") else { return };
    assert!(lab.run().status.success());
    let planned = document(&lab);
    let engine = Engine::start(&lab);
    let refused = |status, why: &str, body: &[u8]| {
        let response = engine.ask("POST", "/v2/workflows", body);
        let detail = response.body["detail"].as_str().unwrap_or_default();
        assert_eq!(response.status, status, "{why}: {detail}");
        assert!(detail.contains(why), "{why}: {detail}");
        assert!(response.head.contains("\r\ncontent-type: application/problem+json"));
    };
    refused(400, "EOF", b"{");
    let shell = changed(&planned, |value| {
        value["processing"]["function-restrictions"][0]["general"]["id"] =
            "ClusterFunction/latemux-shell".into();
    });
    refused(400, "unknown function 'shell'", &shell);
    let keyed = changed(&planned, |value| value["processing"]["keywords"] = json!(["a"]));
    refused(400, "keywords are not accepted", &keyed);
    for outside in ["../short/mp4", "/etc", "short/../../etc", "short//mp4", "./short"] {
        refused(400, "not a path such as", &with(&planned, "storage", "content", outside));
        refused(400, "not a path such as", &with(&planned, "load", "title", outside));
    }
    refused(422, "the title 'none/mp4' is not", &with(&planned, "storage", "content", "none/mp4"));
    let lossy = changed(&planned, |value| {
        let functions = value["processing"]["function-restrictions"].as_array_mut().unwrap();
        let link = functions.iter_mut().find(|one| one["instance"] == "wan").unwrap();
        link["configuration"]["parameters"].as_array_mut().unwrap().push(json!({
            "name": "loss", "id": 99, "datatype": "string",
            "values": [{ "name": "loss", "id": 1, "restrictions": ["1%"] }],
        }));
    });
    refused(422, "needs simulated hosts", &lossy);
    refused(413, "more than 1048576 bytes", &vec![b' '; (1 << 20) + 1]);

    let host = format!("Host: {}", engine.address);
    let status = |method, path, headers: &[&str]| engine.ask_with(method, path, headers, &planned).status;
    assert_eq!(status("POST", "/v2/workflows", &[&host, "Content-Type: text/plain"]), 415);
    assert_eq!(status("POST", "/v2/workflows", &["Host: evil.example:80", MEDIA_TYPE]), 403);
    for path in ["/", "/v1/workflows", "/v2/workflowsx", "/v2/workflows/a/b"] {
        assert_eq!(status("GET", path, &[&host]), 404, "{path}");
    }
    for (method, path, allowed) in [
        ("PATCH", "/v2/workflows/x", "get, delete"),
        ("PUT", "/v2/workflows/x", "get, delete"),
        ("PATCH", "/v2/workflows", "post"),
        ("DELETE", "/v2/workflows", "post"),
    ] {
        let response = engine.ask(method, path, b"");
        assert_eq!(response.status, 405, "{method} {path}");
        assert!(response.head.contains(&format!("\r\nallow: {allowed}")), "{}", response.head);
    }
}

#[test]
fn a_workflow_api_for_other_machines_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let serve = |listen: &str, out: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["lab", "serve", "--listen", listen, "--out"]).arg(out);
        command.output().unwrap()
    };
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let out = serve(listen, &path("run"));
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && error.lines().count() == 1, "{error}");
        assert!(error.contains("is served on loopback addresses only"), "{error}");
        assert!(!path("run").exists());
    }
}
