//! The client for which a future runs.

use std::future::Future;

tokio::task_local! {
    static CLIENT: u64;
}

/// Runs a future for a client. Each client needs a number of its own above 0. Work outside of such
/// a future counts as that of one further client. A task that the future spawns does not belong to
/// the client, unless its own future is run for it.
pub fn on_behalf_of<F: Future>(client: u64, future: F) -> impl Future<Output = F::Output> + use<F> {
    CLIENT.scope(client, future)
}

/// Calls a function for a client, as [`on_behalf_of`] runs a future.
pub fn call_on_behalf_of<T>(client: u64, function: impl FnOnce() -> T) -> T {
    CLIENT.sync_scope(client, function)
}

/// Number that stands for no client.
pub(crate) const NO_CLIENT: u64 = 0;

/// Returns the number of the client for which the current future runs.
pub fn current_client() -> u64 {
    CLIENT.try_with(|client| *client).unwrap_or(NO_CLIENT)
}
