//! A page that shows a run while it lasts.
//!
//! - [`serve`], [`serve_host`]: HTTP for the page, and for the resource usage of this machine
//! - [`Live`]: the data of the page, second by second
//! - [`watch`]: the resource usage of other machines

mod hosts;
mod server;
mod state;

pub use hosts::{HostStats, watch};
pub use server::{serve, serve_host};
pub use state::Live;
