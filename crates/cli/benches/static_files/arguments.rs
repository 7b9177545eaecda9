//! The arguments that `cargo bench` passes, and the tools that a benchmark needs.

use crate::Failure;
use std::{env, process::Command};

/// Returns the rows that are requested, or all names if none is. `None` if nothing is to be
/// measured: `cargo test --benches` runs benchmarks too, and a tool may be missing.
///
/// # Errors
/// There is no row of that name.
pub(crate) fn requested_rows<'a>(
    names: impl Iterator<Item = &'a str>,
    tools: &[&str],
) -> Result<Option<Vec<&'a str>>, Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(None);
    }
    if let Some(tool) = tools.iter().find(|tool| Command::new(tool).arg("-v").output().is_err()) {
        println!("{tool} is not installed: make tools");
        return Ok(None);
    }
    let asked = arguments.iter().filter(|argument| !argument.starts_with('-'));
    let asked: Vec<&str> = asked.flat_map(|names| names.split(',')).filter(|name| !name.is_empty()).collect();
    let names: Vec<&str> = names.collect();
    if let Some(unknown) = asked.iter().find(|name| !names.contains(name)) {
        return Err(format!("no row {unknown}; there are {}", names.join(", ")).into());
    }
    Ok(Some(names.into_iter().filter(|name| asked.is_empty() || asked.contains(name)).collect()))
}
