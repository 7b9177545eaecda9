//! The machine on which a run is measured.

use crate::Error;
use serde::Serialize;
use std::{fs, path::Path, thread};

/// The name of the file in the folder of a run.
const FILE: &str = "machine.json";

/// The machine on which a run is measured. Only results of equal machines are comparable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// The way in which hosts are made: `hosts` or `loopback`.
    pub net: String,
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
        }
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
