//! Media for tests, and servers to test against. A released latemux contains none of this crate.
//! Functions panic if a tool is missing or fails, or a file has an unexpected structure.
//!
//! - [`recipe`]: files made once with ffmpeg's test sources and kept in the target folder
//! - [`rewrite`]: the same media in box variants that ffmpeg does not write
//! - [`edits`]: edit lists that ffmpeg does not write
//! - [`quicktime`]: the same media with the sample entries and matrices of QuickTime
//! - [`fragmented`]: fragments written in every way that the standard allows
//! - [`hostile`]: small files that are made to cost much work and memory
//! - [`probe`]: the contents of a file according to ffprobe, an independent reader
//! - [`process`]: nginx, versitygw and other servers, each on its own port
//! - [`streams`]: streams that ffmpeg packages, in every protocol
//! - [`subtitles`]: files of subtitles
//! - [`svc`]: scalable AVC, which openh264 encodes and decodes
//! - `memory_server` (feature `memory-server`): an HTTP server in memory, and a client of it
//! - `origin` (feature `origin`): a title over files in memory, planned and read without I/O
//! - `net` (feature `net`): a proxy that simulates a distant server
//! - `http_server` (feature `net`): an HTTP server that a test scripts

pub mod edits;
pub mod fragmented;
pub mod hostile;
#[cfg(feature = "net")]
pub mod http_server;
#[cfg(feature = "memory-server")]
pub mod memory_server;
#[cfg(feature = "origin")]
pub mod origin;
pub mod probe;
pub mod process;
pub mod quicktime;
pub mod recipe;
pub mod rewrite;
pub mod streams;
pub mod subtitles;
pub mod svc;

#[cfg(feature = "net")]
pub use latemux_link as net;
