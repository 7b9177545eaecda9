//! Tests with engines that accept, refuse, vanish, or are slow.

use super::*;
use crate::graph::{Connection, Graph, Node};
use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread::{self, JoinHandle},
};

const LOAD: [(&str, &str); 4] = [("kind", "list"), ("format", "hls"), ("title", "t"), ("connections", "1")];

/// Returns a workflow of a storage, an origin and a load.
fn document() -> Vec<u8> {
    with_client(Function::Load, &LOAD)
}

/// Returns a workflow of a storage, an origin and a client.
fn with_client(client: Function, parameters: &[(&str, &str)]) -> Vec<u8> {
    let node = |id: &str, function, parameters: &[(&str, &str)]| Node {
        id: id.to_owned(),
        function,
        host: None,
        parameters: parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    };
    let nodes = vec![
        node("storage", Function::Storage, &[("content", "t/mp4")]),
        node("origin", Function::Origin, &[("config", "[cache]")]),
        node("load", client, parameters),
    ];
    let connection = |from: &str, to: &str| Connection { from: from.to_owned(), port: 0, to: to.to_owned() };
    let graph =
        Graph::new(nodes, vec![connection("storage", "origin"), connection("origin", "load")]).unwrap();
    Workflow::new("lab-x".to_owned(), "x".to_owned(), graph).unwrap().to_json().unwrap().into_bytes()
}

/// The longest wait for a response.
const WAIT: Duration = Duration::from_secs(30);

const CREATED: &str = "HTTP/1.1 201 Created\r\n\r\n{\"general\": {\"id\": \"lab-7\"}}";

const GONE: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// A response that never comes.
const SLOW: &str = "slow";

/// Starts an engine that gives these responses in turn. Returns its address, and a thread that
/// returns the requests.
fn engine(responses: &[&str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("http://{}/api/", listener.local_addr().unwrap());
    let responses: Vec<String> = responses.iter().map(|response| (*response).to_owned()).collect();
    let serve = move || {
        let answer = |response: String| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read(&mut stream);
            if response == SLOW {
                // Waits until the client has given up.
                let _ = stream.read(&mut [0]);
            }
            stream.write_all(response.as_bytes()).unwrap();
            request
        };
        responses.into_iter().map(answer).collect()
    };
    (address, thread::spawn(serve))
}

/// Reads a request with its body.
fn read(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).unwrap();
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8(request.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            return text;
        }
    }
}

/// Returns the response to a question for the workflow `lab-7`: its state, and that of its load.
fn states(workflow: &str, load: Option<&str>) -> String {
    let load = load.map(|state| serde_json::json!({"id": "ClusterFunction/latemux-load", "state": state}));
    let body = serde_json::json!({
        "general": {"id": "lab-7", "state": workflow},
        "processing": {"function-restrictions": [
            {"instance": "origin", "general": {"state": "running"}},
            {"instance": "load-lab-7", "general": load.unwrap_or_default()},
        ]},
    });
    format!("HTTP/1.1 200 OK\r\n\r\n{body}")
}

fn create(address: &str) -> Result<Submitted, Error> {
    submit(&document(), &Engine::at(address, WAIT)?)
}

#[test]
fn an_engine_gets_the_document_and_names_the_workflow() {
    let (address, requests) = engine(&[CREATED]);
    assert_eq!(create(&address).unwrap().id, "lab-7");
    let request = &requests.join().unwrap()[0];
    assert!(request.starts_with("POST /api/v2/workflows HTTP/1.0\r\n"), "{request}");
    assert!(request.ends_with(std::str::from_utf8(&document()).unwrap()), "{request}");
    let (address, _requests) = engine(&["HTTP/1.1 201 Created\r\n\r\n"]);
    assert_eq!(create(&address).unwrap().id, "lab-x");
}

#[test]
fn an_engine_that_refuses_or_vanishes_is_one_line() {
    for (response, why) in [
        (
            "HTTP/1.1 409 Conflict\r\n\r\n{\n\"detail\": \"exists\"}",
            "refused the workflow with status 409: { \"detail\": \"exists\"}",
        ),
        ("HTTP/1.1 200 OK\r\n\r\n", "status 200"),
        ("", "the response is not one of HTTP"),
        ("HTTP/1.1 201 Created\r\n", "the response is not one of HTTP"),
        ("SSH-2.0-x\r\n\r\n", "the response is not one of HTTP"),
        ("HTTP/1.1 201 Created\r\n\r\n{\"general\": {\"id\": \"../x\"}}", "not a DNS label"),
    ] {
        let (address, _requests) = engine(&[response]);
        let error = create(&address).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(why) && !text.contains('\n') && error.reason() == "lacking", "{text}");
    }
    // No other test listens on this address, so nobody takes the port when it is free again.
    let closed = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 9), 0)).unwrap().local_addr().unwrap();
    let error = create(&format!("http://{closed}")).unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}

#[test]
fn a_slow_engine_is_waited_for_only_so_long() {
    let (address, _requests) = engine(&[SLOW]);
    let slow = Engine::at(&address, Duration::from_millis(50)).unwrap();
    let error = submit(&document(), &slow).unwrap_err().to_string();
    assert!(error.ends_with(": no response within 0.05 s"), "{error}");
}

#[test]
fn nothing_is_sent_for_a_wrong_address_or_document() {
    for wrong in ["https://engine/", "engine:80", "http://", "http://a b/", "http://u@h/", "http://h/?q"] {
        let error = create(wrong).unwrap_err().to_string();
        assert!(error.contains("is not the address of an engine"), "{error}");
    }
    let nobody = Engine::at("http://127.0.0.1:1/", WAIT).unwrap();
    assert_eq!(submit(b"{}", &nobody).unwrap_err().reason(), "invalid");
    let player = with_client(Function::Player, &[("format", "dash"), ("title", "t")]);
    let error = submit(&player, &nobody).unwrap_err().to_string();
    assert_eq!(
        error,
        "`latemux lab submit` cannot send a player: only `latemux lab run` can start a browser"
    );
}

/// Submits a workflow and waits for it. The part appears when it is looked for the second time.
/// Returns the result, and the start of each request.
fn wait_for(responses: &[&str], part: &Part) -> (Result<Part, String>, Vec<String>) {
    let (address, requests) = engine(&[&[CREATED], responses].concat());
    let engine = Engine::at(&address, WAIT).unwrap();
    let submitted = submit(&document(), &engine).unwrap();
    assert_eq!(submitted.part_name(), "load-lab-7.json");
    let mut looks = 0;
    let mut find = || {
        looks += 1;
        Ok((looks > 1).then(|| part.clone()))
    };
    let result = submitted.wait(&engine, Duration::from_millis(1), &mut find, &AtomicBool::new(false));
    // Requests behind the last response are none: this thread then ends.
    let requests = requests.join().unwrap();
    let starts = requests.iter().map(|request| request.split(" HTTP").next().unwrap().to_owned());
    (result.map_err(|error| error.to_string()), starts.skip(1).collect())
}

const GET: &str = "GET /api/v2/workflows/lab-7";
const DELETE: &str = "DELETE /api/v2/workflows/lab-7";

#[test]
fn a_workflow_is_deleted_when_its_load_is_idle_and_has_left_its_part() {
    let part = Part { function: "load".to_owned(), ..Part::default() };
    let [early, running] = [("instantiated", "idle"), ("running", "running")]
        .map(|(workflow, load)| states(workflow, Some(load)));
    // An idle load may not have begun: only its part shows that it has ended.
    for last in
        [states("running", Some("idle")), states("running", Some("destroyed")), states("running", None)]
    {
        let (result, requests) = wait_for(&[&early, &running, "", &last, GONE], &part);
        assert_eq!(result, Ok(part.clone()));
        assert_eq!(requests, [GET, GET, GET, GET, DELETE], "{last}");
    }
    // The part was there, but the engine would not delete the workflow.
    let refused = "HTTP/1.1 500 Oops\r\n\r\nbusy";
    let (result, _) = wait_for(&[&early, &early, refused], &part);
    assert!(result.unwrap_err().ends_with("the workflow lab-7 was not deleted: status 500: busy"));
}

#[test]
fn a_load_that_fails_ends_the_wait() {
    let part = Part { function: "load".to_owned(), ..Part::default() };
    let idle = states("running", Some("idle"));
    for failed in [states("running", Some("in-error")), states("in-error", None)] {
        let (result, requests) = wait_for(&[&failed, GONE], &part);
        assert!(result.unwrap_err().ends_with("the workflow lab-7 has failed"));
        assert_eq!(requests, [GET, DELETE]);
    }
    let partial = Part { is_partial: true, ..part.clone() };
    let (result, requests) = wait_for(&[&idle, &idle, GONE], &partial);
    assert!(result.unwrap_err().ends_with("the load was stopped before its end"));
    assert_eq!(requests, [GET, GET, DELETE]);
    let (result, requests) = wait_for(&["HTTP/1.1 404 Not Found\r\n\r\n"], &part);
    assert!(result.unwrap_err().ends_with("the workflow lab-7 does not exist any more"));
    assert_eq!(requests, [GET]);
    let (result, requests) = wait_for(&["", "", "", "", "HTTP/1.1 502 Bad\r\n\r\nx"], &part);
    assert!(result.unwrap_err().ends_with("the engine answered with status 502: x"));
    assert_eq!(requests, [GET; 5]);
}

#[test]
fn a_wait_that_is_stopped_deletes_the_workflow() {
    let (address, requests) = engine(&[CREATED, &states("running", Some("running")), GONE]);
    let engine = Engine::at(&address, WAIT).unwrap();
    let submitted = submit(&document(), &engine).unwrap();
    let stop = AtomicBool::new(true);
    let error = submitted.wait(&engine, WAIT, &mut || Ok(None), &stop).unwrap_err().to_string();
    assert!(error.ends_with("stopped: the workflow is deleted"), "{error}");
    assert!(requests.join().unwrap()[2].starts_with(DELETE));
}
