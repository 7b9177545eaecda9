//! Workflow documents for an engine: the workflow API of Network-Based Media Processing
//! (ISO/IEC 23090-8, clause 11).

mod engine;

pub use engine::Engine;
use engine::Response;

use crate::{Error, function::Function, graph::Graph, nbmp::Workflow, task::Part};
use serde_json::Value;
use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::sleep,
    time::{Duration, Instant},
};

/// Number of requests in a row that an engine may fail to answer while a workflow runs.
const MAX_FAILURES: u32 = 5;

/// The time between two looks at the flag to stop.
const POLL: Duration = Duration::from_millis(50);

/// A workflow that an engine runs.
#[derive(Debug)]
pub struct Submitted {
    /// The id, which the engine may have changed.
    pub id: String,
    graph: Graph,
}

/// Creates a workflow at an engine.
///
/// # Errors
/// If the document is not one that this program would run, or the engine refuses it, does not
/// answer, or answers with something else.
pub fn submit(document: &[u8], engine: &Engine) -> Result<Submitted, Error> {
    let workflow = Workflow::from_json(document)?;
    if workflow.graph.client().is_some_and(|client| client.function == Function::Player) {
        return Err(Error::invalid(
            "`latemux lab submit` cannot send a player: only `latemux lab run` can start a browser",
        ));
    }
    let response = engine.request("POST", "", document)?;
    if response.status != 201 {
        return Err(engine.lacking(format!("the engine refused the workflow with {response}")));
    }
    let id = serde_json::from_slice::<Value>(&response.body).ok();
    let id = id.and_then(|body| Some(body.pointer("/general/id")?.as_str()?.to_owned()));
    let id = id.unwrap_or(workflow.id);
    if !crate::graph::is_label(&id) {
        return Err(engine.lacking("the engine gave the workflow an id that is not a DNS label"));
    }
    Ok(Submitted { id, graph: workflow.graph })
}

impl Submitted {
    /// Returns the id of the task of the load.
    fn load(&self) -> String {
        let load = self.graph.client().map_or("load", |load| &load.id);
        format!("{load}-{}", self.id)
    }

    /// Returns the name of the file with the part of the load.
    pub fn part_name(&self) -> String {
        Part::file_name(&self.load())
    }

    /// Waits until the load has ended and its part is in the results, and then deletes the
    /// workflow: servers never end by themselves. `part` reads the part, if it is there. The
    /// workflow is also deleted if its load fails, or if `stop` is set.
    ///
    /// # Errors
    /// If the load fails or was stopped, the workflow or the engine vanishes, or the results cannot
    /// be read.
    pub fn wait(
        &self,
        engine: &Engine,
        interval: Duration,
        part: &mut dyn FnMut() -> Result<Option<Part>, Error>,
        stop: &AtomicBool,
    ) -> Result<Part, Error> {
        let result = self.watch(engine, interval, part, stop);
        if matches!(result, Err(Ended::Vanished(_))) {
            return result.map_err(Ended::into);
        }
        let deleted = engine.request("DELETE", &self.id, b"").and_then(|response| match response.status {
            200 | 202 | 204 | 404 => Ok(()),
            _ => Err(engine.lacking(format!("the workflow {} was not deleted: {response}", self.id))),
        });
        let part = result.map_err(Error::from)?;
        deleted.map(|()| part)
    }

    fn watch(
        &self,
        engine: &Engine,
        interval: Duration,
        part: &mut dyn FnMut() -> Result<Option<Part>, Error>,
        stop: &AtomicBool,
    ) -> Result<Part, Ended> {
        let mut failures = 0;
        loop {
            match engine.request("GET", &self.id, b"") {
                Ok(response) if response.status == 200 => {
                    failures = 0;
                    if self.has_ended(&response, engine)?
                        && let Some(part) = part().map_err(Ended::Failed)?
                    {
                        return match part.is_partial {
                            true => Err(Ended::Failed(engine.lacking("the load was stopped before its end"))),
                            false => Ok(part),
                        };
                    }
                }
                Ok(response) if response.status == 404 => {
                    let text = format!("the workflow {} does not exist any more", self.id);
                    return Err(Ended::Vanished(engine.lacking(text)));
                }
                failed => {
                    failures += 1;
                    if failures == MAX_FAILURES {
                        let why = failed.map_or_else(
                            |error| error,
                            |response| engine.lacking(format!("the engine answered with {response}")),
                        );
                        return Err(Ended::Vanished(why));
                    }
                }
            }
            let next = Instant::now() + interval;
            while Instant::now() < next {
                if stop.load(Relaxed) {
                    return Err(Ended::Failed(engine.lacking("stopped: the workflow is deleted")));
                }
                sleep(POLL.min(interval));
            }
        }
    }

    /// Returns true if the load has ended, or if the engine does not state that. A load that has
    /// not begun is idle too, so the part decides.
    fn has_ended(&self, response: &Response, engine: &Engine) -> Result<bool, Ended> {
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let state = |value: &Value| Some(value.pointer("/general/state")?.as_str()?.to_owned());
        let functions = body.pointer("/processing/function-restrictions").and_then(Value::as_array);
        let load = functions.into_iter().flatten().find(|function| {
            let instance = function["instance"].as_str().unwrap_or_default();
            instance == self.load() || self.graph.client().is_some_and(|load| load.id == instance)
        });
        let states = [load.and_then(state), state(&body)];
        if states.iter().flatten().any(|state| state == "in-error") {
            return Err(Ended::Failed(engine.lacking(format!("the workflow {} has failed", self.id))));
        }
        Ok(states[0].as_ref().is_none_or(|state| state == "idle" || state == "destroyed"))
    }
}

/// A reason to wait no longer.
enum Ended {
    /// The workflow has failed, so it is deleted.
    Failed(Error),
    /// Nothing can be deleted.
    Vanished(Error),
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Failed(error) | Ended::Vanished(error) => error,
        }
    }
}

#[cfg(test)]
mod tests;
