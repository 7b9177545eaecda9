//! One function of a workflow as a process.

mod index;
mod link;
mod load;
mod part;
mod place;
mod player;
mod sources;

pub(crate) use part::Carried;
pub use part::{Part, Response};
pub use place::Place;
use place::{POLL, STOP_WAIT};
pub(crate) use player::Played;
pub use player::check as check_player;
use sources::Readings;
pub use sources::{Counters, Sources};

use crate::{
    Error, content,
    function::Function,
    http,
    machine::first_processors,
    nbmp,
    process::{Process, command, memory_of_children},
};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};

/// The longest time in which the functions that a task reads from must answer.
const INPUT_WAIT: Duration = Duration::from_secs(60);

/// The longest time in which a function must answer.
const START_WAIT: Duration = Duration::from_secs(30);

/// Runs a task until it has ended or `stop` is set, and writes its part of the results.
///
/// # Errors
/// If an address is not one of this machine's, a function that the task reads from does not
/// answer, the function does not start or ends by itself, or its part cannot be written.
pub fn run(task: &nbmp::Task, place: &Place, stop: &AtomicBool) -> Result<(), Error> {
    let address = |url: &String| {
        http::address(url).ok_or_else(|| Error::invalid(format!("'{url}' is not http://ADDRESS:PORT/")))
    };
    let inputs = task.inputs.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    let outputs = task.outputs.iter().map(|output| address(&output.url)).collect::<Result<Vec<_>, _>>()?;
    let own = place.own(&task.id);
    fs::create_dir_all(own.join("temporary")).map_err(|error| Error::file(&own, &error))?;
    let all_answer = || inputs.iter().all(|input| http::answers(*input));
    if !wait_until(INPUT_WAIT, stop, all_answer) {
        return match stop.load(Relaxed) {
            true => Ok(()),
            false => Err(Error::Lacking(format!("{}: its input does not answer", task.id))),
        };
    }
    match task.function {
        Function::Load => load::run(task, &inputs, place, stop),
        Function::Player => player::run(task, inputs[0], place, stop),
        Function::Link => link::run(task, inputs[0], &outputs, place, stop),
        _ => serve(task, &inputs, &outputs, place, stop),
    }
}

/// Runs a server until `stop` is set.
fn serve(
    task: &nbmp::Task,
    inputs: &[SocketAddr],
    outputs: &[SocketAddr],
    place: &Place,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let own = place.own(&task.id);
    let mut readings = match task.function {
        Function::Origin => Some(Readings::new(
            http::free_address()
                .map_err(|error| Error::Lacking(format!("{}: no free port: {error}", task.id)))?,
        )),
        _ => None,
    };
    let admin = readings.as_ref().map(|readings| readings.admin);
    let mut process = Process::start(&mut server(task, inputs, outputs, admin, place)?)?;
    let has_begun = || process.ended().is_some() || outputs.iter().all(|output| http::answers(*output));
    if !wait_until(START_WAIT, stop, has_begun) && !stop.load(Relaxed) {
        return Err(Error::Lacking(format!("{}: the function does not answer", task.id)));
    }
    while !stop.load(Relaxed) {
        if let Some(status) = process.ended() {
            return Err(Error::Lacking(format!("{}: the function ended by itself: {status}", task.id)));
        }
        if let Some(readings) = &mut readings {
            readings.read_when_due();
        }
        sleep(POLL);
    }
    if let Some(readings) = &mut readings {
        readings.read();
    }
    let memory = memory_of_children();
    process.interrupt();
    process.wait(STOP_WAIT);
    let sources = readings.map_or_else(Vec::new, |readings| readings.all);
    let title_bytes = match task.function {
        Function::Storage => content::media_bytes(&place.content.join(parameter(task, "content"))),
        _ => 0,
    };
    let part = Part { sources, title_bytes, ..Part::of_server(task.function, &own) };
    part.with_use(memory).write(&place.folder, &task.id)
}

/// Returns a parameter of a task, or nothing.
fn parameter<'a>(task: &'a nbmp::Task, name: &str) -> &'a str {
    task.parameters.get(name).map_or("", String::as_str)
}

/// Returns the command of a server. An origin serves its metrics at `admin`.
fn server(
    task: &nbmp::Task,
    inputs: &[SocketAddr],
    outputs: &[SocketAddr],
    admin: Option<SocketAddr>,
    place: &Place,
) -> Result<Command, Error> {
    use crate::nginx;
    let own = place.own(&task.id);
    let parameter = |name: &str| parameter(task, name);
    let configuration = match task.function {
        Function::Origin => return origin(task, inputs, outputs, admin, place),
        Function::Storage => {
            let root = place.content.join(parameter("content"));
            let indexes = match parameter("index") {
                "absolute" => Some(index::write(&task.id, &root, &own, outputs, place)?),
                _ => None,
            };
            let copied = task.parameters.contains_key("copies");
            nginx::storage(&own, outputs, &root, indexes.as_deref(), copied)
        }
        Function::Balance => nginx::balance(&own, outputs, inputs, parameter("mode") == "hash"),
        _ => {
            let reuse = parameter("connections") != "new";
            nginx::cache(&own, outputs, inputs[0], parameter("mode"), reuse)
                .ok_or_else(|| Error::invalid("the cache's mode is unknown"))?
        }
    };
    let file = own.join("nginx.conf");
    fs::write(&file, configuration).map_err(|error| Error::file(&file, &error))?;
    let mut command = command(&nginx_program());
    command.arg("-p").arg(&own).arg("-e").arg(own.join("error.log")).arg("-c").arg(&file);
    Ok(quiet(command, &own))
}

/// Returns the command of an origin.
fn origin(
    task: &nbmp::Task,
    inputs: &[SocketAddr],
    outputs: &[SocketAddr],
    admin: Option<SocketAddr>,
    place: &Place,
) -> Result<Command, Error> {
    let input = inputs[0];
    let own = place.own(&task.id);
    let [listen] = outputs else {
        return Err(Error::invalid(format!("{}: an origin must have exactly one reader", task.id)));
    };
    let file = own.join("origin.toml");
    let mut configuration = task.parameters.get("config").cloned().unwrap_or_default();
    if let Some(media) = inputs.get(1) {
        configuration += &format!("\n[sources]\nallow = [\"{media}\"]\n");
    }
    fs::write(&file, configuration).map_err(|error| Error::file(&file, &error))?;
    let cores = task.parameters.get("cores").and_then(|cores| cores.parse().ok());
    let mut command = match cores {
        Some(cores) => {
            let list = first_processors(cores).map_err(|error| error.within(&task.id))?;
            let mut command = command(Path::new("taskset"));
            command.args(["--cpu-list", &list]).arg(&place.latemux);
            command
        }
        None => command(&place.latemux),
    };
    command.args(["serve", &format!("http://{input}/"), "--listen", &listen.to_string(), "--config"]);
    command.arg(&file).env("LATEMUX_LOG", "warn,access=off");
    for name in ["segment-duration", "cache-memory"] {
        if let Some(value) = task.parameters.get(name) {
            command.args([&format!("--{name}"), value]);
        }
    }
    if let Some(admin) = admin {
        command.args(["--admin", &admin.to_string()]);
    }
    Ok(quiet(command, &own))
}

/// Sends the output of a command to a file of its task.
fn quiet(mut command: Command, own: &Path) -> Command {
    let log = fs::File::create(own.join("output.log")).map_or_else(|_| Stdio::null(), Stdio::from);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command
}

/// Returns the path of nginx. Debian's is in a folder outside an ordinary user's PATH.
fn nginx_program() -> PathBuf {
    let debian = Path::new("/usr/sbin/nginx");
    if debian.exists() { debian.to_owned() } else { PathBuf::from("nginx") }
}

/// Waits until something is true. Returns false after `most`, or if `stop` is set.
fn wait_until(most: Duration, stop: &AtomicBool, mut is_true: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + most;
    while !stop.load(Relaxed) {
        if is_true() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(POLL);
    }
    false
}
