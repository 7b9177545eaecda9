//! An HTTP/1.1 client that measures each request. Callers own their connections. Latency is
//! measured from the time a request was due.
//!
//! - [`AllowedHosts`]: the servers that may be contacted
//! - [`Connect`]: opens connections
//! - [`Client`]: sends a request and reads its response
//! - [`Streams`]: fetches a resource in chunks, over several connections

mod chunks;
mod client;
mod connect;
mod entity;
mod exchange;
mod hosts;

pub use chunks::{ChunkTally, ChunkedFetch, Streams};
pub use client::{Client, ClientOptions, Connection, FailedFetch, Fetched, Sink};
pub use connect::{Connect, Network, Server, Stream, Trust};
pub use hosts::AllowedHosts;
