//! A run while it lasts: a page, and what it asks for each second.
//!
//! - [`Live`]: what has been measured until now, second by second
//! - `answer`: the page and its data over HTTP
//! - `hosts`: what other machines do

mod answer;
mod hosts;
mod state;

pub use answer::{Page, serve, serve_host};
pub use hosts::{HostStats, watch};
pub use state::Live;
