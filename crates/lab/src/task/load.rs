//! The load: `latemux load` with the URLs of a title.

use super::{
    part::{Part, wall_clock},
    place::{Deadline, POLL, Place},
};
use crate::{
    Error,
    content::{Choice, CopiedPaths, Paths},
    function::{Parameters, exponent, steps},
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

/// The parameters that are flags of `latemux load` with the same value.
const FLAGS: [&str; 10] = [
    "requests",
    "rate",
    "streams",
    "chunk",
    "gap",
    "chunk-timeout",
    "order",
    "on-deadline",
    "competing",
    "abr",
];

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
        let read = |choice: &Choice| Paths::read(&place.content, parameter("title"), format, choice);
        let choices = Choice::all(&task.parameters, format);
        let mut paths = Paths::in_turn(choices.iter().map(read).collect::<Result<_, _>>()?);
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
    let urls = match (parameter("kind"), parameter("class")) {
        ("list", _) => paths.segments,
        ("sequence" | "watch", _) => paths.manifests,
        ("single", "manifest") => paths.manifests.into_iter().take(1).collect(),
        _ => paths.segments.into_iter().take(1).collect(),
    };
    let mut arguments = flags(&task.parameters);
    // Each block makes random choices of its own.
    let repeat = task.id.rsplit_once("-r").and_then(|(_, repeat)| repeat.parse::<u32>().ok());
    arguments.extend(repeat.map(|repeat| format!("--seed={repeat}")));
    let ends =
        ["requests", "duration", "steps", "step"].iter().any(|name| task.parameters.contains_key(*name));
    if !has_players(&task.parameters) && !ends {
        let passes = task.parameters.get("passes").and_then(|passes| passes.parse::<usize>().ok());
        let requests = passes.map_or(urls.len(), |passes| urls.len() / copies.unwrap_or(1) * passes);
        arguments.push(format!("--requests={requests}"));
    }
    let measured_from = wall_clock();
    let results = place.results.of_load(&task.id);
    let is_partial = !perform(&arguments, &urls, inputs[0], &own, Some(&results), place, stop)?;
    Ok(Part { is_partial, ..Part::partial(task.function, measured_from) }.with_use(0))
}

/// Returns true if a load has players, not requests for a list of URLs.
fn has_players(load: &Parameters) -> bool {
    matches!(load.get("kind").map(String::as_str), Some("sequence" | "watch"))
}

/// Returns the flags of `latemux load` that the parameters alone state.
fn flags(load: &Parameters) -> Vec<String> {
    let mut flags = match load.get("kind").map(String::as_str) {
        Some("sequence") => vec!["--sequence".to_owned()],
        Some("watch") => Vec::new(),
        _ => vec!["--single".to_owned()],
    };
    let stated = |name: &str| load.get(name).map(|value| format!("--{name}={value}"));
    flags.extend(FLAGS.into_iter().filter_map(stated));
    let steps = steps(load);
    // Steps state numbers of connections themselves, and `step` also the ramp and the duration.
    if steps.is_empty() {
        let flag = if has_players(load) { "--players" } else { "--concurrency" };
        flags.extend(load.get("connections").map(|connections| format!("{flag}={connections}")));
    }
    if !load.contains_key("step") {
        flags.extend(["duration", "ramp"].into_iter().filter_map(stated));
    }
    flags.extend(steps.iter().map(|step| format!("--step={step}")));
    let popularity = load.get("popularity").and_then(|popularity| exponent(popularity));
    flags.extend(popularity.map(|exponent| format!("--zipf={exponent}")));
    flags
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_take_the_place_of_the_flags_that_exclude_them() {
        let of = |parameters: &[(&str, &str)]| {
            let own = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            flags(&own.collect())
        };
        let list = [("kind", "list"), ("connections", "9"), ("requests", "50")];
        assert_eq!(of(&list), ["--single", "--requests=50", "--concurrency=9"]);
        let steps = [list[0], list[1], ("steps", "1/5s 9/5s"), ("ramp", "1s")];
        assert_eq!(of(&steps), ["--single", "--ramp=1s", "--step=1/5s", "--step=9/5s"]);
        let players = [("kind", "sequence"), list[1], ("ramp", "2s"), ("duration", "10s"), ("step", "5")];
        assert_eq!(of(&players[..4]), ["--sequence", "--players=9", "--duration=10s", "--ramp=2s"]);
        assert_eq!(of(&players), ["--sequence", "--step=5/1s", "--step=9/9s"]);
        let truncated = [("kind", "watch"), list[1], ("streams", "2"), ("on-deadline", "truncate")];
        let flags = of(&[&truncated[..], &[("order", "priority"), ("popularity", "zipf:0.8")]].concat());
        let expected =
            ["--streams=2", "--order=priority", "--on-deadline=truncate", "--players=9", "--zipf=0.8"];
        assert_eq!(flags, expected);
    }
}
