//! Reports say what results say.

use crate::{
    playing::{fixed, plan, played},
    server::{Pipes, Reply, files},
    streams::dash,
};
use latemux_load::{
    report::{csv, page, summary},
    results::{Part, Run},
    run::Plan,
};
use std::collections::BTreeMap;

/// Three players, one of whose segments is not there.
async fn measured() -> Run {
    let inner = files(dash("template-timeline", ""));
    let server =
        Pipes::new(
            move |asked| {
                if asked.path.contains("stream0-00004") { Reply::status(503) } else { inner(asked) }
            },
        );
    let plan = Plan { players: 3, ..plan("index.mpd") };
    let (results, examples) = played(&server, &plan, fixed(u64::MAX)).await;
    let options = BTreeMap::from([("urls".to_owned(), "a?b=<c>&d".to_owned())]);
    let mut part = Part::new("0/1".to_owned(), 0, options);
    part.complete = true;
    part.took = 12_000;
    part.results = results;
    part.examples = examples;
    Run::of(&[part]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_page_and_the_tables() {
    let run = measured().await;
    let results = run.whole.results.clone();
    let text = summary(&run);
    assert!(text.contains("failed: status_503 3: http://origin.example/chunk-stream0-00004.m4s"), "{text}");
    assert!(text.contains("3 came: 3 finished"), "{text}");
    let runs = [("one, \"1\"".to_owned(), run.clone()), ("<two>".to_owned(), run)];

    let page = page(&runs);
    let (_, html) = page.split_once('\n').unwrap();
    let document = roxmltree::Document::parse(html).unwrap();
    let count = |name: &str| document.descendants().filter(|n| n.has_tag_name(name)).count();
    assert_eq!((count("svg"), count("h2"), count("script")), (8, 2, 0));
    let lines = document.descendants().filter(|n| n.attribute("class") == Some("line")).count();
    assert_eq!(lines, 6 * 2 + results.requests.len() * 2 + 2);

    let requests = csv::requests(&runs);
    let rows: Vec<&str> = requests.lines().skip(1).filter(|row| row.starts_with("<two>,")).collect();
    let column = |row: &str, n: usize| row.split(',').nth(n).unwrap().parse::<u64>().unwrap();
    let total = results.total();
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
