//! Loads that run in tasks of their own, and continue if their client leaves.

use crate::observe::trace::for_current_request;
use latemux_storage::{client::current_client, turns::Turns};
use std::{future::Future, sync::Arc};
use tokio::task::JoinHandle;

/// Spawns a load for the current request. Clients whose loads wait get turns one after the other,
/// because each load parses a small index at once: dozens of one client would keep all others
/// waiting. A load that waits has no turn, so one load may wait for another.
pub(super) fn spawn_in_turn<F>(turns: &Arc<Turns>, load: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(turns.take_for(current_client(), Box::pin(for_current_request(load))))
}
