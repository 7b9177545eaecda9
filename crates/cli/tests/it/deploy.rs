//! The files of `deploy`: dashboards and alerts name only metrics that exist, the unit of systemd
//! is one, and compose's services fit together.

use crate::{
    client::get,
    server::{Server, samples},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(deploy(name)).unwrap()
}

/// Returns the words of a text that begin like the metrics of a server.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("latemux_") || word.starts_with("process_"))
        .collect()
}

/// Returns the names of the time series that a server may have: its metrics, with the endings of
/// their types.
fn served() -> BTreeSet<String> {
    let cache = tempfile::tempdir().unwrap();
    let dir = cache.path().to_str().unwrap();
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0", "--cache-dir", dir], &[]);
    let metrics = get(server.admin.unwrap(), "/metrics");
    let mut names = BTreeSet::new();
    for line in metrics.text().lines() {
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let endings: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            "info" => &["_info"],
            _ => &[""],
        };
        names.extend(endings.iter().map(|ending| format!("{name}{ending}")));
    }
    names
}

#[test]
fn alerts_and_dashboards_name_metrics_that_exist() {
    let served = served();
    for file in ["prometheus/alerts.yaml", "grafana/latemux.json"] {
        let text = read(file);
        let named = metrics_in(&text);
        assert!(named.len() > 8, "{file}: {named:?}");
        for metric in named {
            assert!(served.contains(metric), "{file}: no metric {metric} among {served:?}");
        }
    }
}

#[test]
fn the_dashboard_has_a_query_and_a_unit_in_each_panel() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("grafana/latemux.json")).unwrap();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] != "row" {
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{panel}");
            assert!(!panel["targets"].as_array().unwrap().is_empty(), "{panel}");
        }
    }
}

#[test]
fn alerts_are_valid_yaml_with_an_expression_each() {
    let documents = yaml_rust2::YamlLoader::load_from_str(&read("prometheus/alerts.yaml")).unwrap();
    let rules = documents[0]["groups"][0]["rules"].as_vec().unwrap();
    assert!(!rules.is_empty());
    for rule in rules {
        for key in ["alert", "expr", "for"] {
            assert!(rule[key].as_str().is_some(), "{key}: {rule:?}");
        }
        assert!(rule["annotations"]["summary"].as_str().is_some(), "{rule:?}");
    }
}

#[test]
fn the_services_of_compose_name_each_other() {
    let documents = yaml_rust2::YamlLoader::load_from_str(&read("compose/compose.yaml")).unwrap();
    let services = &documents[0]["services"];
    for name in ["storage", "origin-1", "origin-2", "balancer"] {
        assert!(services[name]["image"].as_str().is_some() || name == "origin-2", "{name}");
    }
    let balancer = read("compose/nginx.conf");
    let origin = read("compose/latemux.toml");
    assert!(balancer.contains("server origin-1:8080") && balancer.contains("server origin-2:8080"));
    assert!(origin.contains("http://storage:7070") && origin.contains("listen = \":8080\""));
    // 1.1 times the budgets, and 64 MiB.
    let sizes = origin.lines().filter_map(|line| line.split_once(" = \"")?.1.strip_suffix("MiB\""));
    let budgets: u64 = sizes.map(|size| size.parse::<u64>().unwrap()).sum();
    let limit = services["origin-1"]["mem_limit"].as_str().unwrap().trim_end_matches('m');
    assert!(limit.parse::<u64>().unwrap() >= budgets * 11 / 10 + 64, "{budgets}");
}

#[test]
fn the_unit_of_systemd_is_valid_and_confined() {
    let unit =
        read("systemd/latemux.service").replace("/usr/local/bin/latemux", env!("CARGO_BIN_EXE_latemux"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latemux.service");
    fs::write(&path, unit).unwrap();
    let analyze = |arguments: &[&str]| {
        Command::new("systemd-analyze").args(arguments).arg(&path).env("SYSTEMD_PAGER", "").output()
    };
    let Ok(verified) = analyze(&["verify", "--man=no"]) else {
        println!("skipped: systemd-analyze is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && said.trim().is_empty(), "{said}");
    // 25 stands for an exposure of 2.5 of 10.
    let confined = analyze(&["security", "--offline=true", "--threshold=25"]).unwrap();
    assert!(confined.status.success(), "{}", String::from_utf8_lossy(&confined.stdout));
}
