//! An HTTP/1.1 client that measures: connections kept by their players, latency from when a request was due.
//!
//! - [`AllowedHosts`]: which servers may be asked
//! - [`Connect`]: how connections are made
//! - [`Client`]: one request and its answer

mod client;
mod connect;
mod hosts;
mod wire;

pub use client::{Client, ClientOptions, Connection, FailedFetch, Fetched, Sink};
pub use connect::{Connect, Network, Server, Stream, Trust};
pub use hosts::AllowedHosts;
