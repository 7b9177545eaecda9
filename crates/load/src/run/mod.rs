//! Many players: when each one starts, and when the run ends.
//!
//! Several machines can share a run: each takes the players of its [`Shard`] of the same plan.

mod arrivals;
mod players;
mod single;

pub use arrivals::{Arrival, Arrivals, Shard};
pub use players::{Plan, Style, run};
pub use single::{SinglePlan, run_single};
