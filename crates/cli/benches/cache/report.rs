//! Rows as text and as JSON.

use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Limit of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// The measurement has no limit.
    None,
}

impl Limit {
    fn holds(self, measured: f64) -> Option<bool> {
        match self {
            Self::AtMost(limit) => Some(measured <= limit),
            Self::AtLeast(limit) => Some(measured >= limit),
            Self::None => None,
        }
    }
}

/// The measurements so far.
pub(crate) struct Report {
    bench: &'static str,
    row: &'static str,
    lines: Vec<Value>,
    failed: usize,
    with: Vec<String>,
}

impl Report {
    pub(crate) fn new(bench: &'static str, with: &[String]) -> Self {
        if !with.is_empty() {
            println!("every latemux serve with {}", with.join(" "));
        }
        Self { bench, row: "", lines: Vec::new(), failed: 0, with: with.to_vec() }
    }

    /// Begins a row. The following lines belong to it.
    pub(crate) fn row(&mut self, name: &'static str) {
        self.row = name;
        println!("\n{name}");
    }

    /// Adds a measurement with a note.
    pub(crate) fn line(&mut self, what: &str, measured: f64, unit: &str, limit: Limit, note: &str) {
        let (relation, bound) = match limit {
            Limit::AtMost(bound) => ("≤", Some(bound)),
            Limit::AtLeast(bound) => ("≥", Some(bound)),
            Limit::None => ("", None),
        };
        let pass = limit.holds(measured);
        self.failed += usize::from(pass == Some(false));
        let verdict = match pass {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "",
        };
        let bounded = bound.map(|bound| format!("{relation} {}", number(bound))).unwrap_or_default();
        println!("  {what:<72} {:>9} {unit:<8} {bounded:<9} {verdict:<5} {note}", number(measured));
        self.lines.push(json!({
            "row": self.row, "what": what, "measured": measured, "unit": unit,
            "relation": relation, "limit": bound, "pass": pass, "note": note,
        }));
    }

    /// Notes the reason why a row has no measurement.
    pub(crate) fn skipped(&mut self, why: &str) {
        println!("  not measured: {why}");
        self.lines.push(json!({ "row": self.row, "skipped": why }));
    }

    /// Writes the file, and returns true if all limits hold.
    pub(crate) fn finish(self) -> bool {
        let first_line = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
            let text = output.map(|o| String::from_utf8_lossy(&[o.stdout, o.stderr].concat()).into_owned());
            text.ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
        };
        let file = |path: &str, name: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_once(':').map_or(line, |(_, value)| value).trim().to_owned()
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let at = root.display().to_string();
        let nginx = latemux_testmedia::process::tool("nginx").unwrap_or_default();
        let binary = crate::origin::binary();
        let date = first_line("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]);
        let report = json!({
            "date": date,
            "machine": {
                "processor": file("/proc/cpuinfo", "model name"),
                "cores": std::thread::available_parallelism().map_or(0, usize::from),
                "memory": file("/proc/meminfo", "MemTotal"),
                "load": file("/proc/loadavg", ""),
                "kernel": first_line("uname", &["-sr"]),
            },
            "versions": {
                "latemux": first_line(&binary.display().to_string(), &["--version"]),
                "commit": first_line("git", &["-C", &at, "describe", "--always", "--dirty"]),
                "profile": if cfg!(debug_assertions) { "debug" } else { "release" },
                "nginx": first_line(&nginx.display().to_string(), &["-v"]),
                "ffmpeg": first_line("ffmpeg", &["-version"]),
            },
            "with": self.with,
            "rows": self.lines,
        });
        let results = root.join("bench/results");
        fs::create_dir_all(&results).unwrap();
        let name = format!("{}-{}.json", self.bench, date.replace(':', "-"));
        fs::write(results.join(&name), serde_json::to_string_pretty(&report).unwrap() + "\n").unwrap();
        let limits = self.lines.iter().filter(|line| line["pass"].is_boolean()).count();
        println!("\n{} of {limits} limits hold; bench/results/{name}", limits - self.failed);
        self.failed == 0
    }
}

/// Prints a value with three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        v if v == v.round() && v < 1e9 => format!("{v:.0}"),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        _ => format!("{value:.3}"),
    }
}
