//! Documents that the lab writes are read back, and each change to what it does not write is
//! refused.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use latemux_lab::{
    function::{Function, Parameters},
    graph::{Connection, Graph, Node},
    nbmp::{MAX_DOCUMENT, Task, Workflow},
};
use serde_json::{Value, json};

fn parameters(pairs: &[(&str, &str)]) -> Parameters {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Makes a workflow: storage, link, origin, load.
fn workflow() -> Workflow {
    let node = |id: &str, function: Function, host: Option<&str>, pairs: &[(&str, &str)]| Node {
        id: id.to_owned(),
        function,
        host: host.map(str::to_owned),
        parameters: parameters(pairs),
    };
    let load = [("kind", "list"), ("format", "dash"), ("title", "t"), ("connections", "10")];
    let nodes = vec![
        node("storage", Function::Storage, Some("store"), &[("content", "t/mp4")]),
        node("wan", Function::Link, None, &[("rate", "100Mbit/s")]),
        node("origin", Function::Origin, Some("edge"), &[("config", "[cache]\nmemory = \"0\"\n")]),
        node("load", Function::Load, Some("client"), &load),
    ];
    let connection = |from: &str, to: &str| Connection { from: from.to_owned(), port: 0, to: to.to_owned() };
    let connections =
        vec![connection("storage", "wan"), connection("wan", "origin"), connection("origin", "load")];
    let graph = Graph::new(nodes, connections).unwrap();
    Workflow::new("lab-0123456789ab-r1".to_owned(), "One cell".to_owned(), graph).unwrap()
}

fn task() -> Task {
    let url = |from: &str, port| format!("http://{from}:{}/", 9000 + port);
    let tasks = Task::of(&workflow(), url);
    tasks.into_iter().find(|task| task.function == Function::Origin).unwrap()
}

/// Applies a change, and returns the error of reading the result.
fn refused<T>(
    document: &str,
    read: fn(&[u8]) -> Result<T, latemux_lab::Error>,
    change: &dyn Fn(&mut Value),
) -> String {
    let mut value: Value = serde_json::from_str(document).unwrap();
    let before = value.clone();
    change(&mut value);
    assert_ne!(value, before, "the change changes nothing");
    let error =
        read(&serde_json::to_vec(&value).unwrap()).err().expect("the document is refused").to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn documents_are_read_as_they_were_written() {
    let workflow = workflow();
    let json = workflow.to_json().unwrap();
    assert_eq!(Workflow::from_json(json.as_bytes()).unwrap(), workflow);
    let task = task();
    assert_eq!(task.id, "origin-lab-0123456789ab-r1");
    assert_eq!(task.inputs, ["http://wan:9000/"]);
    assert_eq!(task.outputs[0].url, "http://origin:9000/");
    let json = task.to_json().unwrap();
    assert_eq!(Task::from_json(json.as_bytes()).unwrap(), task);
}

#[test]
fn each_thing_that_a_workflow_must_not_state_is_refused() {
    let document = workflow().to_json().unwrap();
    let connection = |value: &mut Value, field: &str, new: Value| {
        value["processing"]["connection-map"][0][field] = new;
    };
    let function = |value: &mut Value, field: &str, new: Value| {
        value["processing"]["function-restrictions"][0][field] = new;
    };
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Value));
    let changes: &[Change<'_>] = &[
        ("is not urn:mpeg:mpegi:nbmp:2023", &|v| v["scheme"]["uri"] = json!("urn:mpeg:mpegi:nbmp:2020")),
        ("missing field `scheme`", &|v| drop(v.as_object_mut().unwrap().remove("scheme"))),
        ("missing field `requirement`", &|v| drop(v.as_object_mut().unwrap().remove("requirement"))),
        ("not a DNS label of at most 40", &|v| v["general"]["id"] = json!("x".repeat(41))),
        ("not a DNS label of at most 40", &|v| v["general"]["id"] = json!("Lab")),
        ("only tasks have ports", &|v| {
            v["general"]["input-ports"] =
                json!([{"port-name": "in", "bind": {"stream-id": "a", "name": "a"}}]);
        }),
        ("unknown field `rank`", &|v| v["general"]["rank"] = json!(1)),
        ("unknown field `priority`", &|v| v["general"]["priority"] = json!(1)),
        ("unknown field `task-group`", &|v| v["general"]["task-group"] = json!([])),
        ("unknown field `is-group`", &|v| v["general"]["is-group"] = json!(true)),
        ("unknown field `location`", &|v| v["general"]["location"] = json!("DE")),
        ("input: workflows have no streams", &|v| {
            let stream =
                v["processing"]["connection-map"][0]["from"]["output-restrictions"]["media-parameters"]
                    .clone();
            v["input"]["media-parameters"] = stream;
        }),
        ("unknown field `metadata-parameters`", &|v| v["output"]["metadata-parameters"] = json!([])),
        ("processing: keywords are not accepted", &|v| v["processing"]["keywords"] = json!(["a"])),
        ("processing: images are not accepted", &|v| v["processing"]["image"] = json!(["a"])),
        ("unknown field `start-time`", &|v| v["processing"]["start-time"] = json!("2026-01-01T00:00:00Z")),
        ("unknown field `flowcontrol`", &|v| connection(v, "flowcontrol", json!({"max-throughput": 1}))),
        ("unknown field `co-located`", &|v| connection(v, "co-located", json!(true))),
        ("unknown field `breakable`", &|v| connection(v, "breakable", json!(true))),
        ("unknown field `other-parameters`", &|v| connection(v, "other-parameters", json!([]))),
        ("stated twice", &|v| connection(v, "connection-id", json!("wan-origin"))),
        ("its stream has another id", &|v| connection(v, "connection-id", json!("x"))),
        ("id and instance differ", &|v| v["processing"]["connection-map"][0]["from"]["id"] = json!("wan")),
        ("id and instance differ", &|v| v["processing"]["connection-map"][0]["to"]["id"] = json!("x")),
        ("does not end at the port 'in'", &|v| {
            v["processing"]["connection-map"][0]["to"]["port-name"] = json!("in.0");
        }),
        ("at a port such as 'out.0'", &|v| {
            v["processing"]["connection-map"][0]["from"]["port-name"] = json!("media");
        }),
        ("at a port such as 'out.0'", &|v| {
            v["processing"]["connection-map"][0]["from"]["port-name"] = json!("out.00");
        }),
        ("unknown field `input-restrictions`", &|v| {
            v["processing"]["connection-map"][0]["to"]["input-restrictions"] =
                json!({"media-parameters": []});
        }),
        ("does not carry one stream", &|v| {
            v["processing"]["connection-map"][0]["from"]["output-restrictions"]["media-parameters"] =
                json!([]);
        }),
        ("unknown field `requirements`", &|v| {
            function(v, "requirements", json!({"hardware": {"vcpu": 4}}));
        }),
        ("unknown field `processing`", &|v| function(v, "processing", json!({"keywords": ["a"]}))),
        ("unknown field `monitoring`", &|v| function(v, "monitoring", json!({}))),
        ("unknown field `step`", &|v| function(v, "step", json!({}))),
        ("unknown field `blacklist`", &|v| function(v, "blacklist", json!([]))),
        ("is stated twice", &|v| {
            let functions = v["processing"]["function-restrictions"].as_array_mut().unwrap();
            let parameters = functions[3]["configuration"]["parameters"].as_array_mut().unwrap();
            parameters[1]["name"] = parameters[0]["name"].clone();
        }),
        ("its id is used twice", &|v| {
            let functions = v["processing"]["function-restrictions"].as_array_mut().unwrap();
            let parameters = functions[3]["configuration"]["parameters"].as_array_mut().unwrap();
            parameters[1]["id"] = parameters[0]["id"].clone();
        }),
        ("the id 'wan' is used twice", &|v| function(v, "instance", json!("wan"))),
        ("does not begin with ClusterFunction/latemux-", &|v| {
            v["processing"]["function-restrictions"][0]["general"]["id"] = json!("Function/latemux-storage");
        }),
        ("unknown function 'shell'", &|v| {
            v["processing"]["function-restrictions"][0]["general"]["id"] =
                json!("ClusterFunction/latemux-shell");
        }),
        ("unknown field `hardware`", &|v| v["requirement"]["hardware"] = json!({"vcpu": 4})),
        ("unknown field `flowcontrol`", &|v| v["requirement"]["flowcontrol"] = json!({})),
        ("unknown field `repository`", &|v| v["repository"] = json!({})),
        ("unknown field `step`", &|v| v["step"] = json!({})),
        ("unknown field `client-assistant`", &|v| v["client-assistant"] = json!({})),
        ("unknown field `failover`", &|v| v["failover"] = json!({})),
        ("unknown field `monitoring`", &|v| v["monitoring"] = json!({})),
        ("unknown field `assertion`", &|v| v["assertion"] = json!({})),
        ("unknown field `reporting`", &|v| v["reporting"] = json!({})),
        ("unknown field `notification`", &|v| v["notification"] = json!({})),
        ("unknown field `acknowledge`", &|v| v["acknowledge"] = json!({})),
        ("unknown field `security`", &|v| v["security"] = json!({})),
        ("unknown field `scale`", &|v| v["scale"] = json!({})),
        ("unknown field `schedule`", &|v| v["schedule"] = json!({})),
    ];
    for (why, change) in changes {
        let error = refused(&document, Workflow::from_json, change);
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn streams_and_parameters_of_other_kinds_are_refused() {
    let document = workflow().to_json().unwrap();
    for (field, new, why) in [
        ("protocol", json!("rtmp"), "its protocol is not http"),
        ("mode", json!("push"), "its mode is not pull"),
        ("keywords", json!(["a"]), "keywords are not accepted"),
        ("caching-server-url", json!("http://x/"), "its stream has a URL"),
        ("stream-id", json!("x"), "its stream has another id"),
        ("throughput", json!(1), "unknown field `throughput`"),
        ("timeout", json!(1), "unknown field `timeout`"),
    ] {
        let error = refused(&document, Workflow::from_json, &|v| {
            v["processing"]["connection-map"][0]["from"]["output-restrictions"]["media-parameters"][0]
                [field] = new.clone();
        });
        assert!(error.contains(why), "{why}: {error}");
    }
    let value = || json!({"name": "content", "id": 1, "restrictions": ["t/mp4"]});
    for (field, new, why) in [
        ("datatype", json!("integer"), "its datatype is not string"),
        ("values", json!([]), "it does not have one value"),
        ("values", json!([value(), value()]), "it does not have one value"),
        ("values", json!([{"name": "a", "id": 1, "restrictions": []}]), "does not have one restriction"),
        (
            "values",
            json!([{"name": "a", "id": 1, "restrictions": ["a", "b"]}]),
            "does not have one restriction",
        ),
        (
            "values",
            json!([{"name": "a", "id": 1, "restrictions": [""]}]),
            "content = '': not a path such as title/mp4",
        ),
        ("name", json!("path"), "storage has no parameter 'path'"),
        ("conditions", json!([1]), "unknown field `conditions`"),
        ("exclusions", json!([1]), "unknown field `exclusions`"),
    ] {
        let error = refused(&document, Workflow::from_json, &|v| {
            v["processing"]["function-restrictions"][0]["configuration"]["parameters"][0][field] =
                new.clone();
        });
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn each_thing_that_a_task_must_not_state_is_refused() {
    let document = task().to_json().unwrap();
    type Change<'a> = (&'a str, &'a dyn Fn(&mut Value));
    let changes: &[Change<'_>] = &[
        ("is not urn:mpeg:mpegi:nbmp:2023", &|v| v["scheme"]["uri"] = json!("urn:x")),
        ("the ports do not match the streams", &|v| v["general"]["input-ports"] = json!([])),
        ("the ports do not match the streams", &|v| {
            v["general"]["output-ports"][0]["bind"]["stream-id"] = json!("x");
        }),
        ("does not begin with http://", &|v| {
            v["input"]["media-parameters"][0]["caching-server-url"] = json!("file:///etc/passwd");
        }),
        ("its mode is not pull", &|v| v["output"]["media-parameters"][0]["mode"] = json!("push")),
        ("keywords and images are not accepted", &|v| v["processing"]["keywords"] = json!(["a"])),
        ("unknown field `connection-map`", &|v| v["processing"]["connection-map"] = json!([])),
        ("unknown field `hardware`", &|v| v["requirement"]["hardware"] = json!({})),
        ("unknown field `startup-delay`", &|v| v["startup-delay"] = json!({})),
        ("unknown field `step`", &|v| v["step"] = json!({})),
        ("unknown field `scale`", &|v| v["scale"] = json!({})),
        ("unknown field `security`", &|v| v["security"] = json!({})),
        ("no parameter names the function", &|v| {
            let parameters = v["configuration"]["parameters"].as_array_mut().unwrap();
            parameters.retain(|parameter| parameter["name"] != "function");
        }),
        ("unknown function 'sh'", &|v| {
            let parameters = v["configuration"]["parameters"].as_array_mut().unwrap();
            let function = parameters.iter_mut().find(|parameter| parameter["name"] == "function").unwrap();
            function["values"][0]["restrictions"][0] = json!("sh");
        }),
        ("origin does not read from 0 functions", &|v| {
            v["input"]["media-parameters"] = json!([]);
            v["general"]["input-ports"] = json!([]);
        }),
    ];
    for (why, change) in changes {
        let error = refused(&document, Task::from_json, change);
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn documents_that_are_too_large_or_not_json_are_refused() {
    let large = vec![b' '; MAX_DOCUMENT + 1];
    let error = Workflow::from_json(&large).unwrap_err().to_string();
    assert_eq!(error, "the document has more than 1048576 bytes");
    assert!(Task::from_json(&large).is_err());
    assert!(Workflow::from_json(b"{").is_err());
    assert!(Workflow::from_json("[".repeat(100_000).as_bytes()).is_err());
}
