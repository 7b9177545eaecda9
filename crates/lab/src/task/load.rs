//! The load: `latemux load` with the URLs of a title.

use super::{
    part::{Part, wall_clock},
    place::{Deadline, POLL, Place},
};
use crate::{
    Error,
    content::{Choice, CopiedPaths, Paths},
    function::exponent,
    nbmp,
    process::{Process, command},
};
use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::sleep,
    time::Duration,
};

/// The time between the load that fills caches and the measured load. What the first has caused
/// ends within it.
const SETTLE: Duration = Duration::from_millis(500);

/// Runs the load to its end, or until `stop` is set. `latemux load` then writes what it has.
pub(super) fn run(
    task: &nbmp::Task,
    inputs: &[SocketAddr],
    place: &Place,
    stop: &AtomicBool,
) -> Result<Part, Error> {
    let parameter = |name: &str| task.parameters.get(name).map_or("", String::as_str);
    let own = place.own(&task.id);
    let format = parameter("format");
    let copies = task.parameters.get("copies").and_then(|copies| copies.parse::<usize>().ok());
    let urls = |format: &str| -> Result<CopiedPaths, Error> {
        let choice = Choice::of(&task.parameters);
        let mut paths = Paths::read(&place.content, parameter("title"), format, &choice)?;
        if let Some(segments) = task.parameters.get("segments").and_then(|segments| segments.parse().ok()) {
            paths.segments.truncate(segments);
        }
        Ok(match copies {
            Some(copies) => paths.copied(copies),
            None => paths.into(),
        })
    };
    let before = match parameter("before") {
        "" | "none" => None,
        "same" => Some(urls(format)?),
        other => Some(urls(other)?),
    };
    if let Some(paths) = before {
        fill(&paths.segments, inputs[0], &own, place, stop)?;
        if stop.load(Relaxed) {
            return Ok(Part::partial(task.function, wall_clock()).with_use(0));
        }
    }
    let paths = urls(format)?;
    let connections = parameter("connections");
    let urls = match (parameter("kind"), parameter("class")) {
        ("list", _) => paths.segments,
        ("sequence" | "watch", _) => paths.manifests,
        ("single", "manifest") => paths.manifests.into_iter().take(1).collect(),
        _ => paths.segments.into_iter().take(1).collect(),
    };
    let mut arguments = match parameter("kind") {
        "list" | "single" => vec!["--single".to_owned(), format!("--concurrency={connections}")],
        "sequence" => vec!["--sequence".to_owned(), format!("--players={connections}")],
        _ => vec![format!("--players={connections}")],
    };
    let stated = |name: &str| task.parameters.get(name).map(|value| format!("--{name}={value}"));
    let flags = ["requests", "rate", "duration", "ramp", "streams", "chunk", "competing", "abr"];
    arguments.extend(flags.into_iter().filter_map(stated));
    let steps = parameter("steps").split_whitespace().map(|step| format!("--step={step}"));
    arguments.extend(steps);
    arguments.extend(exponent(parameter("popularity")).map(|exponent| format!("--zipf={exponent}")));
    // Each block makes random choices of its own.
    let repeat = task.id.rsplit_once("-r").and_then(|(_, repeat)| repeat.parse::<u32>().ok());
    arguments.extend(repeat.map(|repeat| format!("--seed={repeat}")));
    let ends = ["requests", "duration", "steps"].iter().any(|name| task.parameters.contains_key(*name));
    if arguments[0] == "--single" && !ends {
        arguments.push(format!("--requests={}", urls.len()));
    }
    let measured_from = wall_clock();
    let results = place.results.of_load(&task.id);
    let is_partial = !perform(&arguments, &urls, inputs[0], &own, Some(&results), place, stop)?;
    Ok(Part { is_partial, ..Part::partial(task.function, measured_from) }.with_use(0))
}

/// Requests all segments of a title once, so that caches have them.
pub(super) fn fill(
    segments: &[String],
    server: SocketAddr,
    own: &Path,
    place: &Place,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let arguments =
        ["--single".to_owned(), "--concurrency=4".to_owned(), format!("--requests={}", segments.len())];
    perform(&arguments, segments, server, own, None, place, stop)?;
    sleep(SETTLE);
    Ok(())
}

/// Runs `latemux load`. Failed requests are in its results, and so do not fail the task. Returns
/// false if it was stopped.
fn perform(
    arguments: &[String],
    paths: &[String],
    server: SocketAddr,
    own: &Path,
    results: Option<&str>,
    place: &Place,
    stop: &AtomicBool,
) -> Result<bool, Error> {
    // As arguments, the URLs of many titles would be too long.
    let list = own.join("urls.txt");
    let urls: String = paths.iter().map(|path| format!("http://{server}{path}\n")).collect();
    fs::write(&list, urls).map_err(|error| Error::file(&list, &error))?;
    let mut load = command(&place.latemux);
    load.arg("load").args(arguments).arg("--list").arg(list);
    if let Some(results) = results {
        load.arg("--out").arg(results).args(&place.results.flags);
    }
    load.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::start(&mut load)?;
    process.record(&place.folder);
    while process.ended().is_none() {
        if stop.load(Relaxed) {
            process.interrupt();
            process.wait(Deadline::start().left());
            return Ok(false);
        }
        sleep(POLL);
    }
    Ok(true)
}
