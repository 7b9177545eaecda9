//! The player: dash.js in Chromium, started by a script for Node.js.

use super::{
    load::fill,
    part::{Part, wall_clock},
    place::{Deadline, POLL, Place},
};
use crate::{
    Error,
    content::{Choice, Paths},
    function::starts,
    nbmp,
    process::{Process, adopt_descendants, command, last_line, wait_for_children},
};
use serde::Deserialize;
use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};

/// The longest time in which processes end that have outlived the player.
const END_WAIT: Duration = Duration::from_secs(30);

/// The name of the file with the results, in the folder of the task.
const RESULTS: &str = "played.json";

/// The results of the script: sums over all runs, unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Played {
    /// The time at which the first run began, in seconds since 1970.
    pub began: f64,
    /// The player and its browser, with their versions.
    pub player: String,
    /// The start-up delay of each run in milliseconds.
    pub startups: Vec<f64>,
    /// The number of stalls.
    pub stalls: u64,
    /// The number of requests.
    pub requests: u64,
    /// The number of requests that failed.
    pub failures: u64,
    /// The bytes of bodies.
    pub bytes: u64,
    /// The mean latency of requests in milliseconds.
    pub latency: f64,
    /// The duration in seconds.
    pub seconds: f64,
}

impl Played {
    /// Reads the results of a task from its folder.
    ///
    /// # Errors
    /// If the file cannot be read, holds something else, or does not have a start-up delay for each
    /// run.
    pub(crate) fn read(own: &Path, task: &nbmp::Task) -> Result<Self, Error> {
        let path = own.join(RESULTS);
        let invalid = |why: &str| Error::invalid(format!("{}: {why}", path.display()));
        let bytes = fs::read(&path).map_err(|error| Error::file(&path, &error))?;
        let played: Self = serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        let starts = starts(&task.parameters) as usize;
        let found = played.startups.iter().filter(|delay| **delay > 0.0).count();
        if found != starts || played.startups.len() != starts {
            return Err(invalid(&format!("expected {starts} start-up delays above 0, found {found}")));
        }
        Ok(played)
    }
}

/// Checks that all that a script needs is installed.
///
/// # Errors
/// If something is missing. The error is the reason for which cells are skipped.
pub fn check(script: &Path) -> Result<(), String> {
    if !script.exists() {
        return Err(format!("the player {} does not exist", script.display()));
    }
    let out = Command::new("node").arg(script).arg("--check").stdin(Stdio::null()).output();
    let out = out.map_err(|error| format!("the player needs Node.js: {error}"))?;
    let text = String::from_utf8_lossy(&out.stderr);
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("the player cannot start: {}", text.trim().lines().last().unwrap_or_default())),
    }
}

/// Runs the player to its end, or until `stop` is set.
pub(super) fn run(
    task: &nbmp::Task,
    input: SocketAddr,
    place: &Place,
    stop: &AtomicBool,
) -> Result<Part, Error> {
    let lacking = |why: &str| Error::Lacking(format!("{}: {why}", task.id));
    let script = place.player.as_deref();
    let script = script.ok_or_else(|| lacking("a player runs only in `latemux lab run`"))?;
    let parameter = |name: &str| task.parameters.get(name).map_or("", String::as_str);
    let own = place.own(&task.id);
    let paths = Paths::read(&place.content, parameter("title"), parameter("format"), &Choice::default())?;
    let is_warm = parameter("before") == "same";
    if is_warm {
        fill(&paths.segments, input, &own, place, stop)?;
        if stop.load(Relaxed) {
            return Ok(Part::partial(task.function, wall_clock()).with_use(0));
        }
    }
    let started = wall_clock();
    let log = own.join("output.log");
    let mut node = command(Path::new("node"));
    node.arg(script).arg("--manifest").arg(format!("http://{input}{}", paths.manifest));
    node.arg("--runs").arg(starts(&task.parameters).to_string()).arg("--out").arg(own.join(RESULTS));
    node.args(is_warm.then_some("--warm-up")).env("TMPDIR", own.join("temporary"));
    let output = fs::File::create(&log).map_err(|error| Error::file(&log, &error))?;
    // Some processes of Chromium outlive the one that started them.
    adopt_descendants();
    node.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    let mut process = Process::start(&mut node)?;
    process.record(&place.folder);
    let status = loop {
        match process.ended() {
            Some(status) => break status,
            None if stop.load(Relaxed) => {
                let deadline = Deadline::start();
                process.interrupt();
                process.wait(deadline.left());
                wait_for_children(deadline.left());
                return Ok(Part::partial(task.function, started).with_use(0));
            }
            None => sleep(POLL),
        }
    };
    if !status.success() {
        return Err(lacking(&last_line(&log).unwrap_or_else(|| "the player ended by itself".to_owned())));
    }
    let until = Instant::now() + END_WAIT;
    while !wait_for_children(POLL) && !stop.load(Relaxed) && Instant::now() < until {}
    let measured_from = Played::read(&own, task)?.began;
    let function = task.function.name().to_owned();
    Ok(Part { function, measured_from, ..Part::default() }.with_use(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{function::Function, nbmp::Task};
    use std::collections::BTreeMap;

    const PLAYED: &str = r#"{"began": 1795492800.5, "player": "dash.js 5.2.1 in Chromium 156.0", "startups": [489.1, 231.8],
        "stalls": 1, "requests": 38, "failures": 0, "bytes": 5594028, "latency": 55.5, "seconds": 6.4}"#;

    /// Reads a text as the results of a player with two runs.
    fn read(text: &str) -> Result<Played, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(RESULTS), text).unwrap();
        let task = Task {
            id: "player".to_owned(),
            function: Function::Player,
            parameters: BTreeMap::from([("starts".to_owned(), "2".to_owned())]),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        Played::read(folder.path(), &task).map_err(|error| error.to_string())
    }

    #[test]
    fn results_have_a_delay_for_each_run() {
        let played = read(PLAYED).unwrap();
        assert_eq!((played.startups, played.stalls, played.requests), (vec![489.1, 231.8], 1, 38));
        let refused = |text: &str, why: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(RESULTS) && error.contains(why) && !error.contains('\n'), "{error}");
        };
        let fewer = "expected 2 start-up delays above 0, found 1";
        refused(&PLAYED.replace(", 231.8", ""), fewer);
        refused(&PLAYED.replace("231.8", "0"), fewer);
        refused(&PLAYED.replace("231.8", "-1"), fewer);
        let more = "expected 2 start-up delays above 0, found 3";
        refused(&PLAYED.replace("231.8", "231.8, 7"), more);
        refused(&PLAYED.replace("231.8", "null"), "invalid type: null");
        refused(&PLAYED.replace("\"stalls\": 1,", ""), "missing field `stalls`");
        refused(&PLAYED.replace("stalls", "pauses"), "unknown field `pauses`");
        refused("", "EOF");
    }

    #[test]
    fn a_player_that_cannot_start_is_a_reason_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let error = check(&folder.path().join("play.mjs")).unwrap_err();
        assert!(error.ends_with("play.mjs does not exist") && !error.contains('\n'), "{error}");
    }
}
