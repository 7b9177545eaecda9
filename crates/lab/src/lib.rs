//! The lab: published experiments on late transmuxing, repeated by one command.
//!
//! - [`experiment`]: the files that people write. An experiment states what varies, a set-up is a
//!   chain of functions from storage to client, a title states what is encoded.
//! - [`function`]: the functions of a chain, and the parameters that each of them takes
//! - [`graph`]: functions and the connections between them, with the rules that they obey
//! - [`plan`]: the cells of an experiment, their order, time and disk
//! - [`outline`]: the experiments of a run, in a file of its folder
//! - [`nbmp`]: workflow and task documents of Network-Based Media Processing (ISO/IEC 23090-8)
//! - [`nginx`]: configurations of storage, caches and balancers
//! - [`clean`]: the leftovers of a run that was killed
//! - [`content`]: titles on disk, and the paths that clients request
//! - [`task`]: one function as a process
//! - [`driver`]: cells measured on this machine
//! - [`machine`]: the machine on which a run is measured
//! - [`manager`]: workflows of this machine, over the workflow API
//! - [`model`]: models that results are compared with
//! - [`report`]: the results of a run, summed up
//! - [`submit`]: workflow documents for an engine

pub mod clean;
pub mod content;
mod date;
pub mod driver;
pub mod error;
pub mod experiment;
pub mod function;
pub mod graph;
mod http;
pub mod machine;
pub mod manager;
pub mod model;
pub mod nbmp;
pub mod nginx;
pub mod outline;
pub mod plan;
mod process;
pub mod report;
pub mod submit;
pub mod task;

pub use error::Error;

use latemux_quantity::BitRate;

/// Returns the whole bytes per second of a bit rate.
fn bytes_per_second(BitRate(bits): BitRate) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let bytes = (bits / 8.0) as u64;
    bytes
}
