//! Media for tests, and other people's servers to test against. Nothing here is part of latemux as served.
//!
//! - [`recipe`]: files made with ffmpeg's test sources, once, and kept in the target folder
//! - [`rewrite`]: the same media in the box variants ffmpeg does not write
//! - [`fragmented`]: fragments in every way of writing them
//! - [`probe`]: what ffprobe, who knows nothing of us, says is in a file
//! - [`process`]: nginx, versitygw and their like, each on a port of its own
//! - [`streams`]: streams that ffmpeg packages, in every protocol
//! - `memory_server` (feature `memory-server`): an HTTP server in memory, and a client of it
//! - `net` (feature): a server far away, by a proxy that holds bytes back

pub mod fragmented;
#[cfg(feature = "memory-server")]
pub mod memory_server;
#[cfg(feature = "net")]
pub mod net;
pub mod probe;
pub mod process;
pub mod recipe;
pub mod rewrite;
pub mod streams;
