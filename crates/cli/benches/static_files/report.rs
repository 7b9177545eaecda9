//! The table of results, and its file.

use serde_json::{Value, json};
use std::{fs, io, path::Path, process::Command};

/// Limit of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// The value has no limit.
    None,
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: String,
    /// Median of the rounds.
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) limit: Limit,
    /// Details of the value, or the reason why there is none.
    pub(crate) note: String,
    /// Value of each round.
    pub(crate) rounds: Vec<f64>,
}

impl Row {
    /// Returns true if the value is within its limit, or `None` if there is no limit.
    fn passes(&self) -> Option<bool> {
        match self.limit {
            Limit::AtMost(limit) => Some(self.value <= limit),
            Limit::AtLeast(limit) => Some(self.value >= limit),
            Limit::None => None,
        }
    }

    fn limit(&self) -> String {
        match self.limit {
            Limit::AtMost(limit) => format!("<= {limit}"),
            Limit::AtLeast(limit) => format!(">= {limit}"),
            Limit::None => String::new(),
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
        let name = self.name;
        let what = &self.what;
        let unit = self.unit;
        let limit = self.limit();
        println!("{name:12} {what:44} {value:>8} {unit:16} {limit:>9}  {verdict:4}  {}", self.note);
    }

    fn json(&self) -> Value {
        json!({
            "row": self.name, "what": self.what, "value": self.value, "unit": self.unit, "limit": self.limit(),
            "passes": self.passes(), "note": self.note, "rounds": self.rounds,
        })
    }
}

/// Returns the median.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Writes the rows and a description of the machine to a file, and returns its path.
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

/// Returns the first line that a command prints on either output.
fn said(command: &str, arguments: &[&str]) -> String {
    let Ok(out) = Command::new(command).args(arguments).output() else { return "not known".to_owned() };
    let both = [out.stdout, out.stderr].concat();
    String::from_utf8_lossy(&both).lines().next().unwrap_or_default().trim().to_owned()
}

/// Returns a field of a file in /proc.
fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    value.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}
