//! One function of a workflow as a process.

mod gateway;
mod index;
mod link;
mod load;
mod part;
mod place;
mod player;
mod sources;

pub(crate) use gateway::is_installed as has_gateway;
use gateway::{Gateway, read_bucket};
pub(crate) use part::{Carried, wall_clock};
pub use part::{Part, Response};
pub(crate) use place::LOAD;
use place::{Deadline, POLL};
pub use place::{Place, Results};
pub(crate) use player::Played;
pub use player::check as check_player;
use sources::Readings;
pub use sources::{Counters, Sources};

use crate::{
    Error, content,
    function::{Function, is_bucket, reads_bucket},
    http::{self, Authority},
    machine::first_processors,
    nbmp,
    process::{Process, command, memory_of_children},
};
use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    slice,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};

/// The longest time in which a function must answer.
const START_WAIT: Duration = Duration::from_secs(30);

/// Runs a task until it has ended or `stop` is set. Returns its part of the results.
///
/// # Errors
/// If a URL has no authority, a function that the task reads from does not answer, or the function
/// does not start or ends by itself.
pub fn run(task: &nbmp::Task, place: &Place, stop: &AtomicBool) -> Result<Part, Error> {
    let authority = |url: &String| {
        let invalid = || Error::invalid(format!("'{url}' is not a URL such as http://HOST:PORT/"));
        Authority::of(url).ok_or_else(invalid)
    };
    let peers = task.inputs.iter().map(authority).collect::<Result<Vec<_>, _>>()?;
    let mut outputs: Vec<SocketAddr> = Vec::new();
    for output in &task.outputs {
        let address = own_address(&authority(&output.url)?, place.listen);
        if !outputs.contains(&address) {
            outputs.push(address);
        }
    }
    let own = place.own(&task.id);
    fs::create_dir_all(own.join("temporary")).map_err(|error| Error::file(&own, &error))?;
    let mut inputs = Vec::new();
    if !wait_until(place.input_wait, stop, || all_answer(&peers, &mut inputs, stop)) {
        return match (stop.load(Relaxed), peers.get(inputs.len())) {
            (false, Some(peer)) => {
                let wait = place.input_wait.as_secs_f64();
                Err(Error::Lacking(format!("{}: {peer} does not answer within {wait} s", task.id)))
            }
            _ => Ok(Part::partial(task.function, 0.0).with_use(0)),
        };
    }
    match task.function {
        Function::Load => load::run(task, &inputs, place, stop),
        Function::Player => player::run(task, inputs[0], place, stop),
        Function::Link => link::run(task, inputs[0], &outputs, stop),
        _ => serve(task, &inputs, &outputs, place, stop),
    }
}

/// Adds the address of each peer that answers, up to the first one that does not. Returns true if
/// all answer. An address without a host takes some seconds, so `stop` is looked at in between.
fn all_answer(peers: &[Authority], inputs: &mut Vec<SocketAddr>, stop: &AtomicBool) -> bool {
    while let Some(peer) = peers.get(inputs.len()) {
        let answers = |address: &SocketAddr| !stop.load(Relaxed) && http::answers(*address);
        match peer.addresses().into_iter().find(answers) {
            Some(address) => inputs.push(address),
            None => return false,
        }
    }
    true
}

/// Returns the address at which to serve: that of an output if this machine has it, else `listen`.
/// An engine states the address of a service, which passes requests on to the container.
fn own_address(output: &Authority, listen: SocketAddr) -> SocketAddr {
    let is_own = |address: &SocketAddr| TcpListener::bind((address.ip(), 0)).is_ok();
    output.addresses().into_iter().find(is_own).unwrap_or(listen)
}

/// Runs a server until `stop` is set.
fn serve(
    task: &nbmp::Task,
    inputs: &[SocketAddr],
    outputs: &[SocketAddr],
    place: &Place,
    stop: &AtomicBool,
) -> Result<Part, Error> {
    let own = place.own(&task.id);
    let mut readings = match task.function {
        Function::Origin => Some(Readings::new(
            http::free_address()
                .map_err(|error| Error::Lacking(format!("{}: no free port: {error}", task.id)))?,
        )),
        _ => None,
    };
    let admin = readings.as_ref().map(|readings| readings.admin);
    let gateway = match task.function == Function::Storage && is_bucket(&task.parameters) {
        true => Some(Gateway::start(&place.content.join(parameter(task, "content")), &own, stop)?),
        false => None,
    };
    // nginx in front of a gateway counts requests as it does in front of files.
    let inputs = gateway.as_ref().map_or(inputs, |gateway| slice::from_ref(&gateway.address));
    if let Some(gateway) = &gateway {
        gateway.process.record(&place.folder);
    }
    let mut process = Process::start(&mut server(task, inputs, outputs, admin, place)?)?;
    process.record(&place.folder);
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
    let deadline = Deadline::start();
    if let Some(readings) = &mut readings {
        readings.read_last();
    }
    let memory = memory_of_children();
    process.interrupt();
    process.wait(deadline.left());
    let sources = readings.map_or_else(Vec::new, |readings| readings.all);
    let title_bytes = match task.function {
        Function::Storage => content::media_bytes(&place.content.join(parameter(task, "content"))),
        _ => 0,
    };
    if let Some(line) = disk_error(&own) {
        return Err(Error::Lacking(format!("{}: the disk is full: {line}", task.id)));
    }
    let part = Part { sources, title_bytes, ..Part::of_server(task.function, &own) };
    Ok(part.with_use(memory))
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
                "absolute" => Some(index::write(task, &root, &own, place)?),
                _ => None,
            };
            read_once(&root).map_err(|error| Error::file(&root, &error))?;
            if let [gateway] = inputs {
                return nginx(&own, nginx::bucket(&own, outputs, *gateway));
            }
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
    nginx(&own, configuration)
}

/// Returns the command of nginx with a configuration, whose files are in the folder `own`.
fn nginx(own: &Path, configuration: String) -> Result<Command, Error> {
    let file = own.join("nginx.conf");
    fs::write(&file, configuration).map_err(|error| Error::file(&file, &error))?;
    let errors = own.join("error.log");
    // Takes a block, so that nginx can report a full disk.
    fs::write(&errors, "\n").map_err(|error| Error::file(&errors, &error))?;
    let mut command = command(&nginx_program());
    command.arg("-p").arg(own).arg("-e").arg(errors).arg("-c").arg(&file);
    Ok(quiet(command, own))
}

/// Reads all files below a folder, so that they are in the page cache, and the disk of this machine
/// does not count as a part of storage.
fn read_once(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_once(&path)?;
        } else {
            io::copy(&mut fs::File::open(&path)?, &mut io::sink())?;
        }
    }
    Ok(())
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
    // Index MP4s state the media by the same authority.
    if let Some(media) = task.inputs.get(1).and_then(|url| Authority::of(url)) {
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
    command.arg("serve");
    match reads_bucket(&task.parameters) {
        true => read_bucket(&mut command, input),
        false => {
            command.arg(format!("http://{input}/"));
        }
    }
    command.args(["--listen", &listen.to_string(), "--config"]);
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

/// Returns the line with which nginx has reported a full disk. It goes on without its cache, so its
/// counts are not those of the set-up.
fn disk_error(own: &Path) -> Option<String> {
    let log = fs::read(own.join("error.log")).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    // If a part of a write still fits, nginx reports the number of bytes instead.
    let is_full = |line: &&str| line.contains("No space left on device") || line.contains("has written only");
    log.lines().find(is_full).map(str::to_owned)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_in_which_nginx_reports_a_full_disk_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let lines =
            ["pwritev() \"x\" failed (28: No space left on device)", "\"x\" has written only 8 of 53"];
        for line in lines {
            fs::write(folder.path().join("error.log"), format!("[notice] start\n[crit] {line}\n")).unwrap();
            assert_eq!(disk_error(folder.path()), Some(format!("[crit] {line}")));
        }
        fs::write(folder.path().join("error.log"), "[notice] start\n").unwrap();
        assert_eq!(disk_error(folder.path()), None);
    }
}
