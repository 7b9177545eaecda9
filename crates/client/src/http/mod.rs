//! An HTTP/1.1 client that measures each request. Callers own their connections. Latency is
//! measured from the time a request was due.
//!
//! - [`AllowedHosts`]: the servers that may be contacted
//! - [`Connect`]: opens connections
//! - [`Client`]: sends a request and reads its response

mod client;
mod connect;
mod exchange;
mod hosts;

pub use client::{Client, ClientOptions, Connection, FailedFetch, Fetched, Sink};
pub use connect::{Connect, Network, Server, Stream, Trust};
pub use hosts::AllowedHosts;
