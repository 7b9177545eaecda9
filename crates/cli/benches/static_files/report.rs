//! The table, and the file it is kept in.

use serde_json::{Value, json};
use std::{fs, io, path::Path, process::Command};

/// What a row must be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// It is said, and nothing is asked of it.
    Said,
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: String,
    /// The median.
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) limit: Limit,
    /// What the value is made of, or why there is none.
    pub(crate) note: String,
    /// One for each round.
    pub(crate) rounds: Vec<f64>,
}

impl Row {
    /// Whether it is as it must be; `None` where nothing is asked of it.
    fn passes(&self) -> Option<bool> {
        match self.limit {
            Limit::AtMost(limit) => Some(self.value <= limit),
            Limit::AtLeast(limit) => Some(self.value >= limit),
            Limit::Said => None,
        }
    }

    fn limit(&self) -> String {
        match self.limit {
            Limit::AtMost(limit) => format!("<= {limit}"),
            Limit::AtLeast(limit) => format!(">= {limit}"),
            Limit::Said => String::new(),
        }
    }

    pub(crate) fn print(&self) {
        let verdict = match self.passes() {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "",
        };
        let value =
            if self.value >= 100.0 { format!("{:.0}", self.value) } else { format!("{:.2}", self.value) };
        let (name, what, unit, limit) = (self.name, &self.what, self.unit, self.limit());
        println!("{name:12} {what:44} {value:>8} {unit:16} {limit:>9}  {verdict:4}  {}", self.note);
    }

    fn json(&self) -> Value {
        json!({
            "row": self.name, "what": self.what, "value": self.value, "unit": self.unit, "limit": self.limit(),
            "passes": self.passes(), "note": self.note, "rounds": self.rounds,
        })
    }
}

/// The one in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Keeps the rows with what they were measured on; says where.
pub(crate) fn keep(rows: &[Row], folder: &Path) -> io::Result<String> {
    let date = said("date", &["-u", "+%FT%TZ"]);
    let report = json!({
        "date": date,
        "machine": {
            "processor": field("/proc/cpuinfo", "model name"),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "memory": field("/proc/meminfo", "MemTotal"),
            "kernel": said("uname", &["-sr"]),
            "load": fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        },
        "versions": {
            "latemux": env!("CARGO_PKG_VERSION"),
            "commit": said("git", &["describe", "--always", "--dirty"]),
            "rustc": said("rustc", &["--version"]),
            "nginx": said("/usr/sbin/nginx", &["-v"]),
            "wrk": said("wrk", &["-v"]),
        },
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    });
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{}.json", date.replace(':', "")));
    fs::write(&path, format!("{report:#}\n"))?;
    Ok(path.display().to_string())
}

/// The first line a command prints, wherever it prints it.
fn said(command: &str, arguments: &[&str]) -> String {
    let Ok(out) = Command::new(command).args(arguments).output() else { return "not known".to_owned() };
    let both = [out.stdout, out.stderr].concat();
    String::from_utf8_lossy(&both).lines().next().unwrap_or_default().trim().to_owned()
}

/// A field of one of the files in /proc.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    value.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}
