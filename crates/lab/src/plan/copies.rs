//! Copies of a title for the connections of a load. An origin answers equal requests at the same
//! time by one response, so connections that request the same title would hide what it reads again.

use crate::{
    function::{Function, MAX_COPIES},
    graph::Node,
};

/// Gives each connection of a load a copy of the title, unless there are copies already. A load
/// that requests each segment once still does, each from the next copy.
pub(super) fn for_connections(nodes: &mut [Node]) {
    let Some(load) = nodes.iter_mut().find(|node| node.function == Function::Load) else { return };
    let parameters = &mut load.parameters;
    let connections = parameters.get("connections").and_then(|count| count.parse().ok()).unwrap_or(1);
    let copies = MAX_COPIES.min(connections).to_string();
    if connections < 2 || parameters.contains_key("copies") {
        return;
    }
    if parameters.get("kind").is_some_and(|kind| kind == "list") {
        parameters.insert("passes".to_owned(), "1".to_owned());
    }
    for node in nodes.iter_mut().filter(|node| matches!(node.function, Function::Storage | Function::Load)) {
        node.parameters.insert("copies".to_owned(), copies.clone());
    }
}
