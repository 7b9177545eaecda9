//! The local driver: measures cells on this machine, one after the other.

mod measure;
mod record;

pub use measure::Measured;
pub use record::{Record, Records};

use crate::{
    Error, content,
    nbmp::{Task, Workflow},
    plan::{Cell, Planned, block},
    process::{Process, command},
};
use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::sleep,
    time::Duration,
};

/// The time that a task has to end and to write its part after SIGINT.
const STOP_WAIT: Duration = Duration::from_secs(10);

/// The time between two looks at the tasks of a cell.
const POLL: Duration = Duration::from_millis(20);

/// Number of times that a cell is measured, at most, as long as that fails.
const ATTEMPTS: u32 = 2;

/// Measures cells on this machine.
#[derive(Debug)]
pub struct Driver<'a> {
    /// The program `latemux`.
    pub latemux: PathBuf,
    /// The folder for results.
    pub run: PathBuf,
    /// The folder for titles, which is kept between runs.
    pub content: PathBuf,
    /// Set when the run must stop.
    pub stop: &'a AtomicBool,
}

impl Driver<'_> {
    /// Measures all cells, the least number of times, except for those that the folder of the run
    /// has already. `report` gets a line for each.
    ///
    /// # Errors
    /// If a title cannot be made, or a result cannot be written. What was measured until then is
    /// kept.
    pub fn run(&self, plans: &[Planned], seed: u64, report: &mut dyn FnMut(&str)) -> Result<Records, Error> {
        fs::create_dir_all(&self.run).map_err(|error| Error::file(&self.run, &error))?;
        let mut records = Records::open(&self.run)?;
        for plan in plans {
            for ((name, layout), title) in &plan.titles {
                content::make(&self.content, name, *layout, title, &self.latemux)?;
            }
            for repeat in 0..plan.repeats.min {
                for at in block(seed, repeat, plan.cells.len()) {
                    let cell = &plan.cells[at];
                    if self.stop.load(Relaxed) {
                        return Ok(records);
                    }
                    if records.has(&cell.key, repeat) {
                        continue;
                    }
                    let measured = self.attempts(cell, repeat);
                    if self.stop.load(Relaxed) {
                        return Ok(records);
                    }
                    let record = Record::new(cell, repeat, measured);
                    report(&record.line());
                    records.add(record)?;
                }
            }
        }
        Ok(records)
    }

    fn attempts(&self, cell: &Cell, repeat: u32) -> Result<Measured, Error> {
        let mut result = self.measure(cell, repeat);
        for _ in 1..ATTEMPTS {
            if result.is_ok() || self.stop.load(Relaxed) {
                break;
            }
            result = self.measure(cell, repeat);
        }
        result
    }

    /// Measures a cell once.
    fn measure(&self, cell: &Cell, repeat: u32) -> Result<Measured, Error> {
        let documents = self.run.join("cells").join(&cell.key);
        let work = self.run.join("work");
        // A run that was killed may have left it.
        let _ = fs::remove_dir_all(&work);
        for folder in [&documents, &work] {
            fs::create_dir_all(folder).map_err(|error| Error::file(folder, &error))?;
        }
        let result = self.perform(cell, repeat, &documents, &work);
        let _ = fs::remove_dir_all(&work);
        result
    }

    fn perform(&self, cell: &Cell, repeat: u32, documents: &Path, work: &Path) -> Result<Measured, Error> {
        let id = format!("lab-{}-r{}", cell.key, repeat + 1);
        let workflow = Workflow::new(id, format!("One cell of {}", cell.experiment), cell.graph.clone())?;
        write(&documents.join(format!("r{}.wdd", repeat + 1)), &workflow.to_json()?)?;
        let addresses = addresses(&workflow)?;
        let tasks =
            Task::of(&workflow, |from, port| format!("http://{}/", addresses[&(from.to_owned(), port)]));
        let mut running = Vec::new();
        for task in &tasks {
            let file = work.join(format!("{}.tdd", task.id));
            write(&file, &task.to_json()?)?;
            running.push(Process::start(&mut self.task(&file, work))?);
        }
        let outcome = self.wait(&tasks, &mut running);
        // The client stops first, then each function before the one that it reads from.
        while let Some(mut process) = running.pop() {
            process.interrupt();
            process.wait(STOP_WAIT);
        }
        outcome?;
        Measured::of(&tasks, work)
    }

    /// Waits until the load, which is the last task, has ended.
    fn wait(&self, tasks: &[Task], running: &mut [Process]) -> Result<(), Error> {
        while !self.stop.load(Relaxed) {
            for (at, (task, process)) in tasks.iter().zip(running.iter_mut()).enumerate() {
                match process.ended() {
                    Some(status) if at + 1 == tasks.len() && status.success() => return Ok(()),
                    Some(status) => {
                        return Err(Error::Lacking(format!("{}: its process ended: {status}", task.id)));
                    }
                    None => {}
                }
            }
            sleep(POLL);
        }
        Err(Error::Lacking("stopped".to_owned()))
    }

    fn task(&self, file: &Path, work: &Path) -> std::process::Command {
        let mut task = command(&self.latemux);
        task.args(["lab", "task"]).arg(file).arg("--folder").arg(work).arg("--content").arg(&self.content);
        let log = fs::File::create(file.with_extension("log")).map_or_else(|_| Stdio::null(), Stdio::from);
        task.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        task
    }
}

/// Finds a free port for each connection.
fn addresses(workflow: &Workflow) -> Result<BTreeMap<(String, usize), SocketAddr>, Error> {
    let mut held = Vec::new();
    let mut addresses = BTreeMap::new();
    for connection in workflow.graph.connections() {
        let lacking = |error: std::io::Error| Error::Lacking(format!("no free port: {error}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(lacking)?;
        addresses.insert((connection.from.clone(), connection.port), listener.local_addr().map_err(lacking)?);
        held.push(listener);
    }
    Ok(addresses)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::file(path, &error))
}
