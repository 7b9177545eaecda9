//! Simulated players that put load on any server of HLS, DASH, Smooth Streaming or HDS, and the
//! results of such a run.
//!
//! - [`player`]: one simulated viewer
//! - [`run`]: many players: when each one starts, and how the run ends
//! - [`results`]: what a run measured; results of several machines add up exactly
//! - [`report`]: results as text, as an HTML page and as CSV
//! - [`live`]: a page that shows a run while it lasts
//! - [`usage`]: the resources that this process and its machine use

pub mod live;
mod page;
pub mod player;
pub mod report;
pub mod results;
pub mod run;
pub mod usage;
