//! Workflow documents with the state of the workflow.

use super::{Entry, State};
use serde_json::{Value, json};

/// Returns the document of a workflow with its state. If it has ended, the results are system
/// variables of its monitoring descriptor; if it has failed, the reason is a system event.
pub(super) fn write(entry: &Entry) -> String {
    let document = entry.workflow.to_json().ok();
    let mut document: Value = document.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let state = match &entry.state {
        State::Running => "running",
        State::Ended(_) => "idle",
        State::Failed(_) => "in-error",
    };
    document["general"]["state"] = state.into();
    if let Some(functions) = document["processing"]["function-restrictions"].as_array_mut() {
        functions.iter_mut().for_each(|function| function["general"]["state"] = state.into());
    }
    match &entry.state {
        State::Running => {}
        State::Ended(measured) => {
            let measured = serde_json::to_value(measured).unwrap_or_default();
            let fields = measured.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
            let variables = fields.map(|(name, value)| json!({ "name": name, "value": value }));
            document["monitoring"] = json!({ "system-variables": variables.collect::<Value>() });
        }
        State::Failed(error) => {
            let event = json!({ "name": error.reason(), "description": error.to_string() });
            document["monitoring"] = json!({ "system-events": [event] });
        }
    }
    document.to_string()
}
