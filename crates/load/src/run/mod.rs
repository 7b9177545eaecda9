//! Many players: the start of each one, and the end of the run.
//!
//! Several machines can share a run: each takes the players of its [`Shard`] of the same plan.

mod arrivals;
mod competing;
mod players;
mod popularity;
mod single;
mod steps;

pub use arrivals::{Arrival, Arrivals, Shard};
pub use competing::{Competing, CompetingPlan};
pub use players::{Plan, Style, run};
pub use popularity::Popularity;
pub use single::{SinglePlan, run_single};
pub use steps::{Step, plateaus};
