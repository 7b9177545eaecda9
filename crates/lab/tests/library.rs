//! The experiments of the library: all of them can be planned, with a known number of cells.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use latemux_lab::{
    experiment::Quantity,
    function::Function,
    plan::{Conditions, Extent, Library, Planned, plan},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Plans an experiment of the library.
fn planned(name: &str, scale: f64) -> Planned {
    let file = format!("lab/experiments/{name}.toml");
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let conditions = Conditions { program: "1".to_owned(), mode: "hosts".to_owned() };
    let extent = Extent { scale, only: BTreeMap::new() };
    plan(&path, &Library::beside(&path), &conditions, &extent).unwrap()
}

/// Returns the parameters of the load of each cell, as far as they are stated.
fn loads(plan: &Planned, names: &[&str]) -> Vec<String> {
    let of = |parameters: &BTreeMap<String, String>| {
        let values = names.iter().filter_map(|name| parameters.get(*name).map(String::as_str));
        values.collect::<Vec<_>>().join(" ")
    };
    let nodes = plan.cells.iter().flat_map(|cell| cell.graph.nodes());
    let mut loads: Vec<String> =
        nodes.filter(|node| node.function == Function::Load).map(|node| of(&node.parameters)).collect();
    loads.sort();
    loads.dedup();
    loads
}

#[test]
fn scaled_experiments_keep_their_number_of_cells() {
    for (name, cells, scaled) in [
        ("k-levels", 7 * 9, 3 * 7),
        ("k-manifest", 7 * 2 * 2 * 2, 5 * 2 * 2),
        ("sr", 2 * 2 * 5 * 2, 2 * 2 * 3),
    ] {
        assert_eq!(planned(name, 1.0).cells.len(), cells, "{name}");
        assert_eq!(planned(name, 0.04).cells.len(), scaled, "{name}");
    }
}

#[test]
fn levels_are_those_that_were_published() {
    let names = ["requests", "connections"];
    let published = ["1000 1", "1000 10", "1000 20", "1000 35", "2700 90", "30000 1000", "30000 150"];
    let published = [&published[..], &["500 10", "500 20"]].concat();
    assert_eq!(loads(&planned("k-levels", 1.0), &names), published);
    assert_eq!(loads(&planned("k-manifest", 1.0), &names), ["100 1", "1000 10"]);
    assert_eq!(loads(&planned("k-manifest", 0.04), &names), ["50 1"]);
}

#[test]
fn figures_are_those_of_the_published_tables() {
    let names = ["b2", "f-cold", "f-other", "f-same", "k-efficiency", "k-levels", "k-manifest", "k-place"];
    let names = [&names[..], &["k-requests", "k-startup", "rs", "sr"]].concat();
    for name in &names {
        assert_eq!(planned(name, 1.0).published.len(), 1, "{name}");
    }
    let b2 = planned("b2", 1.0);
    let figure = |setup: &str| {
        let point = BTreeMap::from([("setup".to_owned(), setup.to_owned())]);
        b2.published[0].figure(Quantity::Efficiency, &point)
    };
    assert_eq!((figure("a"), figure("d"), figure("n-single")), (Some(0.294), Some(0.977), None));
}

#[test]
fn orders_of_samples_are_compared_with_and_without_truncation() {
    let plan = planned("rs-order", 0.04);
    let loads = loads(&plan, &["order", "on-deadline", "duration"]);
    assert_eq!(loads, ["decode truncate 9s", "decode wait 9s", "priority truncate 9s", "priority wait 9s"]);
}
