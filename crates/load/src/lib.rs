//! Simulated players that put load on any HLS, DASH, Smooth Streaming or HDS server, and the
//! results of such a run.
//!
//! - [`player`]: one simulated viewer
//! - [`run`]: many players: the start of each one, and the end of the run
//! - [`results`]: the measurements of a run; those of several machines add up exactly
//! - [`report`]: results as text, as an HTML page and as CSV
//! - [`live`]: a page that shows a run while it lasts
//! - [`usage`]: the resources that this process and its machine use

pub mod live;
mod micros;
mod page;
pub mod player;
pub mod report;
pub mod results;
pub mod run;
pub mod usage;
