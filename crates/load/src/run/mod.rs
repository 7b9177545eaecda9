//! Many players: the start of each one, and the end of the run.
//!
//! Several machines can share a run: each takes the players of its [`Shard`] of the same plan.

mod arrivals;
mod players;
mod single;

pub use arrivals::{Arrival, Arrivals, Shard};
pub use players::{Plan, Style, run};
pub use single::{SinglePlan, run_single};
