//! Reports show the numbers of the results.

use crate::playing::{fixed, plan, played};
use latemux_load::{
    report::{csv, page, summary},
    results::{Part, Run},
    run::Plan,
};
use latemux_testmedia::{
    memory_server::{MemoryServer, Reply, files},
    streams::dash,
};
use std::collections::BTreeMap;

/// Runs three players against a server that lacks one segment.
async fn measured() -> Run {
    let inner = files(dash("template-timeline", ""));
    let server = MemoryServer::new(move |request| {
        if request.path.contains("stream0-00004") { Reply::status(503) } else { inner(request) }
    });
    let plan = Plan { players: 3, ..plan("index.mpd") };
    let (results, examples) = played(&server, &plan, fixed(u64::MAX)).await;
    let options = BTreeMap::from([("urls".to_owned(), "a?b=<c>&d".to_owned())]);
    let mut part = Part::new("0/1".to_owned(), 0, options);
    part.complete = true;
    part.took = 12_000;
    part.results = results;
    part.examples = examples;
    Run::single(part)
}

#[tokio::test(start_paused = true)]
async fn page_and_tables_have_the_numbers_of_the_results() {
    let run = measured().await;
    let results = run.whole.results.clone();
    let text = summary(&run);
    assert!(text.contains("failed: status_503 3: http://origin.example/chunk-stream0-00004.m4s"), "{text}");
    assert!(text.contains("players: 3 started, 3 finished"), "{text}");
    let runs = [("one, \"1\"".to_owned(), run.clone()), ("<two>".to_owned(), run)];

    let page = page(&runs);
    let (_, data) = page.split_once("id=\"report\">").unwrap();
    let (data, _) = data.split_once('<').unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let names: Vec<&str> =
        data["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one, \"1\"", "<two>"]);
    let shown = &data["runs"][1];
    let total = results.total();
    assert_eq!(shown["totals"]["requests"], total.count);
    assert_eq!(shown["totals"]["errors"], 3);
    assert_eq!(shown["players"]["came"], 3);
    assert_eq!(shown["plan"]["urls"], "a?b=<c>&d");
    let sum = |part: &str, of: &str| -> u64 {
        shown[part].as_array().unwrap().iter().map(|row| row[of].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("classes", "count"), sum("classes", "bytes")), (total.count, total.bytes));
    assert_eq!((sum("samples", "requests"), sum("samples", "errors")), (total.count, 3));
    assert_eq!(
        shown["failures"][0]["example"].as_str().unwrap().rsplit('/').next(),
        Some("chunk-stream0-00004.m4s")
    );
    assert_eq!(shown["latencies"].as_array().unwrap().len(), results.requests.len());

    let requests = csv::requests(&runs);
    let rows: Vec<&str> = requests.lines().skip(1).filter(|row| row.starts_with("<two>,")).collect();
    let column = |row: &str, n: usize| row.split(',').nth(n).unwrap().parse::<u64>().unwrap();
    assert_eq!(rows.iter().map(|row| column(row, 2)).sum::<u64>(), total.count);
    assert_eq!(rows.iter().map(|row| column(row, 4)).sum::<u64>(), total.bytes);
    assert!(requests.contains("\"one, \"\"1\"\"\",dash.video"), "{requests}");
    assert!(csv::errors(&runs).contains("<two>,dash.video,status_503,3"));
    let seconds = csv::seconds(&runs);
    let rows = seconds.lines().filter(|row| row.starts_with("<two>,"));
    assert_eq!(rows.clone().map(|row| column(row, 2)).sum::<u64>(), total.count);
    assert_eq!(rows.clone().count(), results.seconds.len());
    let histograms = csv::histograms(&runs);
    let rows = histograms.lines().filter(|row| row.starts_with("<two>,dash.video latency us,"));
    assert_eq!(rows.map(|row| column(row, 3)).sum::<u64>(), results.requests["dash.video"].count);
}
