//! The usage of hosts that `latemux lab run` keeps.

use crate::lab_run::Lab;
use serde_json::Value;
use std::{fs, path::Path};

/// Checks that the folder of a cell that was measured once has these files, and that in the usage
/// of hosts, each has connections and bytes.
pub(crate) fn check(lab: &Lab, record: &Value, folder: &Path) {
    let files = fs::read_dir(folder).unwrap();
    let mut files: Vec<String> =
        files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, ["hosts-r1.csv", "r1.wdd"], "{record}");
    let text = fs::read_to_string(folder.join("hosts-r1.csv")).unwrap();
    let measured = &record["measured"];
    let columns: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let sum = |host: &str, is_summed: &dyn Fn(&str) -> bool| -> f64 {
        let lines = lines.iter().filter(|line| line[0] == host);
        let fields = lines.flat_map(|line| columns.iter().zip(line).filter(|(column, _)| is_summed(column)));
        fields.map(|(_, field)| field.parse::<f64>().unwrap()).sum()
    };
    let names: &[&str] = if lab.net == "hosts" { &["client", "edge", "store"] } else { &["loopback"] };
    for host in names {
        assert!(sum(host, &|column| column.ends_with("_sent")) > 0.0, "{host}: {text}");
        assert!(sum(host, &|column| column == "opened") > 0.0, "{host}: {text}");
        // The client may have ended before the first reading after its start.
        let memory = sum(host, &|column| column == "memory_bytes");
        assert!(memory > 0.0 || *host == "client", "{host}: {text}");
    }
    // Storage may use less than a tick.
    assert!(names.iter().map(|host| sum(host, &|own| own == "cpu_seconds")).sum::<f64>() > 0.0, "{text}");
    assert!(lines.iter().all(|line| names.contains(&line[0]) && line.len() == columns.len()), "{text}");
    for field in ["client_tcp", "storage_tcp"] {
        assert_eq!(measured[field]["opened"].is_u64(), lab.net == "hosts", "{measured}");
    }
    if lab.net == "hosts" {
        let bytes = measured["bytes"].as_f64().unwrap();
        assert!(sum("client", &|column| column.starts_with("line") && column.ends_with("_received")) > bytes);
    }
}
