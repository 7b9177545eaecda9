//! Request–response streams: a resource is fetched as chunks, by many small requests over several
//! persistent connections (Kuschnig, Kofler, Hellwagner: *Evaluation of HTTP-based request-response
//! streams for internet video streaming*, MMSys 2011).
//!
//! This crate is pure: it makes no requests and reads no clock. Times are durations since any
//! fixed moment, which the caller states.
//!
//! - [`Dealer`]: decides which chunk is requested next on which connection
//! - [`ChunkTimeout`]: the time after which a chunk times out
//! - [`model`]: the throughput that the streams can reach

mod dealer;
pub mod model;
mod timeouts;

pub use dealer::{Answer, Chunk, Command, Dealer, Settings};
pub use timeouts::ChunkTimeout;
