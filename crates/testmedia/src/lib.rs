//! Media for tests, and other people's servers to test against. Nothing here is part of latemux as served.
//!
//! - [`recipe`]: files made with ffmpeg's test sources, once, and kept in the target folder
//! - [`rewrite`]: the same media in the box variants ffmpeg does not write
//! - [`fragmented`]: fragments in every way of writing them
//! - [`probe`]: what ffprobe, who knows nothing of us, says is in a file
//! - [`process`]: nginx, versitygw and their like, each on a port of its own
//! - `net` (feature `net`): a proxy that delays bytes, as if the server were far away
//! - `http_server` (feature `net`): an HTTP server that a test scripts

pub mod fragmented;
#[cfg(feature = "net")]
pub mod http_server;
#[cfg(feature = "net")]
pub mod net;
pub mod probe;
pub mod process;
pub mod recipe;
pub mod rewrite;
