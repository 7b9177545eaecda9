//! A workflow manager for this machine: the workflow API of Network-Based Media Processing
//! (ISO/IEC 23090-8, clause 11), served on loopback addresses only.
//!
//! One workflow runs at a time, so that it is measured alone. All functions share 127.0.0.1.

mod api;
mod document;

pub use api::serve;

use crate::{
    Error,
    driver::{Driver, Measured},
    nbmp::Workflow,
};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tokio::sync::Notify;

/// The most workflows that are kept. Each one is kept until it is deleted.
const MAX_WORKFLOWS: usize = 1000;

/// The folder for the parts of tasks, in that of the results.
const PARTS: &str = "results";

/// The seconds after which a client may try again while another workflow runs.
const RETRY_AFTER: u32 = 10;

/// Runs workflows, one at a time.
#[derive(Debug)]
pub struct Manager {
    /// The program that starts the functions: this one.
    latemux: PathBuf,
    /// The program `latemux` whose origin and load are measured.
    program: PathBuf,
    run: PathBuf,
    content: PathBuf,
    workflows: Mutex<Workflows>,
    /// Signals that a workflow is to be started, or that there will be no more.
    has_work: Condvar,
    /// Signals that a workflow has ended.
    has_ended: Notify,
}

#[derive(Debug, Default)]
struct Workflows {
    by_id: BTreeMap<String, Entry>,
    /// The id of the workflow to start next.
    next: Option<String>,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    workflow: Workflow,
    state: State,
    stop: Arc<AtomicBool>,
}

/// The state of a workflow.
#[derive(Debug)]
enum State {
    Running,
    Ended(Box<Measured>),
    Failed(Error),
}

/// A reason not to do what a client asks for.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: u16,
    detail: String,
    retry_after: Option<u32>,
}

impl Refusal {
    fn new(status: u16, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), retry_after: None }
    }
}

impl Manager {
    /// Makes a manager with a folder for results, and one with titles.
    ///
    /// # Errors
    /// If the folder for the parts of tasks cannot be made.
    pub fn new(latemux: PathBuf, program: PathBuf, run: PathBuf, content: PathBuf) -> Result<Self, Error> {
        let parts = run.join(PARTS);
        fs::create_dir_all(&parts).map_err(|error| Error::file(&parts, &error))?;
        let (workflows, has_work, has_ended) = Default::default();
        Ok(Self { latemux, program, run, content, workflows, has_work, has_ended })
    }

    /// Runs workflows until [`close`](Self::close) is called. The processes of functions end with
    /// the thread that calls this.
    pub fn run(&self) {
        while let Some((workflow, stop)) = self.take() {
            let result = self.driver(&stop).perform(&workflow, Some(&self.run.join(PARTS)), None);
            let state = match result {
                Ok(measured) => State::Ended(Box::new(measured)),
                Err(error) => State::Failed(error),
            };
            if let Some(entry) = self.lock().by_id.get_mut(&workflow.id) {
                entry.state = state;
            }
            self.has_ended.notify_waiters();
        }
    }

    /// Stops the workflow that runs, and starts no other.
    pub fn close(&self) {
        let mut workflows = self.lock();
        workflows.is_closed = true;
        workflows.by_id.values().for_each(|entry| entry.stop.store(true, Relaxed));
        self.has_work.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Workflows> {
        self.workflows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next workflow. Returns `None` when the manager is closed.
    fn take(&self) -> Option<(Workflow, Arc<AtomicBool>)> {
        let mut workflows = self.lock();
        loop {
            if workflows.is_closed {
                return None;
            }
            if let Some(entry) = workflows.next.take().and_then(|id| workflows.by_id.get(&id)) {
                return Some((entry.workflow.clone(), Arc::clone(&entry.stop)));
            }
            workflows = self.has_work.wait(workflows).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn driver<'a>(&self, stop: &'a AtomicBool) -> Driver<'a> {
        Driver {
            latemux: self.latemux.clone(),
            program: self.program.clone(),
            retries: 0,
            run: self.run.clone(),
            content: self.content.clone(),
            player: Err("only `latemux lab run` can start a browser".to_owned()),
            enclosure: None,
            // Each workflow is measured once.
            needs_more: |_, _| false,
            stop,
        }
    }

    /// Starts a workflow. Returns it with its state.
    fn create(&self, bytes: &[u8]) -> Result<String, Refusal> {
        let workflow = Workflow::from_json(bytes).map_err(|error| Refusal::new(400, error.to_string()))?;
        let lacks = self.driver(&AtomicBool::new(false)).lacks_for(&workflow.graph);
        if let Some(why) = lacks.or_else(|| self.missing_title(&workflow)) {
            return Err(Refusal::new(422, why));
        }
        let mut workflows = self.lock();
        if workflows.by_id.contains_key(&workflow.id) {
            return Err(Refusal::new(409, format!("a workflow with the id '{}' exists", workflow.id)));
        }
        if workflows.by_id.values().any(|entry| matches!(entry.state, State::Running)) {
            let busy = Refusal::new(503, "another workflow runs, and each one runs alone");
            return Err(Refusal { retry_after: Some(RETRY_AFTER), ..busy });
        }
        if workflows.by_id.len() >= MAX_WORKFLOWS {
            let text = format!("{MAX_WORKFLOWS} workflows have ended: delete some of them");
            return Err(Refusal::new(503, text));
        }
        let entry = Entry { workflow, state: State::Running, stop: Arc::default() };
        let text = document::write(&entry);
        let id = entry.workflow.id.clone();
        workflows.next = Some(id.clone());
        workflows.by_id.insert(id, entry);
        self.has_work.notify_all();
        Ok(text)
    }

    /// Returns the reason why a workflow lacks its title. Titles are made by `latemux lab run`.
    fn missing_title(&self, workflow: &Workflow) -> Option<String> {
        let titles =
            workflow.graph.nodes().iter().flat_map(|node| {
                ["content", "title"].into_iter().filter_map(|name| node.parameters.get(name))
            });
        let mut missing = titles.filter(|title| !self.content.join(title).join("made").exists());
        missing.next().map(|title| format!("the title '{title}' is not in the folder with titles"))
    }

    /// Returns a workflow with its state, and its results if it has ended.
    fn get(&self, id: &str) -> Result<String, Refusal> {
        self.lock().by_id.get(id).map(document::write).ok_or_else(|| unknown(id))
    }

    /// Ends a workflow if it runs, and forgets it.
    async fn delete(&self, id: &str) -> Result<(), Refusal> {
        loop {
            // Made before the look at the state, so that no end is missed.
            let ended = self.has_ended.notified();
            {
                let mut workflows = self.lock();
                let entry = workflows.by_id.get(id).ok_or_else(|| unknown(id))?;
                if !matches!(entry.state, State::Running) {
                    workflows.by_id.remove(id);
                    return Ok(());
                }
                entry.stop.store(true, Relaxed);
            }
            ended.await;
        }
    }
}

fn unknown(id: &str) -> Refusal {
    Refusal::new(404, format!("no workflow has the id '{id}'"))
}
