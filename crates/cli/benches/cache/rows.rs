//! The rows of a benchmark that runs the released binary, measured one after another.

use super::report::Report;
use latemux_testmedia::process::tool;
use std::{process::ExitCode, time::Instant};

/// A row measures something, and reports it with its limit.
pub(crate) type Row<B> = fn(&B, &mut Report);

/// Measures the rows that `ROWS` names, or all of them if it is `all`. `prepare` makes the value
/// that each row gets. It is passed the flags of `WITH`, which are added to every `latemux serve`.
/// The exit code is 1 if a limit does not hold, or if a tool is missing.
pub(crate) fn measure<B>(
    bench: &'static str,
    rows: &[(&'static str, Row<B>)],
    tools: &[&str],
    prepare: impl FnOnce(Vec<String>) -> B,
) -> ExitCode {
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    let chosen = words("ROWS");
    if let Some(unknown) = chosen.iter().find(|name| *name != "all" && !names.contains(&name.as_str())) {
        println!("no row '{unknown}'; there are: {}", names.join(" "));
        return ExitCode::FAILURE;
    }
    // `cargo bench` of the workspace runs this too. It takes minutes, so it must be requested.
    if chosen.is_empty() {
        println!("make bench-{bench} runs these rows: {}", names.join(" "));
        return ExitCode::SUCCESS;
    }
    if let Some(missing) = tools.iter().find(|name| tool(name).is_none()) {
        println!("none of the rows can be measured here: {missing} is not installed (make tools)");
        return ExitCode::FAILURE;
    }
    let with = words("WITH");
    let mut report = Report::new(bench, &with);
    let prepared = prepare(with);
    for (name, run) in rows {
        if chosen.iter().any(|row| row == name || row == "all") {
            let begun = Instant::now();
            report.row(name);
            run(&prepared, &mut report);
            println!("  ({name}: {:.1} s)", begun.elapsed().as_secs_f64());
        }
    }
    if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the words of an environment variable.
fn words(variable: &str) -> Vec<String> {
    let text = std::env::var(variable).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}
