//! The load: `latemux load` with the URLs of a title.

use super::{
    part::{Part, wall_clock},
    place::{POLL, Place, STOP_WAIT},
};
use crate::{
    Error,
    content::Paths,
    nbmp,
    process::{Process, command},
};
use std::{
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

/// The folder of the results of `latemux load`, in the folder of the task.
pub(crate) const RESULTS: &str = "results";

/// Runs the load to its end, or until `stop` is set.
pub(super) fn run(
    task: &nbmp::Task,
    inputs: &[SocketAddr],
    place: &Place,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let parameter = |name: &str| task.parameters.get(name).map_or("", String::as_str);
    let format = parameter("format");
    let urls =
        |format: &str| -> Result<Paths, Error> { Paths::read(&place.content, parameter("title"), format) };
    let before = match parameter("before") {
        "" | "none" => None,
        "same" => Some(urls(format)?),
        other => Some(urls(other)?),
    };
    if let Some(paths) = before {
        let arguments = vec![
            "--single".to_owned(),
            "--concurrency=4".to_owned(),
            format!("--requests={}", paths.segments.len()),
        ];
        perform(&arguments, paths.segments, inputs[0], None, place, stop)?;
        sleep(SETTLE);
    }
    let paths = urls(format)?;
    let connections = parameter("connections");
    let urls = match (parameter("kind"), parameter("class")) {
        ("list", _) => paths.segments,
        ("single", "manifest") | ("sequence" | "watch", _) => vec![paths.manifest],
        _ => paths.segments.into_iter().take(1).collect(),
    };
    let mut arguments = match parameter("kind") {
        "list" | "single" => vec!["--single".to_owned(), format!("--concurrency={connections}")],
        "sequence" => vec!["--sequence".to_owned(), format!("--players={connections}")],
        _ => vec![format!("--players={connections}")],
    };
    let stated = |name: &str| task.parameters.get(name).map(|value| format!("--{name}={value}"));
    let flags = ["requests", "duration", "ramp", "streams", "chunk", "competing", "abr"];
    arguments.extend(flags.into_iter().filter_map(stated));
    if arguments[0] == "--single" && stated("requests").is_none() && stated("duration").is_none() {
        arguments.push(format!("--requests={}", urls.len()));
    }
    let measured_from = wall_clock();
    let results = place.own(&task.id).join(RESULTS);
    perform(&arguments, urls, inputs[0], Some(&results), place, stop)?;
    if stop.load(Relaxed) {
        return Ok(());
    }
    Part { function: task.function.name().to_owned(), measured_from, ..Part::default() }
        .with_use(0)
        .write(&place.folder, &task.id)
}

/// Runs `latemux load`. Failed requests are in its results, and so do not fail the task.
fn perform(
    arguments: &[String],
    paths: Vec<String>,
    server: SocketAddr,
    results: Option<&Path>,
    place: &Place,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let mut load = command(&place.latemux);
    load.arg("load").args(arguments);
    if let Some(results) = results {
        load.arg("--out").arg(results);
    }
    load.args(paths.into_iter().map(|path| format!("http://{server}{path}")));
    load.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::start(&mut load)?;
    while process.ended().is_none() {
        if stop.load(Relaxed) {
            process.interrupt();
            process.wait(STOP_WAIT);
            return Ok(());
        }
        sleep(POLL);
    }
    Ok(())
}
