//! Many viewers: when each comes, how long they stay, and what they measured.
//!
//! Runs of the same plan on several machines are parts of one: each takes the players of its [`Shard`] and leaves the others alone.

mod arrivals;
mod players;
mod single;

pub use arrivals::{Arrival, Arrivals, Shard};
pub use players::{Plan, Style, run};
pub use single::{SinglePlan, run_single};
