//! Simulated networks between clients and servers on one machine.
//!
//! - [`Link`]: a TCP proxy with a round-trip time and a rate. It needs no privileges. It does not
//!   simulate how TCP reacts to a distance or to loss.
//! - [`network`]: hosts with network namespaces of their own, and lines between them with rate,
//!   round-trip time, queue and loss. The kernel's own TCP is used. It needs the right to make
//!   namespaces.

pub mod network;
mod proxy;

pub use proxy::{Distance, Link};
