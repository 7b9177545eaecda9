//! The machine on which a run is measured.

use crate::{Error, date};
use latemux_load::usage::Host;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fs, path::Path, thread};

/// The name of the file in the folder of a run.
pub(crate) const FILE: &str = "machine.json";

/// The machine on which a run is measured. Only results of equal machines are comparable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The model of the processor, if the system states it.
    pub processor: String,
    /// The number of processors that this program may use.
    pub cores: usize,
    /// The memory in bytes.
    pub memory: u64,
    /// The release of the kernel.
    pub kernel: String,
    /// The version of latemux.
    pub latemux: String,
    /// The mode of `--net`: `hosts` or `loopback`.
    pub net: String,
    /// The dates on which measurements began (UTC).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub dates: BTreeSet<String>,
}

impl Machine {
    /// Describes this machine.
    pub fn this(latemux: &str, net: &str) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        // `model name	: …`, and `MemTotal:  … kB`
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map_or_else(String::new, |rest| rest.trim_matches([' ', '\t', ':']).to_owned())
        };
        let kilobytes = field(&text("/proc/meminfo"), "MemTotal");
        let kilobytes = kilobytes.trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        Self {
            processor: field(&text("/proc/cpuinfo"), "model name"),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory: kilobytes.saturating_mul(1024),
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
            latemux: latemux.to_owned(),
            net: net.to_owned(),
            dates: BTreeSet::new(),
        }
    }

    /// Returns this machine with the dates of its measurements, given the times at which they
    /// began.
    #[must_use]
    pub fn dated(self, began: impl Iterator<Item = u64>) -> Self {
        Self { dates: began.map(date::date).collect(), ..self }
    }

    /// Reads the file `machine.json` in the folder of a run.
    ///
    /// # Errors
    /// If the file cannot be read, or holds something else.
    pub fn read(run: &Path) -> Result<Self, Error> {
        let path = run.join(FILE);
        let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, &error))?;
        serde_json::from_str(&text).map_err(|error| Error::invalid(format!("{}: {error}", path.display())))
    }

    /// Writes the file `machine.json` in the folder of a run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, run: &Path) -> Result<(), Error> {
        let path = run.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::invalid(error.to_string()))?;
        fs::write(&path, text + "\n").map_err(|error| Error::file(&path, &error))
    }
}

/// Returns the first `count` processors that this process may use, as a list such as `0,2`.
///
/// # Errors
/// If it may use fewer.
pub(crate) fn first_processors(count: usize) -> Result<String, Error> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let allowed = numbers(allowed.unwrap_or_default().trim());
    match allowed.get(..count) {
        Some(first) => Ok(first.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        None => {
            let available = allowed.len();
            let text = format!("the origin needs {count} processors, but only {available} are available");
            Err(Error::Lacking(text))
        }
    }
}

/// Returns the numbers of a list such as `0-2,8` (cpuset(7), "List format").
fn numbers(list: &str) -> Vec<u32> {
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    ranges.flatten().collect()
}

/// A reading of the processor time of this machine, and of this program with its children.
#[derive(Debug)]
pub(crate) struct ProcessorTime {
    machine: Host,
    own: u64,
}

impl ProcessorTime {
    /// Reads the time until now.
    pub(crate) fn now() -> Self {
        Self { machine: Host::now(), own: own_ticks() }
    }

    /// Returns the share of all cores that other programs have used since an earlier reading, from
    /// 0 to 1. Children count as own as soon as they have ended and were waited for.
    pub(crate) fn foreign_since(&self, before: &Self) -> f64 {
        let grown = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let all = grown(self.machine.ticks, before.machine.ticks);
        let busy = grown(self.machine.busy, before.machine.busy);
        let foreign = (busy - grown(self.own, before.own)).max(0.0);
        if all > 0.0 { foreign / all } else { 0.0 }
    }
}

/// Returns the processor time of this process and its children, in ticks.
pub(crate) fn own_ticks() -> u64 {
    ticks(&fs::read_to_string("/proc/self/stat").unwrap_or_default()).unwrap_or(0)
}

/// Returns the sum of the fields 14 to 17 of proc_pid_stat(5): user and system time of the process,
/// and of its children that were waited for. Field 2 may hold spaces and brackets.
pub(crate) fn ticks(stat: &str) -> Option<u64> {
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    (fields.len() == 4).then(|| fields.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_those_that_this_process_may_use() {
        assert_eq!(numbers("0-2,8,10-11"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(numbers("3"), [3]);
        assert_eq!(numbers(""), Vec::<u32>::new());
        assert!(first_processors(1).unwrap().parse::<u32>().is_ok());
        let error = first_processors(100_000).unwrap_err().to_string();
        assert!(error.starts_with("the origin needs 100000 processors, but only "), "{error}");
    }

    #[test]
    fn children_count_as_own_processor_time() {
        assert_eq!(ticks("42 (a ) b) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 1 0 99"), Some(215));
        assert_eq!(ticks("42 (a) S 1"), None);
        let at = |ticks, busy, own| ProcessorTime { machine: Host { ticks, busy, ..Host::default() }, own };
        assert!((at(300, 150, 60).foreign_since(&at(100, 50, 10)) - 0.25).abs() < 1e-9);
        // Readings are not taken at the same moment.
        assert!(at(300, 100, 60).foreign_since(&at(100, 51, 10)).abs() < 1e-9);
        assert!(at(100, 50, 10).foreign_since(&at(100, 50, 10)).abs() < 1e-9);
    }
}
