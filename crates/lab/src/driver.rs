//! The local driver: measures cells on this machine, one after the other.

mod blocks;
mod measure;
mod processors;
mod record;
mod site;
mod usage;

pub use measure::{Measured, Resources};
pub use record::{Record, Records};
pub use usage::Tcp;

use crate::{
    Error,
    content::{self, Programs},
    function::{Function, is_bucket},
    graph::Graph,
    machine::ProcessorTime,
    nbmp::{Task, Workflow},
    plan::{Cell, Planned},
    process::{Identity, Process, last_line},
    task::{Part, has_gateway},
};
use latemux_link::network::Enclosure;
use processors::Division;
use site::Site;
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::{self, sleep},
    time::Duration,
};
use usage::Usage;

/// The time that a task has to end and to write its part after SIGINT.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// The name of the folder of the tasks of a cell, in that of the run.
pub(crate) const WORK: &str = "work";

/// The time between two looks at the tasks of a cell.
const POLL: Duration = Duration::from_millis(20);

/// The most attempts for a measurement that fails.
const ATTEMPTS: u32 = 2;

/// Measures cells on this machine.
#[derive(Debug)]
pub struct Driver<'a> {
    /// The program that starts the functions: this one.
    pub latemux: PathBuf,
    /// The program `latemux` whose origin and load are measured.
    pub program: PathBuf,
    /// The most times that a disturbed or generator-bound measurement is repeated.
    pub retries: u32,
    /// The folder for results.
    pub run: PathBuf,
    /// The folder for titles, which is kept between runs.
    pub content: PathBuf,
    /// The script that plays titles in a browser, or the reason why there is none.
    pub player: Result<PathBuf, String>,
    /// The namespaces in which hosts are made. Without them, all functions share this machine's
    /// loopback addresses.
    pub enclosure: Option<&'a Enclosure>,
    /// Returns true if a claim of an experiment has a wider interval than wanted.
    pub needs_more: fn(&Planned, &[Record]) -> bool,
    /// Set when the run must stop.
    pub stop: &'a AtomicBool,
}

impl Driver<'_> {
    /// Measures all cells as often as their experiments ask for, except for those that the folder
    /// of the run has already. `report` gets a line for each.
    ///
    /// # Errors
    /// If a title cannot be made, or a result cannot be written. What was measured until then is
    /// kept.
    pub fn run(&self, plans: &[Planned], seed: u64, report: &mut dyn FnMut(&str)) -> Result<Records, Error> {
        fs::create_dir_all(&self.run).map_err(|error| Error::file(&self.run, &error))?;
        let mut records = Records::open(&self.run)?;
        for plan in plans {
            let made = self.make_titles(plan);
            if self.stop.load(Relaxed) {
                break;
            }
            made?;
            let mut measure = |cell: &Cell, repeat| {
                if self.lacks(cell).is_some() {
                    return None;
                }
                let result = attempts(self.retries, self.stop, || self.measure(cell, repeat));
                (!self.stop.load(Relaxed)).then_some(result)
            };
            blocks::measure(plan, seed, &mut records, self.stop, &mut measure, self.needs_more, report)?;
        }
        Ok(records)
    }

    /// Makes the titles of an experiment, and the paths of all segments that it requests.
    fn make_titles(&self, plan: &Planned) -> Result<(), Error> {
        let programs = Programs { latemux: &self.program, stop: self.stop };
        for ((name, layout), title) in &plan.titles {
            let place = content::make(&self.content, name, *layout, title, programs)?;
            for choice in &plan.choices {
                content::add_paths(&place, choice, programs)?;
            }
        }
        Ok(())
    }

    /// Returns the reason why a cell cannot be measured on this machine, if there is one.
    pub fn lacks(&self, cell: &Cell) -> Option<String> {
        self.lacks_for(&cell.graph)
    }

    /// Returns the reason why functions cannot run on this machine, if there is one.
    pub(crate) fn lacks_for(&self, graph: &Graph) -> Option<String> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let lacking = graph.nodes().iter().find_map(|node| {
            let reason =
                |name: &str, needs: &str| format!("the parameter '{name}' of '{}' needs {needs}", node.id);
            let cores = node.parameters.get("cores").and_then(|cores| cores.parse::<usize>().ok());
            let is_gateway = node.function == Function::Storage && is_bucket(&node.parameters);
            match node.function.needs_hosts(&node.parameters) {
                Some(name) if self.enclosure.is_none() => Some(reason(name, "simulated hosts (--net hosts)")),
                _ if is_gateway && !has_gateway() => {
                    Some(reason("kind", "versitygw, which is not installed"))
                }
                _ => cores
                    .filter(|cores| *cores > processors)
                    .map(|cores| reason("cores", &format!("{cores} processors"))),
            }
        });
        let is_player = graph.client().is_some_and(|client| client.function == Function::Player);
        lacking.or_else(|| self.player.as_ref().err().filter(|_| is_player).cloned())
    }

    /// Measures a cell once.
    fn measure(&self, cell: &Cell, repeat: u32) -> Result<Measured, Error> {
        let documents = self.run.join("cells").join(&cell.key);
        fs::create_dir_all(&documents).map_err(|error| Error::file(&documents, &error))?;
        let id = format!("lab-{}-r{}", cell.key, repeat + 1);
        let workflow = Workflow::new(id, format!("One cell of {}", cell.experiment), cell.graph.clone())?;
        write(&documents.join(format!("r{}.wdd", repeat + 1)), &workflow.to_json()?)?;
        self.perform(&workflow, None, Some(&documents.join(format!("hosts-r{}.csv", repeat + 1))))
    }

    /// Runs a workflow in a folder of its own, which is then removed. The parts of its tasks are
    /// copied to the folder `parts`, and the usage of hosts is written to the file `usage`, if they
    /// are stated.
    pub(crate) fn perform(
        &self,
        workflow: &Workflow,
        parts: Option<&Path>,
        usage: Option<&Path>,
    ) -> Result<Measured, Error> {
        let work = self.run.join(WORK);
        // A run that was killed may have left it.
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(&work).map_err(|error| Error::file(&work, &error))?;
        if let Some(own) = Identity::own() {
            own.record(&work);
        }
        let before = ProcessorTime::now();
        let result = self.run_tasks(workflow, &work, usage);
        let foreign = ProcessorTime::now().foreign_since(&before);
        for node in workflow.graph.nodes().iter().filter(|_| result.is_ok()) {
            let name = Part::file_name(&workflow.task_id(&node.id));
            if let Some(parts) = parts {
                let to = parts.join(&name);
                fs::copy(work.join(&name), &to).map_err(|error| Error::file(&to, &error))?;
            }
        }
        let _ = fs::remove_dir_all(&work);
        result.map(|measured| Measured { foreign, ..measured })
    }

    /// Runs the tasks of a workflow until the client ends, and adds up their parts.
    fn run_tasks(&self, workflow: &Workflow, work: &Path, csv: Option<&Path>) -> Result<Measured, Error> {
        let division = Division::of(&workflow.graph);
        let _restricted = division.as_ref().map(Division::restrict);
        let mut site = match self.enclosure {
            Some(enclosure) => Site::hosts(&workflow.graph, enclosure)?,
            None => Site::loopback(&workflow.graph)?,
        };
        let tasks = Task::of(workflow, |from, port| format!("http://{}/", site.address(from, port)));
        let mut usage = Usage::begin(site.networks());
        let mut running = Vec::new();
        for (task, node) in tasks.iter().zip(workflow.graph.nodes()) {
            if site.is_process(task.function) {
                let file = work.join(format!("{}.tdd", task.id));
                write(&file, &task.to_json()?)?;
                let own = division.as_ref().and_then(|division| division.own(task.function));
                let program = if own.is_some() { Path::new("taskset") } else { &self.latemux };
                let process = site.start(node, program, |command| {
                    if let Some(processors) = own {
                        command.args(["--cpu-list", &processors]).arg(&self.latemux);
                    }
                    self.prepare(command, &file, work);
                })?;
                process.record(work);
                usage.add(node.host.as_deref(), &process);
                running.push((task, process));
            }
        }
        let outcome = self.wait(&mut site, &mut usage, &mut running, work);
        usage.read();
        // The client stops first, then each function before the one that it reads from.
        let mut failed = None;
        while let Some((task, mut process)) = running.pop() {
            process.interrupt();
            let status = process.wait(STOP_WAIT);
            if !status.is_some_and(|status| status.success()) {
                failed = Some(failure(work, task, status));
            }
        }
        if let Some(csv) = csv {
            // A measurement is valid without this file.
            let _ = fs::write(csv, usage.to_csv());
        }
        outcome?;
        failed.map_or(Ok(()), Err)?;
        for (link, carried) in site.carried() {
            let part = Part { function: Function::Link.name().to_owned(), carried, ..Part::default() };
            part.write(work, &workflow.task_id(&link))?;
        }
        Measured::of(&tasks, workflow.graph.nodes(), &usage, work, &self.content)
    }

    /// Waits until the client, which is the last task, has ended.
    fn wait(
        &self,
        site: &mut Site<'_>,
        usage: &mut Usage,
        running: &mut [(&Task, Process)],
        work: &Path,
    ) -> Result<(), Error> {
        while !self.stop.load(Relaxed) {
            site.sample();
            usage.read_when_due();
            for (task, process) in &mut *running {
                match process.ended() {
                    Some(status) if task.function.is_client() && status.success() => return Ok(()),
                    Some(status) => return Err(failure(work, task, Some(status))),
                    None => {}
                }
            }
            sleep(POLL);
        }
        Err(Error::Lacking("stopped".to_owned()))
    }

    /// Completes the command of a task.
    fn prepare(&self, task: &mut Command, file: &Path, work: &Path) {
        task.args(["lab", "task"]).arg(file).arg("--folder").arg(work).arg("--content").arg(&self.content);
        task.arg("--program").arg(&self.program);
        if let Ok(player) = &self.player {
            task.arg("--player").arg(player);
        }
        let log = fs::File::create(file.with_extension("log")).and_then(|mut log| {
            // Takes a block, so that a task can report a full disk.
            log.write_all(b"\n")?;
            Ok(log)
        });
        let log = log.map_or_else(|_| Stdio::null(), Stdio::from);
        task.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    }
}

/// Returns the reason for which a task has failed, from its log.
fn failure(work: &Path, task: &Task, status: Option<ExitStatus>) -> Error {
    let why = last_line(&work.join(format!("{}.log", task.id)));
    let why = why.unwrap_or_else(|| match status {
        Some(status) => format!("{}: its process ended: {status}", task.id),
        None => format!("{}: its process did not end", task.id),
    });
    Error::Lacking(why.trim_start_matches("latemux: ").to_owned())
}

/// Measures until a measurement is reliable, or has been repeated too often.
fn attempts(
    retries: u32,
    stop: &AtomicBool,
    mut measure: impl FnMut() -> Result<Measured, Error>,
) -> Result<Measured, Error> {
    let mut result = measure();
    let mut failed = 1;
    let mut unreliable = 0;
    while !stop.load(Relaxed) {
        match &result {
            Ok(measured) if measured.is_reliable() || unreliable == retries => break,
            Ok(_) => unreliable += 1,
            Err(_) if failed == ATTEMPTS => break,
            Err(_) => failed += 1,
        }
        result = measure();
    }
    result
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::file(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of measurements, of which the first ones have a result of this kind.
    fn count(retries: u32, first: &[Result<Measured, Error>]) -> usize {
        let mut count = 0;
        let measure = || {
            count += 1;
            first.get(count - 1).cloned().unwrap_or_else(|| Ok(Measured::default()))
        };
        let _ = attempts(retries, &AtomicBool::new(false), measure);
        count
    }

    #[test]
    fn unreliable_and_failed_measurements_are_repeated() {
        let disturbed = || Ok(Measured { foreign: 0.5, ..Measured::default() });
        let bound = || Ok(Measured { is_generator_bound: true, ..Measured::default() });
        let failed = || Err(Error::Lacking("x".to_owned()));
        assert_eq!(count(2, &[]), 1);
        assert_eq!(count(2, &[disturbed()]), 2);
        assert_eq!(count(2, &[bound()]), 2, "the load had too little processor time");
        assert_eq!(count(2, &[bound(), disturbed(), bound(), bound()]), 3);
        assert_eq!(count(0, &[bound(), bound()]), 1);
        assert_eq!(count(2, &[failed(), failed(), failed()]), 2);
        assert_eq!(count(1, &[failed(), bound(), bound()]), 3);
    }
}
